"""How likely something is that was seen in so many trials: exact intervals of Clopper and Pearson (1934).

C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits illustrated in the case of the
binomial. Biometrika 26. And the score interval of E. B. Wilson (1927), where there are many trials.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv

_TAIL = 0.05


def interval(seen: int, trials: int) -> tuple[float, float]:
    """Limits of the probability at 95 %, as fractions; one-sided where none, or all, were seen."""
    if not 0 <= seen <= trials or not trials:
        raise ValueError(f"{seen} of {trials}")
    tail = _TAIL if seen in (0, trials) else _TAIL / 2
    low = betaincinv(seen, trials - seen + 1, tail) if seen else 0
    high = betaincinv(seen + 1, trials - seen, 1 - tail) if seen < trials else 1
    return float(low), float(high)


def wilson(part: float, trials: float, errors: float) -> tuple[float, float]:
    """The score interval of a `part` (0 to 1) of so many trials, inside [0, 1]; `errors`: standard errors."""
    centre = part + errors**2 / (2 * trials)
    spread = errors * math.sqrt(part * (1 - part) / trials + errors**2 / (4 * trials**2))
    scale = 1 + errors**2 / trials
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)
