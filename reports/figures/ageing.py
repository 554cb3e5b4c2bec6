"""The ageing curve of each preconditioned device as a figure, and its heat maps fresh beside aged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from kit.core.units import commas, format_binary_bytes, format_factor, format_latency
from reports.analysis.ageing import QUANTILES, AgeingPoint, curve, devices
from reports.figures import figure, heat_map, palette
from reports.figures.figure import Figure
from reports.figures.heat_map import CountGrid, TimeSpan
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text

OPS = {"read": "reads", "write": "sync writes"}
_DASHES = {"p50": "solid", "p99": "dash", "p99.9": "dot"}
# A cache device's hue for reads, a log device's for writes.
_HUES = {"read": "l2arc", "write": "slog"}
_LEFT, _RIGHT = [0, 0.45], [0.55, 1]


def figures(frame: pl.DataFrame) -> list[Figure]:
    """For each device its curve, and for each op the fresh and the aged heat map side by side."""
    rows = curve(frame)
    drawn = []
    for device in devices(frame):
        mine = [row for row in rows if row.device == device]
        drawn.append(_curve_figure(device, mine))
        for op in OPS:
            of_op = [row for row in mine if row.op == op]
            if len(of_op) > 1:
                part = frame.filter((pl.col("device") == device) & (pl.col("op") == op))
                drawn.append(_maps_figure(of_op[0], of_op[-1], part))
    return drawn


def _layout(height_px: int, panels: tuple[str, str], x: Layout, low_s: float, high_s: float) -> Layout:
    """Two panels, named above: the same axis `x`, the same latencies."""
    titles = [plotly_text(panel) for panel in panels]
    return figure.layout(
        height_px, {"l": 62, "r": 84, "t": 40, "b": 96}, dragmode="zoom",
        annotations=[
            figure.panel_title(titles[0], _LEFT[0], 1), figure.panel_title(titles[1], _RIGHT[0], 1)
        ],
        legend={"orientation": "h", "x": 0, "y": -0.28, "yanchor": "top"},
        xaxis={**x, "domain": _LEFT, "anchor": "y"}, xaxis2={**x, "domain": _RIGHT, "anchor": "y2"},
        yaxis=figure.latency_axis(low_s, high_s, anchor="x"),
        yaxis2=figure.latency_axis(low_s, high_s, anchor="x2", matches="y"),
    )  # fmt: skip


def _stacked(layout: Layout, right_px: int) -> Layout:
    """The layout of a small screen: one panel above the other."""
    titles = [{**title, "x": 0, "y": y} for title, y in zip(layout["annotations"], (1, 0.42), strict=True)]
    whole: Layout = {"domain": [0, 1]}
    return {
        "margin": {"l": 46, "r": right_px}, "height": 560, "annotations": titles,
        "xaxis": whole, "xaxis2": whole,
        "yaxis": {"domain": [0.58, 1]}, "yaxis2": {"domain": [0, 0.42]},
        "legend": {"y": -0.14},
    }  # fmt: skip


def _curve(rows: Sequence[AgeingPoint], op: str, name: str) -> Trace:
    """A percentile of an operation over what was written; reads are in the first panel."""
    values, colour = [row.us[name] for row in rows], palette.line(_HUES[op])
    number = "" if op == "read" else "2"
    return {
        "type": "scatter", "x": [row.written for row in rows],
        "y": [None if v is None else v / 1e6 for v in values],
        "error_y": figure.error_bars(values, [row.open_us[name] for row in rows], 1e6),
        "mode": "lines+markers", "name": f"{op} {name}", "legendgroup": f"{op} {name}",
        "xaxis": f"x{number}", "yaxis": f"y{number}", "connectgaps": False,
        "meta": {"tier": _HUES[op]},
        "line": {"color": colour, "dash": _DASHES[name], "width": 2},
        "marker": {"size": 6, "color": colour},
        "customdata": [[plotly_text(row.stage), "" if v is None else format_latency(v), row.ios]
                       for row, v in zip(rows, values, strict=True)],
        "hovertemplate": "after %{customdata[0]}, %{x:.2f} times its capacity: "
                         "%{customdata[1]}<br>%{customdata[2]} I/O<extra>" + name + "</extra>",
    }  # fmt: skip


def _curve_figure(device: str, rows: Sequence[AgeingPoint]) -> Figure:
    of_op = {op: [row for row in rows if row.op == op] for op in OPS}
    drawn = [(op, name) for op in OPS for name in QUANTILES if any(row.us[name] for row in of_op[op])]
    traces = [_curve(of_op[op], op, name) for op, name in drawn]
    seen = [us for op, name in drawn for row in of_op[op] if (us := row.us[name])]
    low, high = min(seen, default=1.0) / 1e6, max(seen, default=1000.0) / 1e6
    most = max((row.written for row in rows), default=1.0)
    x = {"range": [-0.04 * max(most, 0.1), most * 1.04 + 0.01], "title": {"text": "written / capacity"}}
    titles = {op: f"{_blocks(of_op[op])} {words}, one at a time" for op, words in OPS.items()}
    # A quarter of an axis above and below: a flat curve is seen to be flat.
    layout = _layout(358, (titles["read"], titles["write"]), x, low / 2, high * 2)
    head = ["device", "op", "block_bytes", "stage", "written_bytes", "capacity_bytes", "ios"]
    names = list(QUANTILES)
    table: list[list[Any]] = [[*head, *(f"{name}_us" for name in names)]]
    for row in rows:
        of_row = ("" if row.us[name] is None else row.us[name] for name in names)
        table.append([*(getattr(row, key) for key in head), *of_row])
    caption = (
        "Measured on the device alone, after the purge and after each stage. Reads go to written blocks "
        "only; unwritten blocks would not touch the flash. Bars: 95 % interval from the sample size."
    )
    return Figure(
        f"{device}: latency as it ages", traces, layout, caption, csv=table, narrow=_stacked(layout, 8),
    )  # fmt: skip


def _blocks(rows: Sequence[AgeingPoint]) -> str:
    sizes = sorted({row.block_bytes for row in rows})
    return ", ".join(map(format_binary_bytes, sizes))


def _maps_figure(fresh: AgeingPoint, aged: AgeingPoint, part: pl.DataFrame) -> Figure:
    shown = [part.filter(pl.col("point") == row.point) for row in (fresh, aged)]
    grids = [heat_map.display(_grid(rows), (120, 128)) for rows in shown]
    maps: list[Trace] = []
    for number, row, grid in zip(("", "2"), (fresh, aged), grids, strict=True):
        stage = row.stage
        for trace in heat_map.traces(grid, [stage], "octave", (f"x{number}", f"y{number}"), {stage: stage}):
            maps.append(heat_map.in_hue_of(trace, _HUES[fresh.op]))
    edges = [grid.edges_s for grid in grids]
    panels = (
        f"fresh: after the {fresh.stage}",
        f"aged: after {aged.stage}, {format_factor(aged.written, 2)} its capacity",
    )
    x = figure.time_axis(max(float(grid.times_s[-1]) for grid in grids), showgrid=False)
    low, high = min(float(e[0]) for e in edges) / 1.5, max(float(e[-1]) for e in edges) * 1.5
    table: list[list[Any]] = [["stage", "time_s", "lo_us", "hi_us", "count"]]
    table += [row for rows in shown for row in _table(rows)]
    ios = f"{commas(fresh.ios)} I/Os fresh, {commas(aged.ios)} aged"
    cells = dict.fromkeys(heat_map.rows_text(grid) for grid in grids)
    caption = f"{ios}; same colours and axes. {' Aged: '.join(cells)}"
    layout = _layout(378, panels, x, low, high)
    return Figure(
        f"{fresh.device}: {OPS[fresh.op]}, fresh and aged", heat_map.coloured(maps, "octave"), layout,
        caption, csv=table, narrow=_stacked(layout, 62),
    )  # fmt: skip


def _grid(rows: pl.DataFrame) -> CountGrid:
    """The cells of one point; its time begins at 0."""
    width, last = int(rows["interval_ns"].max()), int(rows["time_ns"].max())  # type: ignore[arg-type]
    return heat_map.grid(rows, TimeSpan(0, last + width, width), by="stage")


def _table(rows: pl.DataFrame) -> list[list[Any]]:
    used = rows.filter(pl.col("count") > 0).sort("lo_ns", "time_ns")
    columns = "stage", pl.col("time_ns") / 1e9, pl.col("lo_ns") / 1e3, pl.col("hi_ns") / 1e3, "count"
    return [list(row) for row in used.select(*columns).iter_rows()]
