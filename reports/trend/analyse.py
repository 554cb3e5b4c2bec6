"""From points in order to lines, change points, marks and histories of checks. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kit.core.errors import ConfigError
from kit.store.summary import Range
from reports.comparison import comparability
from reports.statistics.change_points import ALPHA, FEWEST, Found, change_points
from reports.statistics.ratios import around
from reports.trend.checks import History, histories
from reports.trend.marks import Mark, marked_keys, marks_of, version_labels
from reports.trend.point import BYTES, RATE, Key, Measured, Point

# More make the table of a line longer than anybody reads, and the search slow.
MOST_POINTS = 100
# Of runs that are unlike the first.
_MOST_NAMED = 5
# Where only a larger change than this would be found, runs are too few to tell.
_TELLING = math.log(2)
# Half of a 95 % range in standard deviations.
_ERRORS = 1.96


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
class Line:
    """A figure over the points. `values`: None where a point has it not.

    `used`: the points that count. `changes`: None where they are too few to tell; `smallest`: the ratio that
    is found in nine of ten cases in the middle of the line, None without a degree of freedom.
    """

    key: Key
    values: tuple[Measured | None, ...]
    used: tuple[int, ...]
    changes: tuple[ChangePoint, ...] | None
    found: Found
    smallest: float | None

    @property
    def is_rate(self) -> bool:
        return self.key[4] in (RATE, BYTES)

    @property
    def last_to_first(self) -> tuple[float, Range | None] | None:
        """The last point that counts over the first, and what the number of I/Os alone leaves open."""
        if len(self.used) < 2:
            return None
        first, last = (self.values[i] for i in (self.used[0], self.used[-1]))
        assert first and last, "used points have values"
        of_both = last.mean.minus(first.mean)
        return of_both.value, of_both.range


@dataclass(frozen=True)
class Trend:
    """`labels`: of each point, where it stands on the axis `by`: its time, or its version."""

    points: tuple[Point, ...]
    by: str
    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]
    checks: tuple[History, ...]
    across: tuple[str, ...] = ()

    def worse_than(self, limit: float) -> list[tuple[Line, ChangePoint]]:
        """Change points that made a line slower by more than `limit`, unless the last level is back."""
        return [
            (line, change)
            for line in self.lines
            for change in line.changes or ()
            if change.worse and not change.mended and abs(math.log(change.ratio)) > math.log1p(limit)
        ]

    @property
    def title(self) -> str:
        """Of the workloads; "" where it is not known."""
        return " / ".join(dict.fromkeys(point.title for point in self.points if point.title))

    @property
    def judged(self) -> list[Line]:
        return [line for line in self.lines if line.changes is not None]


def trend_of(points: Sequence[Point], by: str = "time", across: Sequence[str] = ()) -> Trend:
    """`across`: keys that may differ besides those that are marks. Raises ConfigError."""
    if len(points) < 2:
        raise ConfigError("a trend needs two runs at least", "give several runs, or a directory of them")
    if len(points) > MOST_POINTS:
        raise ConfigError(f"{len(points)} runs: a trend has {MOST_POINTS} at most", "give fewer of them")
    ordered = _ordered(points)
    _check_alike(ordered, across)
    labels = version_labels(ordered) if by == "version" else [point.started_utc for point in ordered]
    if by == "version":
        # Versions in the order in which they came; a run of an earlier one that came later stands with it.
        first = {label: i for i, label in reversed(list(enumerate(labels)))}
        both = sorted(zip(ordered, labels, strict=True), key=lambda each: first[each[1]])
        ordered, labels = [point for point, _ in both], [label for _, label in both]
    marks = marks_of(ordered, across)
    keys = list(dict.fromkeys(key for point in ordered for key in point.figures))
    made = [_line(key, ordered) for key in keys]
    judged = sum(len(line.used) >= FEWEST for line in made)
    lines = [_with_changes(line, marks, ALPHA / max(judged, 1)) for line in made]
    names = [point.run for point in ordered] if by == "time" else labels
    checks = histories([point.outcomes for point in ordered], names)
    return Trend(tuple(ordered), by, tuple(labels), tuple(lines), tuple(marks), tuple(checks), tuple(across))


def _ordered(points: Sequence[Point]) -> list[Point]:
    """By time. Raises ConfigError for a run twice, and for one without a time."""
    seen: dict[str, str] = {}
    for point in points:
        if point.run in seen:
            raise ConfigError(f"{point.name} and {seen[point.run]} are the same run", "give each run once")
        seen[point.run] = point.name
        if point.time is None:
            raise ConfigError(
                f"{point.name}: manifest.json has no time in started_utc, so it has no place on a time axis",
                "leave it out",
            )
    return sorted(points, key=lambda point: (point.time, point.run))


def _check_alike(points: Sequence[Point], across: Sequence[str]) -> None:
    """Every point has measured what the first has, but for what is marked. Raises ConfigError."""
    first, free = points[0], marked_keys(points)
    unlike = {point.name: error for point in points[1:] if (error := _difference(first, point, across, free))}
    if unlike:
        name, error = next(iter(unlike.items()))
        found = "\n".join(error.lines) if isinstance(error, comparability.Incomparable) else error.message
        others = [*unlike][1:]
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        also = f"\nunlike {first.name} are also {', '.join(others[:_MOST_NAMED])}{more}" if others else ""
        raise ConfigError(
            f"{first.name} (A) and {name} (B) are not of one trend: they measured other things, or on other "
            f"devices:\n{found}{also}",
            f"name the runs of one kind; {error.hint}",
        )


def _difference(first: Point, point: Point, across: Sequence[str], free: Sequence[str]) -> ConfigError | None:
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


def _line(key: Key, points: Sequence[Point]) -> Line:
    values = tuple(point.figures.get(key) for point in points)
    used = tuple(i for i, each in enumerate(values) if each and each.trusted)
    return Line(key, values, used, None, Found((), 0, 0.0, math.inf), None)


def _with_changes(line: Line, marks: Sequence[Mark], alpha: float) -> Line:
    """The line with its change points."""
    figures = [each.mean for i in line.used if (each := line.values[i])]
    states = [sum(mark.at <= i for mark in marks) for i in line.used]
    found = change_points(
        [each.log for each in figures], [(each.reach or 0.0) / _ERRORS for each in figures], states, alpha
    )
    middle = len(figures) // 2
    limit = found.smallest(middle, len(figures) - middle)
    smallest = math.exp(min(limit, 690.0)) if limit is not None else None
    if not found.changes and (limit is None or limit > _TELLING):
        return replace(line, found=found, smallest=smallest)
    ends = [0, *(change.at for change in found.changes), len(figures)]
    levels = [sum(each.log for each in figures[a:b]) / (b - a) for a, b in itertools.pairwise(ends)]
    changes = tuple(_change(line, found, number, levels, marks) for number in range(len(found.changes)))
    return replace(line, found=found, changes=changes, smallest=smallest)


def _change(
    line: Line, found: Found, number: int, levels: Sequence[float], marks: Sequence[Mark]
) -> ChangePoint:
    change = found.changes[number]
    at, before = line.used[change.at], line.used[change.at - 1]
    here = tuple(mark for mark in marks if before < mark.at <= at)
    others = [(line.used[place - 1], line.used[place]) for place in change.places if place != change.at]
    near = tuple(mark for a, b in others for mark in marks if a < mark.at <= b)
    sign = -1 if line.is_rate else 1
    # Back: the last level is not slower than that before, by less than half of this change.
    mended = sign * (levels[-1] - levels[number]) < abs(change.log) / 2
    return ChangePoint(
        at, before, math.exp(change.log), around(change.log, change.reach),
        tuple(line.used[place] for place in change.places), here, near, sign * change.log > 0, mended,
    )  # fmt: skip


def quiet_marks(trend: Trend) -> Iterator[tuple[Mark, float | None]]:
    """Marks where no line changed; and the ratio that would have been found there in nine of ten cases.

    That is the smallest of all lines; None where all are too short to tell.
    """
    moved = {mark for line in trend.lines for change in line.changes or () for mark in change.marks}
    for mark in trend.marks:
        if mark in moved:
            continue
        limits = [limit for line in trend.judged if (limit := _limit_at(line, mark.at)) is not None]
        yield mark, math.exp(min(limits)) if limits else None


def _limit_at(line: Line, at: int) -> float | None:
    """The least logarithm that would be found before the point `at`, between the changes beside it."""
    places = [change.at for change in line.changes or ()]
    low = max((place for place in places if place <= at), default=0)
    high = min((place for place in places if place > at), default=len(line.values))
    used = [i for i in line.used if low <= i < high]
    return line.found.smallest(sum(i < at for i in used), sum(i >= at for i in used))
