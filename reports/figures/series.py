"""A series as figures: for each axis and phase the latency of each tier by value, throughput and CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.units import format_latency
from kit.store.series import CellRow, Series, SeriesAxis, SeriesCell
from kit.store.stored import Json
from reports.analysis.tier_names import op_name, tier_name
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.text import plotly_text
from reports.series.view import bytes_rate_of, cells_of, cpu_of, merged_rows, rate_of

_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LATENCY, _BELOW = [0.42, 1.0], [0.0, 0.26]
_LEFT, _RIGHT = [0.0, 0.44], [0.56, 1.0]
Cells = Sequence[tuple[SeriesCell, str]]


def figures(series: Series) -> Iterator[tuple[SeriesAxis, str, Figure]]:
    """A figure for each axis and each phase that it is about."""
    for axis in series.axes:
        for phase, cells in cells_of(series, axis):
            if len(cells) > 1:
                yield axis, phase, _figure(series, axis, phase, cells)


def _figure(series: Series, axis: SeriesAxis, phase: str, cells: Cells) -> Figure:
    x = _places([value for _, value in cells])
    traces = [*_latencies(cells, x), *_throughput(cells, x)]
    for trace in [each for each in traces if each["name"] == "published"][:1]:
        trace["showlegend"] = True
    seen = [
        v
        for trace in traces
        for v in trace["y"]
        if v and v > figure.FLOOR_S and trace.get("yaxis", "y") == "y"
    ]
    low, high = min(seen, default=1e-6), max(seen, default=1e-3)
    numeric = not isinstance(x[0], str)
    along: Json = (
        {"type": "log", "tickvals": x, "ticktext": [plotly_text(v) for _, v in cells]}
        if numeric
        else {"type": "category"}
    )
    layout = figure.layout(
        520, {"l": 62, "r": 30, "t": 40, "b": 96}, dragmode="zoom",
        annotations=[
            figure.panel_title("p50 with its 95 % interval, and p99", 0, 1),
            figure.panel_title("I/Os a second", _LEFT[0], _BELOW[1]),
            figure.panel_title("CPU busy", _RIGHT[0], _BELOW[1]),
        ],
        legend={"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top", "font": {"size": 11}},
        xaxis={**along, "anchor": "y"},
        yaxis=figure.latency_axis(low / 2, high * 2, anchor="x", domain=_LATENCY, dtick="D2"),
        xaxis2={**along, "anchor": "y2", "domain": _LEFT},
        yaxis2={"anchor": "x2", "domain": _BELOW, "rangemode": "tozero", "tickformat": ".3~s"},
        xaxis3={**along, "anchor": "y3", "domain": _RIGHT},
        yaxis3={"anchor": "x3", "domain": _BELOW, "range": [0, 1.05], "tickformat": ".0%"},
    )  # fmt: skip
    excluded = [f"{value}: {cell.excluded}" for cell, value in cells if cell.excluded]
    caption = "Hollow: kept out of ratios. " + "; ".join(excluded) if excluded else ""
    return Figure(
        f"{axis.name}: {phase}", traces, layout, caption, about={"per": ""}, csv=_table(axis, cells),
        narrow={"margin": {"l": 46, "r": 12}},
    )  # fmt: skip


def _places(values: Sequence[str]) -> list[Any]:
    """Where the values stand: at their number, if each is one above 0; else at their name."""
    numbers = []
    for value in values:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgKMG]?)(?:i?[bB])?", value)
        if match is None or not float(match[1]):
            return [plotly_text(each) for each in values]
        numbers.append(float(match[1]) * _FACTORS[match[2].lower()])
    return numbers


def _latencies(cells: Cells, x: Sequence[Any]) -> Iterator[Json]:
    rows = [{(row.op, row.tier): row for row in merged_rows(cell)} for cell, _ in cells]
    keys = sorted({key for each in rows for key in each}, key=lambda key: _height(rows, key))
    ops = {op for op, _ in keys}
    for op, tier in keys:
        name = tier_name(tier) + (f", {op_name(op)}" if len(ops) > 1 else "")
        yield from _tier(cells, x, [each.get((op, tier)) for each in rows], tier, name)


def _height(rows: Sequence[dict[tuple[str, str], CellRow]], key: tuple[str, str]) -> float:
    return min((each[key].p50_us or 1e12 for each in rows if key in each), default=1e12)


def _tier(
    cells: Cells, x: Sequence[Any], rows: Sequence[CellRow | None], tier: str, name: str
) -> Iterator[Json]:
    colour = palette.scale(tier)[1][1]
    hollow = [
        bool(cell.excluded) or row is None or row.p50_us is None
        for (cell, _), row in zip(cells, rows, strict=True)
    ]
    p50 = [row.p50_us / 1e6 if row and row.p50_us else None for row in rows]
    reach = [
        [
            abs(row.p50_range_us[end] - row.p50_us) / 1e6 if row and row.p50_us and row.p50_range_us else 0
            for row in rows
        ]
        for end in (1, 0)
    ]
    common: Json = {"type": "scatter", "x": list(x), "xaxis": "x", "yaxis": "y", "legendgroup": name,
                    "meta": {"tier": tier}}  # fmt: skip
    yield {
        **common, "y": p50, "mode": "lines+markers", "name": plotly_text(name),
        "line": {"color": colour, "width": 2},
        "marker": {"size": 8, "color": colour, "symbol": ["circle-open" if h else "circle" for h in hollow]},
        "error_y": {"type": "data", "array": reach[0], "arrayminus": reach[1], "thickness": 1.5, "width": 4},
        "customdata": [_words(cell, value, row) for (cell, value), row in zip(cells, rows, strict=True)],
        "hovertemplate": "%{customdata}<extra>" + plotly_text(name) + "</extra>",
    }  # fmt: skip
    yield {
        **common, "y": [row.p99_us / 1e6 if row and row.p99_us else None for row in rows], "mode": "markers",
        "name": f"{plotly_text(name)} p99", "showlegend": False,
        "marker": {"size": 9, "color": colour, "symbol": "line-ew-open"},
        "hovertemplate": "p99 %{y:.3~s}s<extra>" + plotly_text(name) + "</extra>",
    }  # fmt: skip
    spans = [
        (place, row.published_us) for place, row in zip(x, rows, strict=True) if row and row.published_us
    ]
    for place, span in spans:
        yield {
            **common, "meta": {}, "x": [place, place],
            "y": [max(edge / 1e6, figure.FLOOR_S) for edge in span],
            "mode": "lines+markers", "name": "published", "legendgroup": "published",
            "showlegend": False,
            "line": {"color": palette.PUBLISHED, "width": 3, "dash": "dot"},
            "marker": {"symbol": "line-ew-open", "size": 12, "color": palette.PUBLISHED},
            "hovertemplate": "published range: %{y:.3~s}s<extra></extra>",
        }  # fmt: skip


def _words(cell: SeriesCell, value: str, row: CellRow | None) -> str:
    if row is None:
        return plotly_text(f"{value}: no I/O of this tier")
    p50 = "n too small" if row.p50_us is None else format_latency(row.p50_us)
    p99 = "n too small" if row.p99_us is None else format_latency(row.p99_us)
    text = f"{value}: p50 {p50}, p99 {p99}, {row.count:,} I/Os"
    return plotly_text(f"{text}; {cell.excluded}" if cell.excluded else text, 200)


def _throughput(cells: Cells, x: Sequence[Any]) -> Iterator[Json]:
    symbols = ["circle-open" if cell.excluded else "circle" for cell, _ in cells]
    marker: Json = {"size": 7, "symbol": symbols}
    for number, values, name in (("2", [rate_of(cell) for cell, _ in cells], "I/Os a second"),
                                 ("3", [cpu_of(cell) for cell, _ in cells], "CPU")):  # fmt: skip
        yield {
            "type": "scatter", "x": list(x), "y": values, "xaxis": f"x{number}", "yaxis": f"y{number}",
            "mode": "lines+markers", "name": name, "showlegend": False, "marker": marker,
            "line": {"width": 2}, "meta": {"ink": True},
            "hovertemplate": "%{y:.4~g}<extra>" + name + "</extra>",
        }  # fmt: skip


def _table(axis: SeriesAxis, cells: Cells) -> list[list[Any]]:
    head = [axis.name, "layer", "op", "tier", "ios", "p50_us", "p50_low_us", "p50_high_us", "p99_us",
            "ios_per_s", "bytes_per_s", "cpu_busy", "excluded"]  # fmt: skip
    table: list[list[Any]] = [head]
    for cell, value in cells:
        for row in merged_rows(cell):
            low, high = row.p50_range_us or ("", "")
            numbers = (row.p50_us, low, high, row.p99_us, rate_of(cell), bytes_rate_of(cell), cpu_of(cell))
            shown = ["" if number is None else number for number in numbers]
            table.append([value, row.layer, row.op, row.tier, row.count, *shown, cell.excluded or ""])
    return table
