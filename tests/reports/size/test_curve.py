"""What is said of several sizes, and what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kit.store.printed.sizing import CacheSize, EstimatedPart
from reports.size.curve import knee, sizing_of
from reports.size.reads_in_turn import in_turn
from reports.size.trace import BlockTrace
from reports.size.words import headline, is_known, notes, words
from tests.reports.size import loads

BLOCKS, READS = 8000, 50_000
ALL = BLOCKS * loads.BLOCK


def made(kind="uniform", seed=1, one_in=1, **changes):
    return replace(loads.trace(kind, BLOCKS, READS, np.random.default_rng(seed), one_in), **changes)


def sized(trace: BlockTrace, *parts: float, now=0.1, l2arcs=()):
    server = loads.server(int(now * ALL))
    return sizing_of(trace, server, [int(each * ALL) for each in parts], [int(each * ALL) for each in l2arcs])


def test_uniform_reads_make_a_straight_line():
    """A block has a header of 240 B beside its 8 KiB, so an ARC has that much less; a ghost has one, too."""
    found = sized(made(), 0.2, 0.4, 0.6)
    shares = [each.answered.value for each in found.arcs]
    reads = READS / 2
    for part, share in zip((0.2, 0.4, 0.6), shares, strict=True):
        cached = part * loads.BLOCK / (loads.BLOCK + 240)
        ghosts = part * 240 / 2 / loads.BLOCK
        error = (cached * (1 - cached) / reads) ** 0.5
        assert cached - ghosts - 3 * error < share < cached + 3 * error
    assert found.arc_knee is None


@pytest.mark.parametrize("one_in", [1, 8])
@pytest.mark.parametrize("kind", ["uniform", "0.8", "1.1", "scan"])
def test_blocks_that_are_read_in_turn_are_known_by_their_intervals(kind, one_in):
    part = in_turn(made(kind, one_in=one_in))
    assert part > 0.3 if kind == "scan" else part < 0.02


def test_an_arc_may_keep_blocks_that_are_read_in_turn():
    """Half of the reads go to 5 % of the blocks: an ARC of 40 % has room for a third of the others."""
    found, steady = sized(made("scan"), 0.4), sized(made("0.8"), 0.4)
    [share] = [each.answered for each in found.arcs]
    assert share.low < share.value < 0.55 and 0.63 < share.high < 0.75
    assert found.in_turn and any("as by a scan" in each for each in notes(found, False))
    [share] = [each.answered for each in steady.arcs]
    assert not steady.in_turn and share.high - share.low < 0.1


def test_a_sample_is_as_all_blocks():
    """Its range has what all blocks say, and is not without end."""
    whole, part = sized(made("0.8"), 0.2, 0.4), sized(made("0.8", one_in=4), 0.2, 0.4)
    for full, few in zip(whole.arcs, part.arcs, strict=True):
        assert few.answered.low < full.answered.value < few.answered.high
        assert few.of_disk_reads_now.low < full.of_disk_reads_now.value < few.of_disk_reads_now.high
        assert full.answered.high - full.answered.low < few.answered.high - few.answered.low < 0.15


def test_the_hottest_block_is_known_by_the_number_of_all_reads():
    """Half of all reads are for one block that is not in the sample."""
    full = made("uniform")
    block = np.where(np.arange(READS) % 2 == 0, 0, full.block)
    full = replace(full, block=block)
    sample = full.only((np.arange(BLOCKS) % 4 == 0) & (np.arange(BLOCKS) > 0), 4)
    truth = 1 - loads.below(full, loads.server(0), int(0.2 * ALL))
    known, guessed = (sized(each, 0.2) for each in (sample, replace(sample, all_reads=None)))
    assert abs(known.arcs[0].answered.value - truth) < 0.03
    assert guessed.arcs[0].answered.value < truth - 0.2
    # Of the reads that disks answer now, both tell the same.
    gains = [each.arcs[0].of_disk_reads_now.value for each in (known, guessed)]
    assert gains[0] == pytest.approx(gains[1], abs=0.01)


def test_what_disks_answered_there_sets_the_scale():
    sample = made("uniform", all_reads=None, measured_below=0.3)
    found = sized(sample, 0.1, 0.2)
    assert found.now.answered.value == pytest.approx(0.7)
    assert found.arcs[1].answered.value == pytest.approx(1 - 0.3 * 0.8 / 0.9, abs=0.02)


def test_a_cache_that_the_first_half_does_not_fill_has_no_figure():
    trace = loads.trace("uniform", BLOCKS, 20_000, np.random.default_rng(1))
    found = sized(trace, 0.2, 2.0)
    assert found.arcs[0].answered
    # 10 000 reads of 8000 blocks: many come for the first time in the second half.
    assert found.arcs[1].answered is None and "asked for only 62.5 MiB" in found.arcs[1].unknown
    assert not is_known(sized(trace, 4.0, now=2.0))


def test_a_cache_that_has_all_is_known():
    hot = made()
    hot = replace(hot, block=hot.block % 900)
    found = sized(hot, 0.2)
    assert found.arcs[0].answered.value == 1
    assert "would answer 97 to 100 %" in headline(found) or "would answer 100 %" in headline(found)


def test_a_few_blocks_are_no_sample():
    found = sized(made(one_in=4), 0.02)
    assert "blocks of the sample" in found.arcs[0].unknown


def test_one_block_of_many_is_no_sample():
    """What other blocks are asked for, it cannot tell, though it always hits."""
    full = made()
    one = full.only(np.arange(BLOCKS) == 7, 8)
    one = replace(one, block=np.zeros(4000, int), is_read=np.ones(4000, bool), all_reads=None)
    one = replace(one, time_ns=np.arange(4000) * loads.READ_NS, place=np.arange(4000) / 4000)
    found = sized(one, 0.2)
    assert found.now.unknown == "the sample has only 1 block" and not is_known(found)


def test_small_blocks_are_what_special_vdevs_could_have():
    trace = made()
    sizes = np.where(np.arange(BLOCKS) < BLOCKS // 4, 4096, 131072)
    trace = replace(trace, bytes_of=sizes)
    server = loads.server(int(sizes.sum() // 10))
    small, every = sizing_of(trace, server, [2 * server.arc]).small
    assert (small.limit_bytes, small.room_bytes.value) == (4096, 4096 * BLOCKS // 4)
    # A small block is evicted like a large one.
    assert small.of_disk_reads_now.low < 0.25 < small.of_disk_reads_now.high
    assert (every.limit_bytes, every.of_disk_reads_now.low) == (131072, 1)


def size_of(share: float, reach: float = 0.01) -> CacheSize:
    part = EstimatedPart(value=share, low=share - reach, high=share + reach)
    return CacheSize(arc_bytes=0, l2arc_bytes=0, dram=part, l2arc=part, answered=part)


def test_the_bend_is_farthest_from_the_line_between_the_ends():
    shares = [0.1, 0.5, 0.55, 0.6]
    sizes = [(number, size_of(share)) for number, share in enumerate(shares)]
    assert knee(sizes) is sizes[1][1]
    assert knee([(number, size_of(0.1 * number)) for number in range(5)]) is None
    # By chance: the ranges have room for a straight line.
    assert knee([(number, size_of(share, 0.5)) for number, share in enumerate(shares)]) is None
    assert knee(sizes[:2]) is None


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.31, 0.36), "31 to 36 %"), ((0.311, 0.312), "31 %"), ((-0.02, 0.03), "at most 3 %"),
        ((-0.2, -0.1), "10 to 20 % more from disks"),
    ],
)  # fmt: skip
def test_ranges_in_words(ends, said):
    assert words(EstimatedPart(value=sum(ends) / 2, low=ends[0], high=ends[1])) == said


MIXED = np.where(np.arange(BLOCKS) % 4 == 0, 4096, 131072)


def special(*sizes: int, one_in=1, **changes):
    trace = replace(made(one_in=1), bytes_of=MIXED, **changes)
    trace = loads.sampled(trace, one_in) if one_in > 1 else trace
    return sizing_of(trace, loads.server(int(MIXED.sum() // 10)), specials=sizes)


def test_a_special_vdev_has_the_largest_blocks_that_have_room():
    least, all_ = (int(MIXED[limit >= MIXED].sum()) for limit in (4096, 131072))
    found = special(least - 1, least, all_ - 1, all_)
    limits = [each.small and each.small.limit_bytes for each in found.specials]
    assert limits == [None, 4096, 4096, 131072] and not found.arcs and not found.l2arcs
    assert "blocks up to 4 KiB that were asked for may need" in found.specials[0].unknown
    assert "with special_small_blocks = 4 KiB" in headline(found) and is_known(found)
    assert not is_known(special(least - 1))


def test_the_room_of_a_sample_has_its_error():
    """The least that is said to have room has it with the upper end of the range."""
    small, _ = special(1 << 40, one_in=4).small
    truth = int(MIXED[MIXED == 4096].sum())
    assert small.room_bytes.low < truth < small.room_bytes.high < 1.2 * truth
    asked = int(small.vdev_bytes.high)
    assert [bool(each.small) for each in special(asked - 1, asked, one_in=4).specials] == [False, True]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"has_special": True}, "special vdevs answer reads of this server now"),
        ({"block": np.arange(READS) % 200}, "disks answer no reads of this sample now"),
    ],
)
def test_a_special_vdev_of_which_nothing_is_known_has_a_reason(changes, said):
    found = special(1 << 40, **changes)
    assert found.specials[0].small is None and found.specials[0].unknown == said


def test_few_small_blocks_are_no_sample():
    """Of 20 of them all are 4 KiB; the others have room or not, by one limit."""
    trace = replace(made(), bytes_of=np.where(np.arange(BLOCKS) < 160, 4096, 131072))
    found = sizing_of(loads.sampled(trace, 8), loads.server(1 << 26), specials=[1 << 40])
    assert [each.limit_bytes for each in found.small] == [131072]
