"""A trend in words: each change point, each mark without one, and what is left open. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.core.units import format_latency
from reports.analysis.tier_names import op_name, tier_name
from reports.statistics.change_points import ALPHA
from reports.trend.analyse import ChangePoint, Line, Trend, quiet_marks
from reports.trend.marks import Mark
from reports.trend.point import BYTES, RATE, Key

LAYERS = {"nfs-server": "NFS server", "client": "clients", "device": "devices", "vdev": "vdevs"}
_FIGURES = {RATE: "I/Os a second", BYTES: "MB/s"}
# Below a change of this factor, percents; from it on, "times".
_PERCENTS = 1.5
# No smaller change would be found: beyond this factor the number says nothing more.
_MOST_TIMES = 10


def name_of(key: Key) -> str:
    """Such as "read: p50 of reads, disk, at the NFS server"."""
    phase, layer, op, tier, figure = key
    if figure in _FIGURES:
        return f"{phase}: {_FIGURES[figure]}"
    of = op_name(op) if tier == "all" else f"{op_name(op)}, {tier_name(tier)}"
    return f"{phase}: {figure} of {of}, at the {LAYERS.get(layer, layer)}"


def value_text(key: Key, value: float) -> str:
    """A value of a line with its unit."""
    if key[4] == RATE:
        return f"{value:,.0f} I/O/s" if value >= 10 else f"{value:.3g} I/O/s"
    return f"{value / 1e6:.3g} MB/s" if key[4] == BYTES else format_latency(value)


def headline(trend: Trend) -> str:
    """What the page and the terminal say first."""
    points = len(trend.points)
    changes = [change for line in trend.lines for change in line.changes or ()]
    figures = f"{len(trend.judged)} of {len(trend.lines)} figures over {points} runs"
    if not trend.judged:
        return f"{points} runs are too few to tell whether any of {len(trend.lines)} figures moved."
    if not changes:
        return f"No change is shown in {figures}."
    places = {change.at for change in changes}
    worse = sum(change.worse for change in changes)
    where = "one place" if len(places) == 1 else f"{len(places)} places"
    return (
        f"{len(changes)} change point{'s' * (len(changes) != 1)} at {where} in {figures}: {worse} slower, "
        f"{len(changes) - worse} faster."
    )


@dataclass(frozen=True)
class Place:
    """Two runs that figures changed between. `title`: what changed there; `moves`: the figures, in words."""

    title: str
    moves: tuple[str, ...]


def places(trend: Trend) -> list[Place]:
    """Change points by place; of one place the largest first."""
    found = [(change, line) for line in trend.lines for change in line.changes or ()]
    found.sort(key=lambda each: (each[0].at, each[0].before, -abs(math.log(each[0].ratio))))
    made = []
    for _, group in itertools.groupby(found, key=lambda each: (each[0].at, each[0].before)):
        moves = [(line, change) for change, line in group]
        made.append(Place(_title(trend, moves[0][1]), tuple(f"{_move(trend, *each)}." for each in moves)))
    return made


def sentences(trend: Trend) -> list[str]:
    """A sentence for each change point, by place; then marks without one, and what is left open."""
    return [*(f"{place.title}: {move}" for place in places(trend) for move in place.moves), *remarks(trend)]


def remarks(trend: Trend) -> list[str]:
    """Marks without a change point, and what is left open."""
    return [*_marks(trend), *_left_open(trend)]


def change_sentence(trend: Trend, line: Line, change: ChangePoint) -> str:
    """Between which runs, what changed there, which figure moved, and by how much."""
    return f"{_title(trend, change)}: {_move(trend, line, change)}."


def _title(trend: Trend, change: ChangePoint) -> str:
    marks = [str(mark) for mark in change.marks]
    there = _listed(marks) if marks else "nothing recorded changed"
    return f"Between {trend.points[change.before].run} and {trend.points[change.at].run} ({there})"


def _move(trend: Trend, line: Line, change: ChangePoint) -> str:
    text = f"{name_of(line.key)} {moved(line, change)}"
    others = [trend.points[place].run for place in change.places if place != change.at]
    if others:
        text += f", or before {_listed(others)} (95 %)"
    if change.near:
        text += f", where {_listed([str(mark) for mark in change.near])} changed"
    return f"{text}; a later change brings it back" if change.worse and change.mended else text


def moved(line: Line, change: ChangePoint) -> str:
    """Such as "rose by 52 % (95 %: 44 % to 60 %)"."""
    low, high = change.interval
    if 1 / _PERCENTS <= change.ratio <= _PERCENTS:
        verb = "rose" if change.ratio > 1 else "fell"
        ends = sorted(abs(end - 1) * 100 for end in (low, high))
        by = abs(change.ratio - 1) * 100
        return f"{verb} by {by:.1f} % (95 %: {ends[0]:.1f} % to {ends[1]:.1f} %)"
    return f"became {change.ratio:.3g} times what it was (95 %: {low:.3g} to {high:.3g})"


def percent(ratio: float) -> str:
    """A ratio above 1 as a change."""
    return f"{(ratio - 1) * 100:.2g} %" if ratio < 2 else f"{ratio:.3g} times"


def _marks(trend: Trend) -> Iterator[str]:
    places = itertools.groupby(quiet_marks(trend), key=lambda each: each[0].at)
    for at, group in places:
        each = list(group)
        marks: Sequence[Mark] = [mark for mark, _ in each]
        runs = f"{trend.points[at - 1].run} and {trend.points[at].run}"
        between = f"{_listed([str(mark) for mark in marks])} changed between {runs}"
        limit = each[0][1]
        if limit is None:
            yield f"{between}: too few runs to tell whether a figure moved."
        else:
            yield (
                f"{between}: no figure is shown to have moved. Of the figure that is known best a change of "
                f"{percent(limit)} would have been found there in nine of ten cases."
            )


def _left_open(trend: Trend) -> Iterator[str]:
    open_ = len(trend.lines) - len(trend.judged)
    if open_:
        yield (
            f"{open_} of {len(trend.lines)} figures have too few runs to tell. How runs scatter is known "
            "only from runs between which nothing changed: measure each version twice or more often."
        )
    hollow = [point.run for point in trend.points if not point.trusted]
    if hollow:
        yield f"Not used, because their result is unknown: {', '.join(hollow)}."


def method(trend: Trend) -> str:
    """How change points are found, and how sure that is."""
    return (
        "Change points: likelihood ratio for a shift of the mean logarithm over all stretches of runs "
        "(Worsley 1979, Fryzlewicz 2014); the scatter is that of runs between which nothing changed, never "
        "less than what the number of I/Os leaves open. Of trends without a change at most "
        f"{ALPHA * 100:.0f} % show one, all {len(trend.lines)} figures together. Intervals are of each "
        "change by itself."
    )


def row_of(line: Line) -> tuple[str, str, str, str]:
    """Of a line: the first and the last value, their ratio with its range, and the statement on it."""
    found = line.last_to_first
    if found is None:
        return "-", "-", "-", "no two runs have it"
    first, last = (line.values[i] for i in (line.used[0], line.used[-1]))
    assert first and last, "used points have values"
    ratio, known = found
    text = f"{ratio:.3f}" + (f" ({known[0]:.3f} to {known[1]:.3f})" if known else "")
    return (
        value_text(line.key, first.mean.value),
        value_text(line.key, last.mean.value),
        text,
        statement(line),
    )


def statement(line: Line) -> str:
    """The statement on a line, in a few words."""
    if line.changes is None:
        least = line.smallest or _MOST_TIMES
        return f"too few runs to tell{f' a change below {percent(least)}' if least < _MOST_TIMES else ''}"
    if not line.changes:
        least = line.smallest or 0
        return f"no change shown{f'; one of {percent(least)} would be found' if least else ''}"
    return "; ".join(
        f"x {change.ratio:.3g} [{change.interval[0]:.3g}, {change.interval[1]:.3g}]"
        for change in line.changes
    )


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
