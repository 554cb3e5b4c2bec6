"""The ageing curve of each preconditioned device as a figure, and its heat maps fresh beside aged."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.core.units import format_latency
from kit.store.stored import Json
from reports.analysis.ageing import QUANTILES, curve, devices
from reports.figures import heat_map, still_figure
from reports.figures.palette import PERCENTILES
from reports.figures.still_figure import StillFigure
from reports.figures.text import plotly_text

OPS = (("read", "reads"), ("write", "sync writes"))
_DASHES = {"p50": "solid", "p99": "dash", "p99.9": "dot"}


def figures(frame: pl.DataFrame, title: str = "") -> list[StillFigure]:
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


def _layout(height: int, panels: tuple[str, str], title: str, x: Json, low_us: float, high_us: float) -> Json:
    """Two panels, named above: the same axis `x`, the same latencies."""
    return still_figure.layout(
        height, title, {"l": 76, "r": 24, "t": 62, "b": 84},
        annotations=[still_figure.panel_title(panels[0], 0, 1), still_figure.panel_title(panels[1], 0.54, 1)],
        legend={"orientation": "h", "x": 0, "y": -0.18, "yanchor": "top"},
        xaxis={**x, "domain": [0, 0.46], "anchor": "y"},
        xaxis2={**x, "domain": [0.54, 1], "anchor": "y2"},
        yaxis=still_figure.latency_axis(low_us, high_us, anchor="x", title={"text": "latency"}),
        yaxis2=still_figure.latency_axis(low_us, high_us, anchor="x2"),
    )  # fmt: skip


def _curve_figure(device: str, rows: list[Json], title: str) -> StillFigure:
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
                "line": {"color": PERCENTILES[name], "dash": _DASHES[name], "width": 2},
                "marker": {"size": 6, "color": PERCENTILES[name]},
                "customdata": [[plotly_text(row["stage"]), "" if v is None else format_latency(v), row["ios"]]
                               for row, v in zip(mine, values, strict=True)],
                "hovertemplate": "after %{customdata[0]}, %{x:.2f} x capacity: %{customdata[1]}"
                                 "<br>%{customdata[2]} I/Os<extra>" + name + "</extra>",
            })  # fmt: skip
    low = max(min(seen, default=1.0), heat_map.FLOOR_US)
    high = max(max(seen, default=1000.0), low)
    most = max((row["written"] for row in rows), default=1.0)
    x = still_figure.axis(
        range=[-0.04 * max(most, 0.1), most * 1.04 + 0.01], title={"text": "written / capacity"}
    )
    titles = {op: f"{_blocks(rows, op)} {words}, one at a time" for op, words in OPS}
    layout = _layout(
        420, (titles["read"], titles["write"]), f"{device}: latency as it ages. {title}",
        x, low, high,
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
    return StillFigure(f"{device} ageing curve", traces, layout, words, table)


def _blocks(rows: list[Json], op: str) -> str:
    sizes = sorted({int(row["block_bytes"]) for row in rows if row["op"] == op})
    return ", ".join(f"{size} B" if size % 1024 else f"{size // 1024} KiB" for size in sizes)


def _maps_figure(
    device: str, words: str, fresh: Json, aged: Json, part: pl.DataFrame, title: str
) -> StillFigure:
    shown = [part.filter(pl.col("point") == row["point"]) for row in (fresh, aged)]
    blocks = [_block(rows) for rows in shown]
    names = ("fresh", "aged")
    traces = [
        heat_map.panel(number, {row["stage"]: 1}, names[number], ("", "2")[number], {} if number else None)
        for number, row in enumerate((fresh, aged))
    ]
    low = min(block["edges_us"][0] for block in blocks)
    high = max(block["edges_us"][-1] for block in blocks)
    panels = (
        f"fresh: after the {fresh['stage']}",
        f"aged: after {aged['stage']}, {aged['written']:.1f} x capacity",
    )
    x = still_figure.axis(title={"text": "seconds of the measurement"}, showgrid=False)
    layout = _layout(440, panels, f"{device}: {words}, one at a time. {title}", x, low, high)
    table: list[list[Any]] = [["stage", "time_s", "lo_us", "hi_us", "count"]]
    table += [row for rows in shown for row in _table(rows)]
    caption = (
        f"{words.capitalize()} of {device}, {fresh['ios']} fresh and {aged['ios']} aged, with the same "
        "colours and the same axis of latency. A row is one stored bin; time is the sum of the latencies "
        "before."
    )
    return StillFigure(f"{device} {words} fresh and aged", traces, layout, caption, table, blocks)


def _block(rows: pl.DataFrame) -> Json:
    """The cells of one point; its time begins at 0."""
    width, last = int(rows["interval_ns"].max()), int(rows["time_ns"].max())  # type: ignore[arg-type]
    point = {"start_ns": 0, "end_ns": last + width, "interval_ns": width}
    return heat_map.block(rows, point, by="stage")


def _table(rows: pl.DataFrame) -> list[list[Any]]:
    used = rows.filter(pl.col("count") > 0).sort("lo_ns", "time_ns")
    columns = "stage", pl.col("time_ns") / 1e9, pl.col("lo_ns") / 1e3, pl.col("hi_ns") / 1e3, "count"
    return [list(row) for row in used.select(*columns).iter_rows()]
