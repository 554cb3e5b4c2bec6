"""hsp trend: change points, slopes, odd runs, and the gate of 10 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from reports.statistics.change_points import ALPHA
from reports.statistics.ratios import Realisation
from reports.trend.analyse import Trend, trend_of
from reports.trend.slower_limit import gate
from reports.trend.trend_point import FigureAtPoint, TrendPoint
from tests.truth.trials import Trial

Floats = npt.NDArray[np.float64]
PAGE = 16
LIMIT = 0.1
DOCUMENT = "docs/trend.md"
# Beyond what is promised: false steps and slopes; failures of the gate where a step is as large as its limit.
UNLIKE = 0.15
DEPENDENT = {0.6: 0.2, 0.9: 0.35}
# That neighbouring runs look alike, of any figure of a page.
ALIKE = 0.05
AT_LIMIT = {0.0: 0.05, 0.6: 0.1, 0.9: 0.15}


def noise(rng: np.random.Generator, runs: int, lag: float = 0.0, tails: bool = False) -> Floats:
    """Of standard deviation 1: an autoregressive process, or Student's t with 3 degrees of freedom."""
    each = rng.standard_t(3, runs) / math.sqrt(3) if tails else rng.standard_normal(runs)
    for i in range(1, runs):
        each[i] = lag * each[i - 1] + math.sqrt(1 - lag**2) * each[i]
    return each


def page(
    rng: np.random.Generator, course: Floats, scatter: float | Floats, figures: int, **kind: float
) -> Trend:
    """Figures whose first follows `course` (logarithms); nothing changes in the others."""
    runs = len(course)
    logs = [
        math.log(1e-3) + scatter * noise(rng, runs, **kind) + (course if not number else 0)
        for number in range(figures)
    ]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    keys = [(f"phase{number}", "nfs-server", "write", "slog", "p50") for number in range(figures)]
    points = []
    for i in range(runs):
        found = {
            key: FigureAtPoint((Realisation(float(log[i]), 0.002),), True)
            for key, log in zip(keys, logs, strict=True)
        }
        started = (start + timedelta(days=i)).isoformat()
        points.append(
            TrendPoint(f"run{i}", f"run{i}", started, "valid", (), {"": {"workload": "w"}}, figures=found)
        )
    return trend_of(points)


def flat(runs: int) -> Floats:
    return np.zeros(runs)


