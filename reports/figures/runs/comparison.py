"""Heat maps of A, of B and of their difference: one figure per phase and layer.

Cells are I/Os per run: the runs of a side are laid over each other, each from the start of the phase, and
divided by their number, so sides of different size compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kit.store.labels import layer_name
from kit.store.manifest import Manifest
from reports.analysis.import_source import load_of, phase_frame
from reports.figures import figure, heat_map
from reports.figures.figure import Figure
from reports.figures.plotly import Layout

Side = Sequence[tuple[Manifest, pl.DataFrame]]  # manifest and latency of each run
_LAYERS = ("nfs-server", "client", "device", "vdev")
# The number that Plotly appends to the names of the axes; name and title; place from bottom to top.
_HUES = {"A": "l2arc", "B": "pool"}
_PANELS = (
    ("", "A", "A", (0.706, 1.0)),
    ("2", "B", "B", (0.353, 0.647)),
    ("3", "B less A", "B less A", (0.0, 0.294)),
)


def figures(a: Side, b: Side, first: str = "") -> Iterator[Figure]:
    """A figure per phase and layer that a side has, the phase `first` before the others.

    Raises ValueError if neither has an I/O in one.
    """
    names = dict.fromkeys(phase.name for manifest, _ in [*a, *b] for phase in manifest.phases)
    for name in sorted(names, key=lambda each: each != first):
        for layer in _LAYERS:
            parts = [*_from_start(a, "A", name, layer), *_from_start(b, "B", name, layer)]
            if any(part.height for part in parts):
                yield _maps(pl.concat(parts), (len(a), len(b)), [*a, *b], name, layer)


def _from_start(side: Side, letter: str, name: str, layer: str) -> Iterator[pl.DataFrame]:
    """The rows of one phase and layer of each run of a side, times since the phase began."""
    for manifest, frame in side:
        if phase := manifest.phase_named(name):
            mine = phase_frame(frame, name, layer)
            since = pl.col("time_ns") - phase.start_ns
            yield mine.with_columns(since, pl.lit(letter).alias("side"))


def _maps(frame: pl.DataFrame, runs: tuple[int, int], sides: Side, name: str, layer: str) -> Figure:
    """A above B on one colour scale, and below them B less A."""
    phases = [(p, manifest) for manifest, _ in sides if (p := manifest.phase_named(name))]
    # A phase that begins at 0 and holds that of every run.
    longest = heat_map.TimeSpan(
        0, max(p.end_ns - p.start_ns for p, _ in phases), max(p.interval_ns for p, _ in phases)
    )
    shown = heat_map.display(heat_map.grid(frame, longest, by="side"))
    titles = dict.fromkeys(p.title or name for p, _ in phases)
    title = f"{', '.join(titles)}: {layer_name(layer)}"
    if not shown.tiers:
        raise ValueError(f"{title}: no I/O")
    weights = dict(zip("AB", (1 / number for number in runs), strict=True))
    maps = []
    for number, (side, weight) in zip(("", "2"), weights.items(), strict=True):
        for trace in heat_map.traces(
            shown, [side], "octave", (f"x{number}", f"y{number}"), {side: side}, weight
        ):
            maps.append(heat_map.in_hue_of(trace, _HUES[side]))
    data = [
        *heat_map.coloured(maps, "octave", {"len": 0.6, "y": 0.68}),
        heat_map.difference(shown, {"A": -weights["A"], "B": weights["B"]}, ("x3", "y3"), "B less A"),
    ]  # fmt: skip
    data[-1]["colorbar"] |= {"len": 0.3, "y": 0.14}
    anchors = [figure.anchor(f"x{n}", f"y{n}") for n, *_ in _PANELS]
    loads = dict.fromkeys(load_of(p, manifest) for p, manifest in phases)
    caption = f"{'; '.join(loads)}. {heat_map.rows_text(shown)}"
    return Figure(title, [*data, *anchors], _layout(shown), caption)


def _layout(shown: heat_map.CountGrid) -> Layout:
    edges = shown.edges_s
    layout = figure.layout(
        900, {"l": 62, "r": 84, "t": 34, "b": 46}, showlegend=False, dragmode="zoom",
        annotations=[figure.panel_title(text, 0, domain[1]) for _, _, text, domain in _PANELS],
    )  # fmt: skip
    for number, _, _, domain in _PANELS:
        layout[f"xaxis{number}"] = {
            **figure.time_axis(float(shown.times_s[-1])), "anchor": f"y{number}", "matches": "x3",
            "showticklabels": number == "3", **({} if number == "3" else {"title": {}}),
        }  # fmt: skip
        layout[f"yaxis{number}"] = figure.latency_axis(
            edges[0] / 1.25, edges[-1] * 1.25, anchor=f"x{number}", domain=list(domain), matches="y3",
        )  # fmt: skip
    del layout["xaxis3"]["matches"], layout["yaxis3"]["matches"]
    return layout
