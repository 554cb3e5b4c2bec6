"""From points in order to lines, change points, marks and histories of checks. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import Literal

from kit.core.errors import ConfigError
from kit.core.text import some
from kit.store.summary import Range
from reports.comparison import comparability
from reports.comparison.each_once import EachOnce
from reports.statistics.change_points import ALPHA, FEWEST, FoundChanges, runs_to_find
from reports.statistics.ratios import ERRORS_95, Realisation, around
from reports.trend.check_history import History, histories
from reports.trend.jump_slope_or_wander import Explained, Fit, explain
from reports.trend.recorded_changes import Mark, marked_keys, marks_of, version_labels
from reports.trend.trend_point import BYTES, RATE, FigureAtPoint, Key, TrendPoint

# Of runs that are unlike the first.
_MOST_NAMED = 5
# Of a correlation in runs that do not depend on each other: standard errors that one of twenty is above.
_CHANCE = 1.645
_MOST_COMMON = 0.9
# Where only a larger change than this would be found, runs are too few to tell.
_TELLING = math.log(2)
# More are not shown together.
MOST_RUNS = 100


@dataclass(frozen=True)
class ChangePoint:
    """A line has another level from the point `at` on; `before`: the last point of the level before.

    `ratio`: after over before, `interval` with 95 % confidence. `places`: points from which on the change may
    be, with 95 % confidence. `marks`: what was recorded to change between both points; `near`: at the other
    places. `worse`: slower; `mended`: the last level is back.
    """

    at: int
    before: int
    ratio: float
    interval: Range
    places: tuple[int, ...]
    marks: tuple[Mark, ...]
    near: tuple[Mark, ...]
    worse: bool
    mended: bool = False


@dataclass(frozen=True)
class TrendLine:
    """A figure over the points. `values`: None where a point has it not.

    `used`: the points that count, which `explained` numbers from 0. `changes`: None where the points are too
    few to tell, empty where steps are not what fits best; `smallest`: the ratio that is found in nine of ten
    cases in the middle of the line, None without a degree of freedom. `needed`: where they are too few, the
    runs that would find a change to twice or half, at most MOST_RUNS + 1; None: their scatter is not known.
    """

    key: Key
    values: tuple[FigureAtPoint | None, ...]
    used: tuple[int, ...]
    explained: Explained
    changes: tuple[ChangePoint, ...] | None = None
    smallest: float | None = None
    needed: int | None = None

    @property
    def is_rate(self) -> bool:
        return self.key[4] in (RATE, BYTES)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last point that count."""
        return self.used[0], self.used[-1]

    @property
    def slower(self) -> int:
        """The sign of a change that makes it slower."""
        return -1 if self.is_rate else 1

    @property
    def best(self) -> Fit | None:
        """What fits best; None where the points are too few to tell."""
        return self.explained.fits[0] if self.changes is not None and self.explained.fits else None

    @property
    def moved(self) -> Literal["slower", "faster", "back", ""]:
        """What it is now, by steps or a slope: "back" as before, "" where it did not move."""
        if self.best is None or self.best.kind not in ("steps", "slope"):
            return ""
        low, high = self.best.now.ends(self.slower)
        return "slower" if low > 0 else "faster" if high < 0 else "back"

    @property
    def now_to_past(self) -> Realisation | None:
        """The level of now over that of the past, with its 95 % range."""
        return self.explained.fits[0].now if self.explained.fits else None

    @property
    def odd(self) -> list[tuple[int, float]]:
        """Points that are apart, with their ratio to the level beside them."""
        return [(self.used[i], math.exp(far)) for i, far in self.best.odd] if self.best else []


@dataclass(frozen=True)
class Trend:
    """`labels`: of each point, its time or version, `by` the axis; `one_version`: there are none for it."""

    points: tuple[TrendPoint, ...]
    by: str
    labels: tuple[str, ...]
    lines: tuple[TrendLine, ...]
    marks: tuple[Mark, ...]
    checks: tuple[History, ...]
    across: tuple[str, ...] = ()
    one_version: bool = False

    @property
    def title(self) -> str:
        """Of the workloads; "" where it is not known."""
        return " / ".join(dict.fromkeys(point.title for point in self.points if point.title))

    @property
    def emulated(self) -> bool:
        """Whether devices of a run were models."""
        return any(point.emulated for point in self.points)

    @property
    def judged(self) -> list[TrendLine]:
        return [line for line in self.lines if line.changes is not None]

    @property
    def alike(self) -> list[TrendLine]:
        """Lines whose neighbouring runs look alike, by more than chance makes of any of so many lines."""
        least = NormalDist().inv_cdf(1 - ALPHA / max(len(self.judged), 1))
        wander = [line for line in self.judged if line.best and line.best.kind == "dependence"]
        return [line for line in wander if line.best and line.best.lag > least / math.sqrt(len(line.used))]


