"""The ratio B : A of a figure, how exactly it is known, and what it may decide: one rule for the whole kit.

A run, a phase, a round of a series is one realisation of a figure. Its I/Os share a pool, a warm-up and a
moment. They say how exactly the figure of this realisation is known, and nothing of what the next one would
give (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013: replicate where it varies
most).

- Two realisations or more on each side: the range of the ratio is one between realisations, by their scatter,
  never less than what their own I/Os leave open. It may decide.
- One on a side: the range is printed as "within this run". It decides nothing about devices or settings; only
  a limit that a run declared for itself is held against it.

What is compared is the mean of logarithms (the geometric mean). The error of a difference is that of each
side by itself, times Student's t with the freedom of the smaller side: this is never too narrow, however
unlike the scatter of the sides is (Mickey and Brown, "Bounds on the distribution functions of the
Behrens-Fisher statistic", Annals of Mathematical Statistics 37, 1966). Welch's freedom, and relabelling of
runs, are too narrow where the smaller side, or a few runs, scatter more. Of many figures together each has
its part of the errors that are allowed (Bonferroni), whatever they have to do with each other.

Of few runs a variance is hardly known. So many figures together lend each other freedom, as far as their
variances are alike (Smyth, "Linear Models and Empirical Bayes Methods", Statistical Applications in Genetics
and Molecular Biology 3, 2004). Unlike there, they lend no more than the runs have themselves, for figures of
a run go together, and a figure that scatters more than the usual one keeps its own variance. That keeps what
is promised of all together (tests/truth/compare.py), not of each: of a figure that scatters five times as
much as all others a 95 % range would miss in 7 (10 runs) to 11 of 100 cases (3). So a range that holds by
itself has the scatter of its own figure alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from scipy.special import digamma, polygamma

from kit.store.summary import Range
from reports.statistics.student import t_critical

# Half of a 95 % range in standard errors.
ERRORS_95 = 1.96
ALPHA = 0.05
# Of many figures together: with A and B alike at most so many comparisons show any difference.
ALPHA_TOGETHER = 0.025
# Figures that show how alike they scatter.
FEWEST = 4
# Degrees of freedom that are as good as all.
_MANY = 200
# A range to more than ten times as much either way says nothing.
_TOO_WIDE = math.log(10)
# How exactly a ratio is then wished to be known.
_TOLD = math.log(2)


@dataclass(frozen=True)
class Realisation:
    """A figure of one realisation. `reach`: half of its 95 % range in it, as a logarithm; None: not known."""

    log: float
    reach: float | None

    @classmethod
    def of(cls, value: float, known: Range | None) -> Realisation:
        """Of a value above 0, and what holds it with 95 % confidence."""
        return cls(math.log(value), half_width(known) if known and known[0] > 0 else None)

    def minus(self, other: Realisation) -> Realisation:
        known = self.reach is not None and other.reach is not None
        reach = math.hypot(self.reach or 0, other.reach or 0) if known else None
        return Realisation(self.log - other.log, reach)

    def times(self, factor: float) -> Realisation:
        """In another unit."""
        return Realisation(self.log + math.log(factor), self.reach)

    def ends(self, sign: int = 1) -> Range:
        """Of the logarithm, or of its negative, where the range is known."""
        assert self.reach is not None, "a figure whose range is known"
        return sign * self.log - self.reach, sign * self.log + self.reach

    @property
    def value(self) -> float:
        return math.exp(self.log)

    @property
    def range(self) -> Range | None:
        return None if self.reach is None else around(self.log, self.reach)


@dataclass(frozen=True)
class RatioRange(Realisation):
    """`over`: so many realisations on each side. `reach`: between them, or within the one."""

    over: tuple[int, int]

    @property
    def decides(self) -> bool:
        """Whether the range is one between realisations, by their scatter."""
        return min(self.over) > 1 and self.reach is not None

    def inside(self, low: float, high: float, *, of_this_run: bool = False) -> bool | None:
        """Whether the ratio lies in low..high; None where that is open.

        `of_this_run`: the limit is one that the run declared for itself, so its own range decides.
        """
        known = self.range
        if known is None or not (self.decides or of_this_run):
            return None
        if known[1] < low or known[0] > high:
            return False
        return True if low <= known[0] and known[1] <= high else None

    def words(self, realisation: str = "run") -> str:
        """Such as "95 %, over 5 and 5 runs: 1.63 to 1.71", or "within this run: 1.63 to 1.71".

        Of a range that says nothing: that it is not known, and how many realisations would tell.
        """
        if self.range is None:
            return "range not known"
        wide, known = is_too_wide(self.range), " to ".join(f"{end:.3g}" for end in self.range)
        if not self.decides:
            return f"within this {realisation}: {'open by more than ten times' if wide else known}"
        a, b = self.over
        runs = f"{a} {realisation}s" if a == b else f"{a} and {b} {realisation}s"
        if wide:
            return f"not known over {runs}: as they scatter, {self._needed()} on each side would tell"
        return f"95 %, over {runs}: {known}"

    def _needed(self) -> str:
        """How many on each side, with the scatter of these, leave a factor of two open at most."""
        assert self.reach is not None
        now = min(self.over)
        unit = self.reach / t_critical(ALPHA, now - 1) * math.sqrt(now)
        for number in range(now + 1, _MANY):
            if t_critical(ALPHA, number - 1) * unit / math.sqrt(number) <= _TOLD:
                return f"about {number}"
        return f"more than {_MANY}"


def ratio(a: Sequence[Realisation], b: Sequence[Realisation], alpha: float = ALPHA) -> RatioRange:
    """Of realisations of A and of B that have nothing in common. Raises ValueError without one on a side.

    The range holds the ratio with confidence 1 - `alpha`.
    """
    return ratios([[a, b]], alpha)[0]


def paired(pairs: Sequence[Realisation]) -> RatioRange:
    """Of B over A in each of several realisations: what both share there cancels out."""
    return ratios([[pairs]], ALPHA)[0]


def ratios(figures: Sequence[Sequence[Sequence[Realisation]]], alpha: float) -> list[RatioRange]:
    """Of many figures: each with A and B as in `ratio`, or all with B over A as in `paired`.

    Those over as many realisations say together how much each of them scatters. All ranges hold their ratios
    together if each has its part `alpha` of the errors.
    """
    found = [_within(sides) for sides in figures]
    for over in {each.over for each in found if min(each.over) > 1}:
        alike = [at for at, each in enumerate(found) if each.over == over]
        variances = zip(*([_scatter(side) ** 2 for side in figures[at]] for at in alike), strict=True)
        known = [shared(of, number - 1) for of, number in zip(variances, over, strict=False)]
        freedom = min(each for _, each in known)
        for at, *squares in zip(alike, *(used for used, _ in known), strict=True):
            own = math.hypot(*map(_own, figures[at]))
            found[at] = replace(found[at], reach=_reach(math.sqrt(sum(squares)), own, freedom, alpha))
    return found


def _within(sides: Sequence[Sequence[Realisation]]) -> RatioRange:
    """By the means of all realisations, with what their I/Os leave open."""
    means = [mean(side) for side in sides]
    found = means[0] if len(means) == 1 else means[1].minus(means[0])
    return RatioRange(found.log, found.reach, (len(sides[0]), len(sides[-1])))


def along(places: Sequence[float], figures: Sequence[Realisation]) -> RatioRange:
    """Of the last place over the first, by the line through the logarithms at all places and their scatter.

    Least squares, Student's t. Raises ValueError with fewer than three places.
    """
    number = len(figures)
    if number < 3:
        raise ValueError("a line and its scatter need three places")
    middle, level = sum(places) / number, mean(figures).log
    off = [place - middle for place in places]
    squares = sum(each**2 for each in off)
    slope = sum(x * (each.log - level) for x, each in zip(off, figures, strict=True)) / squares
    left = [Realisation(each.log - slope * x, each.reach) for x, each in zip(off, figures, strict=True)]
    length = abs(places[-1] - places[0]) * math.sqrt(number / squares)
    # The line has used up one freedom more than the mean has.
    scatter = _scatter(left) * length * math.sqrt((number - 1) / (number - 2))
    reach = _reach(scatter, _own(left) * length, number - 2, ALPHA)
    return RatioRange(slope * (places[-1] - places[0]), reach, (number, number))


def mean(figures: Sequence[Realisation]) -> Realisation:
    """The mean of logarithms. Raises ValueError without one."""
    if not figures:
        raise ValueError("no figures, no mean")
    reaches = [each.reach for each in figures if each.reach is not None]
    known = len(reaches) == len(figures)
    log = sum(each.log for each in figures) / len(figures)
    return Realisation(log, math.hypot(*reaches) / len(reaches) if known else None)


def is_too_wide(known: Range) -> bool:
    """Whether a range holds more than ten times as much either way, so that it says nothing."""
    return half_width(known) > _TOO_WIDE


def around(log: float, reach: float) -> Range:
    """From a logarithm and its half width to the values at both ends."""
    return math.exp(log - reach), math.exp(min(log + reach, 690))


def half_width(known: Range) -> float:
    """The inverse of `around`: of a range above 0, half of what its ends differ in, as a logarithm."""
    return math.log(known[1] / known[0]) / 2 if known[0] > 0 else math.inf


def shared(variances: Sequence[float], freedom: int) -> tuple[list[float], float]:
    """The variances to reckon with, and their degrees of freedom; `freedom`: of each by itself."""
    if len(variances) < FEWEST:
        return list(variances), freedom
    logs = [math.log(max(each, 1e-18)) for each in variances]
    # What chance makes of equal variances: their logarithms are those of chi-squared over its freedom.
    half = freedom / 2
    chance = float(polygamma(1, half))
    usual = half * math.exp(fmean(logs) - float(digamma(half)))
    lent = freedom * min(1.0, chance / max(variance(logs) - chance, 1e-9))
    used = [max(own, (lent * usual + freedom * own) / (lent + freedom)) for own in variances]
    return used, freedom + lent


def _reach(scatter: float, own: float, freedom: float, alpha: float) -> float:
    """Half of the range of confidence 1 - `alpha`: by scatter, and never less than the I/Os leave open."""
    return max(t_critical(alpha, freedom) * scatter, t_critical(alpha, _MANY) / ERRORS_95 * own)


def _scatter(side: Sequence[Realisation]) -> float:
    """The standard error of the mean, by the scatter between realisations."""
    log = mean(side).log
    return math.sqrt(sum((each.log - log) ** 2 for each in side) / (len(side) - 1) / len(side))


def _own(side: Sequence[Realisation]) -> float:
    """Half of the 95 % range of the mean, by what the I/Os of each leave open, as far as it is known."""
    return math.hypot(*(each.reach or 0.0 for each in side)) / len(side)
