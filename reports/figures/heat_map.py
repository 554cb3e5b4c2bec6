"""Counts per time and latency, as the matrices that heat maps are drawn from.

Stored times and latencies are in ns. A Grid has seconds since the phase began and microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

# An hour of seconds, and what a phase takes longer than asked for.
MAX_COLUMNS = 4000
# 60 octaves of 32 bins; what has more was not written by the kit.
_MAX_ROWS = 1920
# An axis of logarithms has no zero: the bin that starts there is drawn from here on.
FLOOR_US = 0.01

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The time axis of a phase: `count` columns of `width_ns` from `start_ns` on.

    Each column is the sum of `merged` stored intervals.
    """

    start_ns: int
    width_ns: int
    count: int
    end_ns: int
    merged: int = 1

    @property
    def edges_s(self) -> Floats:
        """count + 1 edges, in seconds since the phase began."""
        return np.arange(self.count + 1, dtype=np.float64) * (self.width_ns / 1e9)

    @property
    def duration_s(self) -> float:
        """How long the phase took, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class Grid:
    """`counts[row, column]`: I/Os with a latency in the row's bin in the column's interval."""

    columns: Columns
    lo_us: Floats  # per row; ascending
    hi_us: Floats  # per row
    counts: npt.NDArray[np.int64]

    @property
    def edges_us(self) -> Floats:
        """rows + 1 edges in microseconds, all above zero."""
        return np.maximum(np.append(self.lo_us, self.hi_us[-1:]), FLOOR_US)

    @property
    def rates(self) -> Floats:
        """Average rate per row over the phase, I/O/s."""
        total: Floats = self.counts.sum(axis=1).astype(np.float64)
        return total / max(self.columns.duration_s, 1e-9)

    @property
    def total(self) -> int:
        """How many I/Os are in it."""
        return int(self.counts.sum())


def columns(phase: dict[str, Any], frame: pl.DataFrame, most: int = MAX_COLUMNS) -> Columns:
    """The time axis of `phase`; neighbouring intervals are merged until at most `most` are left.

    `frame` has the rows of the phase: an interval that is not within the phase widens the axis.
    """
    start, end = int(phase["start_ns"]), int(phase["end_ns"])
    interval = max(int(phase["interval_ns"]), 1)
    last = end
    if frame.height:
        last = max(end, int(frame["time_ns"].max()) + 1)  # type: ignore[arg-type]
        start = min(start, int(frame["time_ns"].min()))  # type: ignore[arg-type]
    intervals = max(-(-(last - start) // interval), 1)
    merged = -(-intervals // most)
    return Columns(start, interval * merged, -(-intervals // merged), max(end, start + 1), merged)


def grid(frame: pl.DataFrame, axis: Columns) -> Grid | None:
    """The I/Os of `frame` (any hosts and tiers) on the time axis `axis`. None if there are none.

    Rows are the stored bins; where none is stored between two bins, one empty row fills the gap.
    Raises ValueError if the bins overlap.
    """
    frame = frame.filter(pl.col("count") > 0)
    if not frame.height:
        return None
    time = (frame["time_ns"].to_numpy() - axis.start_ns) // axis.width_ns
    lo, hi = frame["lo_ns"].to_numpy(), frame["hi_ns"].to_numpy()
    edges = bin_edges_ns(lo, hi)
    row = np.searchsorted(edges, lo)
    counts = np.zeros((len(edges) - 1, axis.count), dtype=np.int64)
    np.add.at(counts, (row, time), frame["count"].to_numpy())
    return Grid(axis, edges[:-1] / 1e3, edges[1:] / 1e3, counts)


def bin_edges_ns(lo: npt.NDArray[np.int64], hi: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The edges of the bins [lo, hi), ascending; two bins that do not touch have an empty one between them.

    Raises ValueError if the bins overlap.
    """
    edges = np.unique(np.concatenate([lo, hi]))
    if len(edges) - 1 > _MAX_ROWS or (np.searchsorted(edges, hi) != np.searchsorted(edges, lo) + 1).any():
        raise ValueError("the bins of latency.parquet overlap, or are too many")
    return edges


def tiers_of(frame: pl.DataFrame) -> list[str]:
    """The tiers with I/Os, the fastest first."""
    used = frame.filter(pl.col("count") > 0)
    return used.group_by("tier").agg(pl.col("lo_ns").median()).sort("lo_ns", "tier")["tier"].to_list()


def smallest(counts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The same counts in the smallest unsigned type that holds them."""
    top = int(counts.max(initial=0))
    for kind in (np.uint8, np.uint16, np.uint32):
        if top <= np.iinfo(kind).max:
            return counts.astype(kind)
    return counts.astype(np.float64)
