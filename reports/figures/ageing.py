"""The ageing curve of each preconditioned device as a figure, and its heat maps fresh beside aged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from reports.analysis.ageing import QUANTILES, curve, devices
from reports.figures import encoding, heat_map
from reports.figures.text import human_us, safe
from reports.figures.tier_figures import GRID, INK, PALETTE, RULE, ticks

Json = dict[str, Any]
OPS = (("read", "reads"), ("write", "sync writes"))
_COLOURS = {"p50": "#2b9c55", "p99": "#d98a1f", "p99.9": "#c2352b"}
_DASHES = {"p50": "solid", "p99": "dash", "p99.9": "dot"}
_HEIGHT = 420
_MAP_HEIGHT = 440


@dataclass(frozen=True)
class Drawn:
    """A figure for the page: `spec` as report.js takes it."""

    spec: Json
    height: int
    caption: str


def figures(frame: pl.DataFrame, title: str = "") -> list[Drawn]:
    """For each device its curve, and for each op the fresh and the aged heat map side by side."""
    rows = curve(frame)
    drawn = []
    for device in devices(frame):
        mine = [row for row in rows if row["device"] == device]
        drawn.append(_curve_figure(device, mine, title))
        for op, words in OPS:
            of_op = [row for row in mine if row["op"] == op]
            if len(of_op) > 1:
                part = frame.filter((pl.col("device") == device) & (pl.col("op") == op))
                drawn.append(_maps_figure(device, words, of_op[0], of_op[-1], part, title))
    return drawn


def _axis(**values: Any) -> Json:
    return {"gridcolor": GRID, "linecolor": RULE, "zeroline": False, "showline": True, **values}


def _latency_axis(low_us: float, high_us: float, **values: Any) -> Json:
    low, high = max(low_us, heat_map.FLOOR_US) / 1.25, max(high_us, heat_map.FLOOR_US) * 1.25
    places = ticks(low, high)
    return _axis(
        type="log", range=[np.log10(low), np.log10(high)],
        tickvals=[t[0] for t in places], ticktext=[t[1] for t in places], **values,
    )  # fmt: skip


def _axes(x: Json, low_us: float, high_us: float) -> Json:
    """Both panels' axes: the same `x`, the same latencies."""
    return {
        "xaxis": {**x, "domain": [0, 0.46], "anchor": "y"},
        "xaxis2": {**x, "domain": [0.54, 1], "anchor": "y2"},
        "yaxis": _latency_axis(low_us, high_us, anchor="x", title={"text": "latency"}),
        "yaxis2": _latency_axis(low_us, high_us, anchor="x2"),
    }


def _layout(height: int, panels: tuple[str, str], title: str, **values: Any) -> Json:
    """Two panels, named above."""
    places = ((0.0, panels[0]), (0.54, panels[1]))
    names = [
        {"x": x, "y": 1.0, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
         "showarrow": False, "text": safe(text), "font": {"size": 13}}
        for x, text in places
    ]  # fmt: skip
    return {
        "template": encoding.NO_TEMPLATE, "height": height, "autosize": True, "hovermode": "closest",
        "annotations": names,
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "title": {"text": safe(title), "x": 0, "xref": "container", "xanchor": "left",
                  "y": 1, "yref": "container", "yanchor": "top", "font": {"size": 12},
                  "pad": {"l": 12, "t": 14}},
        "margin": {"l": 76, "r": 24, "t": 62, "b": 84}, "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff",
        "legend": {"orientation": "h", "x": 0, "y": -0.18, "yanchor": "top"}, **values,
    }  # fmt: skip


def _curve_figure(device: str, rows: list[Json], title: str) -> Drawn:
    traces: list[Json] = []
    seen: list[float] = []
    for panel, (op, _) in enumerate(OPS):
        mine = [row for row in rows if row["op"] == op]
        for _, name in QUANTILES:
            values = [row[name] for row in mine]
            seen += [v for v in values if v]
            number = "2" if panel else ""
            traces.append({
                "type": "scatter", "x": [row["written"] for row in mine], "y": values,
                "mode": "lines+markers", "name": name, "legendgroup": name, "showlegend": not panel,
                "xaxis": f"x{number}", "yaxis": f"y{number}", "connectgaps": False,
                "line": {"color": _COLOURS[name], "dash": _DASHES[name], "width": 2},
                "marker": {"size": 6, "color": _COLOURS[name]},
                "customdata": [[safe(row["stage"]), "" if v is None else human_us(v), row["ios"]]
                               for row, v in zip(mine, values, strict=True)],
                "hovertemplate": "after %{customdata[0]}, %{x:.2f} x capacity: %{customdata[1]}"
                                 "<br>%{customdata[2]} I/Os<extra>" + name + "</extra>",
            })  # fmt: skip
    low, high = min(seen, default=1.0), max(seen, default=1000.0)
    most = max((row["written"] for row in rows), default=1.0)
    x = _axis(range=[-0.04 * max(most, 0.1), most * 1.04 + 0.01], title={"text": "written / capacity"})
    named = {op: f"{_blocks(rows, op)} {words}, one at a time" for op, words in OPS}
    layout = _layout(
        _HEIGHT, (named["read"], named["write"]), f"{device}: latency as it ages. {title}",
        **_axes(x, low, high),
    )  # fmt: skip
    head = ["device", "op", "block_bytes", "stage", "written_bytes", "capacity_bytes", "ios"]
    names = [name for _, name in QUANTILES]
    table: list[list[Any]] = [[*head, *(f"{name}_us" for name in names)]]
    table += [[*(row[key] for key in head), *(row[n] if row[n] is not None else "" for n in names)]
              for row in rows]  # fmt: skip
    words = (
        f"{device} by itself, before there was a pool: reads and O_DSYNC writes at random places, one "
        "outstanding, after the purge and after each fill or round. What was written is what the device's "
        "own counter says. After the purge, reads are of the part that had just been written: for what was "
        "never written an SSD reads no flash. A gap is a percentile that too few I/Os bear."
    )
    spec = {
        "title": safe(f"{device} ageing curve"),
        "figure": encoding.strict({"data": traces, "layout": layout}),
        "csv": table,
    }
    return Drawn(spec, _HEIGHT, words)


