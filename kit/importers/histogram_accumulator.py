"""Counts per interval, group and bin, gathered block by block in bounded memory.

Why not polars' group_by: it takes 4.0 times the processor time for the blocks of a latency log, and 10.8
times for those of histogram logs; a whole import of these takes 2.7 to 3.9 times as much, and the bench
P2 has room for 1.16 times. By sorting alone, without tables of counts, it takes 1.4 times. Measured in
November 2026 (polars 2.1, two cores) with `tox -e bench -- tests/bench/test_hand_written.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.bins import bin_edges
from kit.core.errors import ConfigError
from kit.store.tables import LATENCY_SCHEMA

IntArray = npt.NDArray[np.int64]
Edges = Callable[[IntArray], tuple[IntArray, IntArray]]
# An index of kit.core.bins for 2^63 - 1 is 1887; fio's finest scheme has 1856.
_BIN_BITS = 11
_BINS = 1 << _BIN_BITS
_MAX_GROUPS = 512
_MAX_TOTAL = 1 << 60
# 62 bits for the key: 42 of time, 9 of group, 11 of bin.
_MAX_TIME_INDEX = 1 << 42
MAX_CELLS = 4_000_000
# Cells that wait to be put together: four times the result, so that it is not gone through too often.
_LEAST_PENDING, _MOST_PENDING = 100_000, 2_000_000
# Entries of a table of counts that are still faster than sorting one key.
_TABLE_PER_KEY = 4
_EXACT = 1 << 53


def plain(text: str) -> str:
    """`text` as UTF-8 can hold it: JSON can escape half a surrogate pair, and a file's name be any bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass
class Account:
    """What became of the rows of one file. `left_out`: reason -> rows (or I/Os of a histogram).

    `runtime_ns` is how long the longest job was, where I/Os have no times; else 0.
    """

    file: str
    rows_read: int = 0
    rows_counted: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    runtime_ns: int = 0

    def __post_init__(self) -> None:
        self.file = plain(self.file)

    def read(self, number: int) -> None:
        """Count `number` I/Os as read. Raises ConfigError where the sum could not be stored."""
        self.rows_read += number
        if self.rows_read > _MAX_TOTAL:
            raise ConfigError(f"{self.file}: more than 2^60 I/Os", "no device has done that many")

    def set_aside(self, reason: str, number: int) -> None:
        """Count `number` I/Os as read, but not in the tally."""
        self.read(number)
        self.leave_out(reason, number)

    def leave_out(self, reason: str, number: int = 1) -> None:
        """Count `number` rows that are not in the tally."""
        if number:
            self.left_out[reason] = self.left_out.get(reason, 0) + number

    def close(self) -> None:
        """Raises AssertionError unless every row that was read is either counted or told."""
        lost = self.rows_read - self.rows_counted - sum(self.left_out.values())
        assert not lost, f"{self.file}: {lost} rows are neither counted nor reported"


@dataclass(frozen=True)
class AccumulatedPart:
    """Counts per cell, each once. Intervals of `keys` are `interval_ns` long; `last_ns`: the last time."""

    interval_ns: int
    keys: IntArray
    counts: IntArray
    last_ns: int = 0


