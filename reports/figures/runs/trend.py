"""Figures of a trend: p50 and p99 of each tier over the runs, the rate below, marks and change points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from kit.core.units import format_factor
from kit.store.labels import layer_name, op_name, tier_name
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text
from reports.trend.analyse import Trend, TrendLine
from reports.trend.recorded_changes import Mark
from reports.trend.sentences import name_of, value_text
from reports.trend.slower_limit import Gate
from reports.trend.trend_point import BYTES, RATE, FigureAtPoint

# From bottom to top: the rate, and latency above it.
_RATE, _LATENCY = (0.0, 0.27), (0.38, 1.0)
_SYMBOLS = {"p50": "circle", "p99": "diamond", RATE: "circle", BYTES: "circle"}
_DASHES = {"p50": "solid", "p99": "dot", RATE: "solid", BYTES: "solid"}
# Above the highest rate: words of marks and rings must not hide it.
_ROOM = 1.6
# So many characters of a mark stand along its line; the table has all.
_MOST_CHARACTERS = 44
_ORDER = ("nfs-server", "client", "device", "vdev")
_PER_S = {RATE: "I/Os a second", BYTES: "bytes a second"}


def figures(trend: Trend, gate: Gate | None = None) -> Iterator[tuple[str, Figure]]:
    """A figure for each phase and layer, with its layer; the NFS server's first. `gate`: draw its limits."""
    groups: dict[tuple[str, str], list[TrendLine]] = {}
    for line in trend.lines:
        groups.setdefault((line.key[0], line.key[1]), []).append(line)
    for (phase, layer), lines in sorted(groups.items(), key=lambda each: _ORDER.index(each[0][1])):
        yield layer, _figure(trend, phase, layer, lines, gate)


def _figure(trend: Trend, phase: str, layer: str, lines: Sequence[TrendLine], gate: Gate | None) -> Figure:
    rates = [line for line in lines if line.is_rate]
    latencies = [line for line in lines if not line.is_rate]
    many = len({line.key[2] for line in latencies}) > 1
    traces = [trace for line in latencies for trace in _traces(trend, line, latencies, many, "")]
    below = "2" if latencies else ""
    traces += [trace for line in rates for trace in _traces(trend, line, rates, many, below)]
    traces += _limits(trend, gate, [*latencies, *rates], below) if gate else ()
    values = [value for trace in traces if trace["yaxis"] == "y" for value in trace["y"] if value]
    span = min(values, default=1.0), max(values, default=1.0)
    layout, marks = _layout(trend, span, rates, latencies), len(_mark_names(trend))
    # The words along a mark have no room on a small screen.
    return Figure(
        f"{phase}: {layer_name(layer)}", traces, layout, _caption(trend, lines), csv=_csv(trend, lines),
        narrow={"margin": {"l": 52, "r": 12}, "annotations": layout["annotations"][marks:]},
    )  # fmt: skip


def _places(trend: Trend) -> list[Any]:
    """Where each point stands: its time, or its number where versions stand beside one another."""
    if trend.by == "version":
        return list(range(len(trend.points)))
    return [time.isoformat() for point in trend.points if (time := point.time)]


