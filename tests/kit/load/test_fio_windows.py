"""kit.load.fio_windows: all I/Os of fio in windows and bins; a model of fio's log, and fio itself."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import MeasurementUnknown
from kit.hosts.clock_offset import Clocks
from kit.load import fio
from kit.load.fio_bins import BINS, index_of, midpoint
from kit.load.fio_latency_log import parse_latency_log
from kit.load.fio_server import GroupLoad
from kit.load.fio_windows import ClientWindows, client_windows
from kit.load.phase_load import SingleLoad
from tests.kit.load.test_fio_server import Machine, machines, prepared, results_of, run_dir, spec

Ios = list[tuple[int, int]]
"""End in us and latency in us of each I/O of a job, in order."""
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio; the lab has it")
EPOCH_MS = 5_000


def in_order(steps: list[tuple[int, int]]) -> Ios:
    """I/Os of one thread from the times before each and its latency."""
    at, ios = 0, []
    for pause, latency in steps:
        at += pause + latency
        ios.append((at, latency))
    return ios


def logged(ios: Ios, window_ms: int) -> list[tuple[int, Counter[int]]]:
    """As add_clat_sample of fio's stat.c: the stamp of each window, and its counts by bin."""
    lines: list[tuple[int, Counter[int]]] = []
    window, last = Counter[int](), 0
    for end_us, latency_us in ios:
        elapsed = end_us // 1000
        window[index_of(latency_us * 1000)] += 1
        last = last or elapsed
        if elapsed - last >= window_ms:
            lines.append((EPOCH_MS + elapsed, window))
            window, last = Counter(), last + window_ms
    return lines


def tangled(lines: list[tuple[int, Counter[int]]]) -> list[tuple[int, Counter[int]]]:
    """As __fio_append_iolog_gz_hist of fio's server.c."""
    total, sent, made = Counter[int](), Counter[int](), []
    for stamp, window in lines:
        total += window
        sent = total - sent
        made.append((stamp, sent))
    return made


def text(lines: list[tuple[int, Counter[int]]], direction: int = 0) -> bytes:
    return "".join(
        f"{stamp}, {direction}, 4096, {', '.join(str(window[n]) for n in range(BINS))}\n"
        for stamp, window in lines
    ).encode()


def json_job(ios: Ios, **changes: Any) -> dict[str, Any]:
    bins = Counter(str(midpoint(index_of(latency * 1000))) for _, latency in ios)
    values = [latency * 1000 for _, latency in ios] or [0]
    mean = round(sum(values) / len(values), 6)
    timed = {"min": min(values), "max": max(values), "mean": mean, "N": len(ios), "bins": dict(bins)}
    runtime = max((end for end, _ in ios), default=0) // 1000 + 1
    return {"jobname": "j", "read": {"total_ios": len(ios), "runtime": runtime, "clat_ns": timed} | changes}


def check_counts(windows: ClientWindows, jobs: list[Ios]) -> None:
    """The bins of all, and for each I/O a row with its bin that covers its end."""
    counts: Counter[int] = Counter()
    for column, count in zip(windows.column.tolist(), windows.count.tolist(), strict=True):
        counts[column] += count
    assert counts == Counter(index_of(latency * 1000) for ios in jobs for _, latency in ios)


def check_times(windows: ClientWindows, ios: Ios) -> None:
    # Until an I/O has ended in the ms of an edge, the first window may seem to begin a bit later than it did.
    first_ns = int(windows.begin_ns.min())
    assert first_ns - (EPOCH_MS + ios[0][0] // 1000) * 10**6 <= 3 * windows.window_ms * 10**6
    for column in set(windows.column.tolist()):
        rows = np.flatnonzero(windows.column == column)
        covers = sorted(
            (int(windows.begin_ns[row]), int(windows.end_ns[row]))
            for row in rows
            for _ in range(int(windows.count[row]))
        )
        mine = (end_us for end_us, latency_us in ios if index_of(latency_us * 1000) == column)
        ends = [(EPOCH_MS + end_us // 1000) * 10**6 for end_us in mine]
        for (begin_ns, end_ns), at_ns in zip(covers, ends, strict=True):
            assert begin_ns <= max(at_ns, first_ns) <= end_ns


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 300]),
        st.one_of(st.integers(20, 900), st.integers(1_000, 9_000), st.integers(10**5, 5 * 10**5)),
    ),
    min_size=1,
    max_size=150,
)


