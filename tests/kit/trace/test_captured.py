"""kit.trace.captured: each printed request is a row; lost ones are a problem, impossible ones are damage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kit.trace import support
from kit.trace.captured import numbered
from kit.trace.output import Trace, parse_trace
from kit.zfs.openzfs_version import ZfsVersion

SEEN = 1 << 11


def line(*values: int) -> str:
    text = " ".join(f"{each:x}" for each in values)
    return json.dumps({"type": "printf", "data": f"hsp-trace io {text}\n"})


def output(lines: list[str], printed: int, left_out: int = 0) -> str:
    counts = {f"{SEEN},4000": 1, f"{SEEN},480": 1, f"{SEEN},4032": printed, f"{SEEN},4033": left_out}
    told = [
        '{"type": "printf", "data": "hsp-trace phase 1 5\\n"}', *lines,
        '{"type": "printf", "data": "hsp-trace end 70\\n"}',
        json.dumps({"type": "map", "data": {"@counts": counts}}),
        '{"type": "printf", "data": "hsp-trace ended 1\\n"}',
    ]  # fmt: skip
    return "\n".join(told) + "\n"


def parsed(lines: list[str], printed: int, left_out: int = 0) -> Trace:
    return parse_trace(output(lines, printed, left_out), observed=True)


def test_requests_come_by_their_begin_and_what_was_left_out_is_no_problem() -> None:
    trace = parsed([line(9, SEEN, 1, 2, 3, 4), line(6, SEEN | 512, 5, 6, 7, 8)], 2, left_out=3)
    assert trace.captured.table.tolist() == [[6, SEEN | 512, 5, 6, 7, 8], [9, SEEN, 1, 2, 3, 4]]
    assert (trace.captured.lost, trace.captured.left_out) == (0, 3)
    assert not [text for text in trace.problems if "captured" in text] and not trace.damaged


@pytest.mark.parametrize(("printed", "text"), [(5, "4 of 5 captured requests were lost"), (0, "not counted")])
def test_lines_that_the_program_counted_otherwise_are_a_problem(printed: int, text: str) -> None:
    trace = parsed([line(6, SEEN, 1, 2, 3, 4)], printed)
    assert any(text in each for each in trace.problems)
    assert trace.captured.lost == max(0, printed - 1)


@pytest.mark.parametrize(
    "values",
    [
        (1 << 62, SEEN, 1, 2, 3, 4), (6, SEEN, 1, 2, (1 << 63) - 4, 4), (6, SEEN, 1, 2, 3, (16 << 20) + 1),
        (6, 1 << 63, 1, 2, 3, 4), (6, SEEN | 512 | 1024, 1, 2, 3, 4),
    ],
)  # fmt: skip
def test_a_line_that_no_program_prints_is_damage(values: tuple[int, ...]) -> None:
    trace = parsed([line(*values)], 0)
    assert trace.damaged and not trace.captured.lines


def test_numbers_are_small_and_in_the_order_of_the_first() -> None:
    hashes = np.array([9, 3, 9, (1 << 64) - 1, 3], np.uint64)
    assert numbered(hashes).tolist() == [0, 1, 0, 2, 1]
    assert numbered(hashes[:0]).tolist() == []


@pytest.mark.parametrize("minor", [1, 2, 3, 4])
def test_only_a_program_that_is_asked_for_it_prints_requests(minor: int) -> None:
    zfs = ZfsVersion(2, minor)
    text = support.program(zfs, observe=True, captured=77).text
    assert "hsp-trace io" in text and "@captured < 77" in text and "MOST_IOS" not in text
    assert "CAPTURE" not in text and "clear(@captured)" in text
    for other in (support.program(zfs, observe=True), support.program(zfs, local=True)):
        assert "@captured" not in other.text and "CAPTURE" not in other.text
