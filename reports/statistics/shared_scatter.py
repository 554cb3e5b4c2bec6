"""How much each of many figures scatters between runs, by its own runs and by those of all figures. Pure.

Of few runs a variance is hardly known: a figure whose runs agree by chance would differ from any other.
Figures of the same runs lend each other freedom, as far as their variances are alike (Smyth, "Linear Models
and Empirical Bayes Methods", Statistical Applications in Genetics and Molecular Biology 3, 2004). Unlike
there, they lend no more than the runs have themselves, for figures of a run go together, and a figure that
scatters more than the usual one keeps its own variance, for some do. With both, false alarms stay below what
is promised wherever they were simulated (tests/truth/compare.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

# Fewer do not show how alike they are.
_FEWEST = 4
_LEAST = 1e-18
# Terms of a sum, before a series takes over.
_TERMS = 8


def shared(variances: Sequence[float], freedom: int) -> tuple[list[float], float]:
    """The variances to reckon with, and their degrees of freedom; `freedom`: of each by itself."""
    if len(variances) < _FEWEST:
        return list(variances), freedom
    logs = [math.log(max(each, _LEAST)) for each in variances]
    # What chance makes of equal variances: their logarithms are those of chi-squared over its freedom.
    mean, chance = _log_chi_squared(freedom)
    usual = math.exp(fmean(logs) - mean)
    lent = freedom * min(1.0, chance / max(variance(logs) - chance, 1e-9))
    used = [max(own, (lent * usual + freedom * own) / (lent + freedom)) for own in variances]
    return used, freedom + lent


def _log_chi_squared(freedom: int) -> tuple[float, float]:
    """Mean and variance of the logarithm of chi-squared over its freedom: digamma and trigamma of half of it.

    By recurrence and the asymptotic series (Abramowitz and Stegun, 6.3.18 and 6.4.12).
    """
    half, far = freedom / 2, freedom / 2 + _TERMS
    places = [half + number for number in range(_TERMS)]
    digamma = math.log(far) - 1 / (2 * far) - 1 / (12 * far**2) - sum(1 / x for x in places)
    trigamma = 1 / far + 1 / (2 * far**2) + 1 / (6 * far**3) + sum(1 / x**2 for x in places)
    return digamma - math.log(half), trigamma
