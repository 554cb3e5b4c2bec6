"""Whether modes of a latency histogram are there at the same times, or follow each other in time.

A device that is fast for 20 minutes and slow from then on has a histogram of two modes, and no I/O ever had
the choice. How much two groups of I/Os are there together is the part that their distributions over time
share; how far one comes before the other is the largest distance of their sums over time (Kolmogorov).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.core.bins import IntArray
from reports.statistics.batch_means import windows
from reports.statistics.quantiles import Floats, rank_ns, summed

# Groups that share less of their times than this are not there together.
_TOGETHER = 0.25
# From this part of both on the right side of one moment it is a step.
_STEP = 0.9
# Of the mode with the fewest I/Os in a window, so that windows differ by more than chance.
_IOS_A_WINDOW, _MOST_WINDOWS = 4, 50
# A stretch is at most this part of the I/Os between its first and its last.
_STRETCH = 0.25
# Of the I/Os: of less no mode is said.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Levels:
    """Two levels that follow each other: their medians, and of the I/Os (1) the `share` of the second.

    `changes`: 1 for a step, at `from_ns`; 2 for a second level that is a stretch, from `from_ns` to `to_ns`;
    else about how often the levels change.
    """

    p50_ns: tuple[float, float]
    share: float
    changes: int
    from_ns: int
    to_ns: int


def find(cells: pl.DataFrame, borders_ns: Sequence[int]) -> Levels | None:
    """What the modes between `borders_ns` are in time; None where they are there together, or none can tell.

    `cells`: `time_ns`, `lo_ns`, `hi_ns` and `count` of one phase, layer, op and tier or all.
    """
    used = cells.filter(pl.col("count") > 0).sort("time_ns")
    time_ns, lo, hi, count = (used[name].to_numpy() for name in ("time_ns", "lo_ns", "hi_ns", "count"))
    mode = np.searchsorted(np.array(borders_ns), lo / 2 + hi / 2, side="right")
    sums = np.bincount(mode, weights=count)
    # A few slow I/Os say nothing of levels.
    known = np.isin(mode, np.flatnonzero(sums >= max(_LEAST_SHARE * sums.sum(), _IOS_A_WINDOW)))
    used, mode, time_ns, count = used.filter(known), mode[known], time_ns[known], count[known]
    modes, mode = np.unique(mode, return_inverse=True)
    times, at = np.unique(time_ns, return_inverse=True)
    if times.size < 3 or modes.size < 2:
        return None
    held = np.zeros((times.size, modes.size))
    np.add.at(held, (at, mode), count)
    number = int(np.clip(held.sum(axis=0).min() / _IOS_A_WINDOW, 2, _MOST_WINDOWS))
    group = _groups(windows(held, held.sum(axis=1), number))
    if not group.any():
        return None
    # The others against the group with the most I/Os.
    sums = np.array([held[:, group == each].sum() for each in range(int(group.max()) + 1)])
    usual = group == int(sums.argmax())
    parts = [_Part(held[:, mine].sum(axis=1), _p50_ns(used.filter(mine[mode]))) for mine in (usual, ~usual)]
    return _in_time(parts[0], parts[1], times)


@dataclass(frozen=True)
class _Part:
    """A group: its I/Os at each time, and its median."""

    ios: Floats
    p50_ns: float

    @property
    def spread(self) -> Floats:
        spread: Floats = self.ios / self.ios.sum()
        return spread


def _groups(windows: Floats) -> IntArray:
    """The group of each mode: those that are there together, directly or by way of others, have one."""
    shares = windows / windows.sum(axis=0)
    group = np.arange(windows.shape[1])
    for a in range(group.size):
        for b in range(a):
            if float(np.minimum(shares[:, a], shares[:, b]).sum()) >= _TOGETHER:
                group[group == group[a]] = group[b]
    return np.unique(group, return_inverse=True)[1]


def _in_time(usual: _Part, other: _Part, times: IntArray) -> Levels:
    share = float(other.ios.sum() / (usual.ios.sum() + other.ios.sum()))
    ahead = np.cumsum(usual.spread - other.spread)
    cut = min(int(np.abs(ahead).argmax()), times.size - 2)
    first, second = (usual, other) if ahead[cut] > 0 else (other, usual)
    most = [a.ios[part].sum() > b.ios[part].sum() for a, b, part in (
        (first, second, slice(None, cut + 1)), (second, first, slice(cut + 1, None)))]  # fmt: skip
    if abs(ahead[cut]) >= _STEP and all(most):
        return Levels((first.p50_ns, second.p50_ns), share, 1, int(times[cut + 1]), int(times[cut + 1]))
    for part, rest, of_all in ((other, usual, share), (usual, other, 1 - share)):
        upto = np.cumsum(part.spread)
        begin, end = (int(np.searchsorted(upto, edge)) for edge in (0.025, 0.975))
        if float(rest.spread[begin : end + 1].sum()) < _STRETCH:
            # A time is the begin of an interval: the stretch goes on to the end of its last.
            to_ns = times[end] + np.diff(times).min()
            return Levels((rest.p50_ns, part.p50_ns), of_all, 2, int(times[begin]), int(to_ns))
    level = np.sign(usual.spread - other.spread)
    changes = int(np.count_nonzero(np.diff(level[level != 0])))
    return Levels((usual.p50_ns, other.p50_ns), share, max(changes, 3), int(times[0]), int(times[-1]))


def _p50_ns(cells: pl.DataFrame) -> float:
    return rank_ns(summed(cells), float(cells["count"].sum()) / 2)
