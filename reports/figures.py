"""The figures of a report. Latencies in microseconds, times in seconds since the phase began."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
import polars as pl

from reports import heatmap
from reports.references import Reference
from reports.summary import SERVER

Json = dict[str, Any]
_INK, _GRID, _RULE = "#22262b", "#e3e6ea", "#5b6470"
_MOST_PX = 1300
_OURS, _PUBLISHED = "#1d5fa8", "#d98a1f"
# False colours: few I/Os are cold, many are hot.
_PALETTE = ["#1b1f8a", "#1f6fe0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#d8201f"]
_TICKS = [(10.0**e, label) for e, label in zip(
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
    """Logarithmic heat map over all tiers, with a button per tier.

    As high as it takes to give the narrowest bin `row_px` pixels: below 1 a row could vanish.
    """
    axis = heatmap.columns(phase, frame)
    names = tiers_of(frame)
    choices = [("all tiers", frame)]
    if len(names) > 1:
        choices += [(name, frame.filter(pl.col("tier") == name)) for name in names]
    grids = [(name, g) for name, rows in choices if (g := heatmap.grid(rows, axis))]
    figure = _map(grids, title, unknown, least_px)
    if grids:
        edges = grids[0][1].edges_us
        low, high = np.log10(edges[0] / 1.25), np.log10(edges[-1] * 1.25)
        if np.floor(high) - np.ceil(low) < 1:
            # Without two labelled powers of ten in sight the axis could not be read.
            low, high = np.floor(low), np.ceil(high)
        margin = figure.layout.margin.t + figure.layout.margin.b
        narrowest = float(np.diff(np.log10(edges)).min())
        figure.layout.height = int(np.clip((high - low) / narrowest * row_px + margin, least_px, _MOST_PX))
        shown = [t for t in _TICKS if low <= np.log10(t[0]) <= high]
        figure.update_yaxes(
            type="log", range=[low, high], tickmode="array", minor={"ticks": "outside", "dtick": "D1"},
            tickvals=[t[0] for t in shown], ticktext=[t[1] for t in shown],
        )  # fmt: skip
    if len(grids) > 1:
        _buttons(figure, [name for name, _ in grids])
    return figure


def zoom_map(
    frame: pl.DataFrame, phase: Json, row: Json, title: str, unknown: bool, height: int = 420
) -> tuple[go.Figure, int]:
    """Linear heat map around the range of one tier, and how many of its I/Os are not in sight.

    `row` is the tier's row of the summary.
    """
    rows = frame.filter(pl.col("tier") == row["tier"])
    full = heatmap.grid(rows, heatmap.columns(phase, frame))
    if full is None:
        return _map([], title, unknown, height), 0
    low, high = (float(v) for v in row["range_us"])
    pad = max((high - low) * 0.6, high * 0.02, 0.2)
    view = max(low - pad, 0.0), high + pad
    seen = (full.hi_us > view[0]) & (full.lo_us < view[1])
    first, last = int(np.argmax(seen)), len(seen) - int(np.argmax(seen[::-1]))
    cut = heatmap.Grid(full.columns, full.lo_us[first:last], full.hi_us[first:last], full.counts[first:last])
    figure = _map([(str(row["tier"]), cut)], title, unknown, height)
    figure.update_yaxes(range=view, ticksuffix=" µs", nticks=8, exponentformat="none")
    published = row.get("published")
    for edge in published["range_us"] if published else ():
        if view[0] < edge < view[1]:
            figure.add_hline(
                y=edge, line={"color": _PUBLISHED, "dash": "dash", "width": 1.5},
                annotation={"text": f"published {edge:g} µs", "font": {"color": "#8a5200"}}, col=2,
            )  # fmt: skip
    return figure, full.total - cut.total


def _map(grids: Sequence[tuple[str, heatmap.Grid]], title: str, unknown: bool, height: int) -> go.Figure:
    """Bars of the average rate at the left, the heat map at the right; only the first grid is visible."""
    figure = go.Figure()
    top = max([float(np.log10(max(int(g.counts.max(initial=0)), 1))) for _, g in grids] or [0.0])
    for index, (name, grid) in enumerate(grids):
        figure.add_trace(_bars(name, grid, index == 0))
        figure.add_trace(_heat(name, grid, index == 0, max(top, 0.31)))
    mark = " - verdict unknown" if unknown else ""
    axes: Json = {"gridcolor": _GRID, "linecolor": _RULE, "zeroline": False, "ticks": "outside",
                  "tickcolor": _RULE, "showline": True}  # fmt: skip
    end = grids[0][1].columns.edges_s[-1] if grids else 1.0
    figure.update_layout(
        template="none", height=height, autosize=True, showlegend=False, bargap=0, hovermode="closest",
        title={"text": f"{safe(title)}{mark}", "x": 0, "xref": "paper", "y": 1, "yref": "container",
               "yanchor": "top", "pad": {"t": 12}, "font": {"size": 16}},
        margin={"l": 74, "r": 10, "t": 96 if len(grids) > 1 else 52, "b": 54},
        font={"family": "system-ui, sans-serif", "size": 12, "color": _INK},
        paper_bgcolor="#ffffff", plot_bgcolor="#ffffff", barmode="overlay",
        xaxis={**axes, "domain": [0, 0.13], "autorange": "reversed", "rangemode": "tozero", "nticks": 3,
               "title": {"text": "I/O/s"}, "tickangle": 0},
        xaxis2={**axes, "domain": [0.16, 1], "anchor": "y", "range": [0, end],
                "title": {"text": "time since the phase began (s)"}},
        yaxis={**axes, "title": {"text": "latency", "standoff": 6}},
    )  # fmt: skip
    return figure


def _bars(name: str, grid: heatmap.Grid, visible: bool) -> go.Bar:
    low, high = grid.edges_us[:-1], grid.edges_us[1:]
    return go.Bar(
        orientation="h", x=grid.rates, y=low, base=0, offset=0, width=high - low, xaxis="x", yaxis="y",
        marker={"color": _OURS, "line": {"width": 0}}, visible=visible, name=safe(name),
        hovertemplate="from %{y:.4g} µs on: %{x:.3g} I/O/s<extra></extra>",
    )  # fmt: skip


def _heat(name: str, grid: heatmap.Grid, visible: bool, top: float) -> go.Heatmap:
    powers = [v for v in (1, 3, 10, 30, 100, 300, 1000, 10**4, 10**5, 10**6) if np.log10(v) <= top + 1e-9]
    return go.Heatmap(
        x=grid.columns.edges_s, y=grid.edges_us, z=heatmap.colours(grid.counts), xaxis="x2", yaxis="y",
        customdata=heatmap.smallest(grid.counts), zmin=0, zmax=top, visible=visible, name=safe(name),
        colorscale=_PALETTE, hoverongaps=False, zsmooth=False,
        hovertemplate="%{x:.3g} s, %{y:.4g} µs: %{customdata} I/O<extra></extra>",
        colorbar={"title": {"text": "I/O per cell", "side": "right"}, "thickness": 12, "outlinewidth": 0,
                  "tickvals": np.log10(powers), "ticktext": [f"{v:g}" for v in powers]},
    )  # fmt: skip


def _buttons(figure: go.Figure, names: Sequence[str]) -> None:
    buttons = [
        {
            "label": safe(name, 24),
            "method": "restyle",
            "args": [{"visible": [shown == index for shown in range(len(names)) for _ in range(2)]}],
        }
        for index, name in enumerate(names)
    ]
    menu = {"type": "buttons", "direction": "right", "buttons": buttons, "active": 0, "showactive": True,
            "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "pad": {"b": 10, "t": 0},
            "bgcolor": "#f4f6f8", "bordercolor": "#b8c0c9", "font": {"size": 12}}  # fmt: skip
    figure.update_layout(updatemenus=[menu])


def ranges(rows: Sequence[Json], reference: Reference | None) -> go.Figure:
    """Ranges (microseconds) per op and tier beside the published ones; linear and logarithmic."""
    figure = go.Figure()
    labels = [safe(f"{r['op']} / {r['tier']} ({r['phase']})") for r in rows]
    ours = [(float(r["range_us"][0]), float(r["range_us"][1])) for r in rows]
    theirs = [tuple(r["published"]["range_us"]) if r.get("published") else None for r in rows]
    place = np.arange(len(rows), dtype=np.float64)
    _spans(figure, place - 0.17, ours, labels, "this run: 95 % of the I/O", _OURS)
    published = [(float(p), t) for p, t in zip(place, theirs, strict=True) if t]
    if published:
        name = f"published: {safe(reference.title)}" if reference else "published"
        spots = np.array([p for p, _ in published]) + 0.17
        named = [labels[int(p)] for p, _ in published]
        _spans(figure, spots, [t for _, t in published], named, name, _PUBLISHED)
    bounds = [v for span in [*ours, *[t for t in theirs if t]] for v in span]
    low = 10 ** np.floor(np.log10(min([b for b in bounds if b > 0] or [1.0])))
    high = max(bounds or [10.0])
    ticks = [t for t in _TICKS if low <= t[0] <= high * 2]
    axes: Json = {"gridcolor": _GRID, "zeroline": False, "linecolor": _RULE, "showline": True}
    y: Json = {**axes, "tickvals": place, "ticktext": labels, "range": [len(rows) - 0.5, -0.5]}
    figure.update_layout(
        template="none", height=150 + 62 * max(len(rows), 1), autosize=True, barmode="overlay",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _INK}, hovermode="closest",
        margin={"l": 170, "r": 16, "t": 46, "b": 54}, paper_bgcolor="#ffffff", plot_bgcolor="#ffffff",
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "xanchor": "left"},
        xaxis={**axes, "domain": [0, 0.48], "range": [0, high * 1.05], "nticks": 5, "ticksuffix": " µs",
               "exponentformat": "none",
               "title": {"text": "latency, linear"}, "separatethousands": True},
        xaxis2={**axes, "domain": [0.52, 1], "type": "log", "range": [np.log10(low), np.log10(high * 2)],
                "tickvals": [t[0] for t in ticks], "ticktext": [t[1] for t in ticks],
                "title": {"text": "latency, logarithmic"}},
        yaxis={**y, "anchor": "x"}, yaxis2={**y, "anchor": "x2", "showticklabels": False},
    )  # fmt: skip
    return figure


def _spans(
    figure: go.Figure, place: Any, spans: Sequence[Any], labels: Sequence[str], name: str, colour: str
) -> None:
    """A bar per span in both panels. On the logarithmic one a span from 0 starts at the axis' floor."""
    for number, floor in (("", 0.0), ("2", _TICKS[0][0])):
        low = np.array([max(s[0], floor) for s in spans])
        high = np.array([s[1] for s in spans])
        figure.add_trace(
            go.Bar(
                orientation="h", y=place, x=high - low, base=low, width=0.3, name=name, legendgroup=name,
                marker={"color": colour, "line": {"color": colour, "width": 2}},
                xaxis=f"x{number}", yaxis=f"y{number}", showlegend=number == "",
                customdata=np.array([[s[0], s[1]] for s in spans]), meta=list(labels),
                hovertemplate="%{customdata[0]:.4g} to %{customdata[1]:.4g} µs<extra>" + name + "</extra>",
            )
        )  # fmt: skip


def server_rows(summary: Json, phase: Json) -> list[Json]:
    """The summary's rows of the server in one phase."""
    return [r for r in summary["rows"] if r["layer"] == SERVER and r["phase"] == phase["name"]]
