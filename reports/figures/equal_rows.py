"""Rows of equal height for a linear axis, out of bins that grow with latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kit.core.bins import IntArray
from kit.core.sample_size import sample_needed
from kit.core.units import format_latency
from reports.figures.heat_map import Cells, CountGrid, Floats, fewer_columns

# As high as a bin of the kit at the upper end of the axis, within a fifth.
_ROWS = 40
# A row with a smaller part of a bin gets none of it: a cell would be drawn for a sliver.
_LEAST_PART = 0.02


def equal_rows(stored: CountGrid, high_s: float) -> CountGrid:
    """`stored` up to `high_s` in rows of equal height, and at most as many columns as a screen shows.

    The I/Os of a bin are spread evenly over it: counts are no whole numbers.
    """
    columns = fewer_columns(stored)
    edges_ns = np.round(np.linspace(0, high_s * 1e9, _ROWS + 1)).astype(np.int64)
    lo, hi = columns.edges_ns[:-1], columns.edges_ns[1:]
    inside = np.minimum(hi[:, None], edges_ns[1:]) - np.maximum(lo[:, None], edges_ns[:-1])
    parts = np.maximum(inside, 0) / np.maximum(hi - lo, 1)[:, None]
    within = parts.sum(axis=1, keepdims=True)
    parts[parts < _LEAST_PART] = 0
    parts *= within / np.maximum(parts.sum(axis=1, keepdims=True), 1e-12)
    tiers = {}
    for tier, cells in columns.tiers.items():
        count, waited_ns = (parts.T @ _dense(columns, cells, each) for each in (cells.count, cells.waited_ns))
        row, column = np.nonzero(count)
        tiers[tier] = Cells(row, column, count[row, column], waited_ns[row, column])
    return replace(columns, edges_ns=edges_ns, tiers=tiers)


def highest_median_s(stored: CountGrid, tier: str) -> float:
    """The highest median of the columns that a screen shows (the upper edge of its bin); 0 without any."""
    columns = fewer_columns(stored)
    counts = _dense(columns, columns.tiers[tier], columns.tiers[tier].count)
    totals = counts.sum(axis=0)
    rows = (np.cumsum(counts, axis=0) >= totals / 2).argmax(axis=0)[totals >= sample_needed(0.5)]
    return float(stored.edges_s[rows + 1].max(initial=0.0))


def rows_text(shown: CountGrid) -> str:
    """What a cell is."""
    high = format_latency((shown.edges_ns[1] - shown.edges_ns[0]) / 1e3)
    cell = f"{shown.width_ns / 1e9:.3g} s \N{MULTIPLICATION SIGN} {high}"
    return f"Cell: {cell}; the I/Os of a bin are spread over it."


def _dense(columns: CountGrid, cells: Cells, values: Floats | IntArray) -> Floats:
    """`values` of cells as a matrix, [rows, columns]."""
    made = np.zeros((len(columns.edges_ns) - 1, columns.columns))
    made[cells.row, cells.column] = values
    return made
