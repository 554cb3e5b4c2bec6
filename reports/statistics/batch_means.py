"""A percentile or a rate of one stretch of time of a run, and how exactly its own I/Os tell it.

I/Os one after another depend on each other: caches fill, buffers drain, the disk's arm is where the last I/O
left it. So the unit is a batch, the I/Os of a part of the time (batch means; Law and Kelton, "Simulation
Modeling and Analysis", section 9.5.3). Of a percentile each batch says how many of its I/Os are below it; of
a rate, how many I/Os it has. Where batches still depend on their neighbours, they count as fewer: by the
factor (1 - r) / (1 + r) of an autoregressive process whose lag-1 correlation r is that of the batches, with
its bias of -(1 + 3 r) / batches (Marriott and Pope, Biometrika 41, 1954) taken out.

The range is of this stretch alone: nothing in it says what the next run would give.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from kit.core.sample_size import sample_needed
from reports.statistics.quantiles import Floats, rank_ns
from reports.statistics.ratios import Figure
from reports.statistics.student import t_critical

# More batches are shorter, and depend on each other; with fewer their correlation is not known.
_MOST, FEWEST = 24, 8


def quantile(cells: pl.DataFrame, span: tuple[int, int], width_ns: int, q: float) -> Figure | None:
    """The logarithm of the q-quantile (of ns); None with fewer I/Os than it needs (kit.core.sample_size).

    `cells`: `time_ns`, `lo_ns`, `hi_ns`, `count` of one kind of I/O in the stretch `span` (ns, [from, to));
    the counts are those of intervals of `width_ns`, from the start on. `reach`: None where too few batches
    or I/Os tell it.
    """
    used = cells.filter(pl.col("count") > 0)
    bins = used.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    ios = sum(count for _, _, count in bins)
    if ios < sample_needed(q):
        return None
    at = max(rank_ns(bins, q * ios), 1.0)
    figure = Figure(math.log(at), None)
    part = ((at - pl.col("lo_ns")) / (pl.col("hi_ns") - pl.col("lo_ns"))).clip(0, 1)
    found = _by_batch(used.with_columns(below=(part - q) * pl.col("count")), "below", span, width_ns)
    if found is None:
        return figure
    error, times = _error(found[0])
    # Never less than I/Os leave open that do not depend on each other (binomial).
    reach = times * max(error, math.sqrt(ios * q * (1 - q)))
    if not 0.5 <= q * ios - reach <= q * ios + reach <= ios - 0.5:
        return figure
    low, high = (max(rank_ns(bins, q * ios + side * reach), 1.0) for side in (-1, 1))
    return Figure(figure.log, math.log(max(at / low, high / at)))


def rate(cells: pl.DataFrame, span: tuple[int, int], width_ns: int) -> Figure | None:
    """The logarithm of I/Os a second, as quantile(); None without I/Os."""
    # Counts of a damaged file may be beyond 64 bits together.
    ios, time_ns = float(cells["count"].cast(pl.Float64).sum()), span[1] - span[0]
    if ios <= 0 or time_ns <= 0:
        return None
    figure = Figure(math.log(ios / time_ns * 1e9), None)
    found = _by_batch(cells, "count", span, width_ns)
    if found is None:
        return figure
    counts, lengths = found
    error, times = _error(counts - ios * lengths / lengths.sum())
    # One I/O more or less at each end.
    return Figure(figure.log, times * max(error, 1.0) / ios)


def _by_batch(
    cells: pl.DataFrame, column: str, span: tuple[int, int], width_ns: int
) -> tuple[Floats, Floats] | None:
    """The sum of a column in each batch, and the batches' lengths in ns; None where they are too few."""
    intervals = (span[1] - span[0]) // width_ns
    batches = intervals // max(math.ceil(intervals / _MOST), 1)
    if batches < FEWEST:
        return None
    length = intervals // batches * width_ns
    # The last one has what is left.
    at = ((cells["time_ns"] - span[0]) // length).clip(0, batches - 1).to_numpy()
    lengths = np.full(batches, float(length))
    lengths[-1] = span[1] - span[0] - length * (batches - 1)
    return np.bincount(at, cells[column].to_numpy(), batches).astype(np.float64), lengths


def worth(values: Floats) -> float:
    """How many independent values each of these, in their order, is worth, by their lag-1 correlation."""
    count, off = values.size, values - values.mean()
    if np.ptp(values) == 0:
        return 1.0
    lag = float(off[1:] @ off[:-1]) / float(off @ off)
    lag = min(max(lag + (1 + 3 * lag) / count, 0.0), 1.0)
    # With a correlation of 1 all are one.
    return max((1 - lag) / (1 + lag), 1 / count)


def _error(parts: Floats) -> tuple[float, float]:
    """The standard error of the sum of what batches are off, and the errors that make half a 95 % range."""
    batches, each = parts.size, worth(parts)
    error = math.sqrt(float(parts.var(ddof=1)) * batches / each)
    return error, t_critical(0.05, max((batches - 1) * each, 1.0))
