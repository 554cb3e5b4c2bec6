"""Steady state according to SNIA's Solid State Storage Performance Test Specification. Pure.

Over a measurement window of 5 rounds, of a tracked variable y:
    (a) max(y) - min(y) is at most 20 % of the average of y;
    (b) the excursion of the best linear fit (max - min of the least-squares line over the window)
        is at most 10 % of the average of y.
Source: SNIA SSS PTS 2.0.2, definition 2.1.24. fio's own `steadystate` is a different rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

WINDOW = 5
RANGE_LIMIT = Fraction(20, 100)
FIT_LIMIT = Fraction(10, 100)


@dataclass(frozen=True)
class Steadiness:
    """Criteria over a window. `range_share` and `fit_share` are exact fractions of the average."""

    window: tuple[float, ...]
    range_share: Fraction
    fit_share: Fraction

    @property
    def attained(self) -> bool:
        """Whether both criteria hold; a value equal to its limit holds."""
        return self.range_share <= RANGE_LIMIT and self.fit_share <= FIT_LIMIT

    def as_json(self) -> dict[str, Any]:
        return {
            "window": list(self.window),
            "range_share": float(self.range_share),
            "range_limit": float(RANGE_LIMIT),
            "fit_share": float(self.fit_share),
            "fit_limit": float(FIT_LIMIT),
            "attained": self.attained,
        }


def judge(values: Sequence[float]) -> Steadiness | None:
    """The criteria over the last five of `values`, one per round; None with fewer values.

    A value is taken as its decimal text, so that a rounding error cannot move a series across a limit.
    Raises ValueError for a value that is not finite or not above zero.
    """
    for value in values:
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"a tracked value must be finite and above zero, found {value!r}")
    if len(values) < WINDOW:
        return None
    window = tuple(values[-WINDOW:])
    exact = [Fraction(str(value)) for value in window]
    average = sum(exact, Fraction(0)) / WINDOW
    middle = Fraction(WINDOW - 1, 2)
    # Least squares on x = 0..4: the excursion of the line is its slope times the width of the window.
    spread = sum((x - middle) ** 2 for x in range(WINDOW))
    slope = sum(((x - middle) * y for x, y in enumerate(exact)), Fraction(0)) / spread
    return Steadiness(window, (max(exact) - min(exact)) / average, abs(slope) * (WINDOW - 1) / average)


def all_steady(tracked: Mapping[str, Sequence[float]]) -> bool:
    """Whether every tracked variable (at least one) is in steady state."""
    judged = [judge(values) for values in tracked.values()]
    return bool(judged) and all(steadiness is not None and steadiness.attained for steadiness in judged)


def describe(tracked: Mapping[str, Sequence[float]]) -> str:
    """The verdict for each tracked variable, and both values with their limits, as text."""
    return "; ".join(f"{name}: {_verdict(values)}" for name, values in tracked.items())


def _verdict(values: Sequence[float]) -> str:
    steadiness = judge(values)
    if steadiness is None:
        return f"{len(values)} of {WINDOW} rounds"
    return (
        f"{'steady' if steadiness.attained else 'not steady'}, "
        f"range {_percent(steadiness.range_share)} of the average (at most {_percent(RANGE_LIMIT)}), "
        f"linear fit {_percent(steadiness.fit_share)} (at most {_percent(FIT_LIMIT)})"
    )


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.4g} %"
