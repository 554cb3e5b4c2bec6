"""The figures of one phase and layer: all tiers, each tier alone, percentiles over time, or a histogram.

Figures have seconds on both axes. A layer of an import that has one interval has no time axis: its figure is
a histogram, all others are heat maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from kit.core.sample_size import sample_needed
from kit.core.units import commas, format_latency, format_latency_range
from kit.store.labels import NAMES, tier_name, tier_names
from kit.store.phase import Event
from kit.store.stored import Json
from kit.store.summary import Row
from reports.figures import equal_rows, event_marks, figure, heat_map, palette
from reports.figures.figure import Figure
from reports.figures.heat_map import CountGrid, TimeSpan
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text, round_up
from reports.statistics.quantiles import ANY, interpolated_us

_DASHES = {"p50": "solid", "p95": "dash", "p99": "dot"}
# Times and values (s) of a percentile; None breaks the line.
_Line = tuple[list[float | None], list[float | None]]
_MARGIN: Layout = {"l": 62, "r": 84, "t": 34, "b": 46}
_NARROW: Layout = {
    "margin": {"l": 52, "r": 62, "t": 12, "b": 96},
    "legend": {"y": -0.2, "yanchor": "top", "x": 0, "xanchor": "left"},
}  # fmt: skip
# The map's part of the width, beside the rates at its left.
_RATES, _MAP = [0, 0.09], [0.1, 1]
# Where a triangle is whole inside the plot, as a part of the axis.
_RUG = 0.975


@dataclass(frozen=True)
class DrawnPhase:
    """What the figures of one phase and layer are drawn from.

    `frame`: its rows of latency.parquet. `rows`: of the summary, by tier. `phase`: its name; figures of one
    share the range of time that is selected. `waits`: (from_s, to_s) in which a closed loop waited.
    `source`: who published the ranges. `clock_ns`: the time of day at 0 s, since 1970, where it is known.
    """

    name: str
    layer: str
    op: str
    frame: pl.DataFrame
    phase: str
    times: TimeSpan
    rows: Mapping[str, Row]
    source: str = ""
    waits: Sequence[tuple[float, float]] = ()
    events: Sequence[Event] = ()
    clock_ns: int | None = None

    @property
    def ops(self) -> list[str]:
        """The operations of its I/Os."""
        return self.op.split(" + ")

    def of_tier(self, tier: str) -> DrawnPhase:
        """The same of one tier alone; of "all", or a tier without I/Os, all of it."""
        if tier not in self.rows or tier == "all":
            return self
        name, frame = f"{self.name}: {tier_name(tier)}", alone(self.frame, "tier", tier)
        return replace(self, name=name, frame=frame, rows={tier: self.rows[tier]})

    @property
    def published_s(self) -> dict[str, list[float]]:
        """The published ranges by tier, in seconds."""
        return {
            tier: [edge / 1e6 for edge in row.published.range_us]
            for tier, row in self.rows.items()
            if row.published
        }


def alone(frame: pl.DataFrame, column: str, value: str) -> pl.DataFrame:
    """The I/Os whose `column` is `value`. An interval with others alone was measured, too: it has none."""
    mine = pl.when(pl.col(column) == value).then(pl.col("count")).otherwise(0)
    return frame.with_columns(mine.alias("count").cast(pl.Int64))


def drawings(subject: DrawnPhase, zooms: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """(kind, figure) of a subject: "map" or "histogram", "zoom" of each tier in `zooms`, "lines"."""
    stored = heat_map.grid(subject.frame, subject.times)
    cells = heat_map.block(stored)
    yield "map", _all_tiers(subject, stored, cells)
    for tier in zooms:
        if tier in stored.tiers and tier in subject.rows:
            yield "zoom", _one_tier(subject, stored, cells, tier)
    lines = _percentiles(subject, stored)
    if lines.data:
        yield "lines", lines


def histogram(subject: DrawnPhase) -> Figure:
    """Latency upwards, I/Os per octave to the right: what has one interval has no time axis."""
    stored = heat_map.grid(subject.frame, subject.times)
    shown = heat_map.display(stored)
    low, high = _span_s(subject, stored)
    bars = _rates(shown, "x", 1.0, "I/O per octave")
    most = max((max(bar["x"]) for bar in bars), default=1.0)
    levels: list[Trace] = []
    for number, (tier, row) in enumerate(subject.rows.items()):
        for name, value in (("p50", row.p50_us), ("p95", row.p95_us), ("p99", row.p99_us)):
            if value is not None:
                levels.append({
                    "type": "scatter", "mode": "lines", "name": name, "x": [0, most], "legendgroup": name,
                    "y": [value / 1e6] * 2, "showlegend": not number, "meta": {"ink": True},
                    "line": {"width": 1.6, "dash": _DASHES[name], "color": palette.PAGE_LIGHT["ink"]},
                    "hovertemplate": f"{plotly_text(tier)} {name}: {format_latency(value)}<extra></extra>",
                })  # fmt: skip
    layout = figure.layout(
        440, _MARGIN, xaxis={"title": {"text": "I/O per octave of latency"}, "rangemode": "tozero"},
        yaxis=figure.latency_axis(low, high), dragmode="zoom", **_bands(subject),
    )  # fmt: skip
    caption = "Bar: I/Os per octave of latency. Lines: percentiles."
    return Figure(
        subject.name, [*bars, *levels], layout, caption, heat_map.block(stored),
        about=_about(subject, "octave", histogram=True), narrow=_NARROW,
    )  # fmt: skip


def _about(subject: DrawnPhase, per: str, **more: Any) -> Json:
    """What figure.js needs to know: what tables say of each row, and how colour is counted."""
    return {
        "phase": plotly_text(subject.phase), "layer": plotly_text(subject.layer),
        "op": plotly_text(subject.op), "per": per, "panel": False,
        "names": {tier: NAMES[tier] for tier in subject.rows if tier in NAMES},
        **({} if subject.clock_ns is None else {"clock_ms": subject.clock_ns / 1e6}), **more,
    }  # fmt: skip


def _all_tiers(subject: DrawnPhase, stored: CountGrid, cells: Json) -> Figure:
    """Every tier on one logarithmic axis."""
    shown = heat_map.display(stored)
    low, high = _span_s(subject, stored)
    names = tier_names(shown.tiers)
    maps = heat_map.traces(shown, list(shown.tiers), "octave", names=names)
    events, ignored = event_marks.over(subject.events, stored, low, high)
    rates = _rates(shown, "x2", float(shown.lengths_s.sum()))
    data = [
        *heat_map.coloured(maps, "octave"), *rates,
        *_waits(subject, low), *events, *_overlaid(subject, stored), figure.anchor(),
    ]  # fmt: skip
    bands = _bands(subject)
    layout = figure.layout(
        460, _MARGIN, dragmode="select", selectdirection="h", annotations=bands["annotations"],
        shapes=[*_gaps(subject, stored), *bands["shapes"]],
        xaxis=_times(stored, domain=_MAP),
        # Its zero stands beside that of the time axis.
        xaxis2={"domain": _RATES, "autorange": "reversed", "nticks": 2, "fixedrange": True,
                "tickformat": "~s", "labelalias": {"0": ""},
                "title": {"text": "I/O/s/octave", "font": {"size": 10}}},
        yaxis=figure.latency_axis(low, high, anchor="x2"),
    )  # fmt: skip
    cell = caption = heat_map.rows_text(shown) + heat_map.finest_text(stored)
    if ignored:
        caption += f" Events not drawn (damaged or too many): {ignored}."
    return Figure(
        subject.name, data, layout, caption, cells, subject.phase,
        _about(subject, "octave", panel=True, cell=cell),
        narrow={**_NARROW, "xaxis2": {"showticklabels": False}},
    )  # fmt: skip


def _one_tier(subject: DrawnPhase, stored: CountGrid, cells: Json, tier: str) -> Figure:
    """One tier on a linear axis from 0, as the article drew it."""
    row = subject.rows[tier]
    published = list(row.published.range_us) if row.published else []
    alone = replace(stored, tiers={tier: stored.tiers[tier]})
    median_us = equal_rows.highest_median_s(alone, tier) * 1e6
    # A little more than the range, so that its upper end is not the frame of the figure.
    high = round_up(max([row.range_us[1], *published, median_us]) * 1.03) / 1e6
    shown = equal_rows.equal_rows(alone, high)
    maps = heat_map.traces(shown, [tier], "us", names={tier: tier_name(tier)})
    for each in maps:
        each["showlegend"] = False
    bands = _bands(subject, [tier], log=False)
    # As high as the map beside it.
    height_px = 460 if len(stored.tiers) == 1 else 300
    layout = figure.layout(
        height_px, {**_MARGIN, "t": 14}, dragmode="select", selectdirection="h",
        annotations=bands["annotations"],
        shapes=[*_gaps(subject, stored), *bands["shapes"]], showlegend=False,
        xaxis=_times(stored, nticks=6), yaxis=figure.linear_axis(high),
    )  # fmt: skip
    above = int(alone.tiers[tier].count[stored.edges_s[alone.tiers[tier].row] >= high].sum())
    cell = caption = equal_rows.rows_text(shown) + heat_map.finest_text(stored)
    if above:
        caption += f" Above the axis (triangles): {commas(above)} of {commas(row.count)} I/Os."
    data = [*heat_map.coloured(maps, "us"), *_rug(alone, high), figure.anchor()]
    name = f"{subject.name}: {tier_name(tier)}"
    about = _about(subject, "us", tier=tier, cell=cell)
    return Figure(
        name, data, layout, caption, cells, subject.phase, about, narrow={"margin": {"l": 50, "r": 60}}
    )


def _percentiles(subject: DrawnPhase, stored: CountGrid) -> Figure:
    """p50, p95 and p99 of each tier over time. A line has a gap where the I/Os are too few."""
    data: list[Trace] = []
    seen: list[float] = []
    for tier in stored.tiers:
        mine = subject.frame.filter((pl.col("tier") == tier) & (pl.col("count") > 0))
        for name, (x, y) in _over_time(mine, stored).items():
            values = [value for value in y if value is not None]
            if not values:
                continue
            seen += values
            label = f"{tier_name(tier)} {name}"
            data.append({
                "type": "scatter", "mode": "lines", "name": plotly_text(label), "x": x, "y": y,
                "connectgaps": False, "meta": {"tier": tier}, "legendgroup": tier,
                "line": {"color": palette.line(tier), "dash": _DASHES[name], "width": 1.8},
                "hovertemplate": f"{plotly_text(label)} at %{{x:.4~g}} s: %{{y:.3~s}}s<extra></extra>",
            })  # fmt: skip
    low, high = min(seen, default=1e-6) / 1.5, max(seen, default=1e-3) * 1.5
    layout = figure.layout(
        340, _MARGIN, dragmode="select", selectdirection="h",
        xaxis=_times(stored), yaxis=figure.latency_axis(low, high),
    )  # fmt: skip
    caption = "Lines break where the sample is too small."
    head = ["figure", "phase", "layer", "op", "line", "time_s", "latency_us"]
    about = [subject.name, subject.phase, subject.layer, subject.op]
    table: list[list[Any]] = [head]
    for trace in data:
        points = zip(trace["x"], trace["y"], strict=True)
        table += [[*about, trace["name"], x, "" if y is None else round(y * 1e6, 4)] for x, y in points]
    name = f"{subject.name}: percentiles over time"
    return Figure(
        name, data, layout, caption, link=subject.phase, about=_about(subject, ""), csv=table,
        narrow={**_NARROW, "legend": {**_NARROW["legend"], "y": -0.3}},
    )  # fmt: skip


def _over_time(frame: pl.DataFrame, stored: CountGrid) -> dict[str, _Line]:
    """Per quantile the ends of each window (s) and its value (s): two points a window, and a gap between.

    A window that the end of the phase cuts off has few I/Os, and its percentiles would jump: it is a part of
    the one before it.
    """
    if not frame.height:
        return {}
    ios = int(frame["count"].sum())
    # As long as it takes for a p99 where the load is even, but eight windows at least.
    wanted = int(np.ceil(1.3 * sample_needed(0.99) * stored.columns / max(ios, 1)))
    columns = max(1, min(wanted, stored.columns // 8), -(-stored.columns // heat_map.DISPLAY[0]))
    width = stored.width_ns * columns
    last = max(int(stored.duration_s * 1e9) // width, 1) - 1
    number = ((pl.col("time_ns") - stored.start_ns) // width).clip(0, last).alias("window")
    keys = ["window", "lo_ns", "hi_ns"]
    bins = frame.group_by(number, *keys[1:]).agg(pl.col("count").sum()).sort(keys)
    made: dict[str, _Line] = {name: ([], []) for name in _DASHES}
    for (window,), part in bins.group_by("window", maintain_order=True):
        begin = int(window) * width / 1e9
        end = stored.duration_s if window == last else begin + width / 1e9
        found = interpolated_us(part.drop("window").rows(), ANY)
        for name, (x, y) in made.items():
            # Without an I/O there is no window: nothing joins those beside it.
            if x and x[-1] is not None and begin - x[-1] > width / 2e9:
                x.append(None)
                y.append(None)
            at = found[name]
            x += [begin, end]
            y += [at.us / 1e6 if at else None] * 2
    return made


def _overlaid(subject: DrawnPhase, stored: CountGrid) -> list[Trace]:
    """Percentiles of all tiers together over the map; the legend shows and hides each."""
    return [
        {
            "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "connectgaps": False,
            "visible": "legendonly" if name == "p95" else True, "meta": {"ink": True},
            "line": {"width": 1.8, "dash": _DASHES[name], "color": palette.PAGE_LIGHT["ink"]},
            # What is pointed at is the cell below it.
            "hoverinfo": "skip",
        }
        for name, (x, y) in _over_time(subject.frame.filter(pl.col("count") > 0), stored).items()
    ]  # fmt: skip


def _span_s(subject: DrawnPhase, stored: CountGrid) -> tuple[float, float]:
    """From and to of a logarithmic axis of latency (s): all that was measured, and the published ranges."""
    if len(stored.edges_ns) < 2:
        return 1e-6, 1e-3
    ends = [
        *stored.edges_s[[0, -1]].tolist(),
        *(edge for span in subject.published_s.values() for edge in span),
    ]
    return min(edge for edge in ends if edge > 0) / 1.25, max(ends) * 1.25


def _times(stored: CountGrid, **values: Any) -> Layout:
    """The axis of time: nothing was measured before it, nor after it."""
    end = stored.duration_s
    return figure.time_axis(end, minallowed=0.0, maxallowed=end, **values)


def _bands(subject: DrawnPhase, tiers: Sequence[str] | None = None, *, log: bool = True) -> Layout:
    """Shapes and annotations of the published ranges, of `tiers` alone if given."""
    made: Layout = {"shapes": [], "annotations": []}
    for tier, span in subject.published_s.items():
        if tiers is None or tier in tiers:
            words = f"{subject.source} {tier_name(tier)} {format_latency_range(*(v * 1e6 for v in span))}"
            made["shapes"] += figure.published_band(span)
            made["annotations"].append(figure.published_name(words.strip(), span[1], log=log))
    return made


def _gaps(subject: DrawnPhase, stored: CountGrid) -> list[Layout]:
    """Grey where the store has nothing, unless a closed loop waited there."""
    width = stored.width_ns / 1e9
    spans = [(first * width, last * width) for first, last in stored.gaps]
    return [
        {
            "type": "rect", "xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1,
            "fillcolor": palette.GAP, "line": {"width": 0}, "layer": "below",
            # A narrow one has no room for words.
            **({"label": {"text": "no data", "font": {"size": 10}, "textposition": "bottom center"}}
               if end - begin > stored.duration_s / 25 else {}),
        }
        for begin, end in spans
        if not any(a - width <= begin and end <= b + width for a, b in subject.waits)
    ]  # fmt: skip


def _waits(subject: DrawnPhase, low_s: float) -> list[Trace]:
    """A closed loop that waits for one I/O has no other: a bar from its begin to its end."""
    if not subject.waits:
        return []
    x: list[float | None] = []
    y: list[float | None] = []
    for begin, end in subject.waits:
        x += [begin, begin, end, None]
        y += [low_s, end - begin, end - begin, None]
    return [{
        "type": "scatter", "mode": "lines", "name": "waiting for one I/O", "x": x, "y": y,
        "connectgaps": False, "line": {"color": palette.FAULT, "width": 1.6, "dash": "dot"},
        "hovertemplate": "waiting for one I/O, until %{x:.4~g} s<extra></extra>",
    }]  # fmt: skip


def _rug(stored: CountGrid, high_s: float) -> list[Trace]:
    """A triangle below the top edge of a linear axis for each column with I/Os above it."""
    edges = stored.edges_s
    above: dict[int, tuple[int, float]] = {}
    for cells in stored.tiers.values():
        out = edges[cells.row] >= high_s
        for column, row, count in zip(cells.column[out], cells.row[out], cells.count[out], strict=True):
            number, most = above.get(int(column), (0, 0.0))
            above[int(column)] = number + int(count), max(most, float(edges[row + 1]))
    if not above:
        return []
    middles = (stored.times_s[:-1] + stored.times_s[1:]) / 2
    return [{
        "type": "scatter", "mode": "markers", "name": "above the axis",
        "x": [float(middles[column]) for column in above], "y": [_RUG * high_s] * len(above),
        "text": [f"{number} I/O, up to {format_latency(most * 1e6)}" for number, most in above.values()],
        "marker": {"symbol": "triangle-up", "size": 8, "color": palette.FAULT},
        "hovertemplate": "%{x:.4~g} s: %{text}<extra></extra>",
    }]  # fmt: skip


def _rates(shown: CountGrid, xaxis: str, length_s: float, unit: str = "I/O per s and octave") -> list[Trace]:
    """A bar per row and tier: I/Os per octave, per second of `length_s`."""
    edges = shown.edges_s
    octaves = np.log2(edges[1:] / edges[:-1])
    made = []
    for tier, cells in shown.tiers.items():
        counts = np.bincount(cells.row, weights=cells.count, minlength=len(edges) - 1)
        used, per_octave = np.flatnonzero(counts), counts / octaves / max(length_s, 1e-9)
        made.append({
            "type": "bar", "orientation": "h", "name": plotly_text(tier_name(tier)),
            "showlegend": xaxis == "x", "x": per_octave[used].round(6).tolist(), "base": 0, "offset": 0,
            "y": edges[used].tolist(), "width": np.diff(edges)[used].tolist(),
            "customdata": counts[used].tolist(), "legendgroup": tier,
            "xaxis": xaxis, "yaxis": "y", "opacity": 0.85, "meta": {"tier": tier, "rates": xaxis == "x2"},
            "marker": {"color": palette.line(tier), "line": {"width": 0}},
            "hovertemplate": f"{plotly_text(tier_name(tier))}, %{{y:.3~s}}s: %{{x:.3g}} {unit}"
                             "<br>%{customdata} I/O<extra></extra>",
        })  # fmt: skip
    return made
