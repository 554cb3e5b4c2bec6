"""Latency bins: log-linear, 32 per octave, the same for every source of a run.

Below 32 ns each integer is a bin of its own; above, every power of two is cut into 32
equal bins, so a bin is never wider than 1/32 of its lower edge. These are the buckets
of bpftrace's `hist(x, 5)` (bpftrace docs, "hist"); fio's 64 per octave fall into them in pairs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BINS_PER_OCTAVE = 32
_OCTAVE_BITS = 5
# Of a 64-bit float: 52 bits of mantissa, and 1023 added to the exponent.
_MANTISSA_BITS = 52
_LEADING = (1023 + _OCTAVE_BITS - 1) << _OCTAVE_BITS

IntArray = npt.NDArray[np.int64]


def bin_index(latency_ns: npt.ArrayLike) -> IntArray:
    """Index of the bin of each latency. Shape as given. Raises ValueError for negatives."""
    values = np.asarray(latency_ns, dtype=np.int64)
    if values.size and int(values.min()) < 0:
        raise ValueError("a latency cannot be negative")
    # A float is its exponent and, below that, its leading bits: octave and bin in one number. Exact for
    # integers below 2**53 (104 days in nanoseconds).
    leading = values.astype(np.float64).view(np.int64) >> (_MANTISSA_BITS - _OCTAVE_BITS)
    index: IntArray = np.where(values < BINS_PER_OCTAVE, values, leading - _LEADING)
    return index


def bin_edges(index: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Lower (inclusive) and upper (exclusive) edge in ns of each bin index."""
    indices = np.asarray(index, dtype=np.int64)
    shift = np.maximum((indices >> _OCTAVE_BITS) - 1, 0)
    mantissa = indices - (shift << _OCTAVE_BITS)
    return mantissa << shift, (mantissa + 1) << shift
