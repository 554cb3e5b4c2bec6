"""What the I/Os of one stretch of a run tell: percentiles, rates, means, and the part above a limit.

I/Os one after another depend on each other: caches fill, buffers drain, the disk's arm is where the last I/O
left it. So the unit is a batch, the I/Os of a part of the time (batch means; Law and Kelton, "Simulation
Modeling and Analysis", section 9.5.3). Of a percentile each batch says how many of its I/Os are below it, or
above a limit; of a rate, how many I/Os it has; of a mean, its own. Where batches still depend on their
neighbours, they count as fewer: by the factor (1 - r) / (1 + r) of an autoregressive process whose lag-1
correlation r is that of the batches, with its bias of -(1 + 3 r) / batches (Marriott and Pope, Biometrika 41,
1954) taken out.

The range is of this stretch alone: nothing in it says what the next run would give.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from kit.core.bins import IntArray
from kit.core.sample_size import sample_needed
from reports.statistics.proportion import wilson
from reports.statistics.quantiles import Floats, rank_ns
from reports.statistics.ratios import Realisation
from reports.statistics.student import t_critical

# More batches are shorter, and depend on each other; with fewer their correlation is not known.
_MOST, FEWEST = 24, 8
# Of the part above a limit: windows of about equally many I/Os, the fewest that say how it varies, and what
# its reach has beyond Student's t, as counts are skew (by simulation).
_WINDOWS, _FEWEST_WINDOWS, _WIDER = 20, 3, 1.2
_ALPHA = 0.025


def quantile(cells: pl.DataFrame, span: tuple[int, int], width_ns: int, q: float) -> Realisation | None:
    """The logarithm of the q-quantile (of ns); None with fewer I/Os than it needs (kit.core.sample_size).

    `cells`: `time_ns`, `lo_ns`, `hi_ns`, `count` of one kind of I/O in the stretch `span` (ns, [from, to));
    the counts are those of intervals of `width_ns`, from the start on. `reach`: None where too few batches
    or I/Os tell it.
    """
    time_ns, lo, hi, count = (cells[name].to_numpy() for name in ("time_ns", "lo_ns", "hi_ns", "count"))
    # Arrays, not frames: with some hundred cells a frame's overhead is most of the time.
    edges, which = np.unique(np.stack((lo, hi)), axis=1, return_inverse=True)
    sums = np.zeros(edges.shape[1], dtype=np.int64)
    np.add.at(sums, which.reshape(-1), count)
    bins = [each for each in zip(*edges.tolist(), sums.tolist(), strict=True) if each[2]]
    ios = sum(each for _, _, each in bins)
    if ios < sample_needed(q):
        return None
    at = max(rank_ns(bins, q * ios), 1.0)
    figure = Realisation(math.log(at), None)
    below = (np.clip((at - lo) / (hi - lo), 0, 1) - q) * count
    found = _by_batch(time_ns, below, span, width_ns)
    if found is None:
        return figure
    error, freedom = _error(found[0])
    # Never less than I/Os leave open that do not depend on each other (binomial).
    reach = t_critical(0.05, freedom) * max(error, math.sqrt(ios * q * (1 - q)))
    if not 0.5 <= q * ios - reach <= q * ios + reach <= ios - 0.5:
        return figure
    low, high = (max(rank_ns(bins, q * ios + side * reach), 1.0) for side in (-1, 1))
    return Realisation(figure.log, math.log(max(at / low, high / at)))


def rate(cells: pl.DataFrame, span: tuple[int, int], width_ns: int) -> Realisation | None:
    """The logarithm of I/Os a second, as quantile(); None without I/Os."""
    # Counts of a damaged file may be beyond 64 bits together.
    ios, time_ns = float(cells["count"].cast(pl.Float64).sum()), span[1] - span[0]
    if ios <= 0 or time_ns <= 0:
        return None
    figure = Realisation(math.log(ios / time_ns * 1e9), None)
    found = _by_batch(cells["time_ns"].to_numpy(), cells["count"].to_numpy(), span, width_ns)
    if found is None:
        return figure
    counts, lengths = found
    error, freedom = _error(counts - ios * lengths / lengths.sum())
    # One I/O more or less at each end.
    return Realisation(figure.log, t_critical(0.05, freedom) * max(error, 1.0) / ios)


def error_of_mean(values: Floats) -> tuple[float, float]:
    """The standard error of the mean of `values` in their order, and its degrees of freedom.

    By batches of about the square root of their number; of fewer than two batches it is infinite.
    """
    batches = int(np.sqrt(values.size))
    if batches < 2:
        return math.inf, 1.0
    length = values.size // batches
    error, freedom = _error(values[: batches * length].reshape(batches, length).mean(axis=1))
    return error / batches, freedom


def above(cells: pl.DataFrame, limit_ns: float) -> tuple[float, float]:
    """The least and the largest part (of 1) above `limit_ns` that the run leaves open, each at about 97.5 %.

    `cells`: `time_ns`, `lo_ns`, `hi_ns` and `count`, at least one I/O. Bins that hold the limit may be above
    it or not.
    """
    return part(cells, certain=pl.col("lo_ns") > limit_ns, possible=pl.col("hi_ns") - 1 > limit_ns)


def part(cells: pl.DataFrame, certain: pl.Expr, possible: pl.Expr) -> tuple[float, float]:
    """The same of the part of the I/Os of `cells` for which something holds: for certain, and possibly."""
    each = cells.group_by("time_ns").agg(
        ios=pl.col("count").sum(),
        certain=pl.col("count").filter(certain).sum(),
        possible=pl.col("count").filter(possible).sum(),
    )
    table: Floats = each.sort("time_ns").to_numpy()[:, 1:].astype(np.float64)
    held = windows(table, table[:, 0], _WINDOWS)
    return _range_of_part(held[:, 1], held[:, 0])[0], _range_of_part(held[:, 2], held[:, 0])[1]


def windows(held: Floats, ios: Floats, number: int) -> Floats:
    """The sums of `held`, a row a time, over `number` windows of about equally many `ios`."""
    upto = np.cumsum(ios)
    window = np.minimum(((upto - ios / 2) / upto[-1] * number).astype(np.int64), number - 1)
    sums = np.zeros((number, held.shape[1]))
    np.add.at(sums, window, held)
    return sums


def _range_of_part(held: Floats, ios: Floats) -> tuple[float, float]:
    """Wilson's range (1927) of a part, with the number of independent I/Os that would vary as much."""
    n = float(ios.sum())
    part = float(held.sum()) / n
    if part in (0.0, 1.0):
        open_ = 1 - _ALPHA ** (1 / n)
        return (0.0, open_) if part == 0 else (1 - open_, 1.0)
    number = int(np.count_nonzero(ios))
    if number < _FEWEST_WINDOWS:
        return 0.0, 1.0
    t = _WIDER * t_critical(0.05, number - 1)
    varies = float(((held - part * ios) ** 2).sum()) * number / (number - 1) / n**2
    independent = n * min(1.0, part * (1 - part) / n / varies) if varies else n
    return wilson(part, independent, t)


def _by_batch(
    time_ns: IntArray, values: Floats | IntArray, span: tuple[int, int], width_ns: int
) -> tuple[Floats, Floats] | None:
    """The sum of `values` in each batch, and the batches' lengths in ns; None where they are too few."""
    intervals = (span[1] - span[0]) // width_ns
    batches = intervals // max(math.ceil(intervals / _MOST), 1)
    if batches < FEWEST:
        return None
    length = intervals // batches * width_ns
    # The last one has what is left.
    at = np.clip((time_ns - span[0]) // length, 0, batches - 1)
    lengths = np.full(batches, float(length))
    lengths[-1] = span[1] - span[0] - length * (batches - 1)
    return np.bincount(at, values, batches).astype(np.float64), lengths


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
    """The standard error of the sum of `parts`, one a batch, and its degrees of freedom."""
    batches, each = parts.size, worth(parts)
    return math.sqrt(float(parts.var(ddof=1)) * batches / each), max((batches - 1) * each, 1.0)