def _traces(
    trend: Trend, line: TrendLine, ringed: Sequence[TrendLine], many_ops: bool, number: str
) -> Iterator[Trace]:
    """`ringed`: lines of the same panel, whose rings may lie beside those of this one."""
    x = _places(trend)
    _, _, op, tier, name = line.key
    label = plotly_text(_PER_S[name] if line.is_rate else f"{_tier_or_op(op, tier, many_ops)} {name}")
    colour = palette.line(tier)
    common: Trace = {
        "type": "scatter", "xaxis": f"x{number}", "yaxis": f"y{number}", "name": label,
        "legendgroup": label, "meta": {"tier": tier},
    }  # fmt: skip
    means = [_mean(line, i).mean for i in line.used]
    unused = [i for i, each in enumerate(line.values) if each and i not in line.used]
    yield {
        **common, **_xy(line, x, line.used), "mode": "lines+markers",
        "showlegend": not line.is_rate, "line": {"color": colour, "width": 2, "dash": _DASHES[name]},
        "marker": {"size": 8, "color": colour, "symbol": _SYMBOLS[name]},
        "error_y": figure.error_bars(
            [each.value for each in means], [each.range for each in means], _scale(line)
        ),
        "customdata": [_words(trend, line, i) for i in line.used],
        "hovertemplate": "%{customdata}<extra>" + label + "</extra>",
    }  # fmt: skip
    if unused:
        yield {
            **common, **_xy(line, x, unused), "mode": "markers",
            "showlegend": False, "marker": {"size": 9, "color": colour, "symbol": _SYMBOLS[name] + "-open"},
            "customdata": [_words(trend, line, i) for i in unused],
            "hovertemplate": "%{customdata}<extra>not used: unknown</extra>",
        }  # fmt: skip
    if line.changes:
        yield _rings(line, ringed, common, x)
    if line.odd:
        yield {
            **common, "meta": {}, **_xy(line, x, [i for i, _ in line.odd]),
            "mode": "markers", "showlegend": False, "hovertemplate": "one run, apart<extra></extra>",
            "marker": {"size": 16, "symbol": "x-thin-open", "color": palette.FAULT, "line": {"width": 2.5}},
        }  # fmt: skip
    if line.moved and not line.changes:
        yield _slope(line, common, x)


def _tier_or_op(op: str, tier: str, many_ops: bool) -> str:
    if tier == "all":
        return op_name(op)
    return f"{tier_name(tier)}, {op_name(op)}" if many_ops else tier_name(tier)


def _xy(line: TrendLine, x: Sequence[Any], points: Sequence[int]) -> Trace:
    return {"x": [x[i] for i in points], "y": [_y(line, i) for i in points]}


def _slope(line: TrendLine, common: Trace, x: Sequence[Any]) -> Trace:
    """The straight line of what moves run by run, with its ratio from end to end."""
    slope, used = line.explained.slope, line.used
    assert slope, "what moves without change points has a slope"
    kept = [at for at, i in enumerate(used) if i not in {odd for odd, _ in line.odd}]
    middle = sum(kept) / len(kept)
    mean = sum(_mean(line, used[at]).mean.log for at in kept) / len(kept)
    ends = [math.exp(mean + slope.log * (at - middle)) / _scale(line) for at in (0, len(used) - 1)]
    return {
        **common, "meta": {}, "x": [x[i] for i in line.ends], "y": ends, "mode": "lines+text",
        "showlegend": False, "line": {"color": palette.FAULT, "width": 2.5, "dash": "dash"},
        "text": ["", format_factor(ends[1] / ends[0])], "textposition": "top left",
        "hovertemplate": "slope<extra></extra>",
    }  # fmt: skip


def _limits(trend: Trend, gate: Gate, lines: Sequence[TrendLine], below: str) -> Iterator[Trace]:
    """Of each rate, and one for all latencies: beside its past level each has the same."""
    held = [line for line in lines if gate.at(line) and line.explained.fits]
    for number, line in enumerate(held):
        if line.is_rate or not number:
            yield _limit(trend, line, gate.limit, below if line.is_rate else "", first=not number)


def _limit(trend: Trend, line: TrendLine, limit: float, number: str, *, first: bool) -> Trace:
    """Where a figure would be slower than the past by `limit`."""
    past = line.explained.fits[0].past
    most = math.exp(past + line.slower * math.log1p(limit)) / _scale(line)
    ends, words = [_places(trend)[i] for i in (0, -1)], f"limit {100 * limit:g} %"
    return {
        "type": "scatter", "mode": "lines", "x": ends, "y": [most, most], "name": words, "meta": {},
        "xaxis": f"x{number}", "yaxis": f"y{number}", "legendgroup": "limit", "showlegend": first,
        "line": {"color": palette.FAULT, "width": 1.5, "dash": "longdash"},
        "hovertemplate": f"{plotly_text(line.key[4])}: {words} slower than the past<extra></extra>",
    }  # fmt: skip


