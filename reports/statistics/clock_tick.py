"""What a clock that ticks coarser than the bins does to a histogram, and its repair."""

from __future__ import annotations

import math

from reports.statistics.quantiles import Bins

_TICKS_NS = (10**6, 10**5, 10**4, 10**3, 100, 10)
# The odds against every bin holding a multiple of a tick by chance: one in a million.
_CHANCE = math.log(1e-6)


def tick_ns(bins: Bins) -> int:
    """The tick, in ns, of the clock that the latencies were told with: a power of ten, 1 if none shows.

    A tool that stores whole microseconds leaves bins of less than a microsecond filled only where a whole
    microsecond falls into them: a comb, whose teeth are not modes.
    """
    used = [b for b in bins if b[2]]
    for tick in _TICKS_NS:
        odds = 0.0
        for lo, hi, _ in used:
            if -(-lo // tick) * tick >= hi:
                break
            odds += math.log(min((hi - lo) / tick, 1.0))
        else:
            if odds < _CHANCE:
                return tick
    return 1


def widened(bins: Bins) -> Bins:
    """`bins` on edges that are no finer than the clock's tick; counts sum to the same."""
    tick = tick_ns(bins)
    if tick == 1:
        return bins
    merged: dict[tuple[int, int], int] = {}
    end = 0
    for lo, hi, count in bins:
        first, last = -(-lo // tick), (hi - 1) // tick
        low = max((first * 2 - 1) * tick // 2, 0, end)
        high = max((last * 2 + 1) * tick // 2, low + 1)
        end = high
        merged[low, high] = merged.get((low, high), 0) + count
    return [(lo, hi, count) for (lo, hi), count in merged.items()]
