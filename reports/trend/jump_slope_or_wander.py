"""What explains the course of a figure over a few runs: one level, steps, a slope, or runs that depend. Pure.

The values are logarithms of one figure, one a run, in order.

- Steps are those of `change_points`; a slope is a straight line by least squares, without outliers, found by
  Student's t. Both share `alpha` equally.
- Runs that depend on each other (an autoregressive process of first order around one level) wander, and that
  looks like steps or like a slope. All explanations are compared by Schwarz's criterion ("Estimating the
  Dimension of a Model", 1978); what is worse than the best by less than STRONG fits as well (Kass and
  Raftery, "Bayes Factors", 1995). Where dependence is best, neither steps nor a slope is claimed.
- Now over the past: the last level over the best level before it; of a slope, and of one level, the last
  quarter of the runs over the first, or over all others. Its range is that of the scatter between runs,
  widened by the correlation of neighbours that is left: (1 + r)/(1 - r) times the variance (Bartlett, "On the
  Theoretical Specification and Sampling Properties of Autocorrelated Time-Series", 1946), with r corrected
  for being too small in few runs (Kendall, "Note on Bias in the Estimation of Autocorrelation", 1954).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reports.statistics.change_points import (
    CONFIDENCE,
    NINE_OF_TEN,
    TINY,
    FoundChanges,
    change_points,
    outliers,
    reach_of,
)
from reports.statistics.quantiles import Floats
from reports.statistics.ratios import Realisation
from reports.statistics.student import t_critical

Kind = Literal["level", "steps", "slope", "dependence"]
STRONG = 6.0
_MOST_LAG = 0.9
# The correction for few runs takes no more than this part of the correlation for lost.
_MOST_BIAS = 0.35
_LAGS = np.linspace(0, 0.98, 50)


@dataclass(frozen=True)
class Fit:
    """An explanation. `score`: Schwarz's criterion, the less the better. `now`: now over the past.

    `lag`: the correlation of neighbouring runs around it; `scatter`: their standard deviation, widened by it.
    `past`: its level, a logarithm, which `now` is held against. `odd`: the runs that are apart, with the
    logarithm of how far.
    """

    kind: Kind
    score: float
    lag: float
    scatter: float
    past: float
    now: Realisation
    odd: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Explained:
    """`fits`: what is not excluded, the best first; nothing where the scatter is not known.

    `slope`: a run over the run before, where one was found. `contrasts`: now over the past by all that fits;
    where nothing is found by a slope, too; and if the last run is apart, of a level that may begin with it.
    """

    found: FoundChanges
    slope: Realisation | None
    fits: tuple[Fit, ...]
    contrasts: tuple[Realisation, ...]


def explain(
    values: Sequence[float],
    errors: Sequence[float],
    states: Sequence[int],
    alpha: float,
    slower: int = 1,
    lag: float = 0.0,
) -> Explained:
    """As `change_points`. `slower`: -1 where less is slower, so that the best past level is the highest.

    `lag`: the least correlation of neighbours that is reckoned with, known from other figures of the runs.
    """
    found = change_points(values, errors, states, alpha / 2)
    if not found.freedom:
        return Explained(found, None, (), ())
    x = np.array(values, dtype=np.float64)
    least = float(np.mean(np.square(errors))) + TINY**2
    slope, line, shown = _line(x, least, alpha / 2, lag)
    claims = [line] if shown else []
    if any(abs(change.log) > change.reach * _wide(lag) for change in found.changes):
        claims.append(_steps(x, found, least, slower, lag))
    kept = [i for level in found.levels for i in level]
    wander = min((_dependent(x, runs, least) for runs in ([*range(len(x))], kept)), key=lambda fit: fit.score)
    fits = sorted([*(claims or [_level(x, kept, least, lag)]), wander], key=lambda fit: fit.score)
    # Without a claim nothing is at stake between one level and dependence.
    fits = [fit for fit in fits if fit.score - fits[0].score < (STRONG if claims else TINY)]
    contrasts = [fit.now for fit in fits] + ([] if claims else [line.now])
    reach = t_critical(CONFIDENCE, len(kept) - 1) * fits[0].scatter * math.sqrt(1 + 1 / len(kept))
    contrasts += [Realisation(far, reach) for run, far in fits[0].odd if run == len(x) - 1]
    return Explained(found, slope if shown else None, tuple(fits), tuple(contrasts))


def runs_to_tell(scatter: float, limit: float, most: int) -> int | None:
    """Runs of one level that show in nine of ten cases that it moved by less than `limit` (a logarithm)."""
    for runs in range(4, most + 1):
        # Of a slope, which is known less well than the last quarter.
        error = scatter * (runs - _last(runs)) * math.sqrt(12 / (runs * (runs**2 - 1)))
        if (t_critical(CONFIDENCE, runs - 2) + NINE_OF_TEN) * error <= limit:
            return runs
    return None


def _score(squares: float, runs: int, odd: int, free: int, least: float) -> float:
    """Of squares around `free` values; each odd run has a place and a value besides."""
    rest = max(squares, least * max(runs - odd - free, 1))
    return runs * math.log(rest / runs) + (free + 2 * odd) * math.log(runs)


def _lag(rest: Floats, free: int, least: float, lowest: float) -> float:
    """Correlation of neighbours, from residuals around `free` fitted values; `lowest` at least."""
    squares, part = float(rest @ rest), free / len(rest)
    # What is below the errors of the runs is rounding.
    if squares <= least * len(rest) * 1e-6:
        return lowest
    lag = (float(rest[1:] @ rest[:-1]) / squares + part) / (1 - min(4 * part, _MOST_BIAS))
    return min(max(lag, lowest), _MOST_LAG)


def _wide(lag: float) -> float:
    return math.sqrt((1 + lag) / (1 - lag))


def _last(runs: int) -> int:
    """How many are now: the last quarter, two at least, where there are as many before them."""
    return min(max(2, runs // 4), runs // 2)


def _steps(x: Floats, found: FoundChanges, least: float, slower: int, lowest: float) -> Fit:
    levels = [x[list(each)] for each in found.levels]
    rest = np.concatenate([level - level.mean() for level in levels])
    lag, free = _lag(rest, len(levels), least, lowest), 2 * len(levels) - 1
    past = min(levels[:-1], key=lambda level: slower * float(level.mean()))
    reach = reach_of(past, levels[-1], found.scatter, found.freedom, CONFIDENCE / (len(levels) - 1))
    now = Realisation(float(levels[-1].mean() - past.mean()), reach * _wide(lag))
    odd = []
    for run in found.odd:
        beside = min(found.levels, key=lambda level: min(abs(run - i) for i in level))
        # What may begin with the last run is held against the past, too.
        base = past if run == len(x) - 1 else x[list(beside)]
        odd.append((run, float(x[run] - base.mean())))
    score = _score(float(rest @ rest), len(x), len(odd), free, least)
    return Fit("steps", score, lag, found.scatter * _wide(lag), float(past.mean()), now, tuple(odd))


def _level(x: Floats, runs: Sequence[int], least: float, lowest: float) -> Fit:
    level = x[list(runs)]
    rest, n = level - level.mean(), len(level)
    lag = _lag(rest, 1, least, lowest)
    scatter = math.sqrt(max(float(rest @ rest) / (n - 1), least)) * _wide(lag)
    score = _score(float(rest @ rest), len(x), len(x) - n, 1, least)
    return Fit("level", score, lag, scatter, *_ends(level, scatter), _odd(x, runs))


def _dependent(x: Floats, runs: Sequence[int], least: float) -> Fit:
    """One level, with the correlation of neighbours that fits best (exact likelihood)."""
    level, n, r = x[list(runs)], len(runs), _LAGS[:, None]
    inner = 1 - _LAGS
    mean = (level[0] + level[-1] + inner * level[1:-1].sum()) / (2 + (n - 2) * inner)
    rest = level - mean[:, None]
    squares = (1 - _LAGS**2) * rest[:, 0] ** 2 + ((rest[:, 1:] - r * rest[:, :-1]) ** 2).sum(axis=1)
    squares = np.maximum(squares, least * (n - 2))
    scores = len(x) * np.log(squares / len(x)) - np.log(1 - _LAGS**2)
    best = int(np.argmin(scores))
    lag = float(_LAGS[best])
    score = float(scores[best]) + (2 + 2 * (len(x) - n)) * math.log(len(x))
    scatter = math.sqrt(float(squares[best]) / (n - 1) / (1 - lag**2)) * _wide(min(lag, _MOST_LAG))
    return Fit("dependence", score, lag, scatter, *_ends(level, scatter), _odd(x, runs))


def _ends(level: Floats, scatter: float) -> tuple[float, Realisation]:
    """The level of all but the last runs, and the last runs over it."""
    n, last = len(level), _last(len(level))
    reach = t_critical(CONFIDENCE, n - 1) * scatter * math.sqrt(1 / last + 1 / (n - last))
    past = float(level[:-last].mean())
    return past, Realisation(float(level[-last:].mean()) - past, reach)


def _odd(x: Floats, runs: Sequence[int]) -> tuple[tuple[int, float], ...]:
    mean = float(x[list(runs)].mean())
    return tuple((i, float(x[i]) - mean) for i in range(len(x)) if i not in runs)


def _line(x: Floats, least: float, alpha: float, lowest: float) -> tuple[Realisation, Fit, bool]:
    """The line, what it explains, and whether its slope is shown."""
    kept = [*range(len(x))]
    while True:
        n, at = len(kept), np.array(kept, dtype=np.float64)
        middle, mean = float(at.mean()), float(x[kept].mean())
        at -= middle
        spread = float(at @ at)
        slope = float(at @ x[kept]) / spread
        rest = x[kept] - mean - slope * at
        far = outliers(rest, 1 / n + np.outer(at, at) / spread, 2, least, alpha)
        if not far:
            break
        kept = [run for place, run in enumerate(kept) if place not in far]
    squares, free, lag = float(rest @ rest), max(n - 2, 1), _lag(rest, 2, least, lowest)
    scatter = math.sqrt(max(squares / free, least)) * _wide(lag)
    last = _last(len(x))
    error, span = scatter / math.sqrt(spread), len(x) - last
    past = mean + slope * ((last - 1) / 2 - middle)
    reach = t_critical(CONFIDENCE, free) * error
    odd = tuple((i, float(x[i]) - mean - slope * (i - middle)) for i in range(len(x)) if i not in kept)
    score = _score(squares, len(x), len(odd), 2, least)
    fit = Fit("slope", score, lag, scatter, past, Realisation(span * slope, span * reach), odd)
    return Realisation(slope, reach), fit, n > 3 and abs(slope) > t_critical(alpha, free) * error