def _rings(line: TrendLine, ringed: Sequence[TrendLine], common: Trace, x: Sequence[Any]) -> Trace:
    """A ring around the first point of each new level; the level of the highest of several stands above."""
    changes = line.changes or ()
    heights = [(each.at, _y(other, each.at)) for other in ringed for each in other.changes or ()]
    above = [
        max(height for at, height in heights if at == change.at) <= _y(line, change.at) for change in changes
    ]
    return {
        **common, "meta": {}, "x": [x[change.at] for change in changes], "showlegend": False,
        "y": [_y(line, change.at) for change in changes], "mode": "markers+text",
        "marker": {"size": 18, "symbol": "circle-open", "color": palette.FAULT, "line": {"width": 2.5}},
        "text": _levels(line),
        "textposition": [f"{'top' if high else 'bottom'} right" for high in above],
        "cliponaxis": False,
        "hovertemplate": "%{text}<extra>change point</extra>",
    }  # fmt: skip


def _levels(line: TrendLine) -> list[str]:
    """What each change leads to: of a latency a part of the past level, of a rate its value."""
    begins = [change.at for change in line.changes or ()]
    odd = {i for i, _ in line.odd}
    made = []
    for begin, end in zip(begins, [*begins[1:], len(line.values)], strict=True):
        logs = [_mean(line, i).mean.log for i in line.used if begin <= i < end and i not in odd]
        level = math.exp(fmean(logs)) / _scale(line)
        made.append(f"to {value_text(line.key, level)}" if line.is_rate else f"to {100 * level:.0f} %")
    return made


def _mean(line: TrendLine, i: int) -> FigureAtPoint:
    found = line.values[i]
    assert found is not None, "only points that have the figure are drawn"
    return found


def _scale(line: TrendLine) -> float:
    """Latencies are drawn as multiples of the past level, or of the first run's: tiers are decades apart."""
    if line.is_rate or not line.used:
        return 1.0
    fits = line.explained.fits
    return math.exp(fits[0].past) if fits else _mean(line, line.used[0]).mean.value


def _y(line: TrendLine, i: int) -> float:
    return _mean(line, i).mean.value / _scale(line)


def _words(trend: Trend, line: TrendLine, i: int) -> str:
    point, measured = trend.points[i], _mean(line, i)
    ends = measured.mean.range
    text = f"{point.run}: {value_text(line.key, measured.mean.value)}"
    text += f" ({' to '.join(value_text(line.key, end) for end in ends)})" if ends else ""
    return plotly_text(text if i in line.used else f"{text}; {measured.reason}", 200)


def _layout(
    trend: Trend, span: tuple[float, float], rates: Sequence[TrendLine], latencies: Sequence[TrendLine]
) -> Layout:
    axis, both = _axis(trend), bool(rates and latencies)
    layout = figure.layout(
        540 if both else 400, {"l": 62, "r": 30, "t": 44, "b": 70}, dragmode="zoom",
        legend={"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top", "font": {"size": 11}},
        shapes=[figure.upright(x, "dash", layer="below") for x, _ in _marked(trend)],
        annotations=_mark_names(trend), xaxis={**axis, "anchor": "y"},
    )  # fmt: skip
    if latencies:
        low, high = span
        # Room above for the words of marks and rings, as _ROOM.
        around = max(high - low, 0.1)
        layout["yaxis"] = {
            "anchor": "x", "tickformat": ".0%", "range": [low - around / 4, high + around],
            "domain": list(_LATENCY if both else (0, 1)),
        }  # fmt: skip
        of = {"the past level" if line.explained.fits else "the first run" for line in latencies}
        title = f"p50 and p99, of {' or '.join(sorted(of, reverse=True))}"
        layout["annotations"].append(figure.panel_title(title, 0, 1))
    if rates:
        number, domain = ("2", list(_RATE)) if both else ("", [0, 1])
        layout[f"xaxis{number}"] = {**axis, "anchor": f"y{number}"}
        most = max((_mean(line, i).mean.value for line in rates for i in line.used), default=1.0)
        layout[f"yaxis{number}"] = {
            "anchor": f"x{number}", "domain": domain, "tickformat": ".3~s", "range": [0, most * _ROOM],
        }  # fmt: skip
        layout["annotations"].append(figure.panel_title(_PER_S[rates[0].key[4]], 0, domain[1]))
    if both:
        layout["xaxis"] |= {"matches": "x2", "showticklabels": False}
    return layout


