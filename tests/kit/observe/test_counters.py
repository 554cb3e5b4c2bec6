"""What nfsd, ARC and ZIL counted around the tracer of a server that goes on serving."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.observe.counters import Around, ServerCounters, checks, unfinished
from kit.trace.output import Trace

NONE = ServerCounters({}, {}, {"read": 100, "write": 50, "commit": 0}, 8)


def counted(reads: int, writes: int = 0, **more: int) -> ServerCounters:
    """After so many calls since NONE."""
    calls = {"read": 100 + reads, "write": 50 + writes, "commit": 0}
    return replace(NONE, calls=calls, arc=more, zil={"zil_commit_count": writes})


@pytest.mark.parametrize(
    ("inner", "outer", "seen", "closes"),
    [
        # Nothing was under way when it was read: exact.
        (40, 40, 40, True), (40, 40, 41, False), (40, 40, 39, False),
        # Of a busy server what the tracer saw lies between, but for one request a thread.
        (30, 50, 40, True), (30, 50, 58, True), (30, 50, 22, True), (30, 50, 59, False), (30, 50, 21, False),
    ],
)  # fmt: skip
def test_calls_close_with_those_of_nfsd(inner: int, outer: int, seen: int, closes: bool) -> None:
    around = Around((NONE, counted(outer)), (NONE, counted(inner)))
    (reads, *_) = checks(around, Trace(started={"read": seen}), {})
    assert (reads.id, reads.op, reads.closes) == ("NFS-CALLS", "read", closes)


@pytest.mark.parametrize(("misses", "closes"), [(10, True), (500, True), (9, False)])
def test_others_may_use_the_arc_as_well(misses: int, closes: bool) -> None:
    after = counted(10, 3, demand_data_misses=misses - 1, demand_metadata_misses=1, l2_hits=4)
    tiers = {("read", "disk"): 6, ("read", "l2arc"): 4, ("write", "slog"): 2, ("write", "pool"): 1}
    trace = Trace(started={"read": 10, "write": 3})
    made = {each.id: each for each in checks(Around((NONE, after), (NONE, after)), trace, tiers)}
    assert made["ARC-MISSES"].closes is closes
    assert made["L2ARC-HITS"].closes and made["ZIL-COMMITS"].closes


@pytest.mark.parametrize(("started", "done", "found"), [(40, 40, 0), (48, 40, 8), (49, 40, 9), (40, 41, 0)])
def test_a_request_a_thread_may_be_under_way_at_the_end(started: int, done: int, found: int) -> None:
    around = Around((NONE, NONE), (NONE, NONE))
    count, problems = unfinished(around, Trace(started={"read": started}, done={"read": done}))
    assert count == found and bool(problems) is (not 0 <= started - done <= NONE.threads)
