"""When a share that rises has reached a part of where it ends. Pure.

The share is taken to rise until it stays: a monotone line through the windows by least squares (isotonic
regression; Barlow et al., "Statistical Inference under Order Restrictions", 1972). What the windows differ
from it is drawn anew 400 times, in runs of neighbours, for a 95 % range (a bootstrap of residuals in blocks;
Kuensch, Annals of Statistics 17, 1989): an L2ARC that makes room for its feed does not answer the same share
all the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import ttest_ind

from kit.store.parts.resource_use import CacheReached
from reports.statistics.quantiles import Floats

PARTS = (0.5, 0.9, 0.99)
# The end of a phase, and what it is compared with before that.
_LAST_PART = 5
_DRAWS, _BLOCK, _SEED = 400, 4, 41
# One-sided: so often a share that stays is said to rise.
_RISES = 0.025


def final(shares: Floats, counts: Floats) -> float:
    """Of the reads in the last fifth of the windows."""
    last = -max(1, len(shares) // _LAST_PART)
    return float(np.average(shares[last:], weights=np.maximum(counts[last:], 1e-9)))


def settled(shares: Floats) -> bool:
    """Whether the last fifth is not above the fifth before it, by Welch's test on windows."""
    size = len(shares) // _LAST_PART
    if size < 2:
        return False
    before, last = shares[-2 * size : -size], shares[-size:]
    if np.ptp(before) == 0 and np.ptp(last) == 0:
        return bool(last[0] <= before[0])
    return bool(ttest_ind(last, before, equal_var=False, alternative="greater").pvalue >= _RISES)


def reached(times_s: Sequence[float], shares: Floats, counts: Floats) -> list[CacheReached]:
    """For each of PARTS, from windows that end at `times_s`; nothing of a share that is 0 at the end."""
    if len(shares) < _LAST_PART or not (goal := final(shares, counts)):
        return []
    weights = np.maximum(counts, 1e-9)
    line = isotonic_regression(shares, weights=weights).x
    rest, random = shares - line, np.random.default_rng(_SEED)
    starts = np.arange(len(shares) - _BLOCK + 1)
    drawn: list[list[float]] = [[] for _ in PARTS]
    for _ in range(_DRAWS):
        firsts = random.choice(starts, -(-len(shares) // _BLOCK))
        noise = np.concatenate([rest[first : first + _BLOCK] for first in firsts])[: len(shares)]
        again = np.clip(line + noise, 0, 1)
        of_draw, end = isotonic_regression(again, weights=weights).x, final(again, counts)
        for found, part in zip(drawn, PARTS, strict=True):
            found.append(_first(times_s, of_draw, part * end))
    made = []
    for found, part in zip(drawn, PARTS, strict=True):
        low, high = np.quantile(found, (0.025, 0.975))
        at = min(_first(times_s, line, part * goal), times_s[-1])
        # A draw that never gets there has no time.
        made.append(
            CacheReached(
                part=part,
                at_s=at,
                low_s=float(min(low, at)),
                high_s=float(max(high, at)) if np.isfinite(high) else None,
            )
        )
    return made


def _first(times_s: Sequence[float], line: Floats, level: float) -> float:
    """When the line first is at `level`, between windows by a straight line; inf if it never is."""
    number = int(np.searchsorted(line, level))
    if number >= len(line):
        return float("inf")
    before = (times_s[number - 1], line[number - 1]) if number else (0.0, 0.0)
    rise = line[number] - before[1]
    part = (level - before[1]) / rise if rise > 0 else 1.0
    return float(before[0] + part * (times_s[number] - before[0]))
