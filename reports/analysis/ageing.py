"""The ageing curve of each preconditioned device: percentiles by what was written. Latencies in us.

From ageing.parquet (see kit.store.tables): counts per device, point, op, interval and bin. A point's
place is what was written since the purge, by the device's own counter, in multiples of its capacity.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from reports.statistics.quantiles import percentiles_ns

Json = dict[str, Any]
QUANTILES = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))


def curve(frame: pl.DataFrame) -> list[Json]:
    """A row per device, op and point, in order: the place on the curve and its percentiles.

    A percentile is None where the I/Os are too few for a bound on it.
    """
    keys = ("device", "role", "op", "point", "stage", "written_bytes", "capacity_bytes", "block_bytes")
    binned = (
        frame.filter(pl.col("count") > 0)
        .group_by(*keys, "lo_ns", "hi_ns", maintain_order=True)
        .agg(pl.col("count").sum())
        .sort(*keys, "lo_ns")
    )
    rows = []
    for key, part in binned.group_by(*keys, maintain_order=True):
        bins = list(part.select("lo_ns", "hi_ns", "count").iter_rows())
        row: Json = dict(zip(keys, key, strict=True))
        row["written"] = row["written_bytes"] / row["capacity_bytes"]
        row["ios"] = sum(b[2] for b in bins)
        limits = (bins[0][0], bins[-1][1])
        values = percentiles_ns(bins, [q for q, _ in QUANTILES], limits)
        for (_, name), value in zip(QUANTILES, values, strict=True):
            row[name] = None if value is None else value / 1e3
        rows.append(row)
    return rows


def devices(frame: pl.DataFrame) -> list[str]:
    """Their names, in the order they were preconditioned in."""
    return list(frame["device"].unique(maintain_order=True))
