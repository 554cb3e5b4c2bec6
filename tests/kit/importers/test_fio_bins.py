"""fio's bins."""

from __future__ import annotations

import numpy as np

from kit.importers import fio_bins


def test_fio_bins_are_those_of_fio() -> None:
    low = fio_bins.lower_edge(np.arange(fio_bins.BINS + 1))
    assert (np.diff(low) >= 1).all() and low[0] == 0 and low[-1] == 2**34
    for index in range(fio_bins.BINS):
        assert fio_bins.index_of(int(low[index])) == fio_bins.index_of(int(low[index + 1]) - 1) == index
        assert low[index] <= fio_bins.midpoint(index) < low[index + 1]
