"""A series as figures: for each axis and phase the latency of each tier by value, throughput and CPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.store.parts.comparison import ComparedCell, ComparedSeries
from kit.store.series import Series, SeriesAxis, SeriesCell
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.runs.series_lines import latencies, looks, over, rates
from reports.figures.text import plotly_text
from reports.series.view import (
    SeriesLine,
    bytes_rate_of,
    cells_of,
    cpu_of,
    lines_of,
    merged_rows,
    never_written_of,
    passes_of,
    places_of,
    rate_of,
)

_UPPER, _LOWER = [0.42, 1.0], [0.0, 0.26]
_LEFT, _RIGHT = [0.0, 0.44], [0.56, 1.0]
# Of an axis of places, such as addresses: rate above latency, both as wide as the page.
_RATE, _LATENCY = [0.6, 1.0], [0.0, 0.46]


def figures(series: Series) -> Iterator[tuple[SeriesAxis, str, Figure]]:
    """A figure for each axis and each phase that it is about."""
    for axis in series.axes:
        for phase, cells in cells_of(series, axis):
            if len(cells) > 1 and any(merged_rows(cell) for cell, _ in cells):
                yield axis, phase, _figure(axis, phase, _lines(series, axis, phase))


def compared(result: ComparedSeries, series: Series) -> Iterator[Figure]:
    """B/A along each axis of A that both were measured along, for each phase."""
    rows: dict[tuple[str, str], list[ComparedCell]] = {}
    for row in result.rows:
        rows.setdefault((row.phase, row.cell), []).append(row)
    for axis in series.axes:
        for phase, _ in cells_of(series, axis):
            lines = [
                SeriesLine(line.name, [each for each in line.cells if (phase, each[0].name) in rows])
                for line in _lines(series, axis, phase)
            ]
            if any(len(line.cells) > 1 for line in lines):
                yield _over(axis, phase, lines, rows)


def _over(
    axis: SeriesAxis,
    phase: str,
    lines: Sequence[SeriesLine],
    rows: Mapping[tuple[str, str], Sequence[ComparedCell]],
) -> Figure:
    """Ratios of the latencies of each tier and of the rate, with their intervals."""
    order, places, place_of = _placed(axis, lines)
    table: list[list[Any]] = [[axis.name, "line", "op", "tier", "figure", "ratio", "low", "high"]]
    traces: list[Trace] = []
    for look in looks(lines, place_of):
        of: dict[tuple[str, ...], list[tuple[Any, ComparedCell]]] = {}
        for place, (cell, value) in zip(look.x, look.line.cells, strict=True):
            for row in rows[phase, cell.name]:
                of.setdefault((row.layer, row.op, row.tier, row.figure), []).append((place, row))
                known_row = row.interval or row.range or ("", "")
                table.append([value, look.line.name, row.op, row.tier, row.figure, row.ratio, *known_row])
        traces += [over(look, key[2], key[3], points) for key, points in of.items()]
    ends = [1.0, *(row.ratio for each in rows.values() for row in each if row.phase == phase)]
    around = max(max(ends) - min(ends), 0.1) / 4
    along: Layout = {"type": "category"}
    if places:
        names = [plotly_text(axis.worded(value)) for value in order]
        along = {"type": "linear" if places[1] else "log", "tickvals": places[0], "ticktext": names}
    one: Layout = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "layer": "below"}
    layout = figure.layout(
        420, {"l": 62, "r": 30, "t": 40, "b": 96}, dragmode="zoom", xaxis=along,
        annotations=[figure.panel_title("B : A", 0, 1)], legend=_legend(),
        yaxis={"tickformat": ".0%", "range": [min(ends) - around, max(ends) + around]},
        shapes=[{**one, "line": {"color": palette.GAP, "width": 3}}],
    )  # fmt: skip
    if not places:
        for trace in traces:
            trace["mode"] = "markers"
    caption = "100 %: as A. Latency above it: B is slower. Bars: 95 % over rounds, or within one round."
    return Figure(
        f"{axis.name}: {phase}", traces, layout, caption, csv=table, narrow={"margin": {"l": 46, "r": 12}},
    )  # fmt: skip


def _lines(series: Series, axis: SeriesAxis, phase: str) -> list[SeriesLine]:
    """Along places also what is crossed with them; elsewhere that would be too many lines."""
    lines, places = lines_of(series, axis, phase), places_of(axis.values)
    return lines if places and places[1] else [SeriesLine("", lines[0].cells)]


def _placed(
    axis: SeriesAxis, lines: Sequence[SeriesLine]
) -> tuple[list[str], tuple[list[float], bool] | None, dict[str, Any]]:
    """The values of the axis that a line has, where numbers lie (`places_of`), and the place of each."""
    known = {value for line in lines for _, value in line.cells}
    order = [value for value in axis.values if value in known]
    places = places_of(order)
    return order, places, dict(zip(order, places[0] if places else map(plotly_text, order), strict=True))


def _figure(axis: SeriesAxis, phase: str, lines: Sequence[SeriesLine]) -> Figure:
    _, places, place_of = _placed(axis, lines)
    drawn = looks(lines, place_of)
    traces = [trace for look in drawn for trace in latencies(look)]
    span = _span_s(traces)
    for trace in [each for each in traces if each["name"] == "published"][:1]:
        trace["showlegend"] = True
    if places and places[1]:
        traces += [t for look in drawn for t in rates(look, bytes_rate_of, "bytes a second", "2")]
        layout = _along_places(axis, lines, place_of, span)
    else:
        has_cpu = any(cpu_of(cell) is not None for line in lines for cell, _ in line.cells)
        for number, value, name in (("2", rate_of, "I/Os a second"), ("3", cpu_of, "CPU"))[: 1 + has_cpu]:
            traces += [trace for look in drawn for trace in rates(look, value, name, number)]
        layout = _beside(place_of, span, is_number=places is not None, has_cpu=has_cpu)
    if places is None:
        # Between two names there is nothing.
        for trace in traces:
            trace["mode"] = "lines+markers" if trace["name"] == "published" else "markers"
    return Figure(
        f"{axis.name}: {phase}", traces, layout, _caption(lines), csv=_table(axis, lines),
        narrow={"margin": {"l": 64 if places and places[1] else 46, "r": 12}},
    )  # fmt: skip


def _span_s(latency_traces: Sequence[Trace]) -> tuple[float, float]:
    seen = [v for trace in latency_traces for v in trace["y"] if v and v > figure.FLOOR_S]
    return min(seen, default=1e-6) / 2, max(seen, default=1e-3) * 2


def _cells(lines: Sequence[SeriesLine]) -> list[tuple[SeriesLine, SeriesCell, str]]:
    return [(line, cell, value) for line in lines for cell, value in line.cells]


def _caption(lines: Sequence[SeriesLine]) -> str:
    cells = _cells(lines)
    parts = ["Line: p50; dash: p99."]
    if any(never_written_of(cell) for _, cell, _ in cells):
        parts.append("Shaded: never written: answered from the map, without flash.")
    if any(passes_of(cell) for _, cell, _ in cells):
        parts.append("Thin lines: each pass by itself.")
    reasons: dict[tuple[str, str], list[str]] = {}
    for line, cell, value in cells:
        if cell.excluded:
            reasons.setdefault((line.name, cell.excluded), []).append(value)
    if reasons:
        listed = [
            f"{name} ({', '.join(values)}): {reason}" if name else f"{', '.join(values)}: {reason}"
            for (name, reason), values in reasons.items()
        ]
        parts.append("Hollow: kept out of ratios. " + "; ".join(listed))
    return " ".join(parts)


def _beside(
    place_of: Mapping[str, Any], span: tuple[float, float], *, is_number: bool, has_cpu: bool
) -> Layout:
    """Latency above; below it I/Os a second and CPU side by side. `span`: of latencies in seconds."""
    along: Layout = (
        {"type": "log", "tickvals": list(place_of.values()), "ticktext": [plotly_text(v) for v in place_of]}
        if is_number
        else {"type": "category"}
    )
    cpu: Layout = {
        "xaxis3": {**along, "anchor": "y3", "domain": _RIGHT},
        "yaxis3": {"anchor": "x3", "domain": _LOWER, "range": [0, 1.05], "tickformat": ".0%"},
    }
    return figure.layout(
        520, {"l": 62, "r": 30, "t": 40, "b": 96}, dragmode="zoom", **(cpu if has_cpu else {}),
        annotations=[
            figure.panel_title("p50 (bars: within a run); dash: p99", 0, 1),
            figure.panel_title("I/Os a second", _LEFT[0], _LOWER[1]),
            *([figure.panel_title("CPU busy", _RIGHT[0], _LOWER[1])] if has_cpu else []),
        ],
        legend=_legend(),
        xaxis={**along, "anchor": "y"},
        yaxis=figure.latency_axis(*span, anchor="x", domain=_UPPER),
        xaxis2={**along, "anchor": "y2", "domain": _LEFT if has_cpu else [0.0, 1.0]},
        yaxis2={"anchor": "x2", "domain": _LOWER, "rangemode": "tozero", "tickformat": ".3~s"},
    )  # fmt: skip


def _legend() -> Layout:
    return {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top", "font": {"size": 11}}


def _along_places(
    axis: SeriesAxis, lines: Sequence[SeriesLine], place_of: Mapping[str, float], span: tuple[float, float]
) -> Layout:
    """Rate above latency along a linear axis; what was never written is shaded in both."""
    places = sorted(place_of.values())
    step = (places[-1] - places[0]) / (len(places) - 1)
    along: Layout = {
        "type": "linear",
        "range": [places[0] - step / 3, places[-1] + step],
        "ticksuffix": axis.worded(""),
    }
    shaded = _unwritten(lines, place_of, step)
    return figure.layout(
        560, {"l": 62, "r": 30, "t": 40, "b": 96}, dragmode="zoom",
        annotations=[
            figure.panel_title(f"Bytes a second by {plotly_text(axis.name)}", 0, _RATE[1]),
            figure.panel_title("p50 (bars: within a run); dash: p99", 0, _LATENCY[1]),
            *(_shade_name(end, names) for (_, end), names in shaded.items()),
        ],
        legend={**_legend(), "y": -0.12},
        shapes=[shape for first, end in shaded for shape in _shade(first, end)],
        xaxis={**along, "anchor": "y"},
        yaxis=figure.latency_axis(*span, anchor="x", domain=_LATENCY),
        xaxis2={**along, "anchor": "y2", "matches": "x"},
        yaxis2={
            "anchor": "x2", "domain": _RATE, "rangemode": "tozero", "tickformat": ".3~s", "ticksuffix": "B/s",
            "nticks": 6,
        },
    )  # fmt: skip


def _unwritten(
    lines: Sequence[SeriesLine], place_of: Mapping[str, float], step: float
) -> dict[tuple[float, float], list[str]]:
    """Stretches of places whose reads met addresses that were never written, and the lines with them."""
    stretches: dict[tuple[float, float], list[str]] = {}
    for line in lines:
        found = sorted(place_of[value] for cell, value in line.cells if never_written_of(cell))
        starts = [place for n, place in enumerate(found) if not n or place - found[n - 1] > 1.5 * step]
        for first, after in itertools.zip_longest(starts, starts[1:], fillvalue=math.inf):
            last = max(place for place in found if first <= place < after)
            stretches.setdefault((first, last + step), []).append(line.name)
    return stretches


def _shade(first: float, end: float) -> Iterator[Layout]:
    for number in ("", "2"):
        yield {
            "type": "rect", "xref": f"x{number}", "yref": f"y{number} domain", "x0": first, "x1": end,
            "y0": 0, "y1": 1, "fillcolor": palette.GAP, "line": {"width": 0}, "layer": "below",
        }  # fmt: skip


def _shade_name(end: float, names: Sequence[str]) -> Layout:
    text = "<br>".join([*map(plotly_text, filter(None, names)), "never written:", "answered from the map"])
    return {
        "xref": "x2", "yref": "y2 domain", "x": end, "y": 0.02, "xanchor": "right", "yanchor": "bottom",
        "showarrow": False, "align": "right", "text": text, "font": {"size": 10}, "bgcolor": "rgba(0,0,0,0)",
    }  # fmt: skip


def _table(axis: SeriesAxis, lines: Sequence[SeriesLine]) -> list[list[Any]]:
    head = [axis.name, "layer", "op", "tier", "ios", "p50_us", "p50_low_us", "p50_high_us", "p99_us",
            "ios_per_s", "bytes_per_s", "cpu_busy", "excluded", "never_written", "line"]  # fmt: skip
    table: list[list[Any]] = [head]
    for line, cell, value in _cells(lines):
        for row in merged_rows(cell):
            low, high = row.p50_range_us or ("", "")
            numbers = (row.p50_us, low, high, row.p99_us, rate_of(cell), bytes_rate_of(cell), cpu_of(cell))
            shown = ["" if number is None else number for number in numbers]
            words = [cell.excluded or "", never_written_of(cell), line.name]
            table.append([value, row.layer, row.op, row.tier, row.count, *shown, *words])
    return table