def step(runs: int, *ratios: float) -> Floats:
    """Steps at equal distances."""
    levels = np.log([1.0, *ratios])
    return levels[np.arange(runs) * len(levels) // runs]


def late(runs: int, ratio: float, last: int) -> Floats:
    return math.log(ratio) * (np.arange(runs) >= runs - last)


def slope(runs: int, ratio: float) -> Floats:
    """`ratio`: from the first to the last run."""
    return math.log(ratio) * np.arange(runs) / (runs - 1)


def shown(trend: Trend) -> bool:
    """A step or a slope in any figure."""
    return any(line.moved for line in trend.lines)


def first_moved(trend: Trend) -> bool:
    return bool(trend.lines[0].moved)


def fails(trend: Trend) -> bool:
    return gate(trend, LIMIT).outcome == "fails"


def first(outcome: str) -> Callable[[Trend], bool]:
    """The gate of the first figure alone."""
    return lambda trend: gate(trend, LIMIT, ["phase0:p50"]).outcome == outcome


def alike(trend: Trend) -> bool:
    """That neighbouring runs look alike is said of any figure."""
    return bool(trend.alike)


def all_hold(trend: Trend) -> bool:
    return gate(trend, LIMIT).outcome == "holds"


def case(
    says: Callable[[Trend], bool], course: Floats, scatter: float | Floats, figures: int = PAGE, **kind: float
) -> Callable[[np.random.Generator], bool]:
    return lambda rng: says(page(rng, course, scatter, figures, **kind))


def odd(
    says: Callable[[Trend], bool], runs: int, at: int | None, figures: int = 1
) -> Callable[[np.random.Generator], bool]:
    """One run that is 49 % slower, or 5 % of the runs at random."""

    def drawn(rng: np.random.Generator) -> bool:
        apart = rng.random(runs) < 0.05 if at is None else np.arange(runs) == at % runs
        return says(page(rng, math.log(1.49) * apart, 0.01, figures))

    return drawn


def named(trend: Trend) -> bool:
    return bool(trend.lines[0].odd)


def any_named(trend: Trend) -> bool:
    """A run is said to be apart in any figure."""
    return any(line.odd for line in trend.lines)


def two_odd(
    says: Callable[[Trend, set[int]], bool], runs: int, scatter: float, ratio: float, other: float
) -> Callable[[np.random.Generator], bool]:
    """Two runs, not side by side, that are so many times as slow as the rest; `says` gets their numbers."""

    def drawn(rng: np.random.Generator) -> bool:
        at = rng.choice(runs, 2, replace=False)
        while abs(at[0] - at[1]) < 2:
            at = rng.choice(runs, 2, replace=False)
        course = flat(runs)
        course[at] = np.log([ratio, other])
        return says(page(rng, course, scatter, 1), {*at.tolist()})

    return drawn


def both_named(trend: Trend, at: set[int]) -> bool:
    return at <= {run for run, _ in trend.lines[0].odd}


def others_named(trend: Trend, at: set[int]) -> bool:
    return bool({run for run, _ in trend.lines[0].odd} - at)


def false_alarms() -> Iterator[Trial]:
    claim, words = "a step or a slope", "at most 5 %"
    for runs in (3, 6, 12, 30):
        for tails in (False, True):
            data = f"{runs} runs, {PAGE} figures, no change{', t3 tails' if tails else ''}"
            few = 40 if runs == 12 and not tails else 0
            drawn = case(shown, flat(runs), 0.03, tails=tails)
            yield Trial(claim, data, drawn, 0.05, cases=300, few=few, promise=words)
    for runs in (6, 12, 30):
        data = f"{runs} runs, {PAGE} figures, no change"
        drawn, look_alike = case(alike, flat(runs), 0.03), "neighbouring runs look alike"
        few = 20 * (runs == 12)
        yield Trial(look_alike, data, drawn, ALIKE, cases=300, few=few, promise=DOCUMENT)
    for runs in (6, 12, 30):
        unlike = np.where(np.arange(runs) < runs // 2, 0.02, 0.1)
        data = f"{runs} runs, one figure, scatter 2 %, then 10 %"
        yield Trial(claim, data, case(shown, flat(runs), unlike, 1), UNLIKE, cases=300, promise=DOCUMENT)
    for lag, most in DEPENDENT.items():
        for runs in (6, 12, 30):
            data = f"{runs} runs, one figure, lag-1 {lag}"
            yield Trial(
                claim, data, case(shown, flat(runs), 0.03, 1, lag=lag), most, cases=300, promise=DOCUMENT
            )


def false_names() -> Iterator[Trial]:
    claim = "a run is apart"
    for runs in (3, 6, 12, 30):
        for figures in (1, PAGE):
            data = f"{runs} runs, {figures} figures, no change"
            drawn, few = case(any_named, flat(runs), 0.03, figures), 40 * (runs == 12 and figures == 1)
            yield Trial(claim, data, drawn, ALPHA, cases=400, few=few, promise=DOCUMENT)
    for runs, scatter, ratio, other, kind in two_kinds():
        drawn = two_odd(others_named, runs, scatter, ratio, other)
        data = f"{runs} runs, {scatter:.0%}, two others {kind}"
        yield Trial(claim, data, drawn, ALPHA, cases=300, promise=DOCUMENT)
        for name, said in (("a step or a slope", shown), ("the gate fails", fails)):
            drawn = two_odd(lambda trend, _, said=said: said(trend), runs, scatter, ratio, other)  # type: ignore[misc]
            yield Trial(name, data, drawn, ALPHA, cases=300, promise=DOCUMENT)


def two_kinds() -> Iterator[tuple[int, float, float, float, str]]:
    """Runs, scatter, both ratios and their name."""
    for runs in (10, 20, 30):
        for scatter, ratio in ((0.01, 1.49), (0.03, 1.49), (0.1, 2.5)):
            yield runs, scatter, ratio, ratio, f"{ratio:g} times as slow"
            yield runs, scatter, ratio, 1 / ratio, f"{ratio:g} times as slow and as fast"


def false_failures() -> Iterator[Trial]:
    claim = "the gate fails"
    for lag in (0.0, 0.6, 0.9):
        for runs in (3, 6, 12, 30):
            few = 30 if runs == 12 and lag else 0
            yield Trial(
                claim,
                f"{runs} runs, {PAGE} figures, 5 %, no change, lag-1 {lag}",
                case(fails, flat(runs), 0.05, lag=lag),
                0.05,
                cases=240,
                few=few,
            )
    for lag, most in AT_LIMIT.items():
        for runs in (6, 12, 30):
            yield Trial(
                claim,
                f"{runs} runs, one figure, a step of 10 %, lag-1 {lag}",
                case(fails, step(runs, 1.1), 0.01, 1, lag=lag),
                most,
                cases=600,
                promise=DOCUMENT,
            )
    for runs in (12, 30):
        yield Trial(
            claim,
            f"{runs} runs, 10 % in 4 steps",
            case(fails, step(runs, 1.1 ** (1 / 3), 1.1 ** (2 / 3), 1.1), 0.01, 1),
            0.05,
            cases=600,
        )
        yield Trial(
            claim, f"{runs} runs, a slope of 10 %", case(fails, slope(runs, 1.1), 0.01, 1), 0.05, cases=600
        )
    for runs in (6, 10, 20):
        yield Trial(
            claim,
            f"{runs} runs, the last 49 % slower",
            odd(fails, runs, -1, PAGE),
            0.01,
            cases=240,
            few=20 if runs == 10 else 0,
        )
    yield Trial(claim, "20 runs, 5 % of them 49 % slower", odd(fails, 20, None), 0.05, cases=600)


def false_passes() -> Iterator[Trial]:
    claim = "the gate holds"
    for runs in (6, 12, 30):
        for scatter in (0.01, 0.03):
            yield Trial(
                claim,
                f"{runs} runs, a step of 12 %, {scatter:.0%}",
                case(first("holds"), step(runs, 1.12), scatter),
                0.05,
                cases=240,
                few=20 if runs == 12 else 0,
            )
    yield Trial(
        claim,
        "12 runs, the last 2 20 % slower, 3 %",
        case(first("holds"), late(12, 1.2, 2), 0.03),
        0.05,
        cases=240,
    )


def power() -> Iterator[Trial]:
    for runs in (6, 10, 20):
        for at in (-1, runs // 2):
            yield Trial(
                "the run is apart",
                f"{runs} runs, number {at % runs + 1} 49 % slower",
                odd(named, runs, at, PAGE),
                at_least=0.95,
                cases=200,
                few=20 if runs == 10 else 0,
            )
    for (runs, scatter, ratio, other, kind), percent in zip(two_kinds(), BOTH_NAMED, strict=True):
        yield Trial(
            "both runs are apart",
            f"{runs} runs, {scatter:.0%}, two not side by side {kind}",
            two_odd(both_named, runs, scatter, ratio, other),
            at_least=percent / 100,
            cases=200,
            few=20 if (runs, scatter) == (10, 0.01) else 0,
            promise=DOCUMENT,
        )
    yield Trial(
        "a step or a slope",
        "12 runs, 2 % a run, 1 %",
        case(first_moved, slope(12, 1.02**11), 0.01),
        at_least=0.95,
        cases=240,
        few=20,
    )
    yield from table()


# Of docs/trend.md, in percent: two runs apart, by 10, 20 and 30 runs, scatter, and direction.
BOTH_NAMED = (95, 95, 95, 95, 55, 55, *[95] * 12)
# Of docs/trend.md, in percent of the cases: 6, 12 and 30 runs with a scatter of 1 %, then with one of 3 %.
TABLE: Sequence[tuple[str, str, Callable[[int], Floats], Sequence[int]]] = (
    ("holds", "no change", flat, (99, 100, 100, 51, 85, 100)),
    ("fails", "a step of 15 % in the middle", lambda runs: step(runs, 1.15), (42, 99, 100, 1, 42, 96)),
    ("fails", "a step of 25 % in the middle", lambda runs: step(runs, 1.25), (93, 100, 100, 7, 98, 100)),
    ("fails", "25 % in the last two runs", lambda runs: late(runs, 1.25, 2), (83, 96, 98, 8, 69, 98)),
    ("fails", "two steps of 8 %", lambda runs: step(runs, 1.08, 1.08**2), (9, 89, 100, 5, 30, 63)),
    ("fails", "a slope, 25 % in all", lambda runs: slope(runs, 1.25), (96, 100, 100, 23, 83, 99)),
)


# The same of all 16 figures, without a change.
ALL_HOLD = (73, 99, 100, 0, 8, 100)


def table() -> Iterator[Trial]:
    kinds = [(scatter, runs) for scatter in (0.01, 0.03) for runs in (6, 12, 30)]
    for (scatter, runs), percent in zip(kinds, ALL_HOLD, strict=True):
        yield Trial(
            "the gate holds", f"{runs} runs, no change, all {PAGE} figures, {scatter:.0%}",
            case(all_hold, flat(runs), scatter), at_least=percent / 100 or 1e-9, cases=100, promise=DOCUMENT,
        )  # fmt: skip
    for outcome, name, course, percents in TABLE:
        for (scatter, runs), percent in zip(kinds, percents, strict=True):
            yield Trial(
                f"the gate {outcome}", f"{runs} runs, {name}, {scatter:.0%}",
                case(first(outcome), course(runs), scatter), at_least=percent / 100 or 1e-9, cases=200,
                promise=DOCUMENT,
            )  # fmt: skip


TRIALS: list[Trial] = [*false_alarms(), *false_names(), *false_failures(), *false_passes(), *power()]
