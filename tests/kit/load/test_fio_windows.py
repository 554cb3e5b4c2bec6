"""Lines of kit.remote.load.count_ios as counts with their times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import MeasurementUnknown
from kit.load.fio_bins import index_of, lower_edge
from kit.load.fio_windows import read_counts, with_totals

MS = 10**6
SECOND = 10**9


def row(
    from_s: float, asked_s: float, to_s: float, bins: dict[str, int], most: int = 1_005
) -> dict[str, Any]:
    times = {"from_ns": int(from_s * SECOND), "asked_ns": int(asked_s * SECOND), "to_ns": int(to_s * SECOND)}
    return {**times, "read": {"bins": bins, "min": 1_002, "max": most}}


def written(tmp_path: Path, *rows: dict[str, Any], rest: str = "") -> Path:
    path = tmp_path / "counts.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows) + rest)
    return path


# The middle of the bins of 1 µs and of a second, as json+ calls them.
FAST, SLOW = "1004", "1002438656"


def test_each_count_has_the_times_of_its_reading(tmp_path: Path) -> None:
    path = written(tmp_path, row(1, 2, 2.01, {FAST: 5}), row(2, 3, 3.01, {FAST: 7}))
    windows = read_counts(path, 1000, alone=True)
    assert windows.count.tolist() == [5, 7]
    assert windows.begin_ns.tolist() == [SECOND, 2 * SECOND]
    assert windows.end_ns.tolist() == [int(2.01 * SECOND), int(3.01 * SECOND)]
    assert windows.extremes_ns == {0: (1_002, 1_005)} and windows.by_op() == {"read": 12, "write": 0}


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, row(1, 2, 2.01, {FAST: 5}), rest='{"from_ns":2000000000,"asked')
    assert read_counts(path, 1000, alone=True).ios == 5


@pytest.mark.parametrize("alone", [True, False])
def test_the_io_that_a_reading_waited_for_ended_last(tmp_path: Path, alone: bool) -> None:
    """It was on its way from the request on; those before it ended before that, if there is one at a time."""
    path = written(tmp_path, row(1, 2, 3, {FAST: 5, SLOW: 1}, most=1_000_000_000))
    windows = read_counts(path, 250, alone=alone)
    assert windows.count.tolist() == [5, 1]
    assert windows.begin_ns.tolist() == [SECOND, 3 * SECOND]
    assert windows.end_ns.tolist() == [(2 if alone else 3) * SECOND, 3 * SECOND]
    assert windows.guessed == 0


def test_a_pause_of_the_client_itself_is_a_guess(tmp_path: Path) -> None:
    assert read_counts(written(tmp_path, row(1, 2, 3, {FAST: 5})), 250, alone=True).guessed == 1


def test_extremes_read_beside_their_bins_stay_inside_of_them(tmp_path: Path) -> None:
    """While its jobs run, fio copies the extremes and the bins one after the other."""
    windows = read_counts(written(tmp_path, row(1, 2, 2.01, {FAST: 5}, most=9_999)), 1000, alone=True)
    assert windows.extremes_ns == {0: (1_002, int(lower_edge(index_of(1_004))))}


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "null", "nonsense", json.dumps(row(2, 3, 1, {FAST: 1})),
     json.dumps(row(1, 2, 2, {"1003": 1})), json.dumps(row(1, 2, 2, {FAST: -1})),
     json.dumps(row(1, 2, 2, {FAST: "x"})), pytest.param("[" * 100_000, id="deep")],
)  # fmt: skip
def test_damage_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, row(1, 2, 2.01, {FAST: 5}), rest=line + "\n")
    with pytest.raises(MeasurementUnknown, match=r"counts\.jsonl, line 2, is no counts of fio"):
        read_counts(path, 1000, alone=True)


def job(bins: dict[str, int]) -> dict[str, Any]:
    timed = {"bins": bins, "min": 1_001, "max": 1_006, "mean": 1_003.0}
    return {"jobname": "read", "read": {"total_ios": sum(bins.values()), "clat_ns": timed, "runtime": 1000}}


def test_fios_last_document_has_the_exact_extremes_and_sums(tmp_path: Path) -> None:
    windows = read_counts(written(tmp_path, row(1, 2, 2.01, {FAST: 5})), 1000, alone=True)
    whole = with_totals(windows, [job({FAST: 3}), job({FAST: 2})], "client")
    assert whole.extremes_ns == {0: (1_001, 1_006)} and whole.sums_ns == {0: 5 * 1_003}


@pytest.mark.parametrize("bins", [{FAST: 6}, {FAST: 4}, {"1012": 5}, {}])
def test_counts_that_are_not_fios_are_refused(tmp_path: Path, bins: dict[str, int]) -> None:
    windows = read_counts(written(tmp_path, row(1, 2, 2.01, {FAST: 5})), 1000, alone=True)
    with pytest.raises(MeasurementUnknown, match="fio on client counted"):
        with_totals(windows, [job(bins)], "client")


@pytest.mark.parametrize("alone", [True, False])
def test_the_first_io_began_before_the_server_stood_still(tmp_path: Path, alone: bool) -> None:
    """It was the only one of the first reading that has any: a client that waits is not late."""
    path = written(tmp_path, row(1, 2, 2.1, {SLOW: 1}, most=1_000_000_000), row(2, 3, 3.01, {FAST: 5}))
    assert read_counts(path, 100, alone=alone).first_ns == pytest.approx(1.1 * SECOND, rel=0.01)
