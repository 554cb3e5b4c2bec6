"""Where a figure changed its level in a sequence of a few runs. Pure.

The values are logarithms of one figure, one a run, in order. Between changes they scatter around one level
with one variance (normal). A candidate is a stretch of runs s..e with a place k in it: the likelihood ratio
of "another level from k on" to "one level" grows with |t|, the difference of the means over its standard
error (Worsley, "On the Likelihood Ratio Test for a Shift in Location of Normal Populations", 1979). Looking
at every stretch, and then again on both sides of the best one, is wild binary segmentation (Fryzlewicz, "Wild
binary segmentation for multiple change-point detection", 2014) with all stretches instead of random ones: a
level that goes up and comes back is seen, which plain binary segmentation misses.

- The variance comes from runs alone: from their scatter inside of groups that neither a place of the
  candidate nor a recorded change cuts, so that no change, wherever it is, makes t larger. With no change
  anywhere t has Student's distribution with as many degrees of freedom as runs less groups. Recorded changes
  cut groups where that leaves at least MARKED_FREEDOM degrees of freedom.
- It is never taken below what the runs' own I/Os leave open (`errors`): runs that agree by chance are not
  certain.
- The critical value is Bonferroni's over all candidates: of sequences without a change at most `alpha` show
  one.
- A level has two runs or more. A run that would be a level of its own, or that is too far from its level, is
  apart: it is taken out, and the search begins anew. So are two that hide each other, if they do not stand
  side by side on one level.
- A level that scatters more than the others is held against its own scatter (Welch).
- Without a degree of freedom nothing is found: what the next run would give is not known.
- All of this holds for runs that do not depend on each other: reports.trend.jump_slope_or_wander.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from reports.statistics.quantiles import Floats
from reports.statistics.student import t_critical

# Of all figures of one trend together: so much of the trends without any change show one, at most.
ALPHA = 0.05
MARKED_FREEDOM = 3
# Two runs have no scatter left once there is a place between them.
FEWEST = 3
CONFIDENCE = 0.05
# Standard errors that a normal value is above in nine of ten cases.
NINE_OF_TEN = 1.2816
TINY = 1e-9
# A neighbour that lies less than this part of the way to an outlier is not of its kind.
_BESIDE = 0.5
# Degrees of freedom without one run, of which a pair takes one more.
_LEAST_OF_PAIR = 3
# Standard errors that a normal value is above in one of a hundred cases.
_ONE_OF_HUNDRED = 2.326
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LevelChange:
    """The level is another from run `at` on. `log`: of after over before; `reach`: half its 95 % range.

    `places`: all places that fit about as well, with 95 % confidence (likelihood ratio), `at` among them.
    """

    at: int
    log: float
    reach: float
    places: tuple[int, ...]


@dataclass(frozen=True)
class FoundChanges:
    """`changes` in order. `freedom`: degrees of freedom that the scatter is known with; 0: no statement.

    `scatter`: standard deviation of a run around its level, as a logarithm. `critical`: of |t|. `levels`: the
    runs of each; `odd`: those that are apart from them.
    """

    changes: tuple[LevelChange, ...]
    freedom: int
    scatter: float
    critical: float
    levels: tuple[tuple[int, ...], ...] = ()
    odd: tuple[int, ...] = ()

    def smallest(self, before: int, after: int) -> float | None:
        """The least |logarithm| that is found in nine of ten cases, with so many runs before and after."""
        if math.isinf(self.critical) or not (before and after):
            return None
        # The scatter is not known exactly, either (Johnson and Welch, "Applications of the Non-Central
        # t-Distribution", 1940).
        wide = self.critical + NINE_OF_TEN * math.sqrt(1 + self.critical**2 / (2 * self.freedom))
        return wide * self.scatter * math.sqrt(1 / before + 1 / after)


def runs_to_find(scatter: float, change: float, alpha: float, most: int) -> int | None:
    """Runs of one level with which a step of `change` in their middle is found in nine of ten cases.

    `scatter`, `change`: of logarithms; `alpha`: as of `change_points`. None: more than `most`.
    """
    for runs in range(FEWEST + 1, most + 1):
        critical = t_critical(alpha / math.comb(runs + 1, 3), runs - 2)
        least = FoundChanges((), runs - 1, scatter, critical).smallest(runs // 2, runs - runs // 2)
        if least is not None and least <= change:
            return runs
    return None


def change_points(
    values: Sequence[float], errors: Sequence[float], states: Sequence[int], alpha: float
) -> FoundChanges:
    """The changes of level in `values`. `errors`: standard deviations that their I/Os leave open.

    `states`: another number where a recorded change lies before the run. Raises ValueError for what is not
    finite, and for lengths that differ.
    """
    n = len(values)
    x, floor = np.array(values, dtype=np.float64), np.array(errors, dtype=np.float64)
    if not (len(floor) == len(states) == n and np.isfinite(x).all() and np.isfinite(floor).all()):
        raise ValueError("each run has a finite value, a finite error and a state")
    kept = list(range(n))
    while True:
        found = _search(x[kept], floor[kept], [states[i] for i in kept], alpha)
        ends = [0, *(change.at for change in found.changes), len(kept)]
        odd = _alone(found, ends)
        if not odd and found.freedom:
            odd = _outliers(x[kept], ends, float(np.mean(floor**2)) + TINY**2, alpha)
        if not odd:
            break
        kept = [run for place, run in enumerate(kept) if place not in odd]
    changes = tuple(
        replace(change, at=kept[change.at], places=tuple(kept[place] for place in change.places))
        for change in found.changes
    )
    levels = tuple(tuple(kept[a:b]) for a, b in itertools.pairwise(ends))
    return replace(found, changes=changes, levels=levels, odd=tuple(sorted({*range(n)} - {*kept})))


def _alone(found: FoundChanges, ends: Sequence[int]) -> list[int]:
    """The run that is a level of its own, the one farthest away."""
    far = {a: 0.0 for a, b in itertools.pairwise(ends) if b - a == 1 and found.changes}
    for change in found.changes:
        for place in {change.at, change.at - 1} & set(far):
            far[place] = max(far[place], abs(change.log) / change.reach)
    return [max(far, key=lambda place: far[place])] if far else []


def _outliers(x: Floats, ends: Sequence[int], least: float, alpha: float) -> list[int]:
    """The run that is apart from its level, or two, and not on the way to the run before or after it."""
    spans = list(itertools.pairwise(ends))
    rest = np.concatenate([x[a:b] - x[a:b].mean() for a, b in spans])
    hat = np.zeros((len(x), len(x)))
    for a, b in spans:
        hat[a:b, a:b] = 1 / (b - a)
    found = outliers(rest, hat, len(spans), least, alpha)
    return found if all(_stands_alone(rest, each) for each in found) else []


def outliers(rest: Floats, hat: Floats, free: int, least: float, alpha: float) -> list[int]:
    """The residual that is farther away than chance lets one of all, by deletion residuals; or two.

    Two may hide each other, each in the scatter that it makes. So each of a pair is held against what is left
    without both. `hat`: the matrix that makes fitted values of the values; `free`: fitted values.
    (Cook and Weisberg, "Residuals and Influence in Regression", 1982; Bonferroni's correction.)
    """
    runs, share, squares = len(rest), 1 - np.diag(hat), float(rest @ rest)
    freedom = runs - free - 1
    if freedom < 1:
        return []
    without = np.maximum((squares - rest**2 / share) / freedom, least)
    t = np.abs(rest) / np.sqrt(without * share)
    far = int(np.argmax(t))
    if t[far] > t_critical(alpha / runs, freedom):
        return [far]
    if freedom < _LEAST_OF_PAIR:
        return []
    # In row i and column j: of i, with j taken out, too.
    apart = rest[:, None] + hat * (rest / share)
    part = np.maximum(share[:, None] - hat**2 / share, TINY)
    left = (squares - rest**2 / share - apart**2 / part) / (freedom - 1)
    t = np.abs(apart) / np.sqrt(np.maximum(left, least) * part)
    np.fill_diagonal(t, 0.0)
    both = np.minimum(t, t.T)
    i, j = divmod(int(np.argmax(both)), runs)
    # Each is far, and neither is a level with the other.
    pair = both[i, j] > t_critical(alpha / (runs * (runs - 1)), freedom - 1)
    return [i, j] if pair and all(_stands_alone(rest, each) for each in (i, j)) else []


def _stands_alone(rest: Floats, far: int) -> bool:
    beside = [float(rest[i] / rest[far]) for i in (far - 1, far + 1) if 0 <= i < len(rest)]
    return max(beside) < _BESIDE


def _search(x: Floats, floor: Floats, states: Sequence[int], alpha: float) -> FoundChanges:
    """The changes, where a level may have one run."""
    n = len(x)
    if n < FEWEST:
        return FoundChanges((), 0, 0.0, math.inf)
    cuts = [i for i in range(1, n) if states[i] != states[i - 1]]
    if n - len(cuts) - 1 < MARKED_FREEDOM:
        cuts = []
    scatter, freedom = _inside(x, frozenset(cuts))
    least = float(np.mean(floor**2)) + TINY**2
    s, k, e = _candidates(n)
    critical = _critical(alpha / len(s), n)
    free = freedom[0, s] + freedom[s, k] + freedom[k, e] + freedom[e, n]
    squares = scatter[0, s] + scatter[s, k] + scatter[k, e] + scatter[e, n]
    variance = np.maximum(squares / np.maximum(free, 1), least)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    shift = (sums[e] - sums[k]) / (e - k) - (sums[k] - sums[s]) / (k - s)
    score = np.abs(shift) / np.sqrt(variance * (1 / (k - s) + 1 / (e - k))) / critical[free]
    places = _split(score, (s, k, e), 0, n)
    return _judged(x, sorted(places), (scatter, freedom), least, critical)


def _inside(x: Floats, cuts: frozenset[int]) -> tuple[Floats, Ints]:
    """Of each stretch i..j: sum of squares around the means of its groups, and degrees of freedom."""
    n = len(x)
    squares, freedom = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1), dtype=np.int64)
    for first in range(n):
        total, free, count, mean = 0.0, 0, 0, 0.0
        for i in range(first, n):
            if i in cuts or i == first:
                count, mean = 1, float(x[i])
            else:
                count, free = count + 1, free + 1
                step = float(x[i]) - mean
                mean += step / count
                total += step * (float(x[i]) - mean)
            squares[first, i + 1], freedom[first, i + 1] = total, free
    return squares, freedom


@functools.lru_cache(maxsize=64)
def _candidates(n: int) -> tuple[Ints, Ints, Ints]:
    """All s < k < e of 0..n."""
    s, k, e = np.array(
        [(s, k, e) for s in range(n) for k in range(s + 1, n) for e in range(k + 1, n + 1)], dtype=np.int64
    ).T
    return s, k, e


@functools.lru_cache(maxsize=4096)
def _critical(alpha: float, n: int) -> Floats:
    """By degrees of freedom, from 0."""
    return np.array([math.inf, *(t_critical(alpha, freedom) for freedom in range(1, n + 1))])


def _split(score: Floats, candidates: tuple[Ints, Ints, Ints], low: int, high: int) -> list[int]:
    """The best place in the stretch that passes its critical value, then those on both sides of it."""
    s, k, e = candidates
    inside = np.flatnonzero((s >= low) & (e <= high))
    if not len(inside):
        return []
    best = inside[np.argmax(score[inside])]
    if score[best] <= 1:
        return []
    place = int(k[best])
    return [place, *_split(score, candidates, low, place), *_split(score, candidates, place, high)]


def _judged(
    x: Floats, places: list[int], inside: tuple[Floats, Ints], least: float, critical: Floats
) -> FoundChanges:
    """Changes with their intervals, between their neighbours; one whose interval has 1 in it is dropped."""
    n = len(x)
    while True:
        ends = [0, *places, n]
        spans = list(itertools.pairwise(ends))
        free = int(sum(inside[1][a, b] for a, b in spans))
        scatter = math.sqrt(max(float(sum(inside[0][a, b] for a, b in spans)) / max(free, 1), least))
        if not free:
            return FoundChanges((), 0, scatter, math.inf)
        wide = t_critical(CONFIDENCE, free)
        changes = []
        for before, place, after in zip(ends, ends[1:], ends[2:], strict=False):
            shift = float(x[place:after].mean() - x[before:place].mean())
            reach = reach_of(x[before:place], x[place:after], scatter, free, CONFIDENCE)
            near = _near(x[before:after], place - before, (wide * scatter) ** 2)
            changes.append(LevelChange(place, shift, reach, tuple(before + at for at in near)))
        weak = [change for change in changes if abs(change.log) <= change.reach]
        if not weak:
            # One place more takes a degree of freedom.
            return FoundChanges(tuple(changes), free, scatter, float(critical[max(free - 1, 0)]))
        places.remove(min(weak, key=lambda change: abs(change.log) / change.reach).at)


def reach_of(a: Floats, b: Floats, scatter: float, free: int, alpha: float) -> float:
    """Half of the range of mean b - mean a, with the confidence 1 - `alpha`.

    Both have the `scatter` that is known with `free` degrees of freedom, but for a level that scatters more.
    """
    whole, freedom = 0.0, 0.0
    for level in (a, b):
        n, squares = len(level), float(((level - level.mean()) ** 2).sum())
        others, own = max(scatter**2 * free - squares, 0.0) / max(free - n + 1, 1), squares / max(n - 1, 1)
        # The 99 % point of a variance (Wilson and Hilferty, "The Distribution of Chi-Square", 1931).
        part = 2 / (9 * max(n - 1, 1))
        unlike = free > n - 1 and own > others * (1 - part + _ONE_OF_HUNDRED * math.sqrt(part)) ** 3
        part = (own if unlike else scatter**2) / n
        whole += part
        freedom += part**2 / (n - 1 if unlike else free)
    # Satterthwaite's degrees of freedom, where both have the same scatter not less than all.
    freedom = whole**2 / freedom
    return t_critical(alpha, max(1, min(free, int(freedom)))) * math.sqrt(whole)


def _near(x: Floats, at: int, bound: float) -> list[int]:
    """Places of one change in `x` that fit by at most `bound` worse, as sums of squares, than `at`."""

    def squares(place: int) -> float:
        parts = x[:place], x[place:]
        return float(sum(((part - part.mean()) ** 2).sum() for part in parts))

    best = squares(at)
    return [place for place in range(1, len(x)) if place == at or squares(place) - best <= bound]
