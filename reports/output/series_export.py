"""The cells of a series as one table: axes first, a row for each run, layer, op and tier."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.store.series import Series
from reports.series.view import cell_ratio

_COLUMNS: dict[str, Any] = {
    "phase": pl.String, "build": pl.String, "run": pl.String, "round": pl.Int64, "again": pl.Boolean,
    "verdict": pl.String, "excluded": pl.String, "layer": pl.String, "op": pl.String, "tier": pl.String,
    "count": pl.Int64, "share": pl.Float64, "p50_us": pl.Float64, "p50_low_us": pl.Float64,
    "p50_high_us": pl.Float64, "p99_us": pl.Float64, "p99_low_us": pl.Float64, "p99_high_us": pl.Float64,
    "mean_us": pl.Float64, "ios_per_s": pl.Float64,
    "bytes_per_s": pl.Float64, "cpu_busy": pl.Float64, "p50_ratio": pl.Float64,
}  # fmt: skip
_OF_ROW = ("layer", "op", "tier", "count", "share", "p50_us", "p99_us", "mean_us")
_OF_RUN = ("ios_per_s", "bytes_per_s", "cpu_busy")


def frame(series: Series) -> pl.DataFrame:
    """One row for each cell x run x layer x op x tier. `p50_ratio`: to the base, over all rounds.

    An axis whose name is that of another column has "axis." before it.
    """
    names = {axis.name: f"axis.{axis.name}" if axis.name in _COLUMNS else axis.name for axis in series.axes}
    rows = []
    for cell in series.cells:
        values = {names[axis.name]: series.value_of(cell, axis) for axis in series.axes}
        for run in cell.runs:
            for row in run.rows:
                p50, p99 = (known or (None, None) for known in (row.p50_range_us, row.p99_range_us))
                ratio = cell_ratio(series, cell, None, row)
                rows.append({
                    **values, "phase": cell.phase, "build": cell.build, "run": run.run, "round": run.round,
                    "again": cell.again, "verdict": run.verdict, "excluded": cell.excluded,
                    **{name: getattr(row, name) for name in _OF_ROW},
                    "p50_low_us": p50[0], "p50_high_us": p50[1], "p99_low_us": p99[0], "p99_high_us": p99[1],
                    **{name: getattr(run, name) for name in _OF_RUN},
                    "p50_ratio": ratio.ratio if ratio else None,
                })  # fmt: skip
    return pl.DataFrame(rows, schema={**dict.fromkeys(names.values(), pl.String), **_COLUMNS})
