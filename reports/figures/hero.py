"""The figure of the first screen: the phases side by side on one logarithmic axis of latency.

At the right, on the same axis: this run's range of each tier inside the published one, drawn and in words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.core.text import counted, glued
from kit.core.units import format_latency_range
from kit.store.labels import op_name, tier_names
from kit.store.phase import Event
from reports.analysis.headline import HeadlineRow
from reports.figures import event_marks, figure, heat_map, palette
from reports.figures.figure import Figure
from reports.figures.heat_map import CountGrid
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text

# More phases than that leave no room for any.
MOST_PANELS = 4
_HEIGHT_PX, _TOP_PX, _BOTTOM_PX = 470, 60, 44
# The part of the width that the panels have, the bars beside them and the gap between panels.
_PANELS, _BARS, _GAP = 0.64, 0.08, 0.02
_NARROW_PANELS, _NARROW_BARS = 0.86, 0.12
# Columns and letters over the whole width: cells of eight pixels; letters of six where it is 980 pixels wide.
_COLUMNS, _LETTERS, _NARROW_LETTERS = 150, 120, 58
# Below it the words beside the bars are cut (base.html.j2 has them as cards there).
_NARROW_PX = 980
# A block of three lines of text beside its bar.
_WORDS_PX = 52
# So many blocks have room one above the other.
_MOST_LINES = 7


# Marks of faults, by their kind.
_MARKS = {"fault": "frame: fault", "recovery limit": "dashed: recovery limit"}

# The lines of one bar beside the panels, and a range of latencies (us).
_Bar = list[HeadlineRow]
Span = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One phase: its title, its stored grid, limits that do not hold (us and name), its name, its faults."""

    title: str
    stored: CountGrid
    limits: Sequence[tuple[float, str]] = ()
    phase: str = ""
    events: Sequence[Event] = ()

    def marks(self, low_s: float, high_s: float, axis: str) -> list[Trace]:
        """Its faults as traces."""
        made, _ = event_marks.over(self.events, self.stored, low_s, high_s)
        return [{**trace, "xaxis": axis, "yaxis": "y", "showlegend": False} for trace in made]


def hero(
    panels: Sequence[Panel],
    lines: Sequence[HeadlineRow],
    source: str,
    published: str = "",
    timed: bool = True,
    unpublished: Sequence[str] = (),
) -> Figure:
    """Up to four phases, and a bar per tier in `lines`.

    `source`: who published, in a word such as "2009"; `published`: the title of the publication. `timed`:
    the source has times. `unpublished`: why lines have no published range, in sentences.
    """
    shown = list(panels[:MOST_PANELS])
    every, lines = lines, lines[:_MOST_LINES]
    low, high = _span_s(shown, lines)
    merged = _merged(lines)
    drawn = _panels(shown, timed, (low, high))
    last = str(len(shown) + 1)
    bars = [_PANELS + 0.015, _PANELS + 0.015 + _BARS]
    places = _places(merged)
    right = max(places, default=0) + 0.5
    beside = {"domain": bars, "anchor": "y", "visible": False, "range": [-0.5, right], "fixedrange": True}
    drawn.narrow[f"xaxis{last}"] = {"domain": [1 - _NARROW_BARS, 1]}
    drawn.narrow["annotations"].append(_small_title("95 %<br>by tier", 1 - _NARROW_BARS))
    drawn.narrow["margin"]["t"] = max(drawn.narrow["margin"]["t"], 32)
    shapes = [
        _box(span, place, last, low)
        for bar, place in zip(merged, places, strict=True)
        if (span := _published(bar[0]))
    ]
    heights = _heights(merged, low, high)
    words = _words(merged, heights, bars[1] + 0.012, source)
    ends = [low * (high / low) ** each for each in heights]
    heading = "<b>this run</b>"
    if any(line.row.published for line in lines):
        heading += f" (solid), <b>{plotly_text(published or source, 40)}</b> (dotted)"
    heading_title = {**figure.panel_title(heading, bars[0], 1.0), "font": {"size": 12}}
    layout = figure.layout(
        _HEIGHT_PX, {"l": 58, "r": 8, "t": _TOP_PX, "b": _BOTTOM_PX}, showlegend=False,
        dragmode="select" if timed else "zoom", selectdirection="h",
        annotations=[*drawn.titles, heading_title, *words], shapes=[*shapes, *drawn.limits], **drawn.axes,
        **{f"xaxis{last}": beside}, yaxis=figure.latency_axis(low, high),
    )  # fmt: skip
    axes = {name.replace("axis", ""): panel.phase for name, panel in zip(drawn.axes, shown, strict=True)}
    anchors = [figure.anchor(axis) for axis in (*axes, f"x{last}")]
    data = [*drawn.maps, *_points(merged, places, last, ends, right), *anchors]
    caption = _caption(panels, every, unpublished)
    return Figure(
        "Latency by tier", data, layout, caption,
        about={"per": "", "panels": axes, "narrow_px": _NARROW_PX}, csv=_table(every), narrow=drawn.narrow,
    )  # fmt: skip


