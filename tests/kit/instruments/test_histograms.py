"""Each I/O is in exactly one cell: its interval and bin in the experiment's time."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.clock import Clock
from kit.hosts.clock_offset import Offset
from kit.instruments import histograms
from kit.instruments.histograms import IntervalGrid
from kit.load.fio_latency_log import ClientLatencies, parse_latency_log
from kit.store import tables
from kit.store.phase import ClientRow
from kit.store.run_directory import RunDir
from kit.store.tables import LATENCY_SCHEMA
from kit.trace.output import Snapshot, Trace, parse_trace
from kit.trace.tier import Vdevs

DATA = Path(__file__).parents[1] / "data"
GRID = IntervalGrid(1_000, 5_000, 100, Clock())
DILATED = IntervalGrid(1_000, 5_000, 100, Clock("virtual", 4))


@pytest.mark.parametrize(
    ("grid", "end_ns", "start_ns"),
    [
        (GRID, 5_000, 4_000),  # at the very beginning
        (GRID, 5_001, 4_000),
        (GRID, 5_099, 4_000),
        (GRID, 5_100, 4_000),  # a snapshot at the end of an interval belongs to it
        (GRID, 5_101, 4_100),
        (GRID, 5_200, 4_100),
        (GRID, 5_201, 4_200),
        (GRID, 4_000, 4_000),  # before the phase: its first interval
        (DILATED, 5_001, 1_000),
        (DILATED, 5_100, 1_000),
        (DILATED, 5_101, 1_025),
        (DILATED, 5_400, 1_075),
    ],
)
def test_intervals_of_the_grid(grid: IntervalGrid, end_ns: int, start_ns: int) -> None:
    assert grid.start_of(end_ns) == start_ns


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 100), st.integers(1, 64))
def test_an_interval_contains_its_ends(phase: int, after: int, interval_ms: int, dilation: int) -> None:
    grid = IntervalGrid(0, phase * dilation, interval_ms * 10**6 * dilation, Clock("virtual", dilation))
    start = grid.start_of((phase + after) * dilation)
    assert (start - phase) % (interval_ms * 10**6) == 0
    assert start < phase + after <= start + interval_ms * 10**6 or after == 0


# --- Client ---

ios = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 10**10), st.integers(0, 1)), min_size=1, max_size=50
)


def latencies(rows: list[tuple[int, int, int]]) -> ClientLatencies:
    return ClientLatencies(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def keyed(cells: histograms.Cells) -> Counter[tuple[int, str, str, int]]:
    """I/Os by start, op, tier and bin."""
    return Counter({(start, op, tier, index): count for start, op, tier, index, count in cells.iter_rows()})


def sums(cells: histograms.Cells, part: int) -> dict[Any, int]:
    """I/Os by one part of the cells' keys: 0 for the start, 3 for the bin."""
    observed: Counter[Any] = Counter()
    for *key, count in cells.iter_rows():
        observed[key[part]] += count
    return dict(observed)