def _blocks(rows: list[Json], op: str) -> str:
    sizes = sorted({int(row["block_bytes"]) for row in rows if row["op"] == op})
    return ", ".join(f"{size} B" if size % 1024 else f"{size // 1024} KiB" for size in sizes)


def _maps_figure(device: str, words: str, fresh: Json, aged: Json, part: pl.DataFrame, title: str) -> Drawn:
    traces: list[Json] = []
    grids = [_grid(part, row) for row in (fresh, aged)]
    hottest = max(float(np.log10(grid.counts.max())) for grid in grids)
    scale = [[n / (len(PALETTE) - 1), colour] for n, colour in enumerate(PALETTE)]
    table: list[list[Any]] = [["stage", "time_s", "lo_us", "hi_us", "count"]]
    for number, row, grid in zip(("", "2"), (fresh, aged), grids, strict=True):
        shown = np.where(grid.counts > 0, np.log10(np.maximum(grid.counts, 1)), np.nan)
        traces.append({
            "type": "heatmap", "x": encoding.typed(grid.columns.edges_s), "y": encoding.typed(grid.edges_us),
            "z": encoding.typed(shown), "zmin": 0, "zmax": max(hottest, 0.1), "colorscale": scale,
            "showscale": number == "2", "hoverongaps": False, "customdata": encoding.typed(grid.counts),
            "xaxis": f"x{number}", "yaxis": f"y{number}",
            "colorbar": {"title": {"text": "I/Os"}, "thickness": 12, **_colour_ticks(hottest)},
            "hovertemplate": "%{customdata} I/Os, %{x:.3g} s, %{y:.4g} us<extra></extra>",
            # The page's script colours the markers of each trace, and a heat map has none.
            "marker": {},
        })  # fmt: skip
        for at, column in np.argwhere(grid.counts > 0).tolist():
            start = float(grid.columns.edges_s[column])
            bounds = float(grid.lo_us[at]), float(grid.hi_us[at])
            table.append([row["stage"], start, *bounds, int(grid.counts[at, column])])
    low = min(float(grid.lo_us[0]) for grid in grids)
    high = max(float(grid.hi_us[-1]) for grid in grids)
    x = _axis(title={"text": "seconds of the measurement"}, showgrid=False)
    panels = (
        f"fresh: after the {fresh['stage']}",
        f"aged: after {aged['stage']}, {aged['written']:.1f} x capacity",
    )
    layout = _layout(_MAP_HEIGHT, panels, f"{device}: {words}, one at a time. {title}", **_axes(x, low, high))
    spec = {
        "title": safe(f"{device} {words} fresh and aged"),
        "figure": encoding.strict({"data": traces, "layout": layout}),
        "csv": table,
    }
    caption = (
        f"{words.capitalize()} of {device}, {fresh['ios']} fresh and {aged['ios']} aged, with the same "
        "colours and the same axis of latency. A row is one stored bin; time is the sum of the latencies "
        "before."
    )
    return Drawn(spec, _MAP_HEIGHT, caption)


def _grid(part: pl.DataFrame, row: Json) -> heat_map.Grid:
    mine = part.filter(pl.col("point") == row["point"])
    width = int(mine["interval_ns"].max())  # type: ignore[arg-type]
    last = int(mine["time_ns"].max()) + width  # type: ignore[arg-type]
    count = -(-last // width)
    merged = -(-count // heat_map.MAX_COLUMNS)
    axis = heat_map.Columns(0, width * merged, -(-count // merged), last, merged)
    grid = heat_map.grid(mine, axis)
    assert grid is not None, "a row of the curve has I/Os"
    return grid


def _colour_ticks(hottest: float) -> Json:
    powers = range(int(hottest) + 1)
    return {"tickvals": list(powers), "ticktext": [f"{10**n}" for n in powers]}