@dataclass(frozen=True)
class _Drawn:
    """Panels as parts of the figure. `narrow`: the layout of a small screen."""

    maps: list[Trace]
    axes: Layout
    titles: list[Layout]
    narrow: Layout
    limits: list[Layout]


def _small_title(text: str, x: float) -> Layout:
    return {**figure.panel_title(text, x, 1.0), "font": {"size": 9}}


def _panels(shown: Sequence[Panel], timed: bool, span_s: Span) -> _Drawn:
    """The heat map of each panel, with its axis of time and its title."""
    drawn = _Drawn([], {}, [], {"margin": {"l": 46, "r": 4, "t": 20, "b": _BOTTOM_PX}, "annotations": []}, [])
    wide, narrow = (_domains(shown, part) for part in (_PANELS, _NARROW_PANELS))
    for number, (panel, domain) in enumerate(zip(shown, wide, strict=True)):
        name = str(number + 1) if number else ""
        merged = heat_map.display(panel.stored, (int(_COLUMNS * (domain[1] - domain[0])), 128))
        names = tier_names(merged.tiers)
        traces = heat_map.traces(merged, list(merged.tiers), "octave", (f"x{name}", "y"), names)
        # Each panel has its own scale. A tier is named beside its bar.
        for trace in heat_map.coloured(traces, "octave"):
            if trace["type"] == "heatmap":
                drawn.maps.append({**trace, "showlegend": False})
        drawn.axes[f"xaxis{name}"] = figure.time_axis(
            panel.stored.duration_s, domain=domain, anchor="y", nticks=4, showticklabels=timed,
            **({} if timed else {"title": {"text": ""}}),
        )  # fmt: skip
        drawn.narrow[f"xaxis{name}"] = {"domain": narrow[number], "nticks": 2}
        limits = [figure.limit_line(us, f"x{name}") for us, _ in panel.limits]
        # Beside its line the name would hide a narrow band.
        named = [panel.title, *(f"({figure.limit_words(*limit)})" for limit in panel.limits)]
        marks = panel.marks(*span_s, f"x{name}") if timed else []
        if marks:
            named.append(f"({'; '.join(_MARKS[each['name']] for each in marks)})")
        drawn.maps.extend(marks)
        small = " ".join(named)
        small = _wrapped(small, int((narrow[number][1] - narrow[number][0]) * _NARROW_LETTERS), 7)
        drawn.narrow["margin"]["t"] = max(drawn.narrow["margin"]["t"], 12 * small.count("<br>") + 20)
        drawn.narrow["annotations"].append(_small_title(small, narrow[number][0]))
        title = _wrapped(" ".join(named), int((domain[1] - domain[0]) * _LETTERS))
        drawn.limits.extend(limits)
        drawn.titles.append({**figure.panel_title(title, domain[0], 1.0), "font": {"size": 11}})
    return drawn


def _caption(panels: Sequence[Panel], lines: Sequence[HeadlineRow], unpublished: Sequence[str]) -> str:
    """What colours mean, and what the figure leaves out."""
    caption = "The stronger a colour, the more I/Os; shades of different panels do not compare."
    hues = palette.HUES["light"]["classic"]
    if any(line.row.tier in hues and line.row.tier != "all" for line in lines[:_MOST_LINES]):
        caption = f"Colour: the tier that answered. {caption}"
    if len(panels) > MOST_PANELS:
        caption += f" First {MOST_PANELS} of {len(panels)} phases."
    if len(lines) > _MOST_LINES:
        caption += f" {len(lines) - _MOST_LINES} more tiers below, under Numbers."
    if unpublished:
        many = "No published range: see Numbers."
        caption += f" {unpublished[0] if len(unpublished) == 1 else many}"
    return caption


