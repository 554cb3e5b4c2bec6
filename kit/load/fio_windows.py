"""I/Os of a client as counts: fio's histogram log, and what it leaves out, from json+.

fio (stat.c, add_clat_sample) ends a window of a job with the first I/O that ends at or after its edge: the
window holds that I/O, and its stamp is that I/O's end in ms. Edges are a whole number of windows after the
job's first I/O. After a stall the I/Os that follow end a window each, until the edges have caught up. So all
I/Os of a window but the last one ended before its edge and not before the stamp of the window before.
The unfinished window at the end is not logged: json+ has all I/Os of the job, so what is missing is their
difference, exactly, bin by bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from kit.core.errors import MeasurementUnknown
from kit.load.fio_bins import BINS, IntArray, lower_edge
from kit.load.fio_completion import Completion, completion
from kit.load.fio_histogram_log import Windows, parse
from kit.load.fio_json import Json
from kit.load.fio_latency_log import BadLine

OPS = ("read", "write")
_BLOCK_BYTES = 1 << 20
_MS = 10**6
# From fio's start to its first I/O, and from its last window to its end: usually less than one each.
_SURE_WINDOWS = 3
_NONE = np.empty(0, dtype=np.int64)
_NO_ROWS = np.empty((0, 5), dtype=np.int64)


@dataclass(frozen=True)
class ClientWindows:
    """Each row: `count` I/Os of one `direction` (0 read, 1 write) in one of fio's bins (`column`).

    They ended from `begin_ns` to `end_ns`, on the host's clock. `extremes_ns`: the exact lowest and highest
    latency by direction. `sums_ns`: the sum of latencies of each direction where it is known
    (kit.load.fio_completion, sum_from_mean). `ios_after_windows`: how many I/Os json+ alone has. `window_ms`:
    fio's. `guessed`: how many rows of one I/O may be of another I/O of the same window: fio had paused before
    its last one.
    """

    begin_ns: IntArray
    end_ns: IntArray
    direction: IntArray
    column: IntArray
    count: IntArray
    extremes_ns: Mapping[int, tuple[int, int]]
    sums_ns: Mapping[int, int]
    ios_after_windows: int
    window_ms: int
    guessed: int = 0

    @property
    def ios(self) -> int:
        return int(self.count.sum())

    @property
    def first_ns(self) -> int:
        """The start of the first I/O: at the earliest, its latency being unknown, that of a shortest one."""
        return int(self.begin_ns.min()) - min(low for low, _ in self.extremes_ns.values())

    @property
    def last_ns(self) -> int:
        """The end of the last I/O, at the latest."""
        return int(self.end_ns.max())

    def earlier(self, ns: int) -> Self:
        """The same I/Os on a clock that is `ns` behind."""
        return replace(self, begin_ns=self.begin_ns - ns, end_ns=self.end_ns - ns)


@dataclass(frozen=True)
class _Job:
    """Windows of one or several jobs. `rows`: begin_ms, end_ms, direction, column, count in columns.

    `counts`: by direction and bin. `first_ms`, `late_ms`: its first I/O, at the earliest and at the latest;
    `last_ms`: its last stamp. All are None without a window. `guessed`: as in ClientWindows.
    """

    rows: IntArray
    counts: IntArray
    first_ms: int | None
    late_ms: int | None
    last_ms: int | None
    guessed: int = 0


def client_windows(
    logs: Iterable[bytes],
    jobs: Sequence[Json],
    window_ms: int,
    *,
    of_server: bool = False,
    ran_ns: tuple[int, int] | None = None,
) -> ClientWindows:
    """All I/Os of one client: its logs in the order of the jobs, and the jobs of its json+.

    `of_server`: a fio server sent the logs. `ran_ns`: fio ran between these times of the client's clock.
    Raises MeasurementUnknown for damage, for windows that hold more I/Os than json+ in a bin, and if no job
    has a window and there is no `ran_ns`: then nothing says when its I/Os were.
    """
    told = [{d: made for d, op in enumerate(OPS) if (made := completion(job, op))} for job in jobs]
    runtime_ms = max((h.runtime_ms for by_direction in told for h in by_direction.values()), default=0)
    windows = [_job(log, window_ms, runtime_ms, of_server) for log in logs]
    tails = _tails(windows, told, _dates(windows, runtime_ms, ran_ns))
    rows = np.concatenate([_NO_ROWS, *(job.rows for job in windows), *tails])
    whole = _merged(told)
    extremes = {d: (mine.min_ns, mine.max_ns) for d, mine in whole.items()}
    sums = {d: mine.sum_ns for d, mine in whole.items() if mine.sum_ns is not None}
    begin_ms, end_ms, direction, column, count = rows.T
    after = sum(int(tail[:, 4].sum()) for tail in tails)
    times_ns = begin_ms * _MS, end_ms * _MS
    guessed = sum(job.guessed for job in windows)
    return ClientWindows(*times_ns, direction, column, count, extremes, sums, after, window_ms, guessed)


def _job(log: bytes, window_ms: int, runtime_ms: int, of_server: bool) -> _Job:
    """One job's log; a block of whole lines at a time is taken apart."""
    parts, line, at = [], 0, 0
    while at < len(log):
        end = log.rfind(b"\n", at, at + _BLOCK_BYTES) + 1 or log.find(b"\n", at) + 1
        if not end:
            raise MeasurementUnknown(f"fio's histogram log ends inside of line {line + 1}: it is not whole")
        try:
            parts.append(parse(log[at:end], BINS))
        except BadLine as error:
            raise MeasurementUnknown(f"fio's histogram log, line {line + error.index + 1}: {error}") from None
        line, at = line + parts[-1].time_ms.size, end
    windows = _joined(parts)
    return _placed((_untangled(windows) if of_server else None) or windows, window_ms, runtime_ms)


