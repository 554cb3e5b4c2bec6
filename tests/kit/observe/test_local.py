"""What OpenZFS counted of a machine's calls, around the tracer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.observe.counters import Around
from kit.observe.local import LocalCounters, checks, parse_calls
from kit.store.phase import Check, Missing
from kit.trace.local import BESIDE, FAILED, LATE, MAPPED, LocalCounts
from kit.trace.output import Snapshot, Trace

KSTAT = "/proc/spl/kstat/zfs/tank/objset-0x36"
PRINTED = f"""\
{KSTAT}:dataset_name                    7    tank/a b
{KSTAT}:writes                          4    15
{KSTAT}:reads                           4    3000000000
{KSTAT}a:writes                          4    1
"""
PLACE = 45 << 22
NONE = LocalCounters({}, {}, {("tank/db", "read"): 100, ("tank/db", "write"): 7})


def test_datasets_by_name_and_half_a_dataset_is_none() -> None:
    assert parse_calls(PRINTED) == {("tank/a b", "read"): 3_000_000_000, ("tank/a b", "write"): 15}


def after(reads: int) -> LocalCounters:
    return replace(NONE, calls={("tank/db", "read"): 100 + reads, ("tank/db", "write"): 7})


def traced(seen: int, apart: dict[int, int] | None = None, unfinished: int = 0) -> Trace:
    kept = {key: {("read", 45): count} for key, count in (apart or {}).items()}
    counts = {("read", PLACE, 0): {100: seen}, ("fsync", PLACE | 64, 0): {100: 9}}
    return Trace(snapshots=[Snapshot(1, counts)], local=LocalCounts(kept, unfinished=unfinished))


def closes(inner: int, outer: int, trace: Trace) -> bool:
    around = Around((NONE, after(outer)), (NONE, after(inner)))
    reads, writes, *_ = checks(around, trace, {"tank/db": {45}}, {})
    assert isinstance(reads, Check) and isinstance(writes, Check)
    assert (reads.id, reads.op, writes.op) == ("DATASET-CALLS", "read", "write") and writes.closes
    return reads.closes


@pytest.mark.parametrize(
    ("inner", "outer", "seen", "holds"),
    [
        # On a quiet machine exactly.
        (40, 40, 40, True), (40, 40, 41, False), (40, 40, 39, False),
        # On a busy one between.
        (30, 50, 30, True), (30, 50, 50, True), (30, 50, 29, False), (30, 50, 51, False),
    ],
)  # fmt: skip
def test_calls_of_a_dataset_close_with_its_kstat(inner: int, outer: int, seen: int, holds: bool) -> None:
    assert closes(inner, outer, traced(seen)) is holds


@pytest.mark.parametrize("apart", [MAPPED, FAILED, BESIDE, LATE])
def test_the_kstat_has_what_is_counted_apart_and_no_more(apart: int) -> None:
    assert closes(40, 40, traced(37, {apart: 3}))
    assert not closes(40, 40, traced(36, {apart: 3}))
    # They may not have been counted there, but the calls were.
    assert not closes(40, 40, traced(41, {apart: 3}))


def test_calls_that_had_not_ended_may_be_in_the_kstat() -> None:
    assert closes(40, 40, traced(38, unfinished=2)) and not closes(40, 40, traced(37, unfinished=2))


def test_a_dataset_without_counters_is_said() -> None:
    around = Around((NONE, NONE), (NONE, NONE))
    made = [*checks(around, traced(1), {"tank@s": {45}, "tank/new": {46}}, {})]
    missing = [each.why for each in made if isinstance(each, Missing)]
    assert [why.split()[1] for why in missing] == ["snapshot", "snapshot", "counters", "counters"]
