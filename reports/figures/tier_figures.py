"""What each figure of the report shows: plain values that report.js draws from the cells of its phase.

Latencies in microseconds. Colours are the page's own: they change with its theme and palette.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from reports.analysis.summary import SERVER
from reports.figures import heat_map
from reports.figures.text import human_us, round_up, safe

__all__ = [
    "columns_words",
    "human_us",
    "log_map",
    "phase_frame",
    "round_up",
    "safe",
    "server_rows",
    "ticks",
    "zoom_map",
]

Json = dict[str, Any]
INK, GRID, RULE = "#22262b", "#e3e6ea", "#5b6470"
OURS, PUBLISHED = "#1d5fa8", "#d98a1f"
# False colours: few I/Os are cold, many are hot.
PALETTE = ["#0d1033", "#1b2a9c", "#1f6fe0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#d8201f"]
TICKS = [(10.0**e, label) for e, label in zip(
    range(-2, 8),
    ("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"),
    strict=True,
)]  # fmt: skip


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


def phase_frame(latency: pl.DataFrame, phase: Json, layer: str) -> pl.DataFrame:
    """The rows of one phase and layer."""
    return latency.filter((pl.col("phase") == str(phase["name"])) & (pl.col("layer") == layer))


def columns_words(axis: heat_map.Columns) -> str:
    """What a cell of a heat map is."""
    width = human_us(axis.width_ns / 1e3)
    merged = f", the sum of {axis.merged} stored intervals" if axis.merged > 1 else ""
    return f"A column is {width}{merged}; a row is one stored bin."


def log_map(cells: Json, title: str, row_px: float = 1.6, least_px: int = 480) -> Json:
    """Logarithmic heat map over all tiers of `cells` (reports.figures.heat_map_data.block).

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
    return {"title": safe(title), "scale": "log", "log": axis, "top_us": top, "published": [],
            "tiers": list(cells["tiers"]), "height": height, "lines": False, "events": False,
            "histogram": False}  # fmt: skip


def zoom_map(cells: Json, frame: pl.DataFrame, row: Json, title: str, height: int = 460) -> tuple[Json, int]:
    """Linear heat map of one tier from 0 on, and how many of its I/Os are above what it shows.

    `row` is the tier's row of the summary; `frame` has the rows of the phase and layer.
    """
    tier = str(row["tier"])
    published = [float(edge) for edge in (row.get("published") or {}).get("range_us", ())]
    # A little more than the range, so that its upper end is not the frame of the figure.
    top = round_up(max([float(row["range_us"][1]), *published]) * 1.03)
    mine = frame.filter((pl.col("tier") == tier) & (pl.col("count") > 0))
    figure = log_map(cells, title, 0, height)
    if mine.height:
        low = max(float(mine["lo_ns"].min()) / 1e3, 0.01) / 1.25  # type: ignore[arg-type]
        high = max([float(mine["hi_ns"].max()) / 1e3, *published]) * 1.25  # type: ignore[arg-type]
        figure["log"] = {"low_us": low, "high_us": high, "ticks": ticks(low, high)}
    figure |= {"scale": "linear", "top_us": top, "published": published, "tiers": [tier]}
    return figure, int(mine.filter(pl.col("lo_ns") >= top * 1e3)["count"].sum())


def server_rows(summary: Json, phase: Json) -> list[Json]:
    """The summary's rows of the server in one phase."""
    return [r for r in summary["rows"] if r["layer"] == SERVER and r["phase"] == phase["name"]]
