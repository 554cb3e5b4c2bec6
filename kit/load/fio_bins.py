"""fio's latency bins, exact: 64 per octave; below 128 each integer is a bin (fio's stat.c, plat_val_to_idx).

A histogram of coarseness c has one column for 2^c neighbouring bins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
_BITS = 6
_PER_GROUP = 1 << _BITS
# fio 3 counts nanoseconds in 29 groups, fio 2 microseconds in 19.
BINS = 29 * _PER_GROUP
_OLD_BINS = 19 * _PER_GROUP
_COARSEST = 6


def lower_edge(index: npt.ArrayLike) -> IntArray:
    """The smallest value in each bin, in fio's unit; `index` may be one past the last bin."""
    indices = np.asarray(index, dtype=np.int64)
    shift = np.maximum((indices >> _BITS) - 1, 0)
    low: IntArray = (indices - (shift << _BITS)) << shift
    return low


def index_of(value: int) -> int:
    """The bin of a value, in fio's unit; values beyond the last bin are counted in it, as fio does."""
    shift = max(value.bit_length() - 1 - _BITS, 0)
    return min((shift << _BITS) + (value >> shift), BINS - 1)


def midpoint(index: int) -> int:
    """What fio's json+ calls a bin: the middle of it."""
    shift = max((index >> _BITS) - 1, 0)
    return int(lower_edge(index)) + (1 << shift) // 2


def index_of_midpoint(key: str) -> int | None:
    """The bin that json+ calls `key`; None if none of them is called so."""
    if key.isascii() and key.isdigit() and len(key) < 20:
        index = index_of(int(key))
        if midpoint(index) == int(key):
            return index
    return None


class HistogramColumns:
    """The columns of a histogram log. `factor`: nanoseconds per unit."""

    def __init__(self, coarseness: int, old: bool = False) -> None:
        self.coarseness = coarseness
        self.old = old
        self.factor = 1000 if old else 1
        self.columns = (_OLD_BINS if old else BINS) >> coarseness

    def edges(self, column: IntArray) -> tuple[IntArray, IntArray]:
        """Lower (inclusive) and upper (exclusive) edge of each column, in ns."""
        low = lower_edge(column << self.coarseness)
        return low * self.factor, lower_edge((column + 1) << self.coarseness) * self.factor


_LAYOUTS = (HistogramColumns(coarseness, old) for old in (False, True) for coarseness in range(_COARSEST + 1))
# By the number of columns.
LAYOUTS = {layout.columns: layout for layout in _LAYOUTS}