def trend_of(points: Sequence[TrendPoint], by: str = "time", across: Sequence[str] = ()) -> Trend:
    """`across`: keys that may differ besides those that are marks. Raises ConfigError."""
    if len(points) < 2:
        raise ConfigError("a trend needs two runs at least", "give several runs, or a directory of them")
    ordered = _ordered(points)
    _check_alike(ordered, across)
    one_version = by == "version" and not version_labels(ordered)
    by = "time" if one_version else by
    ordered, labels, names = _along(ordered, by)
    marks = marks_of(ordered, across)
    keys = list(dict.fromkeys(key for point in ordered for key in point.figures))
    made = [_line(key, ordered) for key in keys]
    judged = sum(len(line.used) >= FEWEST for line in made)
    lines = [_explained(line, marks, ALPHA / max(judged, 1)) for line in made]
    if lag := _common_lag(lines):
        lines = [_explained(line, marks, ALPHA / max(judged, 1), lag) for line in made]
    checks = histories([point.outcomes for point in ordered], names)
    parts = tuple(lines), tuple(marks), tuple(checks), tuple(across), one_version
    return Trend(tuple(ordered), by, tuple(labels), *parts)


def _along(points: Sequence[TrendPoint], by: str) -> tuple[list[TrendPoint], list[str], list[str]]:
    """The points along the axis, their labels, and what histories of checks call them."""
    if by == "time":
        return [*points], [point.started_utc for point in points], [point.run for point in points]
    labels = version_labels(points)
    # Versions in the order in which they came; a run of an earlier one that came later stands with it.
    both = sorted(zip(points, labels, strict=True), key=lambda each: labels.index(each[1]))
    labels = [label for _, label in both]
    # A version is the name of its first run.
    named = (f"{each} ({point.run})" if each in labels[:i] else each for i, (point, each) in enumerate(both))
    return [point for point, _ in both], labels, [*named]


def _ordered(points: Sequence[TrendPoint]) -> list[TrendPoint]:
    """By time. Raises ConfigError for a run twice, and for one without a time."""
    once = EachOnce()
    for point in points:
        once.add(point.name, [point.run], point.fingerprint)
        if point.time is None:
            raise ConfigError(
                f"{point.name}: manifest.json has no time in started_utc, so it has no place on a time axis",
                "leave it out",
            )
    return sorted(points, key=lambda point: (point.time, point.run))


def _check_alike(points: Sequence[TrendPoint], across: Sequence[str]) -> None:
    """Every point has measured what the first has, but for what is marked. Raises ConfigError."""
    first, free = points[0], marked_keys(points)
    settings = [each for point in points for each in point.settings.values()]
    comparability.refuse_unknown(across, sorted({key for each in settings for key in each}))
    unlike = {point.name: error for point in points[1:] if (error := _difference(first, point, across, free))}
    if unlike:
        name, error = next(iter(unlike.items()))
        found = "\n".join(error.lines) if isinstance(error, comparability.Incomparable) else error.message
        others = [*unlike][1:]
        also = f"\nunlike {first.name} are also {some(others, _MOST_NAMED)}" if others else ""
        raise ConfigError(
            f"{first.name} (A) and {name} (B) are not of one trend: they measured other things, or on other "
            f"devices:\n{found}{also}",
            f"name the runs of one kind; {error.hint}",
        )


def _difference(
    first: TrendPoint, point: TrendPoint, across: Sequence[str], free: Sequence[str]
) -> ConfigError | None:
    """Why both are not of one trend."""
    common = [build for build in first.settings if build in point.settings]
    if not common:
        return ConfigError("the series have no build in common", "give series of one workload")
    for build in common:
        sides = [[(each.name, each.settings[build])] for each in (first, point)]
        keys = {key for _, settings in (*sides[0], *sides[1]) for key in settings}
        known = [each for each in across if any(comparability.covers(each, key) for key in keys)]
        try:
            comparability.check(sides[0], sides[1], known, free)
        except ConfigError as error:
            return error
    return None


def _line(key: Key, points: Sequence[TrendPoint]) -> TrendLine:
    values = tuple(point.figures.get(key) for point in points)
    used = tuple(i for i, each in enumerate(values) if each and each.trusted)
    return TrendLine(key, values, used, Explained(FoundChanges((), 0, 0.0, math.inf), None, (), ()))


