"""How far each row of a load of hours is from its first row, and how exactly that is known. Pure.

I/Os one after another depend on each other: caches fill, buffers drain, a device has states that last for
minutes or hours. So the unit is a block of time, 12 of a row, never the I/O (batch means; Law and Kelton,
"Simulation Modeling and Analysis", section 9.5.3), and blocks may depend on each other too. The logarithms of
a percentile in the blocks of a row are taken as the level of the row, a state (an Ornstein-Uhlenbeck process)
and noise. How long the state lasts, and its share of the variance, is what the blocks within rows say: a
grid of both, from a tenth of a row to eight rows, each weighted by its restricted likelihood (Harville,
"Maximum Likelihood Approaches to Variance Component Estimation", JASA 72, 1977). The levels of rows are in no
weight, so that a row that is far away does not hide itself. With three rows or more a slope that all rows
share may explain their blocks as well; it weighs as much as the criterion of Schwarz (twice) allows.

The range of a ratio is what such states and such noise do in one run. It says nothing of another run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np
import polars as pl
from scipy.special import ndtr

from kit.core.bins import IntArray
from kit.core.sample_size import sample_needed
from reports.statistics.quantiles import Floats, rank_ns
from reports.statistics.ratios import RatioRange

BLOCKS = 12
# A row with fewer blocks that have enough I/Os says nothing of how they vary.
FEWEST = 6
# The chance that any row of a load without a drift has a range beside 1.
_ALPHA = 0.02
# How long the state lasts, in blocks, and its share of the variance.
_LASTS = tuple(BLOCKS * rows for rows in (1 / 12, 1 / 3, 4 / 3, 8))
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_GRID = ((1.0, 0.0), *itertools.product(_LASTS, _SHARES))


def against_first(cells: pl.DataFrame, edges: Sequence[int], q: float) -> list[RatioRange | None]:
    """Of the q-quantile in each row but the first, to that of the first; None where I/Os are too few.

    `cells`: `time_ns`, `lo_ns`, `hi_ns`, `count` of one kind of I/O. `edges`: where rows begin, and the end.
    """
    return of_logs(*_log_quantiles(cells, edges, q))


def of_logs(logs: Floats, floors: Floats) -> list[RatioRange | None]:
    """The same of the logarithms of the percentile in each block, rows x blocks, NaN where it is not known.

    `floors`: the variance that its bin leaves open.
    """
    usable = np.isfinite(logs).sum(axis=1) >= FEWEST
    found: list[RatioRange | None] = [None] * (len(logs) - 1)
    rows = np.flatnonzero(usable).tolist()
    if len(rows) > 1 and usable[0]:
        for row, each in zip(rows[1:], _ratios(logs[rows], rows, float(np.nanmean(floors))), strict=True):
            found[row - 1] = each
    return found


def _log_quantiles(cells: pl.DataFrame, edges: Sequence[int], q: float) -> tuple[Floats, Floats]:
    """The logarithm of the quantile of each block, rows x blocks, NaN where it has too few I/Os.

    And the variance that its bin leaves open.
    """
    logs, floors = (np.full((len(edges) - 1, BLOCKS), np.nan) for _ in range(2))
    bounds, used = np.array(edges), cells.filter(pl.col("count") > 0)
    times = used["time_ns"].to_numpy()
    # A late interval belongs to the last row.
    row = np.clip(np.searchsorted(bounds, times, side="right") - 1, 0, len(logs) - 1)
    begin, end = bounds[row], bounds[row + 1]
    block = np.clip((times - begin) * BLOCKS // np.maximum(end - begin, 1), 0, BLOCKS - 1)
    bins = used.with_columns(pl.Series("block", row * BLOCKS + block)).group_by("block", "lo_ns", "hi_ns")
    counted = bins.agg(pl.col("count").sum()).sort("block", "lo_ns")
    rows = counted.select("block", "lo_ns", "hi_ns", "count").rows()
    for at, part in itertools.groupby(rows, itemgetter(0)):
        of_block = [each[1:] for each in part]
        ios = sum(count for _, _, count in of_block)
        if ios < sample_needed(q):
            continue
        value = max(rank_ns(of_block, q * ios), 1.0)
        low, high, count = next(each for each in of_block if each[1] >= value)
        logs[divmod(at, BLOCKS)] = math.log(value)
        # The quantile may lie anywhere in its bin; where that has many I/Os, it is known better.
        floors[divmod(at, BLOCKS)] = ((high - low) / value) ** 2 / 12 / count
    return logs, floors


def _ratios(logs: Floats, places: Sequence[int], floor: float) -> Iterator[RatioRange]:
    """Of each row to the first. `places`: the number of each row in the load."""
    alike = _alike(logs)
    fits = [(model, *fit) for model in _GRID for fit in _fits(logs, alike, *model)]
    scores = np.array([score for _, score, _ in fits])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    alpha = _ALPHA / (len(logs) - 1)
    # What weighs next to nothing is left out: a load of days has a thousand rows.
    kept = [at for at, weight in enumerate(weights) if weight > alpha / 1000]
    errors = np.array(
        [np.sqrt(max(fits[at][2], floor) * _contrasts(logs, alike, places, *fits[at][0])) for at in kept]
    )
    means = np.nanmean(logs, axis=1)
    for row in range(1, len(logs)):
        reach = _reach(weights[kept], errors[:, row], alpha)
        yield RatioRange(float(means[row] - means[0]), reach, (1, 1))


def _alike(logs: Floats) -> list[tuple[Floats, IntArray]]:
    """Rows by which of their blocks are known: the places of these blocks, and the rows."""
    known, which = np.unique(np.isfinite(logs), axis=0, return_inverse=True)
    return [
        (np.flatnonzero(mask).astype(float), np.flatnonzero(which.ravel() == number))
        for number, mask in enumerate(known)
    ]


def _covariance(lags: Floats, last: float, share: float) -> Floats:
    """Of two blocks so far apart, of the variance of one."""
    return np.asarray(share * np.exp(-np.abs(lags) / last) + (1 - share) * (lags == 0))


def _fits(
    logs: Floats, alike: Sequence[tuple[Floats, IntArray]], last: float, share: float
) -> Iterator[tuple[float, float]]:
    """(score, variance of a block) without a slope in rows, and with one."""
    score, left, slopes, squares = 0.0, 0.0, 0.0, 0.0
    for at, rows in alike:
        # A little noise of its own, or it cannot be inverted.
        known = _covariance(np.subtract.outer(at, at), last, share) + 1e-9 * np.eye(at.size)
        inverse, log_det = np.linalg.inv(known), float(np.linalg.slogdet(known)[1])
        level, values = float(inverse.sum()), logs[np.ix_(rows, at.astype(int))]
        values = values - values.mean(axis=1, keepdims=True)
        # Without the level of the row.
        x = at - inverse.sum(axis=0) @ at / level
        y = values - (values @ inverse.sum(axis=0) / level)[:, None]
        left += float(np.einsum("ri,ij,rj", y, inverse, y))
        slopes += float((y @ inverse @ x).sum())
        squares += rows.size * float(x @ inverse @ x)
        score -= rows.size * (log_det + math.log(level)) / 2
    # Prior: as much for no state as for one of each length.
    score += math.log(len(_LASTS)) if share == 0 else 0.0
    count = int(np.isfinite(logs).sum())
    freedom = count - len(logs)
    for parameters in (0, 1) if len(logs) > 2 else (0,):
        rest = max(left - parameters * slopes**2 / squares, 1e-18)
        free = freedom - parameters
        yield score - freedom / 2 * math.log(rest) - parameters * math.log(count), rest / (free - 2)


def _contrasts(
    logs: Floats, alike: Sequence[tuple[Floats, IntArray]], places: Sequence[int], last: float, share: float
) -> Floats:
    """The variance of the difference of the means of each row and the first, of that of a block."""
    first, made = np.flatnonzero(np.isfinite(logs[0])).astype(float), np.zeros(len(logs))
    own = _covariance(np.subtract.outer(first, first), last, share).mean()
    for at, rows in alike:
        apart = (np.array(places)[rows] - places[0]) * float(BLOCKS)
        both = _covariance(at - first[:, None] + apart[:, None, None], last, share).mean(axis=(1, 2))
        made[rows] = own + _covariance(np.subtract.outer(at, at), last, share).mean() - 2 * both
    return made


def _reach(weights: Floats, errors: Floats, alpha: float) -> float:
    """What a mixture of normal distributions exceeds, on both sides together, with probability `alpha`."""
    low, high = 0.0, 8.0 * float(errors.max())
    for _ in range(50):
        middle = (low + high) / 2
        beyond = float(weights @ (2 * ndtr(-middle / np.maximum(errors, 1e-12))))
        low, high = (middle, high) if beyond > alpha else (low, middle)
    return high
