"""One page of a comparison: the table, and heat maps of A, of B and of their difference.

Cells are I/Os per run: the runs of a side are laid over each other, each from the start of the phase, and
divided by their number, so sides of different size compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
import polars as pl
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from kit.core.errors import ConfigError
from kit.store.manifest import Manifest
from reports.figures import heat_map, tier_figures
from reports.page.report_page import load_of, packed

Json = dict[str, Any]
Side = Sequence[tuple[Manifest, pl.DataFrame]]  # manifest and latency of each run
_HERE = Path(__file__).parent
_COLUMNS = 300
# B has less, as much, more: readable with every kind of colour blindness (ColorBrewer PuOr).
_DIVERGING = ["#2d004b", "#8073ac", "#d8daeb", "#f7f7f7", "#fee0b6", "#e08214", "#7f3b08"]


def render(result: Json, a: Side, b: Side) -> str:
    """The page as HTML that needs nothing else. Raises ConfigError if a part of a run is damaged."""
    try:
        drawn = [(f"figure-{n}", title, figure) for n, (title, figure) in enumerate(_figures(a, b), 1)]
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return environment.get_template("compare.html.j2").render(
            result=result,
            figures=[
                {"id": n, "title": t, "height": f.layout.height, "json": packed(f)} for n, t, f in drawn
            ],
            plotly=Markup(get_plotlyjs().replace("</script", "<\\/script")),
        )
    except (
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pl.exceptions.PolarsError,
    ) as error:  # fmt: skip
        raise ConfigError(
            f"manifest or latency of a run is damaged ({type(error).__name__}: {error})",
            "draw each run alone",
        ) from error


def _figures(a: Side, b: Side) -> list[tuple[str, go.Figure]]:
    """A figure per phase and layer that a side has."""
    made = []
    for name in dict.fromkeys(phase.name for manifest, _ in [*a, *b] for phase in manifest.phases):
        for layer in ("nfs-server", "client", "vdev"):
            frames = [_from_start(side, name, layer) for side in (a, b)]
            if any(f.height for f in frames):
                title = f"{name}: {layer}"
                figure = _maps(frames, [len(a), len(b)], _longest([*a, *b], name), title)
                figure.update_layout(title_text=f"{tier_figures.safe(title)}<br>{_loads([*a, *b], name)}")
                made.append((title, figure))
    return made


def _loads(runs: Side, name: str) -> str:
    """How much the clients of a phase ask for at once, of all runs; beneath a title."""
    said = [load_of(phase, manifest) for manifest, _ in runs if (phase := _phase(manifest, name))]
    return f'<span style="font-size:12px">{tier_figures.safe("; ".join(dict.fromkeys(said)))}</span>'


def _phase(manifest: Manifest, name: str) -> Json | None:
    return next((phase.as_json() for phase in manifest.phases if phase.name == name), None)


def _from_start(side: Side, name: str, layer: str) -> pl.DataFrame:
    """The rows of one phase and layer of all runs of a side, times since the phase began."""
    parts = []
    for manifest, frame in side:
        phase = _phase(manifest, name)
        if phase:
            mine = tier_figures.phase_frame(frame, phase, layer)
            parts.append(mine.with_columns(pl.col("time_ns") - int(phase["start_ns"])))
    return pl.concat(parts) if parts else pl.DataFrame(schema=side[0][1].schema)


def _longest(runs: Side, name: str) -> Json:
    """A phase that begins at 0 and holds that of every run."""
    phases = [p for manifest, _ in runs if (p := _phase(manifest, name))]
    return {
        "start_ns": 0,
        "end_ns": max(int(p["end_ns"]) - int(p["start_ns"]) for p in phases),
        "interval_ns": max(int(p["interval_ns"]) for p in phases),
    }


def _maps(frames: Sequence[pl.DataFrame], runs: Sequence[int], phase: Json, title: str) -> go.Figure:
    """A above B on one colour scale, and below B less A."""
    both = pl.concat(frames)
    axis = heat_map.columns(phase, both, _COLUMNS)
    whole = heat_map.grid(both, axis)
    if whole is None:
        raise ValueError(f"{title}: no I/O")
    cells = [_cells(frame, axis, whole) / n for frame, n in zip(frames, runs, strict=True)]
    figure = make_subplots(
        rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.06,
        subplot_titles=["A: I/O per cell and run", "B: I/O per cell and run", "B less A"],
    )  # fmt: skip
    top = float(np.log10(max(c.max() for c in cells)))
    low = min(float(np.log10(c[c > 0].min())) for c in cells if c.any())
    with np.errstate(divide="ignore"):
        shown = [np.where(c > 0, np.log10(c), np.nan) for c in cells]
    powers = [p for p in range(-6, 8) if low <= p <= top] or [round(top)]
    for row, z in enumerate(shown, 1):
        bar = {"title": {"text": "I/O"}, "tickvals": powers, "ticktext": [f"{10.0**p:g}" for p in powers]}
        figure.add_trace(
            _heat(z, whole, bar, row, tier_figures.PALETTE, low, max(top, low + 0.3)), row=row, col=1
        )
    difference = cells[1] - cells[0]
    most = float(np.abs(difference).max()) or 1.0
    # A root of both signs: a scale that is linear would show the one cell that differs most.
    rooted = np.where(
        (cells[0] > 0) | (cells[1] > 0), np.sign(difference) * np.sqrt(np.abs(difference)), np.nan
    )
    steps = [-1.0, -0.25, 0.0, 0.25, 1.0]
    bar = {
        "title": {"text": "I/O"},
        "tickvals": [float(np.sign(s) * np.sqrt(abs(s) * most)) for s in steps],
        "ticktext": [f"{s * most:+.3g}" if s else "0" for s in steps],
    }
    figure.add_trace(_heat(rooted, whole, bar, 3, _DIVERGING, -(most**0.5), most**0.5), row=3, col=1)
    _lay_out(figure, whole, title)
    return figure


def _cells(frame: pl.DataFrame, axis: heat_map.Columns, whole: heat_map.Grid) -> Any:
    """The counts of `frame` on the rows and columns of `whole`."""
    cells = np.zeros(whole.counts.shape)
    own = heat_map.grid(frame, axis)
    if own is not None:
        rows = np.searchsorted(whole.lo_us, own.lo_us)
        for source, target in enumerate(rows):
            # An empty row of one side may be several of the other's, and holds nothing.
            if own.counts[source].any():
                cells[target] = own.counts[source]
    return cells


def _heat(
    z: Any, grid: heat_map.Grid, bar: Json, row: int, scale: Sequence[str], low: float, top: float
) -> go.Heatmap:
    return go.Heatmap(
        x=grid.columns.edges_s, y=grid.edges_us, z=z.astype(np.float32), zmin=low, zmax=top, zsmooth=False,
        colorscale=list(scale), hoverongaps=False, name=("A", "B", "B less A")[row - 1],
        hovertemplate="%{x:.4g} s, %{y:.4g} µs: %{customdata:.3g} I/O<extra>%{fullData.name}</extra>",
        meta="difference" if row == 3 else "logarithm",
        colorbar={**bar, "thickness": 12, "len": 0.3, "y": (0.85, 0.5, 0.15)[row - 1], "outlinewidth": 0},
    )  # fmt: skip


def _lay_out(figure: go.Figure, grid: heat_map.Grid, title: str) -> None:
    edges = grid.edges_us
    low, high = float(edges[0] / 1.25), float(edges[-1] * 1.25)
    shown = tier_figures.ticks(low, high)
    figure.update_layout(
        template="none", height=1150, autosize=True, showlegend=False, hovermode="closest",
        title={"text": tier_figures.safe(title), "x": 0, "xref": "paper"},
        margin={"l": 74, "r": 10, "t": 80, "b": 54},
        font={"family": "system-ui, sans-serif", "size": 12, "color": tier_figures.INK},
        paper_bgcolor="#ffffff", plot_bgcolor="#ffffff",
    )  # fmt: skip
    figure.update_yaxes(
        type="log", range=[np.log10(low), np.log10(high)], tickmode="array", showgrid=True, zeroline=False,
        gridcolor=tier_figures.GRID, tickvals=[t[0] for t in shown], ticktext=[t[1] for t in shown],
        title={"text": "latency", "standoff": 6},
    )  # fmt: skip
    figure.update_xaxes(range=[0, grid.columns.edges_s[-1]], showgrid=False, zeroline=False)
    figure.update_xaxes(title={"text": "time since the phase began (s)"}, row=3, col=1)
