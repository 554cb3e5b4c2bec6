"""Heat maps. Latencies in microseconds, times in seconds since the phase began.

The cells of a heat map hold counts, in the smallest type that does. The script of the page
takes their logarithm, leaves those without I/O undrawn, and labels what is pointed at: colours
and a label per cell would be several times as large as the counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
import polars as pl

from reports import heatmap
from reports.summary import SERVER

Json = dict[str, Any]
INK, GRID, RULE = "#22262b", "#e3e6ea", "#5b6470"
_MOST_PX = 1300
OURS, PUBLISHED = "#1d5fa8", "#d98a1f"
# False colours: few I/Os are cold, many are hot.
PALETTE = ["#0d1033", "#1b2a9c", "#1f6fe0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#d8201f"]
# One hue per tier: what a few I/Os look like, and what many do.
_HUES = {
    "dram": ("#9ad3ac", "#0b5a28"), "l2arc": ("#9cc4ee", "#0d3f7d"), "disk": ("#f2aaa2", "#8f1a13"),
    "slog": ("#cdb2ec", "#532388"), "pool": ("#f4be8f", "#8a3a02"), "shared": ("#c3c8ce", "#3a424b"),
    "indirect": ("#8fd6dc", "#07555f"), "direct": ("#ddd08a", "#5d4b00"),
}  # fmt: skip
_OTHER_HUE = ("#c3c8ce", "#22262b")
ALL, COLOURED = "all tiers", "tiers by colour"
TICKS = [(10.0**e, label) for e, label in zip(
    range(-2, 8),
    ("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"),
    strict=True,
)]  # fmt: skip
_UNSAFE = re.compile(r"[^\w .,:;()+=%@/\-]", re.ASCII)


def safe(text: object, limit: int = 120) -> str:
    """`text` without anything that Plotly could take for markup."""
    cleaned = _UNSAFE.sub("", str(text))
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 3] + "..."


def human_us(value: float) -> str:
    """A latency in microseconds with the unit that reads best."""
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} µs"


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis from `low` to `high` microseconds: at least three, few where it is long.

    The powers of ten alone, unless the axis is so narrow that they would not tell where it is.
    """
    powers = [t for t in TICKS if low <= t[0] <= high]
    if len(powers) >= 3:
        return powers
    for digits in ((1, 3), (1, 2, 5)):
        values = [power * digit for power, _ in TICKS for digit in digits]
        shown = [(v, human_us(v)) for v in values if low <= v <= high]
        if len(shown) >= 3:
            return shown
    step = round_up((high - low) / 6)
    values = [step * n for n in range(int(np.ceil(low / step)), int(high / step) + 1)]
    return [(v, human_us(v)) for v in values if low <= v <= high]


def tiers_of(frame: pl.DataFrame) -> list[str]:
    """The tiers with I/Os, the fastest first."""
    used = frame.filter(pl.col("count") > 0)
    return used.group_by("tier").agg(pl.col("lo_ns").median()).sort("lo_ns", "tier")["tier"].to_list()


def phase_frame(latency: pl.DataFrame, phase: Json, layer: str) -> pl.DataFrame:
    """The rows of one phase and layer."""
    return latency.filter((pl.col("phase") == str(phase["name"])) & (pl.col("layer") == layer))


