"""kit.instruments.client_windows: counts of fio's windows in the kit's intervals and bins."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.instruments import client_windows, histograms
from kit.instruments.histograms import Cells, IntervalGrid
from kit.load.fio_bins import BINS, index_of
from kit.load.fio_windows import ClientWindows

MS = 10**6


def keyed(cells: Cells) -> Counter[tuple[int, str, str, int]]:
    """I/Os by start, op, tier and bin."""
    return Counter({(start, op, tier, index): count for start, op, tier, index, count in cells.iter_rows()})


GRID = IntervalGrid(1_000 * MS, 5_000 * MS, 100 * MS, Clock())


def windows(rows: list[tuple[int, int, int, int]], **changes: Any) -> ClientWindows:
    """`rows`: begin and end (ms), latency (ns), count; reads."""
    begin, end, latency, count = np.array(rows, dtype=np.int64).T
    column = np.array([index_of(value) for value in latency.tolist()])
    values: dict[str, Any] = {
        "begin_ns": begin * MS,
        "end_ns": end * MS,
        "direction": np.zeros_like(begin),
        "column": column,
        "count": count,
        "extremes_ns": {0: (int(latency.min()), int(latency.max()))},
        "sums_ns": {0: int((latency * count).sum())},
        "window_ms": 20,
    }
    return ClientWindows(**values | changes)


def test_a_window_counts_in_the_interval_of_its_middle() -> None:
    some = windows([(5_000, 5_020, 1_000, 3), (5_090, 5_110, 1_000, 5), (5_091, 5_111, 1_000, 7)])
    cells = keyed(client_windows.cells(some, GRID))
    (index,) = bin_index([1_000]).tolist()
    assert cells == {(4_000 * MS, "read", "all", index): 8, (4_100 * MS, "read", "all", index): 7}
    log = client_windows.client_log([("c", some)], GRID)
    # The last window began 9 ms before its interval, the second one ended 10 ms after its.
    assert (log.time_error_ns, log.window_ns, log.latency) == (10 * MS, 20 * MS, "completion")


@given(st.lists(st.integers(0, 2**34 - 2**28), min_size=1, max_size=40), st.sampled_from([1, 2, 4, 64]))
def test_bins_are_those_of_each_io(latencies: list[int], dilation: int) -> None:
    grid = IntervalGrid(0, 0, 100 * MS, Clock("virtual" if dilation > 1 else "real", dilation))
    some = windows([(1, 2, value, 1) for value in latencies])
    cells = keyed(client_windows.cells(some, grid))
    expected = Counter(bin_index(np.array(latencies) // dilation).tolist())
    assert Counter({index: count for (*_, index), count in cells.items()}) == expected


def test_a_dilation_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(MeasurementUnknown, match="dilation of 3"):
        client_windows.cells(
            windows([(1, 2, 997 * n, 1) for n in range(1, 99)]),
            IntervalGrid(0, 0, 100 * MS, Clock("virtual", 3)),
        )


@pytest.mark.parametrize("ios", [1, 3])
def test_the_slowest_io_is_exact_beyond_fios_bins(ios: int) -> None:
    """fio's last bin is up to 17 s, and holds all that took longer."""
    some = windows([(5_000, 5_020, 1_000, 3), (5_020, 45_000, 40 * 1_000 * MS, ios)])
    assert some.column[1] == BINS - 1
    cells = keyed(client_windows.cells(some, GRID))
    assert cells.total() == 3 + ios
    (index,) = bin_index([40 * 1_000 * MS]).tolist()
    assert sum(count for (*_, mine), count in cells.items() if mine == index) == 1
    texts = client_windows.problems(some, "c")
    assert texts == [
        f"{ios} reads of c took longer than 17.0 s, which fio's histograms do not tell apart; "
        "the slowest took 40.0 s"
    ] * (ios > 1)
    (extreme,) = histograms.client_extremes(some, Clock(), "c")
    assert (extreme.min_ns, extreme.max_ns) == (1_000, 40_000 * MS)


def test_the_time_of_the_slowest_io_is_told_as_far_as_it_is_known() -> None:
    rows = [
        (5_000, 5_020, 1_000, 3),
        (5_020, 5_040, 9_000, 1),
        (5_040, 5_060, 9_001, 2),
        (5_060, 5_080, 500, 4),
    ]
    log = client_windows.client_log([("a", windows(rows)), ("b", windows(rows[:2]))], GRID)
    assert [(s.host, s.op, s.latency_ns, s.from_ns, s.to_ns) for s in log.slowest] == [
        ("a", "read", 9_001, 4_020 * MS, 4_060 * MS),
        ("b", "read", 9_000, 4_020 * MS, 4_040 * MS),
    ]


def test_rows_are_no_objects_of_python() -> None:
    """A day of one-second intervals with 200 bins each is 17 million rows."""
    intervals, bins = 1_000, 200
    some = windows([(begin, begin + 20, 1 << 20, 1) for begin in range(5_000, 5_000 + bins * 100, 100)])
    columns = ("begin_ns", "end_ns", "direction", "column", "count")
    many = {name: np.tile(getattr(some, name), intervals) for name in columns}
    many["column"] = np.repeat(np.arange(intervals), bins)
    large = replace(some, **many)
    tracemalloc.start()
    made = histograms.frame(client_windows.cells(large, GRID), "p", "client", "c")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made["count"].sum() == intervals * bins and made.height > 50_000
    # A tuple of nine alone has 112 bytes, and a key of a dict as many.
    assert peak_bytes < 150 * intervals * bins


def test_a_client_without_an_io_has_no_time() -> None:
    none = np.empty(0, dtype=np.int64)
    empty = windows([(0, 0, 1, 1)], extremes_ns={}, **dict.fromkeys(
        ("begin_ns", "end_ns", "direction", "column", "count"), none
    ))  # fmt: skip
    assert client_windows.cells(empty, GRID).is_empty()
    assert client_windows.client_log([("c", empty)], GRID).slowest == ()
    assert histograms.client_extremes(empty, Clock(), "c") == []


def test_the_sum_is_of_all_ios_in_the_experiments_time() -> None:
    some = windows([(5_000, 5_020, 1_000, 3), (5_020, 5_040, 9_001, 2)])
    (row,) = histograms.client_sums(some, Clock("virtual", 4), "c")
    assert (row.op, row.tier, row.ios, row.sum_ns) == ("read", "all", 5, (3_000 + 18_002) // 4)
    assert histograms.client_sums(replace(some, sums_ns={}), Clock(), "c") == []
