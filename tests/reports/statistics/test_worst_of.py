"""reports.statistics.worst_of: a stripe is as slow as its slowest drive."""

from __future__ import annotations

import numpy as np
import pytest

from reports.statistics.batch_means import error_of_mean
from reports.statistics.quantiles import Floats
from reports.statistics.worst_of import mean_time, reach, stripe_times, whole_records


def exponential(count: int, seed: int) -> Floats:
    return np.random.default_rng(seed).exponential(1.0, count)


@pytest.mark.parametrize("number", [2, 4, 8])
def test_single_requests_are_the_worst_of_independent_drives(number: int) -> None:
    """Of exponential latencies the mean of the largest of N is 1 + 1/2 + ... + 1/N."""
    drives = [exponential(20_000, seed) for seed in range(number)]
    expected = sum(1 / n for n in range(1, number + 1))
    assert stripe_times(drives, number, 1).mean() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("run", [4, 16, 64])
def test_runs_of_independent_requests_even_out_as_the_root_of_their_length(run: int) -> None:
    """The mean of a run has 1/sqrt(run) of the spread: of the larger of two, 0.564 of that above the mean."""
    drives = [exponential(20_000, seed) for seed in range(2)]
    lost = stripe_times(drives, 2, run).mean() - 1
    assert lost == pytest.approx(0.564 / np.sqrt(run), rel=0.12)


def test_runs_of_dependent_requests_even_out_less() -> None:
    """A drive that is slow for 50 requests is slow in runs of 16, too."""
    phases = [np.repeat(exponential(400, seed), 50) for seed in range(2)]
    single, run = (stripe_times(phases, 2, length).mean() - 1 for length in (1, 16))
    assert run > 0.8 * single
    shuffled = [np.random.default_rng(9).permutation(each) for each in phases]
    assert stripe_times(shuffled, 2, 16).mean() - 1 < 0.4 * single


def queue_in_lock_step(drives: list[Floats]) -> float:
    """The mean time of stripes of drives of which nothing goes on while they wait."""
    return float(np.maximum.reduce(drives).mean())


def test_the_bracket_holds_arrays_of_known_kinds() -> None:
    """Of independent requests it is at the bound of single ones; of drives that catch up, at the other."""
    alone = [exponential(2000, seed) for seed in range(7)]
    new = [exponential(2000, seed + 100) for seed in range(7)]
    slow, fast = (mean_time(alone, 7, run) for run in (1, whole_records(alone)))
    assert slow.low <= queue_in_lock_step(new) <= slow.high
    # A buffer of so many requests: the array waits for the slowest after each of those.
    for buffer in (5, 50, 500, 2000):
        caught_up = float(np.max([each.reshape(-1, buffer).mean(axis=1) for each in new], axis=0).mean())
        assert fast.low <= caught_up <= slow.high
    assert caught_up == pytest.approx(fast.value, rel=0.06)


def test_the_slowest_of_equal_drives_is_no_slower_than_they_are() -> None:
    """Of seven estimates the slowest is 1.35 standard errors above the mean: half of that is taken off."""
    biased, found, inside = [], [], 0
    for first in range(0, 700, 7):
        drives = [exponential(400, first + number) for number in range(7)]
        time = mean_time(drives, 7, whole_records(drives))
        biased.append(max(each.mean() for each in drives))
        found.append(time.value)
        inside += time.low <= 1 <= time.high
    assert np.mean(biased) == pytest.approx(1 + 1.35 / 20, abs=0.008)
    assert abs(np.mean(found) - 1) < 0.67 * abs(np.mean(biased) - 1)
    # Of a hundred ranges of 95 %.
    assert inside >= 88


def test_one_slow_drive_is_as_slow_as_it_is() -> None:
    drives = [exponential(400, 1), exponential(400, 2), 2 * exponential(400, 3)]
    time = mean_time(drives, 3, whole_records(drives))
    assert time.value == pytest.approx(drives[2].mean(), rel=0.01)
    assert (time.high - time.low) / 2 == pytest.approx(reach(drives[2]) * time.value, rel=0.2)


@pytest.mark.parametrize("stall", [3_000.0, 3e9])
@pytest.mark.parametrize("number", [1, 3, 32])
def test_a_stall_leaves_every_time_positive_and_in_order(stall: float, number: int) -> None:
    """One request that takes longer than all the others of a drive together."""
    drives = [exponential(400, seed) for seed in range(3)]
    drives[1][200] = stall
    for run in (1, whole_records(drives)):
        time = mean_time(drives[:number], number, run)
        assert 0 < time.low <= time.value <= time.high


def test_a_range_of_95_percent_holds_the_mean_of_few_requests_as_often() -> None:
    known = [exponential(90, seed) for seed in range(2000)]
    held = [abs(each.mean() - 1) <= reach(each) * each.mean() for each in known]
    # Of exponential latencies: their means are skewed, and so few batches do not show it.
    assert 0.925 < np.mean(held) < 0.97


def test_records_of_several_lengths_are_drawn_whole() -> None:
    drives = [exponential(300, 1), exponential(500, 2)]
    longest = stripe_times(drives, 2, whole_records(drives))
    assert longest == pytest.approx(max(each.mean() for each in drives))


def test_drives_in_excess_are_like_one_of_those_that_were_measured() -> None:
    slow, quick = np.full(100, 3.0), np.full(100, 1.0)
    times = stripe_times([quick, slow, quick], 1, 1)
    assert set(times) == {1.0}
    assert set(stripe_times([quick], 5, 1)) == {1.0}
    # Two measured, one more: the slow one is in it already.
    assert set(stripe_times([quick, slow], 3, 1)) == {3.0}
    assert set(stripe_times([quick, quick, slow], 4, 1)) == {3.0}


def test_the_error_of_a_mean_heeds_that_requests_depend_on_one_another() -> None:
    independent = exponential(10_000, 1)
    assert error_of_mean(independent)[0] == pytest.approx(0.01, rel=0.2)
    dependent = np.repeat(exponential(200, 1), 50)
    shuffled = np.random.default_rng(2).permutation(dependent)
    assert error_of_mean(dependent)[0] > 4 * error_of_mean(shuffled)[0]
    assert reach(np.ones(100)) == 0
    assert error_of_mean(np.ones(3))[0] == float("inf")