class Accumulator:
    """I/Os per (interval, host, op, tier, bin). `interval_ns` doubles where there would be too many cells.

    `begin_ns`: an interval begins there; what is before the first of them counts in it. `until_ns`: when the
    last I/O ended, on the clock of the times; 0 where that is not known. `tick_ns`: the coarsest tick of the
    clocks of its latencies (kit.importers.clock_tick); 0 where they were not looked at one by one.
    """

    def __init__(
        self, interval_ns: int, edges: Edges = bin_edges, max_cells: int = MAX_CELLS, begin_ns: int = 0
    ) -> None:
        self.until_ns = 0
        self.tick_ns = 0.0
        self._begin_ns = begin_ns % interval_ns
        self.interval_ns = interval_ns
        self.edges = edges
        self._max_cells = max_cells
        self._groups: dict[tuple[str, str, str], int] = {}
        self._extremes: dict[int, tuple[int, int]] = {}
        self._sums: dict[int, tuple[int, int]] = {}
        self._keys = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[IntArray, IntArray]] = []
        self._pending_size = 0
        self.doubled = 0

    def group(self, host: str, op: str, tier: str = "all") -> int:
        """The number of a group, for add(). Raises ConfigError if there are too many.

        What is no text in `host` (half a surrogate pair, bytes of a file's name) becomes "?".
        """
        host = plain(host)
        number = self._groups.setdefault((host, op, tier), len(self._groups))
        if number >= _MAX_GROUPS:
            raise ConfigError(
                f"more than {_MAX_GROUPS} hosts, ops and tiers",
                "import fewer files at once, or give one --host",
            )
        return number

    def part(
        self,
        group: int | IntArray,
        time_ns: IntArray,
        bins: IntArray,
        counts: IntArray | None = None,
        row: IntArray | None = None,
    ) -> AccumulatedPart:
        """I/Os for add(): when (ns, not negative), in which bin, and how many (one each without `counts`).

        With `row` there are several of these to a group and time: it says which group and time each has.
        Changes nothing: threads may do this side by side.
        """
        interval_ns = self.interval_ns
        if not bins.size:
            return AccumulatedPart(interval_ns, bins, np.empty(0, dtype=np.int64))
        last_ns = int(time_ns.max())
        time_ns = self._since_begin(time_ns)
        first, last = int(time_ns.min()) // interval_ns, int(time_ns.max()) // interval_ns
        if last >= _MAX_TIME_INDEX:
            raise ConfigError("times are too far apart for this interval", "give a longer --interval")
        # A division per row costs more than all else here, and most blocks lie in one interval.
        index = time_ns // interval_ns if last > first or row is not None else np.int64(first)
        cell: IntArray = np.asarray((index * _MAX_GROUPS + group) * _BINS)
        return AccumulatedPart(
            interval_ns, *_summed((cell if row is None else cell[row]) + bins, counts), last_ns
        )

    def _since_begin(self, time_ns: IntArray) -> IntArray:
        return np.maximum(time_ns - self._begin_ns, 0) if self._begin_ns else time_ns

    def part_of(
        self, groups: IntArray, which: IntArray, time_ns: IntArray, bins: IntArray
    ) -> AccumulatedPart:
        """As part(), one I/O each, of group groups[which]; faster where their times are near each other."""
        if not bins.size:
            return self.part(0, time_ns, bins)
        # Read once: add() may double it meanwhile.
        interval_ns = self.interval_ns
        given_ns, time_ns = time_ns, self._since_begin(time_ns)
        low_ns, high_ns = int(time_ns.min()), int(time_ns.max())
        first, last = low_ns // interval_ns, high_ns // interval_ns
        cells = (last - first + 1) * groups.size
        if last >= _MAX_TIME_INDEX or cells * _BINS > max(_TABLE_PER_KEY * bins.size, 1 << 16):
            return self.part(groups[which], given_ns, bins)
        local = which if first == last else (time_ns // interval_ns - first) * groups.size + which
        table = np.bincount((local << _BIN_BITS) + bins)
        found = np.flatnonzero(table)
        cell, at = found >> _BIN_BITS, found & (_BINS - 1)
        keys = ((first + cell // groups.size) * _MAX_GROUPS + groups[cell % groups.size]) * _BINS + at
        return AccumulatedPart(interval_ns, keys, table[found].astype(np.int64), high_ns + self._begin_ns)

    def add(self, part: AccumulatedPart) -> None:
        """Add what part() or part_of() made."""
        keys, counts, interval_ns = part.keys, part.counts, part.interval_ns
        while interval_ns < self.interval_ns:
            keys, counts = _halved(keys, counts)
            interval_ns *= 2
        self._pending.append((keys, counts))
        self._pending_size += keys.size
        if self._pending_size > min(max(4 * self._keys.size, _LEAST_PENDING), _MOST_PENDING):
            self._settle()

    def add_at(self, time_ns: int, group: int, bins: npt.ArrayLike, counts: npt.ArrayLike) -> None:
        """Count I/Os of one time (ns): how many are in each of `bins`, also 0."""
        numbers = np.asarray(counts, dtype=np.int64)
        used = np.flatnonzero(numbers)
        times = np.full(used.size, time_ns, dtype=np.int64)
        self.add(self.part(group, times, np.asarray(bins, dtype=np.int64)[used], numbers[used]))

    def extremes(self, group: int, low_ns: int, high_ns: int) -> None:
        """Smallest and largest latency of some I/Os of `group`, exact."""
        low, high = self._extremes.get(group, (low_ns, high_ns))
        self._extremes[group] = min(low, low_ns), max(high, high_ns)

    def sum(self, group: int, ios: int, sum_ns: int | None) -> None:
        """The exact sum of the latencies of some I/Os of `group`, and how many they are; None: not known."""
        if sum_ns is None:
            return
        before, before_ns = self._sums.get(group, (0, 0))
        self._sums[group] = before + ios, before_ns + sum_ns

    def _settle(self) -> None:
        if self._pending:
            self._keys, self._counts = _merged([(self._keys, self._counts), *self._pending])
            self._pending, self._pending_size = [], 0
        while self._keys.size > self._max_cells and int(self._keys[-1]) >= 2 * _MAX_GROUPS * _BINS:
            # Neighbouring intervals become one; no I/O is lost.
            self._keys, self._counts = _halved(self._keys, self._counts)
            self.interval_ns *= 2
            self.doubled += 1

    def frame(self, phase: str, layer: str) -> tuple[pl.DataFrame, int]:
        """The rows of latency.parquet, and the start (ns, on the input's clock) of what is time 0 there."""
        self._settle()
        index, rest = np.divmod(self._keys, _MAX_GROUPS * _BINS)
        group, bins = np.divmod(rest, _BINS)
        first = int(index.min()) if index.size else 0
        low, high = self.edges(bins)
        names = pl.DataFrame(
            list(self._groups), dict.fromkeys(("host", "op", "tier"), pl.String), orient="row"
        )
        frame = names[group].with_columns(
            pl.Series("time_ns", (index - first) * self.interval_ns),
            pl.Series("lo_ns", low),
            pl.Series("hi_ns", high),
            pl.Series("count", self._counts),
            phase=pl.lit(phase),
            layer=pl.lit(layer),
        )
        return frame.select(*LATENCY_SCHEMA), first * self.interval_ns + self._begin_ns

    def told_extremes(self, layer: str) -> list[dict[str, Any]]:
        """The exact extremes as a phase of manifest.json has them; only where every I/O was looked at."""
        return [
            {"layer": layer, "host": h, "op": o, "tier": t, "min_ns": e[0], "max_ns": e[1]}
            for (h, o, t), number in self._groups.items()
            if (e := self._extremes.get(number))
        ]

    def told_sums(self, layer: str) -> list[dict[str, Any]]:
        """The exact sums as a phase of manifest.json has them; only where they are of every I/O."""
        self._settle()
        group = self._keys // _BINS % _MAX_GROUPS
        return [
            {"layer": layer, "host": h, "op": o, "tier": t, "ios": s[0], "sum_ns": s[1]}
            for (h, o, t), number in self._groups.items()
            if (s := self._sums.get(number)) and s[0] == int(self._counts[group == number].sum())
        ]


def _halved(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """The same counts in intervals twice as long."""
    cell = _MAX_GROUPS * _BINS
    return _summed(keys // (2 * cell) * cell + keys % cell, counts)


def _merged(parts: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """As _summed of all parts together; in each part a key occurs once, and they ascend."""
    parts = [part for part in parts if part[0].size]
    if len(parts) < 2:
        return parts[0] if parts else (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    # The intervals and groups of each part, and how many keys are in each of them.
    rows = []
    for keys, _ in parts:
        row = keys >> _BIN_BITS
        starts = np.append(0, np.flatnonzero(row[1:] != row[:-1]) + 1)
        rows.append((row[starts], np.diff(starts, append=row.size)))
    every = np.sort(np.concatenate([row for row, _ in rows]))
    used = every[np.append(True, every[1:] != every[:-1])]
    if used.size * _BINS > max(_TABLE_PER_KEY * sum(keys.size for keys, _ in parts), 1 << 16):
        keys, counts = (np.concatenate([part[n] for part in parts]) for n in range(2))
        return _summed(keys, counts)
    # What a key is above its place in a table that has only the intervals and groups that occur.
    above = (used - np.arange(used.size)) << _BIN_BITS
    table = np.zeros(used.size * _BINS, dtype=np.int64)
    for (keys, counts), (row, lengths) in zip(parts, rows, strict=True):
        np.add.at(table, keys - np.repeat(above[np.searchsorted(used, row)], lengths), counts)
    found = np.flatnonzero(table != 0)
    return found + above[found >> _BIN_BITS], table[found]


def _summed(keys: IntArray, counts: IntArray | None) -> tuple[IntArray, IntArray]:
    """Each key once, ascending, with the sum of its counts (int64, exact)."""
    if not keys.size:
        return keys, np.empty(0, dtype=np.int64)
    if counts is not None and (keys[1:] > keys[:-1]).all():
        return keys, counts
    if table := _counted(keys, counts):
        return table
    if counts is None:
        unique, found = np.unique(keys, return_counts=True)
        return unique, found.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.add.reduceat(counts[order], starts)


def _counted(keys: IntArray, counts: IntArray | None) -> tuple[IntArray, IntArray] | None:
    """As _summed, several times faster than by sorting; None where that would take much memory."""
    # NumPy adds weights as floats.
    if counts is not None and int(counts.max()) * counts.size > _EXACT:
        return None
    rows = keys >> _BIN_BITS
    low = int(rows.min())
    rows -= low
    span = int(rows.max()) + 1
    most = max(_TABLE_PER_KEY * keys.size, 1 << 16)
    if span > most:
        return None
    # A table of counts, but only for the intervals and groups that occur.
    used = np.flatnonzero(np.bincount(rows))
    if used.size * _BINS > most:
        return None
    rank = np.zeros(span, dtype=np.int64)
    rank[used] = np.arange(used.size)
    table = np.bincount((rank[rows] << _BIN_BITS) + (keys & (_BINS - 1)), weights=counts)
    found = np.flatnonzero(table)
    unique = ((used[found >> _BIN_BITS] + low) << _BIN_BITS) + (found & (_BINS - 1))
    return unique, table[found].astype(np.int64)
