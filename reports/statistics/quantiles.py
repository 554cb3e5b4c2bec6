"""Quantiles, extremes and ranges of a latency histogram, in nanoseconds."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any

COVERAGE = 0.95
# A bin of the kit is 1 ns wide, or at most this part of its lower edge.
NARROW = 1 / 32
_ALPHA = 0.025
Bins = Sequence[tuple[int, int, int]]  # lo_ns, hi_ns, count; ascending
Json = dict[str, Any]


def sample_needed(q: float) -> int:
    """The fewest I/Os (a count) that bound the q-quantile from above with 97.5 % confidence."""
    return math.ceil(math.log(_ALPHA) / math.log(q))


def percentile_ns(bins: Bins, q: float, limits: tuple[int, int]) -> float | None:
    """The q-quantile in ns, kept inside `limits` (min, max in ns).

    Of a bin as narrow as the kit's it is the middle, which is at most 1/64 (1.6 %) from any latency in it. A
    value interpolated there would be nearer where latencies are spread evenly, but up to twice as far off at
    the edge of a gap or where a clock ticks. Wider bins of imported data (zpool iostat) are interpolated.
    None where the sample is too small to tell.
    """
    return percentiles_ns(bins, (q,), limits)[0]


def percentiles_ns(bins: Bins, quantiles: Sequence[float], limits: tuple[int, int]) -> list[float | None]:
    """percentile_ns() of each of `quantiles`; the counts are summed up once for all."""
    upto = list(itertools.accumulate([count for _, _, count in bins]))
    return [_percentile_ns(bins, upto, q, limits) for q in quantiles]


def _percentile_ns(bins: Bins, upto: list[int], q: float, limits: tuple[int, int]) -> float | None:
    n = upto[-1] if upto else 0
    if n < sample_needed(q):
        return None
    # The first bin up to whose end there are enough; it has an I/O itself.
    at = min(bisect.bisect_left(upto, q * n), len(bins) - 1)
    lo, hi, count = bins[at]
    if hi - lo <= max(1, lo * NARROW):
        # Latencies are whole nanoseconds: the last one of the bin is hi - 1.
        value = (max(lo, limits[0]) + min(hi - 1, limits[1])) / 2
    else:
        low, high = max(lo, limits[0]), min(hi, limits[1])
        value = low + (high - low) * (q * n - upto[at] + count) / count
    return min(max(value, float(limits[0])), float(limits[1]))


def shortest_range_ns(bins: Bins, limits: tuple[int, int], coverage: float = COVERAGE) -> tuple[int, int]:
    """The shortest stretch of whole bins, in ns, that holds `coverage` of the I/Os; inside `limits`."""
    used = [b for b in bins if b[2]]
    if not used:
        raise ValueError("no I/O, no range")
    wanted = coverage * sum(b[2] for b in used)
    best = (used[0][0], used[-1][1])
    first, held = 0, 0
    for _, hi, count in used:
        held += count
        while held - used[first][2] >= wanted:
            held -= used[first][2]
            first += 1
        if held >= wanted and hi - used[first][0] < best[1] - best[0]:
            best = (used[first][0], hi)
    return max(best[0], limits[0]), min(best[1], limits[1])


def limits_ns(bins: Bins, extremes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(min, max) in ns: the exact ones if the run kept them, else the outer bin edges.

    `extremes`: (min, max) of each host.

    Raises ValueError if the exact ones are not in the outermost bins.
    """
    used = [b for b in bins if b[2]]
    if not extremes:
        return used[0][0], used[-1][1]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    if not (used[0][0] <= low <= used[0][1] and used[-1][0] <= high <= used[-1][1]):
        raise ValueError(f"extremes {low} and {high} ns are not in the outermost bins")
    return low, high