def log_map(
    frame: pl.DataFrame, phase: Json, title: str, unknown: bool, row_px: float = 1.6, least_px: int = 480
) -> go.Figure:
    """Logarithmic heat map over all tiers; a button per tier, and one that gives each its colour.

    As high as it takes to give the narrowest bin `row_px` pixels: below 1 a row could vanish.
    """
    axis = heatmap.columns(phase, frame)
    names = tiers_of(frame)
    choices = [(ALL, frame)]
    if len(names) > 1:
        choices += [(name, frame.filter(pl.col("tier") == name)) for name in names]
    grids = [(name, g) for name, rows in choices if (g := heatmap.grid(rows, axis))]
    figure = _map(grids, title, unknown, least_px)
    if grids:
        edges = grids[0][1].edges_us
        low, high = np.log10(edges[0] / 1.25), np.log10(edges[-1] * 1.25)
        margin = figure.layout.margin.t + figure.layout.margin.b
        narrowest = float(np.diff(np.log10(edges)).min())
        figure.layout.height = int(np.clip((high - low) / narrowest * row_px + margin, least_px, _MOST_PX))
        shown = ticks(10**low, 10**high)
        figure.update_yaxes(
            type="log", range=[low, high], tickmode="array", minor={"ticks": "outside", "dtick": "D1"},
            tickvals=[t[0] for t in shown], ticktext=[t[1] for t in shown],
        )  # fmt: skip
    if len(grids) > 1:
        _buttons(figure, [name for name, _ in grids])
    return figure


def zoom_map(
    frame: pl.DataFrame, phase: Json, row: Json, title: str, unknown: bool, height: int = 460
) -> tuple[go.Figure, int]:
    """Linear heat map of one tier from 0 on, and how many of its I/Os are above what it shows.

    `row` is the tier's row of the summary.
    """
    rows = frame.filter(pl.col("tier") == row["tier"])
    full = heatmap.grid(rows, heatmap.columns(phase, frame))
    if full is None:
        return _map([], title, unknown, height), 0
    published = [float(edge) for edge in (row.get("published") or {}).get("range_us", ())]
    # A little more than the range, so that its upper end is not the frame of the figure.
    top = round_up(max([float(row["range_us"][1]), *published]) * 1.03)
    shown = heatmap.cut(full, top)
    figure = _map([(str(row["tier"]), shown)], title, unknown, height)
    steps = [top * n / 5 for n in range(6)]
    figure.update_yaxes(range=[0, top], tickvals=steps, ticktext=["0", *[human_us(v) for v in steps[1:]]])
    for edge in published:
        if edge > 0:
            _mark(figure, edge)
    # Room for what the lines are labelled with.
    figure.update_traces(colorbar_x=1.075, selector={"type": "heatmap"})
    return figure, full.total - shown.total


def round_up(value: float) -> float:
    """The next number of one digit, of 1 2 3 4 5 6 8 10 and their powers of ten."""
    power = 10.0 ** np.floor(np.log10(max(value, 1e-9)))
    return float(next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10, 20) if step * power >= value))


def _mark(figure: go.Figure, edge_us: float) -> None:
    """A line across the heat map at an end of the published range, labelled at its right."""
    figure.add_shape(
        type="line", xref="x2 domain", yref="y", x0=0, x1=1, y0=edge_us, y1=edge_us,
        line={"color": PUBLISHED, "dash": "dash", "width": 1.5},
    )  # fmt: skip
    figure.add_annotation(
        xref="x2 domain", yref="y", x=1, y=edge_us, xanchor="left", yanchor="middle", showarrow=False,
        text=human_us(edge_us), font={"color": "#7a4800", "size": 11}, xshift=2,
    )  # fmt: skip


