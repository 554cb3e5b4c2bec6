"""Change points of simulated sequences with a known truth: false alarms, power, intervals, places."""

import math

import numpy as np
import pytest

from reports.statistics.change_points import ALPHA, change_points

SPREAD = 0.03


def sequence(generator, levels, spread=SPREAD):
    return [level + spread * generator.standard_normal() for level in levels]


def places(values, states=None, alpha=ALPHA, error=0.0):
    found = change_points(values, [error] * len(values), states or [0] * len(values), alpha)
    return [change.at for change in found.changes]


@pytest.mark.parametrize(("runs", "states"), [
    (4, None), (6, [0, 0, 1, 1, 2, 2]), (10, None), (10, [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]), (20, None),
])  # fmt: skip
def test_of_sequences_without_change_at_most_alpha_show_one(runs, states):
    generator = np.random.default_rng(runs)
    # 20 % instead of 5 %, so that few sequences can tell.
    alarms = sum(bool(places(sequence(generator, [0] * runs), states, alpha=0.2)) for _ in range(250))
    assert alarms / 250 <= 0.2


def test_the_promise_is_kept_together_by_many_figures():
    generator = np.random.default_rng(1)
    alarms = sum(
        any(places(sequence(generator, [0] * 8), alpha=0.2 / 20) for _ in range(20)) for _ in range(50)
    )
    assert alarms / 50 <= 0.2


def test_without_a_repeat_or_with_two_runs_nothing_is_told():
    assert places([0.0, 5.0]) == [] and places([1.0]) == [] and places([]) == []
    assert change_points([0.0, 5.0], [0.0] * 2, [0, 1], ALPHA).freedom == 0
    # Three runs have one degree of freedom: of twenty figures a factor of 2 is seldom told.
    generator = np.random.default_rng(2)
    step = [0, math.log(2), math.log(2)]
    assert sum(bool(places(sequence(generator, step), alpha=ALPHA / 20)) for _ in range(200)) <= 20


def test_what_the_limit_says_is_found_in_nine_of_ten_cases():
    generator = np.random.default_rng(3)
    levels = [0] * 8
    known = [change_points(sequence(generator, levels), [0.0] * 8, levels, ALPHA) for _ in range(200)]
    limit = float(np.median([found.smallest(4, 4) for found in known]))
    assert 0.1 < limit < 0.5
    step = [0] * 4 + [limit] * 4
    found = [places(sequence(generator, step)) for _ in range(300)]
    assert np.mean([4 in each for each in found]) >= 0.85
    # A quarter of it is found seldom: the limit says something.
    weak = [places(sequence(generator, [each / 4 for each in step])) for _ in range(300)]
    assert np.mean([bool(each) for each in weak]) <= 0.3


@pytest.mark.parametrize("states", [None, [0, 0, 1, 1, 2, 2]])
def test_a_level_that_comes_back_is_two_changes(states):
    generator = np.random.default_rng(4)
    up = [places(sequence(generator, [0, 0, 1, 1, 0, 0], 0.003), states) for _ in range(50)]
    assert np.mean([each == [2, 4] for each in up]) >= 0.95


def test_intervals_hold_the_truth_and_places_hold_the_place():
    generator = np.random.default_rng(5)
    held = inside = told = 0
    for _ in range(300):
        values = sequence(generator, [0] * 6 + [0.25] * 6)
        for change in change_points(values, [0.0] * 12, [0] * 12, ALPHA).changes[:1]:
            told += 1
            held += abs(change.log - 0.25) <= change.reach
            inside += 6 in change.places
    assert told > 270 and held / told >= 0.92 and inside / told >= 0.95


def test_an_unmarked_change_is_found_among_marks_and_a_mark_makes_no_change():
    generator = np.random.default_rng(6)
    states = [0, 0, 0, 0, 1, 1, 1, 1]
    moved = [places(sequence(generator, [0, 0, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]), states) for _ in range(50)]
    assert np.mean([2 in each for each in moved]) >= 0.9
    assert sum(4 in each for each in moved) <= 5


def test_runs_that_agree_by_chance_are_not_surer_than_their_ios():
    values = [0.0, 0.0, 0.0, 0.02, 0.02, 0.02]
    assert places(values) == [3]
    assert places(values, error=0.02) == []


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="finite"):
        change_points([0.0, math.nan, 1.0], [0.0] * 3, [0] * 3, ALPHA)
    with pytest.raises(ValueError, match="finite"):
        change_points([0.0, 1.0, 1.0], [0.0] * 2, [0] * 3, ALPHA)
