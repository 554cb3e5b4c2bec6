"""Percentiles of each interval of a run, for other programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from reports.quantiles import NARROW, sample_needed

QUANTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "p999_ns": 0.999}
_SERIES = ["phase", "layer", "op", "time_ns"]
_Ints = npt.NDArray[np.int64]


def over_time(frame: pl.DataFrame, quantiles: Mapping[str, float] = QUANTILES) -> pl.DataFrame:
    """Of `frame` (columns of latency.parquet): a row per phase, layer, op and interval, all hosts together.

    Columns: `phase`, `layer`, `op`, `time_ns`, `ios` (how many) and one per entry of `quantiles`, in ns, the
    same to the bit as reports.quantiles.percentiles_ns gives for the interval's bins; null where it has too
    few I/Os. An interval without I/O has no row. One pass over all intervals: an hour has thousands.
    """
    bins = (
        frame.filter(pl.col("count") > 0)
        .group_by(*_SERIES, "lo_ns", "hi_ns")
        .agg(pl.col("count").sum())
        .sort(*_SERIES, "lo_ns", "hi_ns")
    )
    # Where each interval begins, in rows; the last entry is the end of all.
    begins = bins.select((pl.struct(_SERIES) != pl.struct(_SERIES).shift()).fill_null(value=True)).to_series()
    first: _Ints = np.flatnonzero(begins.to_numpy())
    lo, hi, count = (bins[name].to_numpy() for name in ("lo_ns", "hi_ns", "count"))
    upto = np.cumsum(count)
    before = upto[first] - count[first]
    ios = np.diff(before, append=upto[-1:])
    columns = [pl.Series("ios", ios, dtype=pl.Int64)]
    for name, q in quantiles.items():
        # The first bin up to whose end there are enough I/Os of the interval.
        at = np.searchsorted(upto, before + np.ceil(q * ios).astype(np.int64))
        narrow = hi[at] - lo[at] <= np.maximum(1, lo[at] * NARROW)
        behind = upto[at] - before
        within = (hi[at] - lo[at]) * (q * ios - behind + count[at]) / count[at]
        value = np.where(narrow, (lo[at] + hi[at] - 1) / 2, lo[at] + within)
        kept = pl.Series(name, value, dtype=pl.Float64)
        columns.append(kept.zip_with(pl.Series(ios >= sample_needed(q)), pl.Series([None], dtype=pl.Float64)))
    return bins[first].select(_SERIES).with_columns(columns)