@given(ios, st.sampled_from([GRID, DILATED]))
def test_client_cells_sum_exactly_to_the_ios(rows: list[tuple[int, int, int]], grid: IntervalGrid) -> None:
    cells = histograms.client_cells(latencies(rows), grid)
    expected = Counter(("read", "write")[direction] for _, _, direction in rows)
    assert histograms.totals(cells) == {(op, "all"): count for op, count in expected.items()}
    assert sums(cells, 0) == Counter(grid.start_of(end) for end, _, _ in rows)
    assert sums(cells, 3) == Counter(int(bin_index(latency // grid.clock.dilation)) for _, latency, _ in rows)


def test_client_latencies_are_divided_by_the_dilation() -> None:
    [(_, op, tier, index, _)] = histograms.client_cells(latencies([(6_000, 400_000, 1)]), DILATED).rows()
    assert (op, tier) == ("write", "all")
    low, high = bin_edges(index)
    assert low <= 100_000 < high
    [row] = histograms.client_extremes(latencies([(6_000, 400_000, 1)]), DILATED.clock, "c")
    assert (row.op, row.min_ns, row.max_ns) == ("write", 100_000, 100_000)


def test_client_extremes_are_per_direction() -> None:
    rows = [(1, 5, 0), (2, 9, 0), (3, 7, 1)]
    observed = histograms.client_extremes(latencies(rows), Clock(), "c0")
    assert [extreme.as_json() for extreme in observed] == [
        {"layer": "client", "host": "c0", "op": "read", "tier": "all", "min_ns": 5, "max_ns": 9},
        {"layer": "client", "host": "c0", "op": "write", "tier": "all", "min_ns": 7, "max_ns": 7},
    ]


def test_a_recorded_log_is_counted_whole() -> None:
    text = (DATA / "write-slog-fio_lat.log").read_text()
    parsed = parse_latency_log(text.encode())
    first = int(parsed.end_ns.min())
    cells = histograms.client_cells(parsed, IntervalGrid(first, first, 200_000_000, Clock("virtual", 4)))
    ios = json.loads((DATA / "write-slog-fio.json").read_text())["jobs"][0]["write"]["total_ios"]
    assert histograms.totals(cells) == {("write", "all"): ios}


# --- Server ---

TIERS = {
    ("read", 0, 0): ("read", "dram"),
    ("read", 1, 0): ("read", "disk"),
    ("read", 2, 0): ("read", "l2arc"),
    ("write", 192, 3): ("write", "slog"),
    ("write", 192, 0): ("write", "pool"),
}
new_counts = st.dictionaries(st.integers(0, 900), st.integers(1, 50), max_size=4)
steps = st.lists(st.dictionaries(st.sampled_from(list(TIERS)), new_counts, max_size=4), max_size=6)


@given(steps)
def test_server_cells_sum_exactly_to_the_requests(
    added: list[dict[tuple[str, int, int], dict[int, int]]],
) -> None:
    so_far: dict[tuple[str, int, int], dict[int, int]] = {}
    expected: Counter[tuple[int, str, str, int]] = Counter()
    trace = Trace()
    for number, step in enumerate(added):
        for key, bins in step.items():
            for index, count in bins.items():
                so_far.setdefault(key, {}).setdefault(index, 0)
                so_far[key][index] += count
                expected[4_000 + 100 * number, *TIERS[key], index] += count
        trace.snapshots.append(Snapshot(5_100 + 100 * number, copy.deepcopy(so_far)))
    assert keyed(histograms.server_cells(trace, GRID, Vdevs(frozenset({3})))) == expected


def test_server_counts_that_go_back_are_an_error() -> None:
    trace = Trace(
        snapshots=[Snapshot(5_100, {("read", 0, 0): {1: 5}}), Snapshot(5_200, {("read", 0, 0): {1: 4}})]
    )
    with pytest.raises(ValueError, match="went back"):
        histograms.server_cells(trace, GRID, Vdevs())


def test_a_recorded_trace_is_counted_whole() -> None:
    trace = parse_trace((DATA / "trace-read.json").read_text())
    origin = trace.snapshots[0].at_ns
    cells = histograms.server_cells(
        trace, IntervalGrid(origin, origin, 800_000_000, Clock("virtual", 4)), Vdevs()
    )
    totals = histograms.totals(cells)
    assert sum(totals.values()) == 3456
    assert totals["read", "l2arc"] == 650  # as the run's own manifest has it
    assert totals["read", "dram"] == 1644
    assert {tier for _, tier in totals} == {"dram", "l2arc", "disk", "indirect"}
    starts = cells["time_ns"].unique().sort().to_list()
    assert all(start % 200_000_000 == 0 for start in starts) and starts[-1] > starts[0]


def test_server_extremes_join_the_classes_of_a_tier() -> None:
    trace = parse_trace((DATA / "trace-read.json").read_text())
    observed = {row.tier: row for row in histograms.server_extremes(trace, Vdevs(), "lab")}
    assert (observed["indirect"].min_ns, observed["indirect"].max_ns) == (217630, 10096480)
    assert (observed["l2arc"].min_ns, observed["l2arc"].max_ns) == (141930, 584681)
    assert {(row.layer, row.host, row.op) for row in observed.values()} == {("nfs-server", "lab", "read")}


def test_log_vdevs_decide_between_slog_and_pool() -> None:
    trace = Trace(lowest={("write", 192, 3): 5}, highest={("write", 192, 3): 9})
    assert histograms.server_extremes(trace, Vdevs(frozenset({3})), "s")[0].tier == "slog"
    assert histograms.server_extremes(trace, Vdevs(frozenset({4})), "s")[0].tier == "pool"


def test_server_sums_join_the_classes_of_a_tier() -> None:
    counts = {("read", 17, 0): {400: 3}, ("read", 49, 0): {401: 1}, ("read", 0, 0): {300: 2}}
    sums = {("read", 17, 0): 30, ("read", 49, 0): 5, ("read", 0, 0): 7}
    observed = histograms.server_sums(Trace(snapshots=[Snapshot(1, counts)], sums=sums), Vdevs(), "lab")
    assert [(row.layer, row.host, row.op, row.tier, row.ios, row.sum_ns) for row in observed] == [
        ("nfs-server", "lab", "read", "dram", 2, 7),
        ("nfs-server", "lab", "read", "indirect", 4, 35),
    ]
    del sums["read", 0, 0]
    assert not histograms.server_sums(Trace(snapshots=[Snapshot(1, counts)], sums=sums), Vdevs(), "lab")
    assert not histograms.server_sums(Trace(), Vdevs(), "lab")


@given(ios, st.sampled_from([GRID, DILATED]))
def test_client_sums_are_exact(rows: list[tuple[int, int, int]], grid: IntervalGrid) -> None:
    observed = histograms.client_sums(latencies(rows), grid.clock, "c")
    expected: dict[str, list[int]] = {}
    for _, latency_ns, direction in rows:
        expected.setdefault(("read", "write")[direction], []).append(latency_ns // grid.clock.dilation)
    assert {row.op: (row.ios, row.sum_ns) for row in observed} == {
        op: (len(values), sum(values)) for op, values in expected.items()
    }


# --- Rows ---


@given(ios)
def test_rows_can_be_stored_and_hold_every_io(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    run = RunDir(tmp_path_factory.getbasetemp())
    cells = histograms.client_cells(latencies(rows), GRID)
    made, by_key = histograms.frame(cells, "p", "client", "c0"), keyed(cells)
    tables.write_latency(run, made)
    read = tables.read_latency(run)
    assert read["count"].sum() == len(rows)
    for row in read.iter_rows(named=True):
        assert (row["phase"], row["layer"], row["host"]) == ("p", "client", "c0")
        index = int(bin_index(row["lo_ns"]))
        assert tuple(int(edge) for edge in bin_edges(index)) == (row["lo_ns"], row["hi_ns"])
        assert by_key[row["time_ns"], row["op"], row["tier"], index] == row["count"]


def test_no_ios_are_no_rows() -> None:
    made = histograms.frame(histograms.server_cells(Trace(), GRID, Vdevs()), "p", "client", "c0")
    assert made.height == 0 and dict(made.schema) == LATENCY_SCHEMA


# --- The grid and the tracer's prints ---


def printed(*at_ns: int, ended: bool = True) -> Trace:
    """One more read of 1 us at each print (and none at the program's end, if it `ended`)."""
    index = int(bin_index(1000))
    counts = [{("read", 0, 0): {index: number + 1}} for number in range(len(at_ns) - ended)]
    counts += [counts[-1]] if ended else []
    snapshots = [Snapshot(at, count) for at, count in zip(at_ns, counts, strict=True)]
    return Trace(phase=1, ended=ended, snapshots=snapshots)


def columns(trace: Trace, grid: IntervalGrid) -> dict[int, int]:
    return sums(histograms.server_cells(trace, grid, Vdevs()), 0)


@given(
    st.integers(0, 10**6),
    st.lists(st.sampled_from([0, 0, 0, 0, 1, -1, 250, 500]), min_size=5, max_size=30),
    st.integers(0, 5000),
)
def test_late_prints_stay_in_the_column_that_was_due(base: int, jitter: list[int], before: int) -> None:
    interval = 1000
    # The first is in time; of the others most are: the sample is made so.
    late = [0, *(value if number % 2 else value % 2 for number, value in enumerate(jitter))]
    at = [base + 10**7 + interval * (number + 1) + value for number, value in enumerate(late)]
    trace = printed(*at, at[-1] + 40_000)
    # Not within a jitter of the moment that was due: either column would be right there.
    first = base + 10**7 + 2 + before % (interval - 4)
    origin = histograms.aligned(first, [snapshot.at_ns for snapshot in histograms.regular(trace)], interval)
    assert (origin - (base + 10**7)) in (-1, 0, 1)
    grid = IntervalGrid(origin, origin, interval, Clock())
    assert columns(trace, grid) == {number * interval: 1 for number in range(len(at))}


def test_counts_after_the_last_print_have_their_own_column() -> None:
    trace = printed(1000, 2000, 2300, ended=True)
    trace.snapshots[-1] = Snapshot(2300, {("read", 0, 0): {int(bin_index(1000)): 3}})
    assert columns(trace, IntervalGrid(0, 0, 1000, Clock())) == {0: 1, 1000: 1, 2000: 1}


def test_a_tracer_that_died_has_no_end_of_its_own() -> None:
    trace = printed(1250, 2000, 3500, ended=False)
    assert columns(trace, IntervalGrid(0, 0, 1000, Clock())) == {0: 1, 1000: 1, 2000: 1}


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_grid_begins_less_than_an_interval_before_the_first_io(first: int, interval: int) -> None:
    trace = printed(*(10**6 + interval * number for number in range(1, 6)))
    origin = histograms.aligned(first, [snapshot.at_ns for snapshot in histograms.regular(trace)], interval)
    assert first - interval < origin <= first
    assert (10**6 - origin) % interval == 0


def test_without_a_print_the_grid_begins_with_the_first_io() -> None:
    assert histograms.aligned(1234, [], 100) == 1234


# --- Several clients ---


def reads(*ends_ns: int) -> ClientLatencies:
    return latencies([(end_ns, 100, 0) for end_ns in ends_ns])


def test_an_offset_moves_times_and_keeps_latencies() -> None:
    before = reads(1_000, 2_000)
    after = before.earlier(700)
    assert after.end_ns.tolist() == [300, 1_300]
    assert after.latency_ns.tolist() == before.latency_ns.tolist()


def test_rows_of_clients() -> None:
    clients = [
        ("a", reads(9_400, 9_900), Offset()),
        ("b", reads(9_100), Offset(50, 8)),
        ("c", reads(), Offset()),
    ]
    rows = histograms.client_rows(clients, DILATED)
    assert [row.ios for row in rows] == [2, 1, 0]
    assert [row.first_ns for row in rows] == [2_075, 2_000, None]
    assert [row.last_ns for row in rows] == [2_225, 2_025, None]
    assert [row.skew_ns for row in rows] == [75, 0, None]
    assert [row.clock_error_ns for row in rows] == [0, 2, 0]


def test_clients_that_begin_late_are_named() -> None:
    common = dict.fromkeys(("ios", "first_ns", "last_ns", "clock_offset_ns", "clock_error_ns"), 0)
    skews = {"a": 0, "b": 11_000_000, "c": None}
    rows = [ClientRow(host=host, skew_ns=skew, **common) for host, skew in skews.items()]
    assert histograms.late_clients(rows, 11_000_000) == []
    (problem,) = histograms.late_clients(rows, 10_000_000)
    assert "of b came 11.0 ms after" in problem
