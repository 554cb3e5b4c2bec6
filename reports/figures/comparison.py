"""Heat maps of A, of B and of their difference: one figure per phase and layer.

Cells are I/Os per run: the runs of a side are laid over each other, each from the start of the phase, and
divided by their number, so sides of different size compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kit.store.manifest import Manifest
from kit.store.stored import Json
from reports.figures import heat_map, map_figures, still_figure
from reports.figures.still_figure import StillFigure
from reports.figures.text import plotly_text

Side = Sequence[tuple[Manifest, pl.DataFrame]]  # manifest and latency of each run
_COLUMNS = 300
_LAYERS = ("nfs-server", "client", "vdev")
# The number that Plotly appends to the names of the axes; name and title; place from bottom to top.
_PANELS = (
    ("", "A", "A: I/O per cell and run", (0.706, 1.0)),
    ("2", "B", "B: I/O per cell and run", (0.353, 0.647)),
    ("3", "B less A", "B less A", (0.0, 0.294)),
)


def figures(a: Side, b: Side) -> Iterator[StillFigure]:
    """A figure per phase and layer that a side has. Raises ValueError if neither has an I/O in one."""
    for name in dict.fromkeys(phase.name for manifest, _ in [*a, *b] for phase in manifest.phases):
        for layer in _LAYERS:
            parts = [*_from_start(a, "A", name, layer), *_from_start(b, "B", name, layer)]
            if any(part.height for part in parts):
                yield _maps(pl.concat(parts), (len(a), len(b)), [*a, *b], name, layer)


def _from_start(side: Side, letter: str, name: str, layer: str) -> Iterator[pl.DataFrame]:
    """The rows of one phase and layer of each run of a side, times since the phase began."""
    for manifest, frame in side:
        if phase := _phase(manifest, name):
            mine = map_figures.phase_frame(frame, phase, layer)
            since = pl.col("time_ns") - int(phase["start_ns"])
            yield mine.with_columns(since, pl.lit(letter).alias("side"))


def _phase(manifest: Manifest, name: str) -> Json | None:
    return next((phase.as_json() for phase in manifest.phases if phase.name == name), None)


def _maps(frame: pl.DataFrame, runs: tuple[int, int], sides: Side, name: str, layer: str) -> StillFigure:
    """A above B on one colour scale, and below them B less A."""
    title = f"{name}: {layer}"
    phases = [(p, manifest) for manifest, _ in sides if (p := _phase(manifest, name))]
    # A phase that begins at 0 and holds that of every run.
    longest = {
        "start_ns": 0,
        "end_ns": max(int(p["end_ns"]) - int(p["start_ns"]) for p, _ in phases),
        "interval_ns": max(int(p["interval_ns"]) for p, _ in phases),
    }
    block = heat_map.block(frame, longest, by="side", most=_COLUMNS)
    if not block["tiers"]:
        raise ValueError(f"{title}: no I/O")
    a, b = 1 / runs[0], 1 / runs[1]
    weights = ({"A": a}, {"B": b}, {"A": -a, "B": b})
    loads = dict.fromkeys(map_figures.load_of(p, manifest) for p, manifest in phases)
    layout = _layout(block, title, "; ".join(loads))
    traces = [
        heat_map.panel(0, weight, panel, number, {"len": 0.3, "y": sum(domain) / 2})
        for weight, (number, panel, _, domain) in zip(weights, _PANELS, strict=True)
    ]
    return StillFigure(title, traces, layout, blocks=[block])


def _layout(block: Json, title: str, load: str) -> Json:
    edges = block["edges_us"]
    layout = still_figure.layout(
        1150, "", {"l": 74, "r": 10, "t": 80, "b": 54}, showlegend=False,
        annotations=[still_figure.panel_title(text, 0, domain[1]) for _, _, text, domain in _PANELS],
    )  # fmt: skip
    layout["title"] |= {
        "text": f'{plotly_text(title)}<br><span style="font-size:12px">{plotly_text(load)}</span>',
        "font": {"size": 17}, "xref": "paper", "pad": {"t": 22},
    }  # fmt: skip
    for number, _, _, domain in _PANELS:
        # No lines: Plotly cannot place those of a panel without any I/O.
        layout[f"xaxis{number}"] = still_figure.axis(
            anchor=f"y{number}", range=[0, block["columns"] * block["width_s"]], showgrid=False,
            showline=False,
        )  # fmt: skip
        layout[f"yaxis{number}"] = still_figure.latency_axis(
            edges[0], edges[-1], anchor=f"x{number}", domain=list(domain), showline=False,
            title={"text": "latency", "standoff": 6},
        )  # fmt: skip
    for upper in ("xaxis", "xaxis2"):
        layout[upper] |= {"matches": "x3", "showticklabels": False}
    layout["xaxis3"]["title"] = {"text": "time since the phase began (s)"}
    return layout
