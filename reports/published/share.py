"""The share of I/Os inside a range of latencies."""

from __future__ import annotations

import polars as pl

from kit.store.summary import Row


def share_inside(latency: pl.DataFrame, row: Row, range_us: tuple[float, float]) -> float | None:
    """The part (0 to 1) of the I/Os of `row` inside `range_us`; None if `latency` has none of them.

    A bin that the range cuts counts in proportion: that is off by one bin (3.2 %) of latency at most.
    """
    mine = latency.filter(
        (pl.col("phase") == row.phase)
        & (pl.col("layer") == row.layer)
        & (pl.col("op") == row.op)
        & (pl.col("tier") == row.tier)
        & (pl.col("count") > 0)
    )
    low, high = (pl.lit(edge * 1e3) for edge in range_us)
    inside = pl.min_horizontal("hi_ns", high) - pl.max_horizontal("lo_ns", low)
    part = (inside / (pl.col("hi_ns") - pl.col("lo_ns"))).clip(0, 1)
    counted = mine.select((pl.col("count") * part).sum().alias("in"), pl.col("count").sum().alias("all"))
    within, total = counted.row(0)
    return within / total if total else None
