"""Quantiles, extremes and ranges of a latency histogram, in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.sample_size import sample_needed

COVERAGE = 0.95
# A bin of the kit is 1 ns wide, or at most this part of its lower edge.
NARROW = 1 / 32
Bins = Sequence[tuple[int, int, int]]  # lo_ns, hi_ns, count; ascending
Json = dict[str, Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Limits (ns) that no latency is beyond.
ANY = (0, np.iinfo(np.int64).max)


def percentile_ns(bins: Bins, q: float, limits: tuple[int, int]) -> float | None:
    """The q-quantile in ns, kept inside `limits` (min, max in ns); None where the sample is too small."""
    return percentiles_ns(bins, (q,), limits)[0]


def percentiles_ns(bins: Bins, quantiles: Sequence[float], limits: tuple[int, int]) -> list[float | None]:
    """percentile_ns() of each of `quantiles`; the counts are summed up once for all."""
    table = np.array(bins, dtype=np.int64).reshape(-1, 3)
    first = np.zeros(min(len(table), 1), dtype=np.int64)
    _, values = percentiles_of_each(table[:, 0], table[:, 1], table[:, 2], first, quantiles, limits)
    return [None if not value.size or np.isnan(value[0]) else float(value[0]) for value in values]


def percentiles_of_each(
    lo: Ints, hi: Ints, count: Ints, first: Ints, quantiles: Sequence[float], limits: tuple[int, int] = ANY
) -> tuple[Ints, list[Floats]]:
    """The I/Os of each of several histograms, and for each of `quantiles` its value (ns) in each of them.

    The bins [lo, hi) in ns of all histograms lie end to end, ascending in each; `first` has where each
    begins. A value is nan where the sample is too small (kit.core.sample_size).

    Of a bin as narrow as the kit's it is the middle, which is at most 1/64 (1.6 %) from any latency in it. A
    value interpolated there would be nearer where latencies are spread evenly, but up to twice as far off at
    the edge of a gap or where a clock ticks. Wider bins of imported data (zpool iostat) are interpolated.
    """
    upto = np.cumsum(count)
    before = upto[first] - count[first]
    ios: Ints = np.diff(before, append=upto[-1:])
    values = []
    for q in quantiles:
        # The first bin up to whose end there are enough I/Os; it has an I/O itself.
        at = np.searchsorted(upto, before + np.ceil(q * ios).astype(np.int64))
        low, high = np.maximum(lo[at], limits[0]), np.minimum(hi[at], limits[1])
        narrow = hi[at] - lo[at] <= np.maximum(1, lo[at] * NARROW)
        within = (high - low) * (q * ios - (upto[at] - before) + count[at]) / count[at]
        # Latencies are whole nanoseconds: the last one of a bin is hi - 1.
        value = np.where(narrow, (low + np.minimum(hi[at] - 1, limits[1])) / 2, low + within)
        values.append(np.where(ios >= sample_needed(q), np.clip(value, *limits), np.nan))
    return ios, values


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
