"""When a share that rises has reached a part of where it ends. Pure.

The share is taken to rise until it stays: a monotone line through the windows by least squares (isotonic
regression; Barlow et al., "Statistical Inference under Order Restrictions", 1972). What the windows differ
from it is drawn anew 400 times, in runs of neighbours, for a 95 % range (a bootstrap of residuals in blocks;
Kuensch, Annals of Statistics 17, 1989): an L2ARC that makes room for its feed does not answer the same share
all the time.
"""

from __future__ import annotations

import math
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
# Standard errors of the final share, and the part of a window.
_FAR, _WITHIN = 3, 0.1
# One-sided: so often a share that stays is said to rise.
_RISES = 0.025


def final(shares: Floats, counts: Floats) -> float:
    """Of the reads in the last fifth of the windows."""
    last = -max(1, len(shares) // _LAST_PART)
    return float(np.average(shares[last:], weights=np.maximum(counts[last:], 1e-9)))


def settled(shares: Floats) -> bool | None:
    """Whether the last fifth is not above the fifth before it, by Welch's test; None of too few windows."""
    size = len(shares) // _LAST_PART
    if size < 2:
        return None
    before, last = shares[-2 * size : -size], shares[-size:]
    if np.ptp(before) == 0 and np.ptp(last) == 0:
        return bool(last[0] <= before[0])
    return bool(ttest_ind(last, before, equal_var=False, alternative="greater").pvalue >= _RISES)


def reached(times_s: Floats, shares: Floats, counts: Floats) -> list[CacheReached]:
    """For each of PARTS, from windows around `times_s`; nothing of a share that is 0 at the end.

    Nothing either of a part that is no farther from the end than what the end itself is uncertain by.
    """
    if len(shares) < _LAST_PART or not (goal := final(shares, counts)):
        return []
    last = shares[-max(2, len(shares) // _LAST_PART) :]
    error = float(last.std(ddof=1)) / math.sqrt(len(last)) / goal
    parts = [part for part in PARTS if 1 - part >= _FAR * error]
    line = _line(shares, counts)
    found = _times(times_s, shares, counts, parts)
    unchanged = _times(times_s, line, counts, parts)
    rest, random = shares - line, np.random.default_rng(_SEED)
    starts, drawn = np.arange(len(shares) - _BLOCK + 1), []
    for _ in range(_DRAWS):
        firsts = random.choice(starts, -(-len(shares) // _BLOCK))
        noise = np.concatenate([rest[first : first + _BLOCK] for first in firsts])[: len(shares)]
        drawn.append(_times(times_s, np.clip(line + noise, 0, 1), counts, parts))
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    # What noise does to a time is as likely on this side as on the other.
    low, high = np.minimum(low, found - (high - unchanged)), np.maximum(high, found - (low - unchanged))
    # Within a window the line is straight, and the share need not be.
    width_s = _WITHIN * float(times_s[1] - times_s[0])
    low, high, end_s = low - width_s, high + width_s, float(times_s[-1])
    return [
        CacheReached(
            part=part, at_s=float(at), low_s=max(0.0, float(a)), high_s=float(b) if b < end_s else None
        )
        for part, at, a, b in zip(parts, found, low, high, strict=True)
    ]  # fmt: skip


def _line(shares: Floats, counts: Floats) -> Floats:
    """The monotone line in each window."""
    fit: Floats = isotonic_regression(shares, weights=np.maximum(counts, 1e-9)).x
    return fit


def _times(times_s: Floats, shares: Floats, counts: Floats, parts: Sequence[float]) -> Floats:
    """When the line of `shares` first is at each of `parts` of its end; the last time if it never is."""
    # From nothing at the begin, and where several windows are alike, the first of them.
    levels = np.concatenate(([0.0], _line(shares, counts))) + np.arange(len(shares) + 1) * 1e-12
    goals = [part * final(shares, counts) for part in parts]
    found: Floats = np.interp(goals, levels, np.concatenate(([0.0], times_s)))
    return found
