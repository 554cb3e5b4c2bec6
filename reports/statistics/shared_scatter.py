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

from scipy.special import digamma, polygamma

# Fewer do not show how alike they are.
FEWEST = 4
_LEAST = 1e-18


def shared(variances: Sequence[float], freedom: int) -> tuple[list[float], float]:
    """The variances to reckon with, and their degrees of freedom; `freedom`: of each by itself."""
    if len(variances) < FEWEST:
        return list(variances), freedom
    logs = [math.log(max(each, _LEAST)) for each in variances]
    # What chance makes of equal variances: their logarithms are those of chi-squared over its freedom.
    half = freedom / 2
    chance = float(polygamma(1, half))
    usual = half * math.exp(fmean(logs) - float(digamma(half)))
    lent = freedom * min(1.0, chance / max(variance(logs) - chance, 1e-9))
    used = [max(own, (lent * usual + freedom * own) / (lent + freedom)) for own in variances]
    return used, freedom + lent
