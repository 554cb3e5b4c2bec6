"""I/Os of a client as counts: lines of kit.remote.load.count_ios, each with what fio counted in some time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from kit.core.errors import MeasurementUnknown
from kit.core.text import json_value
from kit.load.fio_bins import BINS, IntArray, index_of, index_of_midpoint, lower_edge
from kit.load.fio_completion import Completion, completion
from kit.load.fio_json import Json
from kit.store.labels import ACTIONS

# fio's, and those of kit/remote/load/metadata_load.py.
OPS = ("read", "write", *ACTIONS)
_TIMES = ("from_ns", "asked_ns", "to_ns")


@dataclass(frozen=True)
class ClientWindows:
    """Each row: `count` I/Os of one `direction` (0 read, 1 write) in one of fio's bins (`column`).

    They ended from `begin_ns` to `end_ns`, on the host's clock. `extremes_ns`: the exact lowest and highest
    latency by direction. `sums_ns`: the sum of latencies of each direction where it is known
    (kit.load.fio_completion, sum_from_mean). `window_ms`: time from reading to reading. `guessed`: how many
    rows of one I/O may be of another I/O of the same reading: the client had paused.
    """

    begin_ns: IntArray
    end_ns: IntArray
    direction: IntArray
    column: IntArray
    count: IntArray
    extremes_ns: Mapping[int, tuple[int, int]]
    sums_ns: Mapping[int, int]
    window_ms: int
    guessed: int = 0

    @property
    def ios(self) -> int:
        return int(self.count.sum())

    def by_op(self) -> dict[str, int]:
        """I/Os of each op that there are, and of reads and writes."""
        ios = {op: int(self.count[self.direction == d].sum()) for d, op in enumerate(OPS)}
        return {op: count for op, count in ios.items() if count or op not in ACTIONS}

    @property
    def first_ns(self) -> int:
        """The start of the first I/O: at the earliest, its latency being unknown, that of a shortest one.

        An I/O that a reading waited for began before it: the first may have waited for a server that stood.
        """
        began_ns = self.end_ns - lower_edge(self.column)
        least_ns = min(low for low, _ in self.extremes_ns.values())
        return min(int(self.begin_ns.min()) - least_ns, int(began_ns.min()))

    @property
    def last_ns(self) -> int:
        """The end of the last I/O, at the latest."""
        return int(self.end_ns.max())

    def earlier(self, ns: int) -> Self:
        """The same I/Os on a clock that is `ns` behind."""
        return replace(self, begin_ns=self.begin_ns - ns, end_ns=self.end_ns - ns)

    def totals(self) -> IntArray:
        """I/Os by direction and bin of fio."""
        totals = np.zeros((len(OPS), BINS), dtype=np.int64)
        np.add.at(totals, (self.direction, self.column), self.count)
        return totals


@lru_cache(maxsize=2 * BINS)
def column_of(key: str) -> int:
    """The bin of fio that a key of `bins` names. Raises ValueError."""
    index = index_of_midpoint(key)
    if index is None:
        raise ValueError(f"{key[:40]!r} is none of fio's bins")
    return index


def read_counts(path: Path, window_ms: int, *, alone: bool) -> ClientWindows:
    """All whole lines; one that was cut at the end was never counted. `alone`: one I/O at a time.

    Raises MeasurementUnknown for damage.
    """
    parts, extremes = [np.empty((0, 5), dtype=np.int64)], {}
    guessed = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                row = json_value(line)
                rows, late = _rows(row, window_ms, alone)
                for direction, op in enumerate(OPS):
                    if op in row:
                        extremes[direction] = int(row[op]["min"]), int(row[op]["max"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise MeasurementUnknown(f"{path}, line {number}, is no counts of fio: {error}") from error
            parts.append(rows)
            guessed += late
    begin, end, direction, column, count = np.concatenate(parts).T
    known = _inside(extremes, direction, column)
    return ClientWindows(begin, end, direction, column, count, known, {}, window_ms, guessed)


def _rows(row: dict[str, Any], window_ms: int, alone: bool) -> tuple[IntArray, int]:
    """The rows of a line, and whether the I/O that it waited for may be another one."""
    from_ns, asked_ns, to_ns = (int(row[name]) for name in _TIMES)
    if not 0 <= from_ns <= to_ns or asked_ns > to_ns:
        raise ValueError("its times go back")
    parts = []
    for direction, op in enumerate(OPS):
        bins = row.get(op, {}).get("bins", {})
        column = np.fromiter(map(column_of, bins), np.int64, len(bins))
        count = np.fromiter(bins.values(), np.int64, len(bins))
        if (count <= 0).any():
            raise ValueError("a count is not above 0")
        times = np.broadcast_to([from_ns, to_ns, direction], (len(bins), 3))
        parts.append(np.column_stack([times, column, count]))
    rows = np.concatenate(parts)
    waited_ns = to_ns - asked_ns
    if not len(rows) or waited_ns * 2 <= window_ms * 10**6:
        return rows, 0
    # fio waited for an I/O, which ended last: it is taken to be the slowest.
    slowest = int(rows[:, 3].argmax())
    _, _, direction, column, _ = rows[slowest].tolist()
    rows[slowest, 4] -= 1
    if alone:
        rows[:, 1] = max(from_ns, asked_ns)
    last = np.array([[to_ns, to_ns, direction, column, 1]], dtype=np.int64)
    guessed = int(lower_edge(column + 1)) <= waited_ns
    return np.concatenate([rows[rows[:, 4] > 0], last]), int(guessed)


def _inside(
    extremes: Mapping[int, tuple[int, int]], direction: IntArray, column: IntArray
) -> dict[int, tuple[int, int]]:
    """The extremes within their bins: while jobs run, fio reads them and the bins one after the other."""
    held = {}
    for number, (low, high) in extremes.items():
        mine = column[direction == number]
        least, most = int(mine.min()), int(mine.max())
        low = low if index_of(low) == least else int(lower_edge(least))
        high = high if index_of(high) == most else int(lower_edge(most))
        held[number] = low, high
    return held


def with_totals(windows: ClientWindows, jobs: Sequence[Json], host: str) -> ClientWindows:
    """With exact extremes and sums, of fio's last document. Raises MeasurementUnknown for other counts."""
    whole: dict[int, Completion] = {}
    for job in jobs:
        for direction, op in enumerate(OPS):
            if made := completion(job, op):
                whole[direction] = whole[direction].plus(made) if direction in whole else made
    for direction, counts in enumerate(windows.totals()):
        expected = whole[direction].counts if direction in whole else np.zeros(BINS, dtype=np.int64)
        if not np.array_equal(counts, expected):
            raise MeasurementUnknown(
                f"fio on {host} counted {int(expected.sum())} {OPS[direction]}s, but the readings of its "
                f"counts hold {int(counts.sum())}"
                + (", in other bins" if counts.sum() == expected.sum() else "")
            )
    return replace(
        windows,
        extremes_ns={direction: (mine.min_ns, mine.max_ns) for direction, mine in whole.items()},
        sums_ns={d: mine.sum_ns for d, mine in whole.items() if mine.sum_ns is not None},
    )
