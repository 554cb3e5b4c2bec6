"""Binning side by side with what a user would write; asserts only that results agree."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from kit.core.bins import bin_edges, bin_index
from tests.bench.conftest import Tell, time_ratio

pytestmark = pytest.mark.bench

LATENCIES_NS = np.random.default_rng(1).lognormal(11, 2, 1_000_000).astype(np.int64)


def by_loop(values: np.ndarray) -> list[int]:
    found = []
    for value in values.tolist():
        shift = max(math.frexp(max(value, 1))[1] - 6, 0)
        found.append((shift << 5) + (value >> shift))
    return found


def by_edges(values: np.ndarray) -> np.ndarray:
    edges = bin_edges(np.arange(int(bin_index(values.max())) + 1))[0]
    return np.searchsorted(edges, values, side="right") - 1


@pytest.mark.parametrize("peer", [by_loop, by_edges])
def test_binning_a_million_latencies(peer: Callable[[np.ndarray], object], tell: Tell) -> None:
    assert np.array_equal(np.asarray(peer(LATENCIES_NS)), bin_index(LATENCIES_NS))
    ratio = time_ratio(lambda: bin_index(LATENCIES_NS), lambda: peer(LATENCIES_NS))
    tell("", f"1 M latencies to bins, time of {peer.__name__} / ours", ratio, "x")
