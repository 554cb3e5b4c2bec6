"""Latency bins: log-linear, 32 per octave, the same for every source of a run.

Below 32 ns each integer is a bin. Above, every power of two is divided into 32 equal bins,
so a bin is at most 1/32 of its lower edge wide. These are the buckets of bpftrace's
`hist(x, 5)` (bpftrace docs, "hist"); two of fio's 64 bins per octave make one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

BINS_PER_OCTAVE = 32
_OCTAVE_BITS = 5
# A 64-bit float has 52 bits of mantissa, and its exponent is stored plus 1023.
_MANTISSA_BITS = 52
_LEADING = (1023 + _OCTAVE_BITS - 1) << _OCTAVE_BITS

IntArray = npt.NDArray[np.int64]


def bin_index(latency_ns: npt.ArrayLike) -> IntArray:
    """Index of the bin of each latency. Shape as given. Raises ValueError for negatives."""
    values = np.asarray(latency_ns, dtype=np.int64)
    if values.size and int(values.min()) < 0:
        raise ValueError("a latency cannot be negative")
    # The bits of a float are its exponent, then its leading digits: octave and bin in one number.
    # Exact for integers below 2**53 (104 days in nanoseconds).
    leading = values.astype(np.float64).view(np.int64) >> (_MANTISSA_BITS - _OCTAVE_BITS)
    index: IntArray = np.where(values < BINS_PER_OCTAVE, values, leading - _LEADING)
    return index


def bin_edges(index: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Lower (inclusive) and upper (exclusive) edge in ns of each bin index."""
    indices = np.asarray(index, dtype=np.int64)
    shift = np.maximum((indices >> _OCTAVE_BITS) - 1, 0)
    mantissa = indices - (shift << _OCTAVE_BITS)
    return mantissa << shift, (mantissa + 1) << shift


def bounds_ns(counts: Mapping[int, int]) -> tuple[int, int]:
    """The least and the largest sum (ns) that latencies in these bins (index -> how many) can have."""
    low, high = bin_edges(list(counts))
    held = list(counts.values())
    sums = (sum(int(edge) * n for edge, n in zip(edges, held, strict=True)) for edges in (low, high - 1))
    return next(sums), next(sums)
