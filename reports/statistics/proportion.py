"""How likely something is that was seen in so many trials: exact intervals of Clopper and Pearson (1934).

C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits illustrated in the case of the
binomial. Biometrika 26.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_STEPS = 60
_TAIL = 0.05


def interval(seen: int, trials: int) -> tuple[float, float]:
    """Limits of the probability at 95 %, as fractions; one-sided where none, or all, were seen."""
    if not 0 <= seen <= trials or not trials:
        raise ValueError(f"{seen} of {trials}")
    if seen == 0:
        return 0.0, 1 - _TAIL ** (1 / trials)
    if seen == trials:
        return _TAIL ** (1 / trials), 1.0
    low = _root(lambda p: 1 - _at_most(seen - 1, trials, p) - _TAIL / 2)
    high = _root(lambda p: _TAIL / 2 - _at_most(seen, trials, p))
    return low, high


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of a probability is 0."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def _at_most(seen: int, trials: int, p: float) -> float:
    """Probability of at most `seen` of `trials`, each with probability `p`."""
    logs = (math.log(p), math.log1p(-p))
    return math.fsum(
        math.exp(
            math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
            + k * logs[0] + (trials - k) * logs[1]
        )
        for k in range(seen + 1)
    )  # fmt: skip
