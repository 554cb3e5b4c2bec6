"""What an observed server did by file system, and together."""

from __future__ import annotations

from kit.observe import by_file_system
from kit.observe.served import Served
from kit.trace.output import Snapshot, Trace

HOME, PLAIN, ELSEWHERE = 45 << 22, 46 << 22, 99 << 22
KNOWN = Served({45: "tank/home", 46: "plain"}, {"tank": frozenset({1}), "plain": frozenset()})


def test_parts_of_all_pools_are_together_by_tier_each_with_its_own_log_devices() -> None:
    slog, pool, strange = (
        ("write", place | 64 | 128, vdev) for place, vdev in ((HOME, 1), (PLAIN, 1), (ELSEWHERE, 1))
    )
    reads = [("read", place | 1, 0) for place in (HOME, PLAIN)]
    counts = {slog: {5: 10}, pool: {6: 4}, strange: {7: 99}, **{key: {8: 3} for key in reads}}
    trace = Trace(
        snapshots=[Snapshot(1, {}), Snapshot(2, counts)],
        parts={
            slog: {"log_write": 1000, "nfs": 20}, pool: {"log_write": 4000}, strange: {"nfs": 7},
            **{key: {"read": 300, "nfs": 5} for key in reads},
        },
        unjoined={reads[0]: 1},
    )  # fmt: skip
    split = by_file_system.split_of(trace, KNOWN, "observed")
    assert split.of == "observed" and not split.why
    assert [(row.op, row.tier, row.ios, row.unjoined, row.sum_ns) for row in split.rows] == [
        ("read", "disk", 6, 1, 610), ("write", "pool", 4, 0, 4000), ("write", "slog", 10, 0, 1020),
    ]  # fmt: skip
    assert split.rows[0].parts == {"read": 600, "nfs": 10}


def test_a_file_system_that_is_not_of_zfs_has_no_name() -> None:
    trace = Trace(snapshots=[Snapshot(1, {("read", HOME, 0): {1: 1}, ("read", ELSEWHERE, 0): {1: 1}})])
    assert by_file_system.names(trace, KNOWN) == {"tank/home": {45}}
    assert by_file_system.places_of(trace) == {45, 99}