@given(steps, st.integers(1, 50), st.booleans())
def test_every_io_is_in_a_window_that_covers_its_end(
    taken: list[tuple[int, int]], window_ms: int, of_server: bool
) -> None:
    ios = in_order(taken)
    lines = logged(ios, window_ms)
    if not lines:
        with pytest.raises(
            MeasurementUnknown, match=f"counted {len(ios)} I/Os, but has not finished a window"
        ):
            client_windows([b""], [json_job(ios)], window_ms)
        ran_ns = EPOCH_MS * 10**6 - 7, (EPOCH_MS * 1000 + ios[-1][0]) * 1000 + 7
        windows = client_windows([b""], [json_job(ios)], window_ms, ran_ns=ran_ns)
        check_counts(windows, [ios])
        assert windows.begin_ns.min() <= ran_ns[0] and windows.last_ns >= ran_ns[1]
        assert windows.ios_after_windows == len(ios)
        return
    log = text(tangled(lines) if of_server else lines)
    windows = client_windows([log], [json_job(ios)], window_ms, of_server=of_server)
    check_counts(windows, [ios])
    check_times(windows, ios)
    assert windows.ios_after_windows == len(ios) - sum(window.total() for _, window in lines)
    latencies = [latency * 1000 for _, latency in ios]
    assert windows.extremes_ns == {0: (min(latencies), max(latencies))}
    assert windows.sums_ns == {0: sum(latencies)}


