"""Exact intervals of proportions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.proportion import interval


@pytest.mark.parametrize(("trials", "percent"), [(6, 39.3), (20, 13.9), (60, 4.9), (300, 1.0), (1, 95.0)])
def test_without_one_there_is_a_bound_above(trials: int, percent: float) -> None:
    low, high = interval(0, trials)
    assert low == 0 and round(100 * high, 1) == percent


# Of R: binom.test(x, n)$conf.int.
@pytest.mark.parametrize(
    ("seen", "trials", "low", "high"),
    [(1, 20, 0.001265, 0.248733), (3, 20, 0.032071, 0.378927), (10, 20, 0.271957, 0.728043)],
)
def test_limits_are_those_of_clopper_and_pearson(seen: int, trials: int, low: float, high: float) -> None:
    assert interval(seen, trials) == (pytest.approx(low, abs=2e-6), pytest.approx(high, abs=2e-6))


@given(st.integers(1, 1000), st.data())
def test_the_proportion_lies_between_its_limits(trials: int, data: st.DataObject) -> None:
    seen = data.draw(st.integers(0, trials))
    low, high = interval(seen, trials)
    assert 0 <= low <= seen / trials <= high <= 1


@pytest.mark.parametrize(("seen", "trials"), [(0, 0), (2, 1), (-1, 5)])
def test_what_is_no_proportion_is_refused(seen: int, trials: int) -> None:
    with pytest.raises(ValueError, match="of"):
        interval(seen, trials)
