"""zpool iostat -w: counts since a pool was loaded, and intervals."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.importers.base import Options
from kit.importers.format_detection import Imported
from tests.kit.importers.samples import imported, iostat, put, survives


@pytest.mark.parametrize("scripted", [False, True])
def test_zpool_iostat(tmp_path: Path, scripted: bool) -> None:
    text = iostat({0: ("2", "0"), 17: ("1234567", "5"), 36: ("0", "1")}, scripted)
    other = iostat({20: ("9", "9")}, scripted, "sda")
    found = imported(put(tmp_path, text + other, "x.txt"))
    rows = {(r[4], r[6], r[7]): r[8] for r in found.frame.rows()}
    assert rows == {
        ("read", 0, 2): 2,
        ("read", 1 << 17, 1 << 18): 1234567,
        ("write", 1 << 17, 1 << 18): 5,
        ("write", 1 << 36, 1 << 37): 1,
    }
    assert set(found.frame["layer"]) == {"vdev"}
    assert set(found.frame["host"]) == {"x" if scripted else "tank"}
    reason = "in later reports or of other vdevs" if scripted else "of other pools or vdevs"
    assert found.section["files"][0]["left_out"] == {reason: 18}
    line = text.count("\n") + (1 if scripted else 2)
    assert any(w.endswith(f"1 table not read, {reason}: line {line}") for w in found.section["warnings"])
    assert found.section["counts"] == "since-load"


UNIX = "1764000000"


def at(seconds: int, form: str) -> str:
    """The line of -T, so many seconds after UNIX; in the forms of date(1) in C, en_GB and en_US."""
    if form == "u":
        return f"{int(UNIX) + seconds}\n"
    minute, second = divmod(seconds, 60)
    clock = f"{minute:02}:{second:02}"
    return {
        "C": f"Mon Nov 24 16:{clock} UTC 2025\n",
        "GB": f"Mon 24 Nov 16:{clock} CET 2025\n",
        "US": f"Mon 24 Nov 2025 04:{clock} PM +0100\n",
    }[form]


def columns(found: Imported) -> list[tuple[int, str, int]]:
    frame = found.frame.group_by("time_ns", "op").agg(pl.col("count").sum()).sort("time_ns", "op")
    return [tuple(row) for row in frame.rows()]


SINCE, FIRST, SECOND = (iostat({17: (str(n), "0"), 20: ("0", "4")}) for n in (1000, 10, 20))


LEFT_FIRST = "in the first report, which counts since the pool was loaded"


@pytest.mark.parametrize("form", ["u", "C", "GB", "US"])
@pytest.mark.parametrize("since", ["", SINCE])
def test_intervals_of_zpool_iostat_are_columns(tmp_path: Path, form: str, since: str) -> None:
    """Five seconds each, I/Os per second; with -y the time before the first is there, but no report."""
    text = at(0, form) + since + at(5, form) + FIRST + at(10, form) + SECOND
    found = imported(put(tmp_path, text, "x.txt"))
    second = 10**9
    assert columns(found) == [
        (0, "read", 50), (0, "write", 20), (5 * second, "read", 100), (5 * second, "write", 20)
    ]  # fmt: skip
    assert found.section["files"][0]["left_out"] == ({LEFT_FIRST: 1004} if since else {})
    assert any(f"1 table not read, {LEFT_FIRST}: line 3" in w for w in found.section["warnings"]) == bool(
        since
    )
    assert found.section["counts"] == "timed" and found.phase["interval_ns"] == 5 * second
    assert found.section["origin_ns"] == int(UNIX) * second


def test_intervals_without_times_are_a_sum(tmp_path: Path) -> None:
    found = imported(put(tmp_path, SINCE + FIRST + SECOND, "x.txt"))
    assert columns(found) == [(0, "read", 30), (0, "write", 8)]
    assert found.section["files"][0]["left_out"] == {LEFT_FIRST: 1004}
    assert found.section["counts"] == "intervals"
    assert any("-T u" in w for w in found.section["warnings"])


def test_seconds_that_drift_leave_no_gap(tmp_path: Path) -> None:
    """zpool sleeps a little over a second, and tells whole ones: now and then one is missing."""
    times = [n + n // 7 for n in range(16)]
    text = "".join(at(time, "u") + FIRST for time in times)
    found = imported(put(tmp_path, text, "x.txt"))
    step_ns = found.phase["interval_ns"]
    assert step_ns == times[-1] * 10**9 // 15
    assert found.frame["time_ns"].unique().sort().to_list() == [n * step_ns for n in range(15)]


def test_a_pause_between_reports_is_a_gap(tmp_path: Path) -> None:
    text = "".join(at(time, "u") + FIRST for time in (0, 1, 2, 3, 50, 51, 52))
    found = imported(put(tmp_path, text, "x.txt"))
    assert sorted(set(found.frame["time_ns"] // 10**9)) == [0, 1, 2, 3, 50, 51]


@pytest.mark.parametrize("scripted", [False, True])
def test_vdevs_and_pools_of_a_report_are_told_and_not_added(tmp_path: Path, scripted: bool) -> None:
    """-v, and two pools that each have a mirror-0; with -H a name is alone in its line."""
    parts = [
        ("\n" + name + "\n" if scripted else "") + iostat({9: (str(n), "0")}, scripted, name)
        for n in (500, 7, 8)
        for name in ("tank", "mirror-0", "sda", "dozer", "mirror-0")
    ]
    found = imported(put(tmp_path, "".join(parts), "x.txt"))
    assert columns(found) == [(0, "read", 15)]
    assert set(found.frame["host"]) == {"tank"}
    left = {LEFT_FIRST: 500, "of other pools or vdevs": 4 * 515}
    assert found.section["files"][0]["left_out"] == left
    assert any("12 tables not read, of other pools or vdevs: line" in w for w in found.section["warnings"])
    assert found.section["counts"] == "intervals"


def test_a_truncated_last_report_is_left_out(tmp_path: Path) -> None:
    whole = at(0, "u") + SINCE + at(1, "u") + FIRST + at(2, "u")
    for lines, cut in ((30, 0), (30, 40), (1, 0), (2, 3)):
        part = "\n".join(SECOND.split("\n")[:lines]) + "\n"
        found = imported(put(tmp_path, whole + part[: len(part) - cut], "x.txt"))
        assert columns(found) == [(0, "read", 10), (0, "write", 4)]
        left = found.section["files"][0]["left_out"]
        assert left.get("in the last report, which is truncated") == (24 if lines == 30 else None)
    # One report that is whole, and half an interval: what there is is the first.
    found = imported(put(tmp_path, SINCE + SECOND[:1200], "x.txt"))
    assert columns(found) == [(0, "read", 1000), (0, "write", 4)]
    assert found.section["counts"] == "since-load"


@pytest.mark.parametrize(
    ("before", "bad", "said"),
    [
        (SINCE, "garbage\n" + FIRST, "not a row"),
        (SINCE, "no pools available\n", "not a row"),
        (iostat({}, True), "tank\nsda\n" + iostat({}, True), "no table of 'tank'"),
        (iostat({}, True), "tank\n", "no table of 'tank'"),
        (at(9, "u") + SINCE, at(8, "u") + FIRST, "time goes back"),
        (SINCE, "Mo 24. Nov 16:00:00 CET 2025\n" + FIRST, "not a row"),
        (SINCE, "Mon Nov 31 16:00:00 CET 2025\n" + FIRST, "not a row"),
        (SINCE, "99999999999\n" + FIRST, "not a row"),
        (SINCE[: SINCE.index("1us")], "1us" + "  0" * 30 + "\n", "31 columns"),
        (SINCE[: SINCE.index("1us")], at(8, "u") + FIRST, "is missing|not a row"),
    ],
)
def test_what_zpool_does_not_print_is_refused(tmp_path: Path, before: str, bad: str, said: str) -> None:
    line = before.count("\n") + 1
    with pytest.raises(ConfigError, match=f"line {line}: .*({said})"):
        imported(put(tmp_path, before + bad, "x.txt"), format="zpool-iostat")


def test_sums_and_intervals_are_not_added(tmp_path: Path) -> None:
    paths = [put(tmp_path, SINCE, "a.txt"), put(tmp_path, SINCE + FIRST, "b.txt")]
    with pytest.raises(ConfigError, match=r"do not add up: .*a\.txt \(since-load\), .*b\.txt \(intervals\)"):
        imported(*paths)


@pytest.mark.parametrize("times", [["0" * 9], ["8589934591"], ["100000000", "8589934591"]])
def test_times_of_any_size_are_read_or_refused(tmp_path: Path, times: list[str]) -> None:
    big = iostat({9: ("1" * 18, "0")})
    survives([put(tmp_path, "".join(t + "\n" + big for t in times), "x")], Options())


def test_rounded_counts_of_zpool_iostat_are_told(tmp_path: Path) -> None:
    found = imported(put(tmp_path, iostat({9: ("1.50K", "0")}), "x.txt"))
    assert found.frame["count"].sum() == 1536
    assert any("rounded by zpool" in w for w in found.section["warnings"])


def test_a_missing_row_of_zpool_iostat_is_refused(tmp_path: Path) -> None:
    lines = iostat({9: ("1", "0")}).splitlines(keepends=True)
    del lines[10]
    with pytest.raises(ConfigError, match=r"line 11: the row of \d+ ns is missing"):
        imported(put(tmp_path, "".join(lines), "x.txt"))
