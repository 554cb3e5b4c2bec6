"""A trend in words: each change point, each mark without one, and what is left open. Pure."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.core.text import commas, counted, listed
from kit.core.units import format_change, format_factor, format_latency
from kit.store.labels import ios_words, layer_name, op_name, tier_name
from kit.store.summary import Range
from reports.statistics.change_points import ALPHA
from reports.trend.analyse import MOST_RUNS, ChangePoint, Trend, TrendLine, quiet_marks
from reports.trend.recorded_changes import Mark
from reports.trend.trend_point import BYTES, RATE, Key

_FIGURES = {RATE: "I/Os a second", BYTES: "MB/s"}
_WORDS = ("higher", "lower", "as high")
# Below a change of this factor, percents; from it on, "times".
_PERCENTS = 2
# No smaller change would be found: beyond this factor the number says nothing more.
_MOST_TIMES = 10
# A change, and another one back.
_TURNS = 2
# Places that the headline names.
_MOST_SINCE = 2


def name_of(key: Key) -> str:
    """Such as "read: p50 of reads, disk, at the NFS server"."""
    phase, layer, op, tier, figure = key
    if figure in _FIGURES:
        return f"{phase}: {_FIGURES[figure]}"
    of = op_name(op) if tier == "all" else f"{op_name(op)}, {tier_name(tier)}"
    return f"{phase}: {figure} of {of}, at the {layer_name(layer)}"


def _short(key: Key) -> str:
    """As `name_of`, without phase and layer."""
    return _FIGURES.get(key[4], f"{key[4]} of {ios_words(key[2], key[3])}")


def value_text(key: Key, value: float) -> str:
    """A value of a line with its unit."""
    if key[4] == RATE:
        return f"{commas(value)} I/O/s" if value >= 10 else f"{value:.3g} I/O/s"
    return f"{value / 1e6:.3g} MB/s" if key[4] == BYTES else format_latency(value)


def headline(trend: Trend) -> str:
    """What the page and the terminal say first: what figures are now, beside what they were."""
    points, judged = len(trend.points), len(trend.judged)
    if not judged:
        return f"{points} runs are too few to tell whether any of {len(trend.lines)} figures moved."
    moved = [line for line in trend.lines if line.moved]
    if not moved:
        alike = len(trend.alike)
        but = f"; in {alike} neighbouring runs look alike" if alike else ""
        return f"No change is shown in {judged} of {len(trend.lines)} figures over {points} runs{but}."
    kinds = {"slower": "slower", "faster": "faster", "back": "back at their past level"}
    count = Counter[str](line.moved for line in moved)
    held = [(number, text) for kind, text in kinds.items() if (number := count[kind])]
    now = ", ".join(f"{number} {'is' if number == 1 else 'are'} {text}" for number, text in held)
    told = [*_since(trend, moved)]
    of = f"Now, of {counted(len(moved), 'figure')} that moved, {now}"
    if count["back"] == len(moved):
        if len(told) == _TURNS and (ended := _ended(trend, moved)):
            return ended
        were = "figure that moved is" if len(moved) == 1 else f"{len(moved)} figures that moved are"
        of = f"The {were} back at the past level, as far as these runs show. In between"
    more = f"; {counted(len(told) - _MOST_SINCE, 'more place')}" if len(told) > _MOST_SINCE else ""
    return f"{of}: {'; '.join(told[:_MOST_SINCE])}{more}."


def _since(trend: Trend, moved: Sequence[TrendLine]) -> Iterator[str]:
    """The largest change of each place: direction, since when, by how much, and what changed there."""
    for line in moved:
        if not line.changes and (slope := line.explained.slope):
            words = "slower" if (slope.log > 0) == (line.slower > 0) else "faster"
            yield f"{words} run by run ({_short(line.key)} {format_change(slope.value, *_WORDS)} a run)"
    found = [(change, line) for line in moved for change in line.changes or ()]
    for at in sorted({change.at for change, _ in found}):
        here = [each for each in found if each[0].at == at]
        change, line = max(here, key=lambda each: (each[1].key[4] == "p50", abs(math.log(each[0].ratio))))
        marks = f"{_listed(change.marks)}: " if change.marks else ""
        text = f"{marks}{_short(line.key)} {format_change(change.ratio, *_WORDS)}"
        yield f"{'slower' if change.worse else 'faster'} from {_day(trend, at)} on ({text})"


def _day(trend: Trend, at: int) -> str:
    return trend.points[at].started_utc[:10] or trend.points[at].run


def _listed(marks: Sequence[Mark]) -> str:
    return listed([str(mark) for mark in marks])


def _ended(trend: Trend, moved: Sequence[TrendLine]) -> str:
    """Of figures that all moved at one run and moved back at another: how far, from when until when."""
    turns = {tuple(change.at for change in line.changes or ()) for line in moved}
    ways = {tuple(change.worse for change in line.changes or ()) for line in moved}
    if len(turns) != 1 or len(ways) != 1 or len(next(iter(turns))) != _TURNS:
        return ""
    line = max(
        moved, key=lambda each: (each.key[4] == "p50", *(abs(math.log(c.ratio)) for c in each.changes or ()))
    )
    first, last = line.changes or ()
    if first.worse == last.worse:
        return ""
    since, until = (
        _day(trend, change.at) + (f" ({_listed(change.marks)})" if change.marks else "")
        for change in (first, last)
    )
    back = "the figure that moved is" if len(moved) == 1 else f"all {len(moved)} figures that moved are"
    return (
        f"Now, as far as these runs show, {back} back at the past level; {_short(line.key)} was "
        f"{format_change(first.ratio, *_WORDS)} from {since} until {until}."
    )


@dataclass(frozen=True)
class ChangePlace:
    """Two runs that figures changed between, or the ends of a slope. `moves`: the figures, in words."""

    title: str
    moves: tuple[str, ...]


def places(trend: Trend) -> list[ChangePlace]:
    """Slopes, then change points by place; of one place the largest first."""
    found = [(change, line) for line in trend.lines for change in line.changes or ()]
    found.sort(key=lambda each: (each[0].at, each[0].before, -abs(math.log(each[0].ratio))))
    slopes = [line for line in trend.lines if line.moved and not line.changes]
    slopes.sort(key=lambda line: line.ends)
    made = []
    for ends, lines in itertools.groupby(slopes, key=lambda line: line.ends):
        title = f"From {trend.points[ends[0]].run} to {trend.points[ends[1]].run}, run by run"
        made.append(ChangePlace(title, tuple(f"{_rise(trend, line)}." for line in lines)))
    for _, group in itertools.groupby(found, key=lambda each: (each[0].at, each[0].before)):
        moves = [(line, change) for change, line in group]
        title = _title(trend, moves[0][1])
        made.append(ChangePlace(title, tuple(f"{_move(trend, *each)}." for each in moves)))
    return made


def sentences(trend: Trend) -> list[str]:
    """A sentence for each slope and change point; then marks without one, and what is left open."""
    return [*(f"{place.title}: {move}" for place in places(trend) for move in place.moves), *remarks(trend)]


def remarks(trend: Trend) -> list[str]:
    """Marks without a change point, runs that are apart, and what is left open."""
    one = (
        f"All {len(trend.points)} runs have one version, as far as it was recorded, so they stand by time: "
        "an axis of versions needs a run of another version."
    )
    return [*([one] if trend.one_version else ()), *_marks(trend), *_apart(trend), *_left_open(trend)]


def _rise(trend: Trend, line: TrendLine) -> str:
    """The slope of a line: a run, and in all."""
    slope, runs = line.explained.slope, len(line.used)
    assert slope, "a line without change points moves by a slope"
    whole = math.exp(slope.log * (runs - 1))
    text = f"{name_of(line.key)} {_by(slope.value, slope.range)} a run"
    return f"{text}, over {runs} runs to {format_factor(whole)}{_besides(trend, line)}"


def _besides(trend: Trend, line: TrendLine) -> str:
    """What explains the line as well."""
    texts = []
    for fit in line.explained.fits[1:]:
        if fit.kind == "slope":
            texts.append("a slope")
        elif fit.kind == "steps":
            at = [trend.points[line.used[change.at]].run for change in line.explained.found.changes]
            texts.append(f"a step before {listed(at)}" if len(at) == 1 else f"steps before {listed(at)}")
        else:
            texts.append(f"one level of runs that depend on each other (lag-1 {fit.lag:.1f})")
    return f"; {listed(texts)} {'fits' if len(texts) == 1 else 'fit'} as well" if texts else ""


def _title(trend: Trend, change: ChangePoint) -> str:
    there = _listed(change.marks) if change.marks else "nothing recorded changed"
    return f"Between {trend.points[change.before].run} and {trend.points[change.at].run} ({there})"


def _move(trend: Trend, line: TrendLine, change: ChangePoint) -> str:
    text = f"{name_of(line.key)} {_by(change.ratio, change.interval)}"
    others = [trend.points[place].run for place in change.places if place != change.at]
    if others:
        text += f", or before {listed(others)} (95 %)"
    if change.near:
        text += f", where {_listed(change.near)} changed"
    if change.worse and change.mended:
        text += "; a later change brings it back"
    return text + _besides(trend, line)


def _by(ratio: float, interval: Range | None) -> str:
    """Such as "rose by 52 % (95 %: 44 % to 60 %)"."""
    low, high = interval or (0, math.inf)
    if 1 / _PERCENTS <= ratio <= _PERCENTS:
        verb = "rose" if ratio > 1 else "fell"
        ends = sorted(abs(end - 1) * 100 for end in (low, high))
        return f"{verb} by {abs(ratio - 1) * 100:.1f} % (95 %: {ends[0]:.1f} % to {ends[1]:.1f} %)"
    return f"became {format_factor(ratio)} what it was (95 %: {low:.3g} to {high:.3g})"


def _marks(trend: Trend) -> Iterator[str]:
    places = itertools.groupby(quiet_marks(trend), key=lambda each: each[0].at)
    for at, group in places:
        marks, limits = zip(*group, strict=True)
        runs = f"{trend.points[at - 1].run} and {trend.points[at].run}"
        between = f"{_listed(marks)} changed between {runs}"
        limit = limits[0]
        if limit is None:
            yield f"{between}: it cannot be told whether a figure moved there."
        else:
            yield (
                f"{between}: no change found. In the figure known best, a change of {format_change(limit)} "
                "would have been found in nine of ten cases."
            )


def _apart(trend: Trend) -> Iterator[str]:
    """Runs that are apart, each with the figure that is farthest."""
    found: dict[int, list[tuple[float, TrendLine]]] = {}
    for line in trend.lines:
        for at, ratio in line.odd:
            found.setdefault(at, []).append((ratio, line))
    for at, odd in sorted(found.items()):
        ratio, line = max(odd, key=lambda each: abs(math.log(each[0])))
        figures = "1 figure:" if len(odd) == 1 else f"{len(odd)} figures, such as"
        last = "; another run tells whether a new level begins" if at == line.used[-1] else ""
        yield (
            f"{trend.points[at].run} is apart in {figures} {name_of(line.key)}, {format_factor(ratio)} the "
            f"runs beside it. One run is no level{last}."
        )


def _left_open(trend: Trend) -> Iterator[str]:
    open_ = len(trend.lines) - len(trend.judged)
    if open_:
        yield (
            f"{open_} of {len(trend.lines)} figures {'has' if open_ == 1 else 'have'} too few runs to tell: "
            f"{_more_runs([line for line in trend.lines if line.changes is None])}."
        )
    wander = trend.alike
    if wander:
        yield (
            f"{len(wander)} of {len(trend.lines)} figures may not be at one level, such as "
            f"{name_of(wander[0].key)}: neighbouring runs look alike (lag-1 {_lags(wander)}). That may be "
            "a change too small to be shown, or runs that depend on each other."
        )
    hollow = [point.run for point in trend.points if not point.trusted]
    if hollow:
        yield f"Left out (result unknown): {', '.join(hollow)}."
    if any(point.imported for point in trend.points):
        yield "Imports stand where they were imported; when they were measured is not known."


def _more_runs(lines: Sequence[TrendLine]) -> str:
    """What would tell a change of these lines, which have too few runs."""
    if not any(line.needed for line in lines):
        return "measure each version and setting at least twice"
    needed = [line.needed for line in lines if line.needed and line.needed <= MOST_RUNS]
    if not needed:
        return f"as they scatter, {MOST_RUNS} runs would not tell a change to twice or half"
    runs = max(max(needed), 1 + max(len(line.used) for line in lines))
    of = f" in {len(needed)} of them" if len(needed) < len(lines) else ""
    return f"about {runs} runs would tell a change to twice or half{of}, if they scatter as these did"


def _lags(lines: Sequence[TrendLine]) -> str:
    lags = sorted(line.best.lag for line in lines if line.best)
    return f"{lags[0]:.1f}" if lags[0] == lags[-1] else f"{lags[0]:.1f} to {lags[-1]:.1f}"


def method(trend: Trend) -> str:
    """How steps and slopes are found, and how sure that is."""
    lags = sorted(line.best.lag for line in trend.lines if line.best)
    measured = f" (lag-1 of what is left: {lags[len(lags) // 2]:.1f} in the median figure)" if lags else ""
    return (
        "Change points: likelihood ratio for a shift of the mean logarithm over all stretches of runs "
        "(Worsley 1979, Fryzlewicz 2014); slopes: least squares; what fits better is said (BIC). The scatter "
        "is that of runs between which nothing changed, never less than what their I/Os leave open. If runs "
        f"scatter alike and do not depend on each other{measured}, at most {ALPHA * 100:.0f} % of trends "
        f"without a change show a step or a slope, all {len(trend.lines)} figures together. Intervals are of "
        "each change by itself."
    )


def row_of(line: TrendLine) -> tuple[str, str, str, str]:
    """Of a line: the first and the last value, now over the past with its range, and the statement on it."""
    if len(line.used) < 2:
        return "-", "-", "-", "no two runs have it"
    first, last = (line.values[i] for i in (line.used[0], line.used[-1]))
    assert first and last, "used points have values"
    a, b = (value_text(line.key, each.mean.value) for each in (first, last))
    return a, b, ratio_text(line) if line.now_to_past else "-", statement(line)


def ratio_text(line: TrendLine) -> str:
    """Now over the past, such as "1.20 (1.16 to 1.24)"."""
    assert line.now_to_past, "a line whose scatter is known"
    low, high = line.now_to_past.range or (0, math.inf)
    return f"{line.now_to_past.value:.3g} ({low:.3g} to {high:.3g})"


def statement(line: TrendLine) -> str:
    """The statement on a line, in a few words."""
    best = line.best
    if best is None:
        least = line.smallest or _MOST_TIMES
        below = f" a change below {format_change(least)}" if least < _MOST_TIMES else ""
        return f"too few runs to tell{below}"
    slope = line.explained.slope
    if best.kind == "dependence":
        return f"no change shown; lag-1 {best.lag:.1f}"
    if best.kind == "slope" and slope and slope.range:
        return f"{format_factor(slope.value, 4)} ({slope.range[0]:.3f} to {slope.range[1]:.3f}) a run"
    if not line.changes:
        found = f"; a step of {format_change(line.smallest)} would be found" if line.smallest else ""
        return f"no change shown{found}"
    return "; ".join(
        f"{format_factor(change.ratio)} ({change.interval[0]:.3g} to {change.interval[1]:.3g})"
        for change in line.changes
    )
