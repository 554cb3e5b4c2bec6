"""Counts per interval and bin, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.store import LATENCY_SCHEMA

IntArray = npt.NDArray[np.int64]
# More bins than any format has; a key is interval * BINS + bin.
BINS = 2048
_MAX_CELLS = 2_000_000
_MAX_PENDING = 1_000_000
MIN_INTERVAL_NS = 1_000_000
# ns: an interval index times BINS stays below 2**63.
MAX_TIME_NS = 2**62
# ns; doubles are exact up to here. 104 days.
MAX_LATENCY_NS = 2**53 - 1


def bin_of(latency_ns: IntArray) -> IntArray:
    """kit.bins.bin_index for values in [0, MAX_LATENCY_NS], several times as fast.

    The bits of a double are its power of two and then what is above it: above 32 ns the upper
    bits are the index itself, but for a constant.
    """
    bits = latency_ns.astype(np.float64).view(np.int64)
    bits >>= 47
    bits -= 1027 << 5
    index: IntArray = np.where(latency_ns < 32, latency_ns, bits)
    return index


@dataclass(frozen=True)
class Group:
    """What is counted apart."""

    phase: str
    layer: str
    host: str
    op: str
    tier: str


@dataclass
class Cells:
    """I/Os per group, interval and bin. `lo_ns`, `hi_ns`: the edges of the bins.

    Where there would be more than `most` cells, neighbouring intervals are added up: no I/O is lost,
    only time is coarser, and `interval_ns` says by how much.
    """

    interval_ns: int
    lo_ns: IntArray
    hi_ns: IntArray
    most: int = _MAX_CELLS
    _sums: dict[Group, tuple[IntArray, IntArray]] = field(default_factory=dict)
    _pending: dict[Group, list[tuple[IntArray, IntArray]]] = field(default_factory=dict)
    _waiting: int = 0
    doublings: int = 0

    def add(self, group: Group, interval: IntArray, bins: IntArray, counts: IntArray) -> None:
        """`interval` in intervals of the width that was asked for, whatever it is now."""
        self._pending.setdefault(group, []).append(((interval >> self.doublings) * BINS + bins, counts))
        self._waiting += len(counts)
        if self._waiting > _MAX_PENDING:
            self._settle()

    def total(self) -> int:
        self._settle()
        return sum(int(counts.sum()) for _, counts in self._sums.values())

    def span(self) -> tuple[int, int]:
        """The first interval with an I/O, and the one after the last; ValueError if there is none."""
        self._settle()
        first = min(int(keys[0]) // BINS for keys, _ in self._sums.values())
        last = max(int(keys[-1]) // BINS for keys, _ in self._sums.values())
        return first, last + 1

    def groups(self) -> list[Group]:
        self._settle()
        return list(self._sums)

    def frame(self, origin: int = 0) -> pl.DataFrame:
        """Rows of latency.parquet; time counts from interval `origin`."""
        self._settle()
        parts = [pl.DataFrame(schema=LATENCY_SCHEMA)]
        for group, (keys, counts) in self._sums.items():
            bins = keys % BINS
            columns = {
                "time_ns": (keys // BINS - origin) * self.interval_ns,
                "lo_ns": self.lo_ns[bins],
                "hi_ns": self.hi_ns[bins],
                "count": counts,
            }
            part = pl.DataFrame(columns).with_columns(
                pl.lit(value).alias(name) for name, value in vars(group).items()
            )
            parts.append(part.select(LATENCY_SCHEMA).cast(LATENCY_SCHEMA))  # type: ignore[arg-type]
        return pl.concat(parts)

    def _settle(self) -> None:
        for group, parts in self._pending.items():
            self._sums[group] = _summed([self._sums[group], *parts] if group in self._sums else parts)
        self._pending.clear()
        self._waiting = 0
        while self._cells() > self.most and self._can_merge():
            self.doublings += 1
            self.interval_ns *= 2
            for group, (keys, counts) in self._sums.items():
                merged = (keys // BINS >> 1) * BINS + keys % BINS
                self._sums[group] = _summed([(merged, counts)])

    def _cells(self) -> int:
        return sum(len(counts) for _, counts in self._sums.values())

    def _can_merge(self) -> bool:
        return any(int(keys[0]) // BINS != int(keys[-1]) // BINS for keys, _ in self._sums.values())


def _summed(parts: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    keys = np.concatenate([keys for keys, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else []
    if not len(keys):
        return keys, counts
    return keys[starts], np.add.reduceat(counts, starts)


def tally(interval: IntArray, bins: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """(interval, bin, count) of each cell that has an I/O."""
    if not len(bins):
        return interval, bins, bins
    first = int(interval.min())
    width = int(interval.max()) - first + 1
    if width * BINS <= 4 * len(bins) + (1 << 21):
        counts = np.bincount((interval - first) * BINS + bins)
        keys = np.flatnonzero(counts)
        counts = counts[keys]
        return keys // BINS + first, keys % BINS, counts
    keys, counts = np.unique(interval * BINS + bins, return_counts=True)
    return keys // BINS, keys % BINS, counts.astype(np.int64)
