"""Percentiles of each interval of a run, for other programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from reports.statistics.quantiles import Ints, percentiles_of_each

QUANTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "p999_ns": 0.999}
_SERIES = ["phase", "layer", "op"]


def over_time(frame: pl.DataFrame, quantiles: Mapping[str, float] = QUANTILES) -> pl.DataFrame:
    """Of `frame` (columns of latency.parquet): a row per phase, layer, op and interval, all hosts together.

    Columns: `phase`, `layer`, `op`, `time_ns`, `ios` (how many) and one per entry of `quantiles`, in ns, the
    same to the bit as reports.statistics.quantiles.percentiles_ns gives for the interval's bins; null where
    it has too few I/Os. An interval without I/O has no row. One pass over all intervals, as an hour has
    thousands.
    """
    counted = frame.filter(pl.col("count") > 0)
    # Numbers for the names: to sort 200,000 rows by three strings takes a hundred times as long.
    names = counted.select(_SERIES).unique().sort(_SERIES).with_row_index("series")
    cells = counted.join(names, on=_SERIES).sort("series", "time_ns", "lo_ns", "hi_ns")
    series, times, lo, hi = (cells[name].to_numpy() for name in ("series", "time_ns", "lo_ns", "hi_ns"))
    # A cell may come more than once, of several hosts and tiers.
    begins = _changes(series) | _changes(times)
    cell = np.flatnonzero(begins | _changes(lo) | _changes(hi))
    count = np.add.reduceat(cells["count"].to_numpy(), cell) if cell.size else np.empty(0, dtype=np.int64)
    lo, hi, begins = lo[cell], hi[cell], begins[cell]
    # The cells that are the first of an interval.
    first: Ints = np.flatnonzero(begins)
    ios, values = percentiles_of_each(lo, hi, count, first, list(quantiles.values()))
    columns = [pl.Series("ios", ios, dtype=pl.Int64)]
    columns += [pl.Series(name, v).fill_nan(None) for name, v in zip(quantiles, values, strict=True)]
    named = cells[cell[first]].join(names, on="series", maintain_order="left")
    return named.select(*_SERIES, "time_ns").with_columns(columns)


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value is another than the one before it; the first is."""
    found = np.ones(values.size, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found