def _map(grids: Sequence[tuple[str, heatmap.Grid]], title: str, unknown: bool, height: int) -> go.Figure:
    """Bars of the average rate at the left, the heat map at the right; only the first grid is visible."""
    figure = go.Figure()
    top = max([float(np.log10(max(int(g.counts.max(initial=0)), 1))) for _, g in grids] or [0.0])
    for index, (name, grid) in enumerate(grids):
        hue = _HUES.get(name, _OTHER_HUE) if index else None
        figure.add_trace(_bars(name, grid, hue))
        figure.add_trace(_heat(name, grid, hue, max(top, 0.31)))
    mark = " - verdict unknown" if unknown else ""
    axes: Json = {"gridcolor": GRID, "linecolor": RULE, "zeroline": False, "ticks": "outside",
                  "tickcolor": RULE, "showline": True}  # fmt: skip
    end = grids[0][1].columns.edges_s[-1] if grids else 1.0
    figure.update_layout(
        template="none", height=height, autosize=True, showlegend=False, bargap=0, hovermode="closest",
        title={"text": f"{safe(title)}{mark}", "x": 0, "xref": "paper", "y": 1, "yref": "container",
               "yanchor": "top", "pad": {"t": 12}, "font": {"size": 16}},
        margin={"l": 74, "r": 10, "t": 96 if len(grids) > 1 else 52, "b": 54},
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        paper_bgcolor="#ffffff", plot_bgcolor="#ffffff", barmode="overlay",
        legend={"x": 1.01, "y": 1, "itemclick": False, "itemdoubleclick": False},
        xaxis={**axes, "domain": [0, 0.13], "autorange": "reversed", "rangemode": "tozero", "nticks": 3,
               "title": {"text": "I/O/s"}, "tickangle": 0},
        xaxis2={**axes, "domain": [0.16, 1], "anchor": "y", "range": [0, end],
                "title": {"text": "time since the phase began (s)"}},
        yaxis={**axes, "title": {"text": "latency", "standoff": 6}},
    )  # fmt: skip
    return figure


def _bars(name: str, grid: heatmap.Grid, hue: tuple[str, str] | None) -> go.Bar:
    low, high = grid.edges_us[:-1], grid.edges_us[1:]
    return go.Bar(
        orientation="h", x=grid.rates, y=low, base=0, offset=0, width=high - low, xaxis="x", yaxis="y",
        marker={"color": hue[1] if hue else OURS, "line": {"width": 0}}, name=safe(name), showlegend=False,
        visible=hue is None, customdata=high,
        hovertemplate="%{y:.4g} to %{customdata:.4g} µs: %{x:.3g} I/O/s<extra></extra>",
    )  # fmt: skip


def _heat(name: str, grid: heatmap.Grid, hue: tuple[str, str] | None, top: float) -> go.Heatmap:
    powers = [v for v in (1, 3, 10, 30, 100, 300, 1000, 10**4, 10**5, 10**6) if np.log10(v) <= top + 1e-9]
    return go.Heatmap(
        x=grid.columns.edges_s, y=grid.edges_us, z=heatmap.smallest(grid.counts), xaxis="x2", yaxis="y",
        zmin=0, zmax=top, name=safe(name), visible=hue is None, showlegend=hue is not None,
        colorscale=list(hue) if hue else PALETTE, hoverongaps=False, zsmooth=False, hoverinfo="none",
        colorbar={"title": {"text": "I/O per cell", "side": "right"}, "thickness": 12, "outlinewidth": 0,
                  "tickvals": np.log10(powers), "ticktext": [f"{v:g}" for v in powers]},
    )  # fmt: skip


def _buttons(figure: go.Figure, names: Sequence[str]) -> None:
    """A button per name (the first is all tiers), and one for all but the first together."""
    alone = [(name, [name]) for name in names]
    choices = [alone[0], (COLOURED, list(names[1:])), *alone[1:]]
    buttons = []
    for label, seen in choices:
        visible = [name in seen for name in names for _ in range(2)]
        scales = [len(seen) == 1] * len(visible)
        legend = {"showlegend": len(seen) > 1}
        args = [{"visible": visible, "showscale": scales}, legend]
        buttons.append({"label": safe(label, 24), "method": "update", "args": args})
    menu = {"type": "buttons", "direction": "right", "buttons": buttons, "active": 0, "showactive": True,
            "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "pad": {"b": 10, "t": 0},
            "bgcolor": "#f4f6f8", "bordercolor": "#b8c0c9", "font": {"size": 12}}  # fmt: skip
    figure.update_layout(updatemenus=[menu])


def server_rows(summary: Json, phase: Json) -> list[Json]:
    """The summary's rows of the server in one phase."""
    return [r for r in summary["rows"] if r["layer"] == SERVER and r["phase"] == phase["name"]]
