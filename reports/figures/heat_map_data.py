"""The counts of one phase and layer as the page holds them: sparse rows, deflated.

Per tier two lists: how many empty cells lie before each cell with I/Os, counted along time from the lowest
row, row by row, and the I/Os in the cell. A bin has about the same rate all the time: along a row the
numbers are alike, and deflate to a fifth less than column by column.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from reports.figures import encoding, event_marks, heat_map

Json = dict[str, Any]


def block(frame: pl.DataFrame, phase: Json) -> Json:
    """Cells of the rows of one phase and layer, for cells.js. Raises ValueError if the bins overlap.

    Times in seconds since the phase began, latencies in microseconds. `gaps` are columns [first, last) for
    which the store has no row at all: nothing was recorded there, which is not a count of zero.
    """
    axis = heat_map.columns(phase, frame)
    used = frame.filter(pl.col("count") > 0)
    lo, hi = used["lo_ns"].to_numpy(), used["hi_ns"].to_numpy()
    edges = heat_map.bin_edges_ns(lo, hi)
    edges_us = edges / 1e3
    # An axis of logarithms has no zero.
    edges_us[:1] = np.maximum(edges_us[:1], np.minimum(heat_map.FLOOR_US, edges_us[1:2] / 2))
    column = (used["time_ns"].to_numpy() - axis.start_ns) // axis.width_ns
    place = pl.Series("place", np.searchsorted(edges, lo) * axis.count + column, dtype=pl.Int64)
    placed = used.select("tier", "count").with_columns(place)
    placed = placed.group_by("tier", "place").agg(pl.col("count").sum()).sort("place")
    tiers = {}
    for tier in heat_map.tiers_of(frame):
        mine = placed.filter(pl.col("tier") == tier)
        steps = np.diff(mine["place"].to_numpy(), prepend=-1) - 1
        tiers[tier] = {"steps": _packed(steps), "counts": _packed(mine["count"].to_numpy())}
    found, ignored = event_marks.of_phase(phase, axis)
    return {
        "width_s": axis.width_ns / 1e9,
        "columns": axis.count,
        "merged": axis.merged,
        "duration_s": (axis.end_ns - axis.start_ns) / 1e9,
        "edges_us": edges_us.tolist(),
        "gaps": _gaps(frame, axis),
        "tiers": tiers,
        "events": found,
        "events_ignored": ignored,
    }


def _gaps(frame: pl.DataFrame, axis: heat_map.Columns) -> list[tuple[int, int]]:
    """Columns [first, last) for which there is no row."""
    recorded = np.zeros(axis.count + 2, dtype=bool)
    recorded[[0, -1]] = True
    recorded[1 + (frame["time_ns"].unique().to_numpy() - axis.start_ns) // axis.width_ns] = True
    turns = np.flatnonzero(np.diff(recorded.astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]


def _packed(numbers: npt.NDArray[np.int64]) -> str:
    # Small numbers without much order: what repeats is not worth a long search, nor a reference to it.
    return encoding.packed(encoding.varints(numbers), 5, zlib.Z_FILTERED)
