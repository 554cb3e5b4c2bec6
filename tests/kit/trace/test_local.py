"""kit.trace.local: calls of any process, by process, and what of them is no I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.trace.local import BESIDE, EMPTY, FAILED, LATE, MAPPED, MISSED
from kit.trace.output import Trace, parse_trace, place_of

PHASE, WRITE, FSYNC, COMMITTED = 1 << 11, 512, 1024, 64
# Low and high bits of the number of a file system: 45 and 1069.
HOME, FAR = 45 << 22, 45 << 22 | 1 << 56
READS, FSYNCS = PHASE | HOME, PHASE | FSYNC | COMMITTED | FAR


def printed(kind: str, name: str, content: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "data": {name: content}})


def said(text: str) -> str:
    return json.dumps({"type": "printf", "data": f"hsp-trace {text}\n"})


def trace_of(
    counts: dict[str, int] | None = None, programs: dict[str, Any] | None = None, under_way: int = 0
) -> Trace:
    """Three reads of postgres and one fsync of "a,b"."""
    whole = {
        f"{READS},4000": 3, f"{PHASE | FSYNC | FAR},4000": 1, f"{READS},100": 3,
        f"{FSYNCS},140": 1, **(counts or {}),
    }  # fmt: skip
    of = {
        f"postgres,{READS}": {"count": 3, "average": 145, "total": 435},
        f"a,b,{FSYNCS}": {"count": 1, "average": 355, "total": 355},
    } if programs is None else programs  # fmt: skip
    return parse_trace(
        "\n".join([
            said("phase 1 100"), said("end 900"),
            printed("map", "@begin", {str(tid): 5 for tid in range(under_way)}),
            printed("map", "@counts", whole), printed("map", "@highest", {}),
            printed("stats", "@callers", of), said("ended 1"),
        ]),
        local=True,
    )  # fmt: skip


def test_calls_have_file_system_op_and_process() -> None:
    trace = trace_of()
    assert trace.problems == [] and trace.local
    found = {(name, key[0], place_of(key)): value for (name, key), value in trace.callers.items()}
    assert found == {("postgres", "read", 45): (3, 435), ("a,b", "fsync", 1024 + 45): (1, 355)}
    assert trace.started == trace.done == {"read": 3, "fsync": 1}
    # There is no other sum of latencies.
    assert {name: ns for (name, *_), ns in trace.sums.items()} == {"read": 435, "fsync": 355}


def test_what_is_no_io_is_counted_apart() -> None:
    more = {
        f"{READS},4000": 8, f"{READS},{EMPTY}": 2, f"{READS},{FAILED}": 1, f"{READS},{MAPPED}": 7,
        f"{PHASE},{BESIDE}": 4, f"{PHASE},{LATE}": 5,
    }  # fmt: skip
    trace = trace_of(more, under_way=2)
    assert trace.problems == [] and trace.local and trace.done == {"read": 3, "fsync": 1}
    assert [trace.local.of(key, "read", 45) for key in (EMPTY, FAILED, MAPPED, BESIDE)] == [2, 1, 7, 0]
    assert (trace.local.of(BESIDE), trace.local.of(LATE), trace.local.unfinished) == (4, 5, 2)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"counts": {f"{READS},4000": 4}}, "the tracer lost 1 calls: a map was full"),
        ({"counts": {f"{READS},4000": 2}}, "the tracer saw 2 calls of read start and 3 end"),
        ({"counts": {f"{READS},4000": 4, f"{READS},{MISSED}": 1}}, "the tracer missed the end of 1 calls"),
        ({"counts": {f"{READS},4000": 14}, "under_way": 11}, "the kernel follows few calls at a time"),
        ({"programs": {}}, "the processes have 0 of 4 requests: a map was full"),
        ({"programs": {f"fio,{READS}": {"count": 4, "total": 9}}}, "the processes have 4 of 4 requests"),
        ({"programs": {f"fio,{READS}": {"count": -1, "total": 9}}}, "is damaged"),
        ({"programs": {"fio": {"count": 1, "total": 9}}}, "is damaged"),
        ({"programs": {f"fio,{READS}": 7}}, "is damaged"),
    ],
)
def test_what_does_not_add_up_is_a_problem(changes: dict[str, Any], problem: str) -> None:
    assert any(problem in text for text in trace_of(**changes).problems)
