"""kit.core.bins: every latency is in exactly one bin, no wider than 1/32 of its lower edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import BINS_PER_OCTAVE, bin_edges, bin_index

# frexp is exact below 2**53; that is what the kit promises (104 days).
latencies = st.integers(0, 2**53 - 1)
LAST = 32 * (53 - 4) - 1  # the bin of the longest


@given(st.integers(0, LAST))
def test_bins_follow_each_other_without_gap_or_overlap(index: int) -> None:
    low, high = bin_edges(index)
    assert bin_index(int(low)) == index
    assert bin_index(int(high) - 1) == index
    assert bin_index(int(high)) == index + 1
    assert bin_edges(index + 1)[0] == high


def test_below_32_ns_every_integer_is_its_own_bin() -> None:
    assert bin_index(np.arange(64)).tolist() == list(range(64))
    low, high = bin_edges(np.arange(64))
    assert low.tolist() == list(range(64))
    assert high.tolist() == list(range(1, 65))


def test_the_shape_is_kept() -> None:
    assert bin_index([[1, 2, 3], [4, 5, 6]]).shape == (2, 3)
    assert bin_index(np.array([], dtype=np.int64)).shape == (0,)


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        bin_index([5, -1])


@given(latencies)
def test_the_bins_are_those_of_bpftraces_log2_function(latency: int) -> None:
    """bpftrace src/ast/irbuilder: the 5 bits below the highest one choose the bucket in its octave."""
    bits = max(latency.bit_length() - 6, 0)
    first = latency >> bits << bits
    low, high = bin_edges(bin_index(latency))
    assert (low, high) == (first, first + (1 << bits))
    assert low <= latency < high <= low + max(1, int(low) // BINS_PER_OCTAVE)
