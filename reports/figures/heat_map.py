"""Counts per time and latency: the one builder of heat maps, whatever page they are on.

block() has the counts as the page holds them; cells.js opens them, and its matrix() makes the values of every
heat map from them. panel() is the heat map of a figure that Python makes; still.js fills it.

Stored times and latencies are in ns; a block has seconds since the phase began and microseconds.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.core.bins import IntArray
from kit.store.stored import Json
from reports.figures import encoding, event_marks
from reports.figures.text import plotly_text

# An hour of seconds, and what a phase takes longer than asked for.
MAX_COLUMNS = 4000
# 60 octaves of 32 bins; what has more was not written by the kit.
_MAX_ROWS = 1920
# An axis of logarithms has no zero: the bin that starts there is drawn from here on.
FLOOR_US = 0.01


@dataclass(frozen=True)
class _Columns:
    """The time axis of a phase: `count` columns of `width_ns`, each the sum of `merged` stored intervals."""

    start_ns: int
    width_ns: int
    count: int
    end_ns: int
    merged: int


def _columns(phase: Json, frame: pl.DataFrame, most: int) -> _Columns:
    """The time axis of `phase`; neighbouring intervals are merged until at most `most` are left.

    `frame` has the rows of the phase: an interval that is not within the phase widens the axis.
    """
    start, end = int(phase["start_ns"]), int(phase["end_ns"])
    interval = max(int(phase["interval_ns"]), 1)
    last = end
    if frame.height:
        last = max(end, int(frame["time_ns"].max()) + 1)  # type: ignore[arg-type]
        start = min(start, int(frame["time_ns"].min()))  # type: ignore[arg-type]
    intervals = max(-(-(last - start) // interval), 1)
    merged = -(-intervals // most)
    return _Columns(start, interval * merged, -(-intervals // merged), max(end, start + 1), merged)


def block(frame: pl.DataFrame, phase: Json, by: str = "tier", most: int = MAX_COLUMNS) -> Json:
    """Cells of the rows of one phase and layer, for cells.js. Raises ValueError if the bins overlap.

    Rows are the stored bins; where none is stored between two bins, one empty row fills the gap. `tiers` has
    the counts of each value of the column `by`, the fastest first: sparse rows, deflated. Of each two lists:
    how many empty cells lie before each cell with I/Os, counted along time from the lowest row, row by row,
    and the I/Os in the cell. A bin has about the same rate all the time: along a row the numbers are alike,
    and deflate to a fifth less than column by column.

    Times in seconds since the phase began, latencies in microseconds. `gaps` are columns [first, last) for
    which the store has no row at all: nothing was recorded there, which is not a count of zero.
    """
    axis = _columns(phase, frame, most)
    used = frame.filter(pl.col("count") > 0)
    lo, hi = used["lo_ns"].to_numpy(), used["hi_ns"].to_numpy()
    edges = _bin_edges_ns(lo, hi)
    edges_us = edges / 1e3
    edges_us[:1] = np.maximum(edges_us[:1], np.minimum(FLOOR_US, edges_us[1:2] / 2))
    column = (used["time_ns"].to_numpy() - axis.start_ns) // axis.width_ns
    place = pl.Series("place", np.searchsorted(edges, lo) * axis.count + column, dtype=pl.Int64)
    placed = used.select(by, "count").with_columns(place)
    placed = placed.group_by(by, "place").agg(pl.col("count").sum()).sort("place")
    tiers = {}
    for tier in used.group_by(by).agg(pl.col("lo_ns").median()).sort("lo_ns", by)[by].to_list():
        mine = placed.filter(pl.col(by) == tier)
        steps = np.diff(mine["place"].to_numpy(), prepend=-1) - 1
        tiers[tier] = {"steps": _packed(steps), "counts": _packed(mine["count"].to_numpy())}
    events, ignored = event_marks.marks(
        phase.get("events", ()), axis.start_ns, axis.start_ns + axis.width_ns * axis.count
    )
    return {
        "width_s": axis.width_ns / 1e9,
        "columns": axis.count,
        "merged": axis.merged,
        "duration_s": (axis.end_ns - axis.start_ns) / 1e9,
        "edges_us": edges_us.tolist(),
        "gaps": _gaps(frame, axis),
        "tiers": tiers,
        "events": events,
        "events_ignored": ignored,
    }


def panel(number: int, weights: Mapping[str, float], name: str, axes: str, colour_bar: Json | None) -> Json:
    """A Plotly heat map on the axes x`axes` and y`axes` of a figure, without the values of its cells.

    A cell is the I/Os of each tier in block `number` of the figure times the tier's weight, added up; with
    a negative weight it is a difference. No `colour_bar`: the figure's other heat map has it.
    """
    return {
        "type": "heatmap", "xaxis": f"x{axes}", "yaxis": f"y{axes}", "name": plotly_text(name),
        "meta": {"block": number, "weights": dict(weights)},
        "hoverongaps": False, "zsmooth": False, "showscale": colour_bar is not None,
        "colorbar": {"title": {"text": "I/O"}, "thickness": 12, "outlinewidth": 0, **(colour_bar or {})},
        "hovertemplate": "%{x:.4g} s, %{y:.4g} µs: %{customdata:.4g} I/O<extra>%{fullData.name}</extra>",
    }  # fmt: skip


def _bin_edges_ns(lo: IntArray, hi: IntArray) -> IntArray:
    """The edges of the bins [lo, hi), ascending; an empty bin is between two that do not touch."""
    edges = np.unique(np.concatenate([lo, hi]))
    if len(edges) - 1 > _MAX_ROWS or (np.searchsorted(edges, hi) != np.searchsorted(edges, lo) + 1).any():
        raise ValueError("the bins of latency.parquet overlap, or are too many")
    return edges


def _gaps(frame: pl.DataFrame, axis: _Columns) -> list[tuple[int, int]]:
    """Columns [first, last) for which there is no row."""
    recorded = np.zeros(axis.count + 2, dtype=bool)
    recorded[[0, -1]] = True
    recorded[1 + (frame["time_ns"].unique().to_numpy() - axis.start_ns) // axis.width_ns] = True
    turns = np.flatnonzero(np.diff(recorded.astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]


def _packed(numbers: IntArray) -> str:
    # Small numbers without much order: what repeats is not worth a long search, nor a reference to it.
    return encoding.packed(encoding.varints(numbers), 5, zlib.Z_FILTERED)
