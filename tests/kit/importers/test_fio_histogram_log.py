"""fio's histogram logs: fio's bins, and what damage does."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.importers import fio_histogram_log as fio_importer
from kit.load import fio_bins, fio_histogram_log
from kit.load.fio_latency_log import BadLine
from tests.kit.importers.samples import DATA, counted, imported, put


def test_fio_bins_are_those_of_fio() -> None:
    low = fio_bins.lower_edge(np.arange(fio_bins.BINS + 1))
    assert (np.diff(low) >= 1).all() and low[0] == 0 and low[-1] == 2**34
    for index in range(fio_bins.BINS):
        assert fio_bins.index_of(int(low[index])) == fio_bins.index_of(int(low[index + 1]) - 1) == index
        assert low[index] <= fio_bins.midpoint(index) < low[index + 1]


@pytest.mark.parametrize("name", ["h0_clat_hist.1.log", "h3_clat_hist.1.log", "h6_clat_hist.1.log"])
def test_histogram_logs_keep_their_bins(name: str) -> None:
    rows = [[int(v) for v in text.split(",")] for text in (DATA / name).read_text().splitlines()]
    shift = {1856: 0, 232: 3, 29: 6}[len(rows[0]) - 3]
    expected: Counter[tuple[str, int, int]] = Counter()
    for _, direction, _, *counts in rows:
        for column, count in enumerate(counts):
            edges = fio_bins.lower_edge([column << shift, (column + 1) << shift])
            expected[("read", "write")[direction], int(edges[0]), int(edges[1])] += count
    assert counted(imported(DATA / name), "op", "lo_ns", "hi_ns") == +expected


def test_histograms_of_unlike_coarseness_meet_at_the_coarser(tmp_path: Path) -> None:
    fine, coarse = DATA / "h3_clat_hist.1.log", DATA / "h6_clat_hist.1.log"
    both = imported(fine, coarse, host="h").frame
    assert both["count"].sum() == imported(fine).frame["count"].sum() + imported(coarse).frame["count"].sum()
    edges = sorted(set(zip(both["lo_ns"], both["hi_ns"], strict=True)))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields[:-1], "28 bins where"),
        (lambda fields: [*fields[:-1], "-1"], "natural"),
        (lambda fields: [*fields[:-1], "nan"], "natural"),
        (lambda fields: [*fields[:-1], "9" * 19], "impossible"),
        # Not so long that it is odd: the fast parser has to look.
        (lambda fields: [*fields[:-1], str(fio_histogram_log.MAX_COUNT + 1)], "impossible"),
        (lambda fields: [fields[0], "7", *fields[2:]], "impossible"),
    ],
)
def test_damaged_histograms_are_refused_with_their_line(tmp_path: Path, change: object, said: str) -> None:
    lines = (DATA / "h6_clat_hist.1.log").read_text().splitlines()
    lines[2] = ",".join(change(lines[2].split(",")))  # type: ignore[operator]
    with pytest.raises(ConfigError, match=f"line 3: .*{said}"):
        imported(put(tmp_path, "\n".join(lines) + "\n", "h_clat_hist.1.log"))


comma = st.sampled_from([",", ", "])


count = st.sampled_from(["0"] * 6 + ["1", "20", "999999999", str(fio_histogram_log.MAX_COUNT)])


wrong = st.sampled_from(
    [
        "",
        " ",
        "-1",
        "x",
        "0x1",
        "1.0",
        " 7",
        "7 ",
        "00",
        "0" * 20,
        str(fio_histogram_log.MAX_COUNT + 1),
        "9" * 17,
        "1, 2",
    ]
)


def both_windows(
    data: bytes, columns: int
) -> tuple[fio_histogram_log.Windows | None, fio_histogram_log.Windows | None]:
    """What the fast parser and the exact one make of lines: the same, or nothing if the exact one refuses."""
    fast = fio_histogram_log.fast_windows(data, columns)
    try:
        slow = fio_histogram_log.slow_windows(data, columns)
    except BadLine:
        assert fast is None
        return None, None
    if fast is not None:
        for name in ("time_ms", "direction", "row", "column", "counts"):
            assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
    return fast, slow


@given(
    st.lists(st.tuples(st.integers(0, 10**13), st.integers(0, 2), st.lists(count, min_size=29, max_size=29))
             , min_size=1, max_size=5),
    comma,
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 31), wrong), max_size=2),
)  # fmt: skip
def test_fast_windows_agree_with_exact_ones(
    rows: list[tuple[int, int, list[str]]], between: str, changes: list[tuple[int, int, str]]
) -> None:
    texts = [[str(time_ms), str(direction), "4096", *counts] for time_ms, direction, counts in rows]
    for row, column, what in changes:
        texts[row % len(texts)][column] = what
    data = "".join(between.join(text) + "\n" for text in texts)
    fast, slow = both_windows(data.encode(), 29)
    if slow is None:
        return
    if fast is None:
        # What fio writes must not be slow.
        long = sum(len(text) > 7 for row in texts for text in row)
        assert changes or max(row[0] for row in rows) > 10**12 or long > 4 * len(rows)
        return
    assert int(slow.counts.sum()) == sum(int(v) for t in texts for v in t[3:])


few = st.dictionaries(st.integers(0, 115), st.sampled_from(["7", "10", "305", "4096", "1234567"]), max_size=6)


@given(
    st.lists(few, min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.sampled_from(
        [b"", b"0", b"5", b",", b" ", b", 0", b", 0, 0", b"\n", b", , 0", b"0, 0, 0, 0, 0, 0, 0, 0, "],
    )), max_size=2),
)  # fmt: skip
def test_runs_of_zeros_are_read_and_looked_at(
    rows: list[dict[int, str]], changes: list[tuple[float, int, bytes]]
) -> None:
    """Long runs of zeros are not parsed one by one; what is wrong in them is found all the same."""
    lines = [
        f"{1000 * n}, 0, 4096, {', '.join(row.get(c, '0') for c in range(116))}\n"
        for n, row in enumerate(rows, 1)
    ]
    data = "".join(lines).encode()
    for where, length, token in changes:
        at = int(where * (len(data) - 1))
        data = data[:at] + token + data[min(at + length, len(data) - 1) :]
    fast, slow = both_windows(data, 116)
    assert fast is not None or slow is None or changes


@pytest.mark.parametrize("before", [0, 3])
def test_histograms_whose_time_goes_back_name_the_line(tmp_path: Path, before: int) -> None:
    row = "0, 4096" + ", 1" * 29
    lines = [f"{1000 * n}, {row}" for n in range(1, before + 3)]
    lines.append(f"{1000 * before}, {row}")
    with pytest.raises(ConfigError, match=f"line {before + 3}: time goes back"):
        imported(put(tmp_path, "\n".join(lines) + "\n", "h_clat_hist.1.log"))


@pytest.mark.parametrize(
    ("name", "of_server"), [("h_clat_hist.1.log", False), ("h_clat_hist.1.log.node", True)]
)
def test_what_fio_leaves_out_or_counts_twice_is_said(tmp_path: Path, name: str, of_server: bool) -> None:
    log = put(tmp_path, (DATA / "h6_clat_hist.1.log").read_bytes(), name)
    warnings = [text.partition(": ")[2] for text in imported(log).section["warnings"]]
    assert (fio_importer.LAST_WINDOW in warnings, fio_importer.OF_SERVER in warnings) == (True, of_server)


def test_a_log_of_all_jobs_has_one_after_the_other(tmp_path: Path) -> None:
    rows = [
        f"{t}, 0, 4096, " + ", ".join(["0"] * 13 + ["50"] + ["0"] * 15) + "\n" for t in (200, 400, 206, 406)
    ]
    found = imported(put(tmp_path, "".join(rows), "all_clat_hist.log"))
    assert found.section["rows_counted"] == 200 and found.phase["end_ns"] == 406_000_000
    with pytest.raises(ConfigError, match="line 3: time goes back") as caught:
        imported(put(tmp_path, "".join(rows), "x_clat_hist.1.log"))
    assert "per_job_logs" in caught.value.hint
