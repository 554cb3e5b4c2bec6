"""Figures that heat_map.js draws from the cells of a phase, as plain values: all tiers, one tier, one layer.

Latencies in microseconds. Colours are the page's own: they change with its theme and palette. A layer of an
import that has one interval has no time axis: its figure is a histogram, all others are heat maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.core.units import format_latency
from kit.store.manifest import Manifest
from kit.store.stored import Json
from kit.store.summary import Row, Summary
from kit.store.tables import SERVER
from reports.analysis import import_source
from reports.figures import heat_map
from reports.figures.still_figure import ticks
from reports.figures.text import plotly_text, round_up


@dataclass(frozen=True)
class View:
    """One layer and op of a phase: what heat_map.js draws, the cells of it and the words below."""

    frame: pl.DataFrame
    spec: Json
    block: Json
    caption: str


def phase_frame(latency: pl.DataFrame, phase: Json, layer: str) -> pl.DataFrame:
    """The rows of one phase and layer."""
    return latency.filter((pl.col("phase") == str(phase["name"])) & (pl.col("layer") == layer))


def cell_text(block: Json) -> str:
    """What a cell of a heat map is."""
    width = format_latency(block["width_s"] * 1e6)
    merged = f", the sum of {block['merged']} stored intervals" if block["merged"] > 1 else ""
    return f"A column is {width}{merged}; a row is one stored bin."


def log_map(cells: Json, title: str, row_px: float = 1.6, least_px: int = 480) -> Json:
    """Logarithmic heat map over all tiers of `cells` (reports.figures.heat_map.block).

    As high as it takes to give the narrowest bin `row_px` pixels: below 1 a row could vanish.
    """
    edges = np.array(cells["edges_us"])
    steps = [200.0]
    axis: Json = {"low_us": 1.0, "high_us": 1000.0, "ticks": ticks(1.0, 1000.0)}
    if len(edges) > 1:
        low, high = float(edges[0] / 1.25), float(edges[-1] * 1.25)
        axis = {"low_us": low, "high_us": high, "ticks": ticks(low, high)}
        steps = list(np.log10(high / low) / np.diff(np.log10(edges)))
    height = int(np.clip(max(steps) * row_px + 120, least_px, 1300))
    top = round_up(axis["high_us"] / 1.25)
    return {"title": plotly_text(title), "scale": "log", "log": axis, "top_us": top, "published": [],
            "tiers": list(cells["tiers"]), "height": height, "lines": False, "events": False,
            "histogram": False}  # fmt: skip


def zoom_map(cells: Json, frame: pl.DataFrame, row: Row, title: str) -> tuple[Json, int]:
    """Linear heat map of one tier from 0 on, and how many of its I/Os are above what it shows.

    `row` is the tier's row of the summary; `frame` has the rows of the phase and layer.
    """
    tier = row.tier
    published = list(row.published.range_us) if row.published else []
    # A little more than the range, so that its upper end is not the frame of the figure.
    top = round_up(max([row.range_us[1], *published]) * 1.03)
    mine = frame.filter((pl.col("tier") == tier) & (pl.col("count") > 0))
    figure = log_map(cells, title, 0, 460)
    if mine.height:
        low = max(float(mine["lo_ns"].min()) / 1e3, 0.01) / 1.25  # type: ignore[arg-type]
        high = max([float(mine["hi_ns"].max()) / 1e3, *published]) * 1.25  # type: ignore[arg-type]
        figure["log"] = {"low_us": low, "high_us": high, "ticks": ticks(low, high)}
    figure |= {"scale": "linear", "top_us": top, "published": published, "tiers": [tier]}
    return figure, int(mine.filter(pl.col("lo_ns") >= top * 1e3)["count"].sum())


def server_rows(summary: Summary, phase: Json) -> list[Row]:
    """The summary's rows of the server in one phase."""
    return [row for row in summary.rows_of(SERVER) if row.phase == phase["name"]]


def load_of(phase: Json, manifest: Manifest) -> str:
    """How many I/Os were outstanding, in words."""
    if manifest.import_:
        return "Load not recorded"
    outstanding = phase.get("outstanding")
    if isinstance(outstanding, int):
        return f"Closed loop, {outstanding} outstanding"
    return (manifest.load or "Load not recorded").capitalize()


def views(latency: pl.DataFrame, phase: Json, manifest: Manifest, load: str) -> Iterator[View]:
    """Every layer and op of `phase` with a row, but for a server that the kit itself traced."""
    layers = latency.filter(pl.col("phase") == str(phase["name"]))["layer"].unique()
    traced = manifest.import_ is None and SERVER in layers
    for layer in [*import_source.LAYERS, *sorted(set(layers) - {*import_source.LAYERS})]:
        if layer == SERVER and manifest.import_ is None:
            continue
        frame = phase_frame(latency, phase, layer)
        ops = frame.filter(pl.col("count") > 0)["op"].unique().sort().to_list()
        for op in ops or frame["op"].unique().sort().to_list()[:1]:
            title = f"{import_source.name(manifest, phase)}: {import_source.LAYERS.get(layer, layer)}"
            title += f", {op}" if len(ops) > 1 or manifest.import_ else ""
            yield _view(frame, (layer, str(op), title), traced, phase, manifest, load)


def _view(
    frame: pl.DataFrame, names: tuple[str, str, str], traced: bool, phase: Json, manifest: Manifest, load: str
) -> View:
    layer, op, title = names
    # An interval with I/Os of another op was measured, too: it has none of this one.
    mine = frame.with_columns(
        pl.when(pl.col("op") == op).then(pl.col("count")).otherwise(0).alias("count").cast(pl.Int64)
    )
    block = heat_map.block(mine, phase)
    imported = manifest.import_
    histogram = block["columns"] == 1 and imported is not None
    second = traced and layer == "client"
    spec = log_map(block, title, *((1.05, 340) if second else (1.6, 480)))
    spec |= {"histogram": histogram, "layer": layer, "op": op}
    if histogram:
        spec["height"] = 480
    cell = (
        "A bar is one stored bin; its length is the number of I/Os in it." if histogram else cell_text(block)
    )
    if imported is None:
        source = "The same I/Os as the clients saw them." if second else f"Latency at the layer {layer}."
    else:
        hosts = sorted(str(h) for h in mine.filter(pl.col("count") > 0)["host"].unique())
        of = f" of {', '.join(hosts[:4])}{' and others' if len(hosts) > 4 else ''}" if hosts else ""
        source = f"Latency of each {op}{of}, {imported.words.latency}."
    return View(mine, spec, block, f"{load}. {source} {cell}")
