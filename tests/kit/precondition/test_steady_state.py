"""SNIA's two criteria, beside scipy's own regression, and at their very limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from kit.precondition.steady_state import RANGE_LIMIT, all_steady, describe, judge

# p99 in ns and I/Os per second of five rounds and more, as the kit wrote them.
RECORDED = [
    [119487, 119480, 119475, 119481, 119485],
    [8460.31, 8460.62, 8460.5, 8460.4, 8460.53, 8461.0],
    [2120448, 1890304, 1716224, 1609728, 1543168, 1502208, 1480704, 1474560],
    [471.2, 530.9, 588.3, 620.7, 655.0, 671.8, 680.2, 679.9],
]
values = st.floats(1e-3, 1e12, allow_nan=False)


def independent(window: list[float]) -> tuple[float, float]:
    """Range and excursion of the fit as parts of the average, by scipy and numpy."""
    fit = stats.linregress(np.arange(5), window)
    line = fit.intercept + fit.slope * np.arange(5)
    average = np.mean(window)
    return float(np.ptp(window) / average), float(np.ptp(line) / average)


@pytest.mark.parametrize("series", RECORDED)
def test_recorded_rounds_agree_with_scipy(series: list[float]) -> None:
    for end in range(5, len(series) + 1):
        judged = judge(series[:end])
        assert judged is not None and judged.window == tuple(series[end - 5 : end])
        by_range, by_fit = independent(series[end - 5 : end])
        assert float(judged.range_share) == pytest.approx(by_range, rel=1e-9, abs=1e-12)
        assert float(judged.fit_share) == pytest.approx(by_fit, rel=1e-6, abs=1e-9)
        assert judged.attained == (by_range <= 0.2 and by_fit <= 0.1)


@given(st.lists(values, min_size=5, max_size=12))
def test_any_series_agrees_with_scipy(series: list[float]) -> None:
    judged = judge(series)
    assert judged is not None
    by_range, by_fit = independent(series[-5:])
    assert float(judged.range_share) == pytest.approx(by_range, rel=1e-6, abs=1e-9)
    assert float(judged.fit_share) == pytest.approx(by_fit, rel=1e-6, abs=1e-6)
    # Away from the limits by more than a rounding error, the verdicts are the same.
    assume(abs(by_range - 0.2) > 1e-6 and abs(by_fit - 0.1) > 1e-6)
    assert judged.attained == (by_range <= 0.2 and by_fit <= 0.1)


@given(st.lists(values, min_size=5, max_size=5), st.integers(1, 1000))
def test_only_shares_count(series: list[float], factor: int) -> None:
    exact = [float(f"{value:.6g}") for value in series]
    scaled = [float(Fraction(str(value)) * factor) for value in exact]
    one, other = judge(exact), judge(scaled)
    assert one is not None and other is not None
    assert float(one.range_share) == pytest.approx(float(other.range_share), rel=1e-9, abs=1e-12)
    reversed_ = judge(exact[::-1])
    assert reversed_ is not None and reversed_.fit_share == one.fit_share


@pytest.mark.parametrize(
    ("series", "range_share", "fit_share", "attained"),
    [
        # A symmetric bump has a flat line: (a) alone.
        ([100, 100, 100, 100, 100], 0, 0, True),
        ([99, 99, 114, 94, 94], Fraction(20, 100), Fraction(6, 100), True),
        ([90, 100, 110, 100, 100], Fraction(20, 100), Fraction(8, 100), True),
        ([1.1, 1.0, 0.9, 1.0, 1.0], Fraction(20, 100), Fraction(8, 100), True),
        ([89.9, 100, 110, 100, 100.1], Fraction(201, 1000), None, False),
        ([90, 100, 110.1, 100, 99.9], Fraction(201, 1000), None, False),
        # A straight line: (b) alone; its excursion is its range.
        ([95, 97.5, 100, 102.5, 105], Fraction(10, 100), Fraction(10, 100), True),
        ([105, 102.5, 100, 97.5, 95], Fraction(10, 100), Fraction(10, 100), True),
        ([94.9, 97.45, 100, 102.55, 105.1], Fraction(102, 1000), Fraction(102, 1000), False),
        ([0.095, 0.0975, 0.1, 0.1025, 0.105], Fraction(10, 100), Fraction(10, 100), True),
        # Both at once.
        ([90, 95, 110, 105, 100], Fraction(20, 100), Fraction(12, 100), False),
    ],
)
def test_at_the_limits(
    series: list[float], range_share: Fraction, fit_share: Fraction | None, attained: bool
) -> None:
    judged = judge(series)
    assert judged is not None
    average = sum(Fraction(str(v)) for v in series) / 5
    if average == 100 or average == 1 or average == Fraction(1, 10):
        assert judged.range_share == range_share
        if fit_share is not None:
            assert judged.fit_share == fit_share
    assert judged.attained is attained


@given(st.integers(1, 10**15), st.integers(1, 10**6))
def test_one_unit_beyond_the_limit_decides(average: int, hair: int) -> None:
    """Integer series around `10 x average`: exactly at the limit is in, one unit of `hair` more is out."""
    unit = 10 * average * 10**6
    at_limit = [unit - unit // 10, unit, unit + unit // 10, unit, unit]
    beyond = [unit - unit // 10 - hair, unit, unit + unit // 10, unit, unit + hair]
    inside, outside = judge(at_limit), judge(beyond)
    assert inside is not None and inside.attained and inside.range_share == RANGE_LIMIT
    assert outside is not None and not outside.attained and outside.range_share > RANGE_LIMIT


def test_fewer_than_five_rounds_say_nothing() -> None:
    assert judge([]) is None and judge([1, 1, 1, 1]) is None
    assert not all_steady({}) and not all_steady({"p99": [1, 1, 1, 1]})
    assert all_steady({"p99": [1] * 5}) and not all_steady({"p99": [1] * 5, "iops": [1, 1, 1, 1, 2]})


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_impossible_values_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and above zero"):
        judge([1, 1, bad, 1, 1])


def test_words_name_both_criteria_and_their_limits() -> None:
    assert describe({"write p99": [90, 100, 110, 100, 100], "write iops": [5, 5]}) == (
        "write p99: steady, range 20 % of the average (at most 20 %), linear fit 8 % (at most 10 %); "
        "write iops: 2 of 5 rounds"
    )
