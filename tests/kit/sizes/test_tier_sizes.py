"""kit.sizes.tier_sizes: arcstats of a guest with OpenZFS 2.3.9, and what must hold at any size."""

from __future__ import annotations

import pytest

from kit.sizes.tier_sizes import (
    MIB,
    Sizes,
    content,
    device_bytes_for,
    l2arc_room,
    record_cost,
    structures,
    tiers,
)
from kit.zfs.openzfs_version import ZfsVersion

# Record, working set in MiB; of arcstats at the gate of a run: size, l2_asize, and the parts (bytes).
SEEN = [
    (512, 72, 67_717_728, 47_763_968, 21_668_352, 25_997_824, 15_734_896, 2_916_960),
    (4096, 120, 69_091_032, 90_645_504, 57_409_536, 6_941_184, 3_497_280, 807_936),
    (131072, 128, 66_666_776, 95_976_448, 64_094_208, 2_201_088, 178_816, 15_360),
]


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: str(seen[0]))
def test_the_parts_of_the_arc_are_those_of_arcstats(seen: tuple[int, ...]) -> None:
    record, working_set, size, l2arc, *parts = seen
    arc = content(Sizes(record, working_set * MIB, size, l2arc))
    for model, observed in zip((arc.data, arc.metadata, arc.hdr, arc.l2_hdr), parts, strict=True):
        assert model == pytest.approx(observed, rel=0.1)


def test_reads_of_a_run_fall_into_the_tiers() -> None:
    # 5,390 reads of 4 KiB, cache device 128 MiB: 1,698 from DRAM, 2,045 from the L2ARC, 1,647 from disk.
    held = tiers(Sizes(4096, 160 * MIB, 64 * MIB + MIB // 2, l2arc_room(128 * MIB, 4 * MIB, 4 * MIB)))
    assert held.dram / (160 * MIB) == pytest.approx(1698 / 5390, abs=0.03)
    assert held.l2arc / (160 * MIB) == pytest.approx(2045 / 5390, abs=0.03)
    assert held.dram + held.l2arc + held.disk == 160 * MIB


@pytest.mark.parametrize("record", [512, 4096, 131072])
def test_an_l2arc_no_larger_than_the_arcs_data_adds_nothing(record: int) -> None:
    small = Sizes(record, 200 * MIB, 64 * MIB, 0)
    assert tiers(small).l2arc == 0
    dram = content(small).data
    assert tiers(Sizes(record, 200 * MIB, 64 * MIB, dram // 2)).l2arc == 0


def test_a_small_set_is_all_in_dram_and_data_that_may_not_be_cached_never() -> None:
    assert tiers(Sizes(4096, 8 * MIB, 64 * MIB)).dram == 8 * MIB
    held = tiers(Sizes(4096, 8 * MIB, 64 * MIB, 64 * MIB, arc_data=False, l2arc_data=False))
    assert (held.dram, held.l2arc, held.disk) == (0, 0, 8 * MIB)


def test_a_record_costs_whole_pages_and_a_header() -> None:
    assert record_cost(512) == 512 + 240
    assert record_cost(2048) == 4096 + 240
    assert record_cost(512, ZfsVersion(2, 1)) == 512 + 320
    assert structures(ZfsVersion(2, 2)).l2arc_write == 8 * MIB
    assert structures(ZfsVersion(3, 0)) == structures(ZfsVersion(2, 4))


@pytest.mark.parametrize("mib", [64, 128, 1024, 100_000])
def test_a_device_is_as_large_as_what_it_must_keep_needs(mib: int) -> None:
    room = l2arc_room(mib * MIB, 4 * MIB, 4 * MIB)
    assert room < mib * MIB
    assert device_bytes_for(room, 4 * MIB, 4 * MIB) == pytest.approx(mib * MIB, rel=0.01)