def _axis(trend: Trend) -> Layout:
    if trend.by != "version":
        return {"type": "date", "nticks": 7}
    groups = [
        (label, list(each))
        for label, each in itertools.groupby(range(len(trend.labels)), trend.labels.__getitem__)
    ]
    return {
        "type": "linear", "range": [-0.6, len(trend.labels) - 0.4], "showgrid": False,
        "tickvals": [(each[0] + each[-1]) / 2 for _, each in groups],
        "ticktext": [plotly_text(label, 40) for label, _ in groups],
    }  # fmt: skip


def _marked(trend: Trend) -> Iterator[tuple[Any, list[Mark]]]:
    """The middle between two points, and what changed between them."""
    for at, marks in itertools.groupby(trend.marks, key=lambda mark: mark.at):
        yield _between(trend, at), list(marks)


def _between(trend: Trend, at: int) -> Any:
    if trend.by == "version":
        return at - 0.5
    before, after = trend.points[at - 1].time, trend.points[at].time
    assert before and after, "points have times"
    return (before + (after - before) / 2).isoformat()


def _mark_names(trend: Trend) -> list[Layout]:
    """Along each line: the first change, and how many more."""
    made = []
    for x, (first, *others) in _marked(trend):
        more = f" +{len(others)}" if others else ""
        text = plotly_text(f"{first.what} {first.after}", _MOST_CHARACTERS) + more
        made.append({
            "xref": "x", "yref": "paper", "x": x, "y": 0.995, "xanchor": "right", "yanchor": "top",
            "text": text, "textangle": -90, "showarrow": False, "font": {"size": 10}, "borderpad": 1,
            "hovertext": plotly_text("; ".join(map(str, (first, *others))), 400),
        })  # fmt: skip
    return made


def _caption(trend: Trend, lines: Sequence[TrendLine]) -> str:
    parts = ["Bars: interval within each run."]
    if any(line.changes for line in lines):
        parts.append("Ring: change point, first run of the new level, and that level.")
    if any(line.moved and not line.changes for line in lines):
        parts.append("Dashed along the runs: slope, with the ratio from end to end.")
    if any(line.odd for line in lines):
        parts.append("Cross: a run that is apart.")
    if trend.marks:
        parts.append("Dashed vertical line: a change that the runs record, between two of them.")
    if any(not point.trusted for point in trend.points):
        parts.append("Hollow: result unknown, not used.")
    return " ".join(parts)


def _csv(trend: Trend, lines: Sequence[TrendLine]) -> list[list[Any]]:
    rows: list[list[Any]] = [
        ["run", "started_utc", "label", "figure", "unit", "value", "low", "high", "used"]
    ]
    for line in lines:
        for i, each in enumerate(line.values):
            if each is not None:
                low, high = each.mean.range or (math.nan, math.nan)
                point = trend.points[i]
                rows.append([
                    point.run, point.started_utc, trend.labels[i], name_of(line.key),
                    line.key[4] if line.is_rate else "us", each.mean.value, low, high, i in line.used,
                ])  # fmt: skip
    return rows