def _common_lag(lines: Sequence[TrendLine]) -> float:
    """The correlation of neighbouring runs in the median figure; 0 where chance gives as much."""
    known = sorted((line.explained.fits[0].lag, len(line.used)) for line in lines if line.explained.fits)
    lag, runs = known[len(known) // 2] if known else (0.0, 1)
    return min(lag, _MOST_COMMON) if lag > _CHANCE / math.sqrt(runs) else 0.0


def _explained(line: TrendLine, marks: Sequence[Mark], alpha: float, lag: float = 0.0) -> TrendLine:
    """The line with what explains it. `lag`: of its neighbouring runs, at least."""
    figures = [each.mean for i in line.used if (each := line.values[i])]
    states = [sum(mark.at <= i for mark in marks) for i in line.used]
    errors = [(each.reach or 0.0) / ERRORS_95 for each in figures]
    explained = explain([each.log for each in figures], errors, states, alpha, line.slower, lag)
    found = explained.found
    runs = sum(map(len, found.levels))
    limit = found.smallest(runs // 2, runs - runs // 2)
    smallest = None if limit is None else math.exp(min(limit, 690.0))
    made = replace(line, explained=explained, smallest=smallest)
    moves = explained.fits and explained.fits[0].kind in ("steps", "slope")
    if not moves and (limit is None or limit > _TELLING):
        scatter = _scatter([each.log for each in figures], states)
        if scatter is None:
            return made
        needed = runs_to_find(max(scatter, *errors), _TELLING, alpha / 2, MOST_RUNS)
        return replace(made, needed=needed or MOST_RUNS + 1)
    if explained.fits[0].kind != "steps":
        return replace(made, changes=())
    levels = [sum(figures[i].log for i in level) / len(level) for level in found.levels]
    changes = tuple(_change(made, number, levels, marks) for number in range(len(found.changes)))
    return replace(made, changes=changes)


def _scatter(logs: Sequence[float], states: Sequence[int]) -> float | None:
    """Of runs between which nothing was recorded to change: standard deviation; None without two of them."""
    levels = [[log for log, each in zip(logs, states, strict=True) if each == state] for state in {*states}]
    freedom = len(logs) - len(levels)
    squares = sum((log - fmean(level)) ** 2 for level in levels for log in level)
    return math.sqrt(squares / freedom) if freedom else None


def _change(line: TrendLine, number: int, levels: Sequence[float], marks: Sequence[Mark]) -> ChangePoint:
    found = line.explained.found
    change = found.changes[number]
    run_before = {level[0]: before[-1] for before, level in itertools.pairwise(found.levels)}
    at, before = line.used[change.at], line.used[run_before[change.at]]
    here = tuple(mark for mark in marks if before < mark.at <= at)
    others = [(line.used[place - 1], line.used[place]) for place in change.places if place != change.at]
    near = tuple(mark for a, b in others for mark in marks if a < mark.at <= b and mark not in here)
    # Back: the last level is not slower than that before, by less than half of this change.
    mended = line.slower * (levels[-1] - levels[number]) < abs(change.log) / 2
    return ChangePoint(
        at, before, math.exp(change.log), around(change.log, change.reach),
        tuple(line.used[place] for place in change.places), here, near, line.slower * change.log > 0, mended,
    )  # fmt: skip


def quiet_marks(trend: Trend) -> Iterator[tuple[Mark, float | None]]:
    """Marks where no line changed; and the ratio that would have been found there in nine of ten cases.

    That is the smallest of all lines; None where none of them tells.
    """
    moved = {mark for line in trend.lines for change in line.changes or () for mark in change.marks}
    for mark in trend.marks:
        if mark in moved:
            continue
        # A slope, or runs that depend on each other, would hide a step.
        lines = [line for line in trend.lines if line.best and line.best.kind in ("level", "steps")]
        limits = [limit for line in lines if (limit := _limit_at(line, mark.at)) is not None]
        yield mark, math.exp(min(limits)) if limits else None


def _limit_at(line: TrendLine, at: int) -> float | None:
    """The least logarithm that would be found before the point `at`, between the changes beside it."""
    places = [change.at for change in line.changes or ()]
    low = max((place for place in places if place <= at), default=0)
    high = min((place for place in places if place > at), default=len(line.values))
    used = [i for i in line.used if low <= i < high]
    return line.explained.found.smallest(sum(i < at for i in used), sum(i >= at for i in used))