@given(steps, steps)
def test_jobs_in_one_sum_or_in_another_order_are_complete(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    jobs = [in_order(one), in_order([(0, 100)] * 200 + two)]
    logs = [text(logged(ios, 5)) for ios in jobs]
    told = [json_job(ios) for ios in jobs]
    for mine in (told, told[::-1], [json_job(jobs[0] + jobs[1])]):
        check_counts(client_windows(logs, mine, 5), jobs)


def test_a_stall_is_at_its_end_and_what_came_before_is_not() -> None:
    ios = in_order([(0, 100)] * 195 + [(0, 70_000)] + [(0, 100)] * 200)
    windows = client_windows([text(logged(ios, 10))], [json_job(ios)], 10)
    check_times(windows, ios)
    assert windows.guessed == 0
    slow = windows.column == index_of(70_000_000)
    assert windows.begin_ns[slow] == windows.end_ns[slow] == (EPOCH_MS + 89) * 10**6
    before = windows.begin_ns < (EPOCH_MS + 80) * 10**6
    assert windows.end_ns[before & ~slow].max() <= (EPOCH_MS + 21) * 10**6


def test_after_a_pause_of_fio_one_io_of_the_window_is_guessed() -> None:
    ios = in_order([(0, 100)] * 195 + [(70_000, 90)] + [(0, 100)] * 200)
    windows = client_windows([text(logged(ios, 10))], [json_job(ios)], 10)
    assert windows.guessed == 1
    paused = (windows.begin_ns < (EPOCH_MS + 80) * 10**6) & (windows.end_ns > (EPOCH_MS + 21) * 10**6)
    assert windows.count[paused].sum() == 0
    check_counts(windows, [ios])


def test_what_fio_left_out_is_between_the_last_window_and_its_end() -> None:
    ios = in_order([(0, 1_000)] * 34)
    windows = client_windows([text(logged(ios, 10))], [json_job(ios)], 10)
    assert windows.ios_after_windows == 3
    assert (int(windows.begin_ns.max()), windows.last_ns) == (
        (EPOCH_MS + 31) * 10**6,
        (EPOCH_MS + 36) * 10**6,
    )


IOS = in_order([(0, 1_000)] * 34)
LINES = logged(IOS, 10)


@pytest.mark.parametrize(
    ("log", "job", "reason"),
    [
        (text(LINES)[:-20], json_job(IOS), "ends inside of line 3"),
        (text(LINES).replace(b", 0, ", b", x, ", 1), json_job(IOS), "line 1: .*natural number"),
        (text(LINES[::-1]), json_job(IOS), "go back"),
        (text(LINES, 2), json_job(IOS), "neither read nor write"),
        (text(LINES), json_job(IOS[:5]), "more I/Os than its json"),
        (text(LINES), json_job(IOS, total_ios=35), "counted 35 reads of job 'j', but .* hold 34"),
        (text(LINES), json_job(IOS, clat_ns={"N": 34, "bins": {"1000001": 34}}), "none of fio's bins"),
    ],
)
def test_damage_is_told(log: bytes, job: dict[str, Any], reason: str) -> None:
    with pytest.raises(MeasurementUnknown, match=reason):
        client_windows([log], [job], 10)


def test_no_io_at_all_is_no_damage() -> None:
    windows = client_windows([b""], [json_job([])], 10)
    assert windows.ios == windows.ios_after_windows == 0


@pytest.mark.parametrize("mean", [None, "1000", -1.0, 1.0, 1e12])
def test_a_mean_that_is_none_is_no_sum(mean: Any) -> None:
    job = json_job(IOS)
    job["read"]["clat_ns"]["mean"] = mean
    assert client_windows([text(LINES)], [job], 10).sums_ns == {}
    assert client_windows([text(LINES)] * 2, [json_job(IOS), job], 10).sums_ns == {}


@pytest.mark.parametrize(
    ("interval_s", "duration_s", "jobs", "window_ms"),
    [
        (1, 60, 4, 100),
        (1, 600, 4, 1000),
        (0.02, 0.3, 1, 1),
        (10, 86_400, 16, 10_000),
        (1, 1, 1, 50),
        (0.007, 1, 1, 7),
    ],
)
def test_windows_are_parts_of_intervals_and_bounded(
    interval_s: float, duration_s: float, jobs: int, window_ms: int
) -> None:
    assert fio.window_ms(int(interval_s * 1e9), int(duration_s * 1e9), jobs) == window_ms


# --- fio itself: the same phase with a log of every I/O beside ---


@needs_fio
@pytest.mark.parametrize("clients", [1, 2])
def test_fio_counts_what_it_logs(clients: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S5: the bins of both are the same, to the count, and each I/O ended in the time of its window."""
    both = fio._HISTOGRAM_OPTIONS + "write_lat_log={log}\nlog_avg_msec=0\nlog_offset=0\n"
    monkeypatch.setattr(fio, "_HISTOGRAM_OPTIONS", both)
    load_spec = replace(spec(tmp_path, 1.0), histograms_ns=100_000_000)
    hosts = machines(clients)
    running = SingleLoad(hosts[0], load_spec) if clients == 1 else prepared(hosts, load_spec)
    if clients == 1:
        running.prepare()
    monkeypatch.setattr(Machine, "run", keep_directories(Machine.run))
    running.start()
    results = results_of(running, tmp_path)
    assert running.problems == [] and len(results) == clients
    for number, result in enumerate(results):
        work = Path(load_spec.work_dir)
        paths = work.glob("*/fio_clat.*.log" if clients == 1 else f"fio0-p/fio_clat.*.log.c{number}")
        logs = [parse_latency_log(path.read_bytes()) for path in sorted(paths)]
        assert len(logs) == 2
        windows = result.latencies
        assert isinstance(windows, ClientWindows)
        expected = Counter(index_of(value) for log in logs for value in log.latency_ns.tolist())
        observed: Counter[int] = Counter()
        for column, count in zip(windows.column.tolist(), windows.count.tolist(), strict=True):
            observed[column] += count
        assert observed == expected and expected.total() == sum(result.ios.values()) > 100
        every = np.concatenate([log.latency_ns for log in logs])
        assert windows.extremes_ns == {0: (every.min(), every.max())}
        assert windows.sums_ns == {0: every.sum()}
        for edge_ns in np.unique(windows.end_ns).tolist():
            done = sum(int((log.end_ns <= edge_ns).sum()) for log in logs)
            certain, possible = windows.end_ns <= edge_ns, windows.begin_ns <= edge_ns
            assert windows.count[certain].sum() <= done <= windows.count[possible].sum()


def keep_directories(run: Any) -> Any:
    """The kit's own cleaning would remove fio's other logs."""

    def kept(self: Machine, argv: Any, **options: Any) -> Any:
        return run(self, ["true"] if argv[0] == "rm" else argv, **options)

    return kept


@needs_fio
@pytest.mark.parametrize("clients", [1, 2])
def test_what_was_counted_before_a_stop_is_kept(clients: int, tmp_path: Path) -> None:
    load_spec = replace(spec(tmp_path, 60.0), histograms_ns=100_000_000)
    hosts = machines(clients)
    group = GroupLoad(hosts, load_spec, Clocks(hosts[0]))
    running = SingleLoad(hosts[0], load_spec) if clients == 1 else group
    running.prepare()
    running.start()
    time.sleep(1 if clients == 1 else 3)
    running.finish(True)
    results = running.collect(run_dir(tmp_path))
    assert running.problems == [] and len(results) == clients
    assert all(result.latencies.ios == sum(result.ios.values()) > 0 for result in results)


@needs_fio
@pytest.mark.parametrize("clients", [1, 2])
def test_without_a_finished_window_ios_have_the_time_of_the_load(clients: int, tmp_path: Path) -> None:
    load_spec = replace(spec(tmp_path, 1.0), histograms_ns=60 * 10**9)
    assert load_spec.window_ms == 3_000
    hosts = machines(clients)
    running = SingleLoad(hosts[0], load_spec) if clients == 1 else prepared(hosts, load_spec)
    if clients == 1:
        running.prepare()
    before_ns = time.monotonic_ns()
    running.start()
    results = results_of(running, tmp_path)
    assert running.problems == [] and len(results) == clients
    for result in results:
        windows = result.latencies
        assert isinstance(windows, ClientWindows)
        assert windows.ios == windows.ios_after_windows == sum(result.ios.values()) > 100
        # A second of fio is between them; fio's stamps are whole milliseconds.
        assert before_ns - 10**6 <= windows.begin_ns.min() <= windows.last_ns - 10**9 + 10**6
        assert windows.last_ns <= time.monotonic_ns() + 10**6