def _wrapped(title: str, width: int, lines: int = 3) -> str:
    """A title in at most `lines` lines of plain text, `width` letters each."""
    return "<br>".join(textwrap.wrap(glued(plotly_text(title)), width, max_lines=lines, placeholder="..."))


def _domains(panels: Sequence[Panel], part: float) -> list[list[float]]:
    """From and to of each panel on the width: the longest phase has half of it at most."""
    if not panels:
        return []
    room = part - _GAP * (len(panels) - 1)
    # No panel is less than half as wide as another: its title needs room.
    weights = np.array([max(panel.stored.duration_s, 1e-9) for panel in panels]) ** 0.25
    weights = np.maximum(weights, weights.max() / 2)
    widths = weights / weights.sum() * room
    ends = np.cumsum(widths + _GAP) - _GAP
    domains: list[list[float]] = np.column_stack([ends - widths, ends]).tolist()
    return domains


def _span_s(panels: Sequence[Panel], lines: Sequence[HeadlineRow]) -> tuple[float, float]:
    """All that was measured, and the published ranges."""
    spans = [span for line in lines for span in (line.row.range_us, _published(line)) if span]
    spans += [tuple(each.stored.edges_s[[0, -1]] * 1e6) for each in panels if len(each.stored.edges_ns) > 1]
    low = min((span[0] for span in spans if span[0] > 0), default=1.0)
    return low / 1.6e6, max([low * 10, *(span[1] for span in spans)]) * 1.6 / 1e6


def _published(line: HeadlineRow) -> Span | None:
    return line.row.published.range_us if line.row.published else None


def _merged(lines: Sequence[HeadlineRow]) -> list[_Bar]:
    """Lines of one operation and tier in several phases are one bar, if their ranges meet."""
    made: list[_Bar] = []
    for line in lines:
        alike = next((bar for bar in made if _alike(bar[-1], line)), None)
        if alike:
            alike.append(line)
        else:
            made.append([line])
    return made


def _alike(line: HeadlineRow, other: HeadlineRow) -> bool:
    same = (line.row.op, line.name) == (other.row.op, other.name) and line.row.tier != "all"
    return same and _meet(line.row.range_us, other.row.range_us)


