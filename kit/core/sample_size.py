"""The small-sample rule: how many I/Os it takes to bound a percentile."""

from __future__ import annotations

import math

# One-sided: the bound from above holds with 97.5 % confidence.
_ALPHA = 0.025


def sample_needed(q: float) -> int:
    """The fewest I/Os (a count) that bound the q-quantile (0 < q < 1) from above with 97.5 % confidence.

    The largest of n values is above the q-quantile unless all n are below it, which has probability q^n.
    """
    return math.ceil(math.log(_ALPHA) / math.log(q))
