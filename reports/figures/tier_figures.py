"""What each figure of the report shows: plain values that heat_map.js draws from the cells of its phase.

Latencies in microseconds. Colours are the page's own: they change with its theme and palette.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from kit.store.manifest import Manifest
from kit.store.summary import Row, Summary
from kit.store.tables import SERVER
from reports.figures import heat_map
from reports.figures.still_figure import ticks
from reports.figures.text import human_us, plotly_text, round_up

Json = dict[str, Any]


def phase_frame(latency: pl.DataFrame, phase: Json, layer: str) -> pl.DataFrame:
    """The rows of one phase and layer."""
    return latency.filter((pl.col("phase") == str(phase["name"])) & (pl.col("layer") == layer))


def columns_words(axis: heat_map.Columns) -> str:
    """What a cell of a heat map is."""
    width = human_us(axis.width_ns / 1e3)
    merged = f", the sum of {axis.merged} stored intervals" if axis.merged > 1 else ""
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


def zoom_map(cells: Json, frame: pl.DataFrame, row: Row, title: str, height: int = 460) -> tuple[Json, int]:
    """Linear heat map of one tier from 0 on, and how many of its I/Os are above what it shows.

    `row` is the tier's row of the summary; `frame` has the rows of the phase and layer.
    """
    tier = row.tier
    published = list(row.published.range_us) if row.published else []
    # A little more than the range, so that its upper end is not the frame of the figure.
    top = round_up(max([row.range_us[1], *published]) * 1.03)
    mine = frame.filter((pl.col("tier") == tier) & (pl.col("count") > 0))
    figure = log_map(cells, title, 0, height)
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
