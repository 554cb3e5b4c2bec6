"""Critical values of Student's t. Pure."""

from __future__ import annotations

import functools

from scipy.special import stdtrit


@functools.lru_cache(maxsize=4096)
def t_critical(alpha: float, freedom: float) -> float:
    """The t that Student's |t| with `freedom` degrees exceeds with probability `alpha`.

    Raises ValueError unless 0 < alpha < 1 and freedom > 0.
    """
    if not (0 < alpha < 1 and freedom > 0):
        raise ValueError(f"no critical value for alpha {alpha} and {freedom} degrees of freedom")
    return -float(stdtrit(freedom, alpha / 2))