def _joined(parts: Sequence[Windows]) -> Windows:
    if not parts:
        return Windows(*[_NONE] * 5)
    first_rows = np.cumsum([0, *(part.time_ms.size for part in parts[:-1])])
    return Windows(
        np.concatenate([part.time_ms for part in parts]),
        np.concatenate([part.direction for part in parts]),
        np.concatenate([part.row + first for part, first in zip(parts, first_rows, strict=True)]),
        np.concatenate([part.column for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def _untangled(windows: Windows) -> Windows | None:
    """The windows that a fio server meant; None if it sent them as they were.

    fio's __fio_append_iolog_gz_hist (server.c, every version up to 3.42) takes from the sum up to each window
    not the sum up to the one before, but what it has just sent for that one. What it sends is so each window
    and the sent one two before together.
    """
    row, column, counts = [], [], []
    for direction in np.unique(windows.direction).tolist():
        lines = np.flatnonzero(windows.direction == direction)
        mine = np.flatnonzero(windows.direction[windows.row] == direction)
        number = np.searchsorted(lines, windows.row[mine])
        later = np.flatnonzero(number + 2 < lines.size)
        keys = np.concatenate([number, number[later] + 2]) * BINS
        keys += np.concatenate([windows.column[mine], windows.column[mine[later]]])
        unique, which = np.unique(keys, return_inverse=True)
        change = np.zeros(unique.size, dtype=np.int64)
        np.add.at(change, which, np.concatenate([windows.counts[mine], -windows.counts[mine[later]]]))
        if (change < 0).any():
            return None
        some = np.flatnonzero(change)
        row.append(lines[unique[some] // BINS])
        column.append(unique[some] % BINS)
        counts.append(change[some])
    if not row:
        return None
    order = np.argsort(np.concatenate(row), kind="stable")
    fields = (np.concatenate(part)[order] for part in (row, column, counts))
    return Windows(windows.time_ms, windows.direction, *fields)


def _placed(windows: Windows, window_ms: int, runtime_ms: int) -> _Job:
    """The windows of one job, which ran for `runtime_ms`, with their begins and ends."""
    if (windows.direction >= len(OPS)).any():
        raise MeasurementUnknown("fio's histogram log has I/Os that neither read nor write")
    row, column, counts = windows.row, windows.column, windows.counts
    ios = np.zeros(windows.time_ms.size, dtype=np.int64)
    np.add.at(ios, row, counts)
    begin, edge = windows.time_ms.copy(), windows.time_ms.copy()
    late = np.zeros(windows.time_ms.size, dtype=np.bool_)
    first_ms, late_ms = [], []
    for direction in range(len(OPS)):
        lines = np.flatnonzero(windows.direction == direction)
        if not lines.size:
            continue
        stamp = windows.time_ms[lines]
        steps = np.arange(lines.size) * window_ms
        # No stamp is before its edge, and few I/Os are needed for one that is on it.
        edge[lines] = int((stamp - steps).min()) + steps
        if (stamp[1:] < stamp[:-1]).any():
            raise MeasurementUnknown("the times of fio's histogram log go back")
        # A job so slow that none is on one did not begin before this.
        start = min(int(stamp[-1]) - runtime_ms - 1, int(stamp[0]))
        is_known = edge[lines[0]] - window_ms - start <= _SURE_WINDOWS * window_ms
        late_ms.append(int(edge[lines[0]]) - window_ms)
        first_ms.append(late_ms[-1] if is_known else start)
        # One I/O alone is the one that ended its window.
        begin[lines] = np.where(ios[lines] == 1, stamp, np.concatenate([first_ms[-1:], stamp[:-1]]))
        # The first I/O of all may have been on its way since before the first window.
        late[lines[1:]] = is_known & (stamp - edge[lines] >= window_ms)[1:]
    rows = np.column_stack([begin[row], windows.time_ms[row], windows.direction[row], column, counts])
    totals = np.zeros((len(OPS), BINS), dtype=np.int64)
    np.add.at(totals, (windows.direction[row], column), counts)
    last_ms = int(windows.time_ms.max()) if windows.time_ms.size else None
    placed, guessed = _with_stalls(rows, windows, edge, late & (ios > 1))
    return _Job(placed, totals, min(first_ms, default=None), max(late_ms, default=None), last_ms, guessed)


def _with_stalls(
    rows: IntArray, windows: Windows, edge_ms: IntArray, late: npt.NDArray[np.bool_]
) -> tuple[IntArray, int]:
    """`rows` with the I/O that ended a window long after its edge (`late`, by line) at its own time.

    It is taken to be the slowest of its window. Where that one was too fast to have been on its way since the
    edge, fio itself had paused, and it may be any: how often that is.
    """
    moved, guessed = [], 0
    lines = np.flatnonzero(late)
    # The counts of a line follow each other, and so do the lines.
    begins, ends = (np.searchsorted(windows.row, lines, side).tolist() for side in ("left", "right"))
    for line, begin, end in zip(lines.tolist(), begins, ends, strict=True):
        top, edge = end - 1, int(edge_ms[line])
        _, stamp, direction, column, _ = rows[top].tolist()
        guessed += int(lower_edge(column + 1)) <= (stamp - edge) * _MS
        rows[top, 4] -= 1
        rows[begin:end, 1] = edge
        moved.append([stamp, stamp, direction, column, 1])
    kept = rows[rows[:, 4] > 0]
    return (np.concatenate([kept, np.array(moved, dtype=np.int64)]) if moved else kept), guessed


def _dates(
    windows: Sequence[_Job], runtime_ms: int, ran_ns: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The first I/O of all jobs (ms), at the earliest and at the latest; None if nothing says it."""
    if dated := [job for job in windows if job.last_ms is not None]:
        early = min(job.first_ms for job in dated if job.first_ms is not None)
        return early, max(job.late_ms for job in dated if job.late_ms is not None)
    if ran_ns is None:
        return None
    early, end = ran_ns[0] // _MS, -(-ran_ns[1] // _MS)
    return early, max(early, end - runtime_ms)


def _merged(told: Sequence[Mapping[int, Completion]]) -> dict[int, Completion]:
    """Of all jobs together, by direction."""
    merged: dict[int, Completion] = {}
    for by_direction in told:
        for direction, mine in by_direction.items():
            merged[direction] = merged[direction].plus(mine) if direction in merged else mine
    return merged


def _tails(
    windows: Sequence[_Job], told: Sequence[Mapping[int, Completion]], dates_ms: tuple[int, int] | None
) -> list[IntArray]:
    """Rows of the I/Os after the last window: by job, or of all jobs where json+ has not the same jobs."""
    ios = sum(int(h.counts.sum()) for by_direction in told for h in by_direction.values())
    if not ios and all(job.last_ms is None for job in windows):
        return []
    if dates_ms is None:
        raise MeasurementUnknown(
            f"fio has counted {ios} I/Os, but has not finished a window in which they would have a time: "
            "no job ran for a whole window, or its I/Os never ended"
        )
    first_ms, late_ms = dates_ms
    if len(windows) == len(told):
        undated = _Job(_NO_ROWS, np.zeros((len(OPS), BINS), dtype=np.int64), first_ms, late_ms, first_ms)
        jobs = [job if job.last_ms is not None else undated for job in windows]
        tails = [_tail(job, by) for job, by in zip(jobs, told, strict=True)]
        if all(tail is not None for tail in tails):
            return [tail for tail in tails if tail is not None]
    counts = np.sum([job.counts for job in windows], axis=0)
    last_ms = min((job.last_ms for job in windows if job.last_ms is not None), default=first_ms)
    tail = _tail(_Job(_NO_ROWS, counts, first_ms, late_ms, last_ms), _merged(told))
    if tail is None:
        raise MeasurementUnknown("fio's histogram log holds more I/Os than its json+ in one of the bins")
    return [tail]


def _tail(job: _Job, told: Mapping[int, Completion]) -> IntArray | None:
    """What json+ has more than the windows of `job`, which has some; None if it has less anywhere."""
    assert job.late_ms is not None and job.last_ms is not None
    parts = [_NO_ROWS]
    for direction in range(len(OPS)):
        mine = told.get(direction)
        missing = (mine.counts if mine else 0) - job.counts[direction]
        if (missing < 0).any():
            return None
        columns = np.flatnonzero(missing)
        if mine and columns.size:
            # fio counts from the start of the job, and the first I/O has ended by then or later.
            end_ms = max(job.last_ms, job.late_ms + mine.runtime_ms)
            fields = np.broadcast_to([job.last_ms, end_ms, direction], (columns.size, 3))
            parts.append(np.column_stack([fields, columns, missing[columns]]))
    return np.concatenate(parts)
