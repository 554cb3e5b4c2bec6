"""When a share that rises has reached a part of where it ends, on shares whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from kit.store.parts.resource_use import CacheReached
from reports.features.cache_life import curve
from reports.statistics.quantiles import Floats

Windows = tuple[Floats, Floats, Floats]


def rising(seed: int, reads: int, end: float = 0.4, rise: float = 0.1, windows: int = 40) -> Windows:
    """Of a share that nears `end`, by 1/e in `rise` of the phase: times, shares, reads of each window."""
    random = np.random.default_rng([41, seed])
    times_s = (np.arange(windows) + 0.5) / windows
    counts = random.poisson(reads, windows).clip(1)
    shares = random.binomial(counts, end * -np.expm1(-times_s / rise)) / counts
    return times_s, shares, counts.astype(float)


def true_s(part: float, rise: float = 0.1) -> float:
    """The end is its mean over the last fifth, which is not quite reached."""
    return float(-rise * np.log(1 - part * -np.expm1(-0.9 / rise)))


def within(each: CacheReached) -> bool:
    return each.low_s <= true_s(each.part) <= (np.inf if each.high_s is None else each.high_s)


def test_times_and_their_ranges_are_those_of_the_truth() -> None:
    found = [each for seed in range(20) for each in curve.reached(*rising(seed, 300))]
    assert {each.part for each in found} >= {0.5, 0.9} and sum(map(within, found)) >= 0.85 * len(found)


def test_a_part_nearer_to_the_end_than_the_end_is_known_has_no_time() -> None:
    few, many = ({each.part for each in curve.reached(*rising(1, reads))} for reads in (100, 100_000))
    assert 0.99 not in few and many == {0.5, 0.9, 0.99}


def test_it_is_warm_or_still_gets_warm_or_that_is_not_known() -> None:
    still = sum(curve.settled(rising(seed, 3000, rise=1.0)[1]) is False for seed in range(20))
    warm = sum(curve.settled(rising(seed, 3000)[1]) is True for seed in range(20))
    assert still >= 18 and warm >= 18
    assert curve.settled(rising(1, 300, windows=9)[1]) is None


@pytest.mark.parametrize("shares", [np.zeros(40), np.zeros(3), np.array([0.1, 0.2])])
def test_what_never_rises_or_has_too_few_windows_has_no_times(shares: Floats) -> None:
    assert curve.reached(np.arange(len(shares)) + 0.5, shares, np.ones(len(shares))) == []


def test_a_share_without_any_scatter_is_read_off() -> None:
    shares = np.concatenate([np.zeros(10), np.full(30, 0.5)])
    half = curve.reached(np.arange(40) + 0.5, shares, np.full(40, 1e6))[0]
    assert 9.5 <= half.at_s <= 10.5 and half.high_s is not None and half.high_s < 11
    assert curve.settled(shares) is True
