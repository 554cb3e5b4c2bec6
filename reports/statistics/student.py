"""Critical values of Student's t. Pure."""

from __future__ import annotations

import functools
import math

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


@functools.lru_cache(maxsize=4096)
def t_critical(alpha: float, freedom: float) -> float:
    """The t that Student's |t| with `freedom` degrees exceeds with probability `alpha`.

    Raises ValueError unless 0 < alpha < 1 and freedom > 0.
    """
    if not (0 < alpha < 1 and freedom > 0):
        raise ValueError(f"no critical value for alpha {alpha} and {freedom} degrees of freedom")
    if freedom <= 2:
        # With t = sqrt(freedom) tan(angle) a tail is the integral of cos(angle) ** (freedom - 1), which for
        # these few is not smooth enough for the sum below; the t of whole degrees has a closed form.
        if freedom < 2:
            return 1 / math.tan(alpha * math.pi / 2)
        return (1 - alpha) * math.sqrt(2 / (alpha * (2 - alpha)))

    def log_part(low: float) -> float:
        """ln of the integral of cos ** (freedom - 1) from `low` to a right angle."""
        half = (math.pi / 2 - low) / 2
        return math.log(
            max(half * float(np.sum(_WEIGHTS * np.cos(low + half * (1 + _NODES)) ** (freedom - 1))), 1e-300)
        )

    whole, low, high = log_part(0.0), 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if log_part(middle) - whole > math.log(alpha) else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)
