"""The figures of what was not traced: clients, vdevs and imported files, one per layer and op.

A layer that has one interval has no time axis: its figure is a histogram, all others are heat maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from kit.store.manifest import Manifest
from kit.store.tables import SERVER
from reports.analysis import import_source
from reports.figures import heat_map, tier_figures

Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """One layer and op of a phase: what heat_map.js draws, the cells of it and the words below."""

    layer: str
    op: str
    frame: pl.DataFrame
    spec: Json
    block: Json
    caption: str
    histogram: bool


def views(latency: pl.DataFrame, phase: Json, manifest: Manifest, load: str) -> Iterator[View]:
    """Every layer and op of `phase` with a row, but for a server that the kit itself traced."""
    traced = manifest.import_ is None and tier_figures.phase_frame(latency, phase, SERVER).height > 0
    for layer in [*import_source.LAYERS, *_others(latency, phase)]:
        frame = tier_figures.phase_frame(latency, phase, layer)
        if layer == SERVER and manifest.import_ is None:
            continue
        ops = frame.filter(pl.col("count") > 0)["op"].unique().sort().to_list()
        for op in ops or frame["op"].unique().sort().to_list()[:1]:
            title = f"{import_source.name(manifest, phase)}: {import_source.LAYERS.get(layer, layer)}"
            title += f", {op}" if len(ops) > 1 or manifest.import_ else ""
            yield _view(frame, (layer, str(op), title), traced, phase, manifest, load)


def _others(latency: pl.DataFrame, phase: Json) -> list[str]:
    mine = latency.filter(pl.col("phase") == str(phase["name"]))
    return sorted(set(mine["layer"].unique()) - {*import_source.LAYERS, SERVER})


def _view(
    frame: pl.DataFrame, named: tuple[str, str, str], traced: bool, phase: Json, manifest: Manifest, load: str
) -> View:
    layer, op, title = named
    # An interval with I/Os of another op was measured, too: it has none of this one.
    mine = frame.with_columns(
        pl.when(pl.col("op") == op).then(pl.col("count")).otherwise(0).alias("count").cast(pl.Int64)
    )
    block = heat_map.block(mine, phase)
    imported = manifest.import_
    histogram = block["columns"] == 1 and imported is not None
    second = traced and layer == "client"
    spec = tier_figures.log_map(block, title, *((1.05, 340) if second else (1.6, 480)))
    spec |= {"histogram": histogram, "height": 480 if histogram else spec["height"]}
    hosts = sorted(str(h) for h in mine.filter(pl.col("count") > 0)["host"].unique())
    words = (
        "A bar is one stored bin; its length is the number of I/Os in it."
        if histogram
        else tier_figures.columns_words(heat_map.columns(phase, mine))
    )
    if imported is None:
        told = "The same I/Os as the clients saw them." if second else f"Latency at the layer {layer}."
    else:
        of = f" of {', '.join(hosts[:4])}{' and others' if len(hosts) > 4 else ''}" if hosts else ""
        told = f"Latency of each {op}{of}, {imported.words.latency}."
    return View(layer, op, mine, spec, block, f"{load}. {told} {words}", histogram)