def _meet(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _range_us(bar: _Bar) -> Span:
    """Of all its lines."""
    lows, highs = zip(*(line.row.range_us for line in bar), strict=True)
    return min(lows), max(highs)


def _places(bars: Sequence[_Bar]) -> list[int]:
    """The first place for each bar that no other has at the same latencies."""
    taken: dict[int, list[Span]] = {}
    places = []
    for span in map(_range_us, bars):
        place = next(n for n in range(len(bars)) if not any(_meet(span, other) for other in taken.get(n, ())))
        taken.setdefault(place, []).append(span)
        places.append(place)
    return places


def _box(span: Span, place: int, axis: str, low_s: float) -> Layout:
    """The published range as a dotted box around this run's."""
    return {
        "type": "rect", "xref": f"x{axis}", "yref": "y", "layer": "below", "x0": place - 0.42,
        "x1": place + 0.42, "y0": max(span[0] / 1e6, low_s), "y1": span[1] / 1e6,
        "fillcolor": palette.PUBLISHED_FILL,
        "line": {"color": palette.PUBLISHED, "width": 1.6, "dash": "dot"},
    }  # fmt: skip


def _points(
    bars: Sequence[_Bar], places: Sequence[int], axis: str, ends: Sequence[float], right: float
) -> list[Trace]:
    """This run's ranges: bars that can be pointed at, each with a line to its words at `ends` (s)."""
    made: list[Trace] = []
    for bar, place, end in zip(bars, places, ends, strict=True):
        line, span = bar[0], _range_us(bar)
        hue = line.row.tier if line.row.tier in palette.HUES["light"]["classic"] else "all"
        low, high = (edge / 1e6 for edge in span)
        words = f"{line.name}: {format_latency_range(*span)}"
        colour = palette.line(hue)
        made.append({
            "type": "scatter", "mode": "lines", "x": [place, right], "y": [_middle_us(bar) / 1e6, end],
            "xaxis": f"x{axis}", "yaxis": "y", "showlegend": False, "hoverinfo": "skip",
            "meta": {"tier": hue, "beside": True}, "line": {"color": colour, "width": 1},
        })  # fmt: skip
        made.append({
            "type": "bar", "x": [place], "base": [low], "y": [high - low], "width": 0.5, "xaxis": f"x{axis}",
            "yaxis": "y", "showlegend": False, "meta": {"tier": hue},
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": plotly_text(f"{words}, 95 % of the I/Os") + "<extra></extra>",
        })  # fmt: skip
    return made


def _middle_us(bar: _Bar) -> float:
    low, high = _range_us(bar)
    return bar[0].row.p50_us or float(np.sqrt(max(low, 1e-3) * high))


def _heights(bars: Sequence[_Bar], low_s: float, high_s: float) -> list[float]:
    """Where the words of each bar are, of 1: beside it, moved apart where they would overlap."""
    inner = _HEIGHT_PX - _TOP_PX - _BOTTOM_PX
    wanted = [
        np.log(max(_middle_us(bar) / 1e6 / low_s, 1.0)) / np.log(high_s / low_s) * inner for bar in bars
    ]
    order = sorted(range(len(bars)), key=lambda number: wanted[number])
    heights: list[float] = []
    for number in order:
        heights.append(max(float(wanted[number]), heights[-1] + _WORDS_PX if heights else _WORDS_PX / 2))
    over = max(0.0, (heights[-1] if heights else 0) + _WORDS_PX / 2 - inner)
    for number in range(len(heights) - 1, -1, -1):
        limit = heights[number + 1] - _WORDS_PX if number + 1 < len(heights) else inner - _WORDS_PX / 2
        heights[number] = min(heights[number], limit) if over else heights[number]
    return [heights[order.index(number)] / inner for number in range(len(bars))]


def _words(bars: Sequence[_Bar], heights: Sequence[float], x: float, source: str) -> list[Layout]:
    """Three lines of text per bar."""
    return [
        {
            "x": x, "y": height, "xref": "paper", "yref": "paper", "xanchor": "left",
            "yanchor": "middle", "align": "left", "showarrow": False, "font": {"size": 11},
            "text": "<br>".join(_text(bar, source)),
        }
        for bar, height in zip(bars, heights, strict=True)
    ]  # fmt: skip


def _text(bar: _Bar, source: str) -> list[str]:
    line, row, span_us = bar[0], bar[0].row, _range_us(bar)
    medians = [each.row.p50_us for each in bar if each.row.p50_us is not None]
    p50 = counted(row.count, "I/O")
    if medians:
        p50 = f"p50 {format_latency_range(min(medians), max(medians))}"
    phases = f"; {len(bar)} phases" if len(bar) > 1 else ""
    # Without tiers, bars are named by phase.
    name = line.phase if row.tier == "all" else line.name
    part = "" if row.count == 1 else "95 % of I/Os: "
    rows = [
        f"<b>{_safe(name)}</b>, {_safe(op_name(row.op))}: {p50}",
        f"{part}{format_latency_range(*span_us)}{phases}",
    ]
    if span := _published(line):
        share = f"; {100 * line.inside:.1f} % inside" if line.inside is not None and len(bar) == 1 else ""
        rows.append(f"{_safe(source)}: {format_latency_range(*span)}{share}")
    return rows


def _safe(text: str) -> str:
    return plotly_text(text, 40)


def _table(lines: Sequence[HeadlineRow]) -> list[list[object]]:
    """What the figure says, as rows; the first names the columns."""
    head: list[object] = [
        "phase", "op", "tier", "ios", "p50_us", "p99_us", "from_us", "to_us", "published_from_us",
        "published_to_us", "share_inside",
    ]  # fmt: skip
    return [head] + [
        [line.row.phase, line.row.op, line.row.tier, line.row.count, line.row.p50_us, line.row.p99_us,
         *line.row.range_us, *(_published(line) or ("", "")), "" if line.inside is None else line.inside]
        for line in lines
    ]  # fmt: skip
