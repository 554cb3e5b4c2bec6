"""Points of the latency curve: latencies of one op on the bare device, after a number of written bytes. Pure.

A point stores counts per interval in the kit's bins, so that its percentiles and its heat map come from the
same counts. Tracked values are computed from the exact latencies.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import ConfigDict, Field

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.core.sample_size import sample_needed
from kit.store.stored import Count
from kit.store.tables import AGEING_SCHEMA

# Approximate number of columns of a point's heat map.
_COLUMNS = 50


@dataclass(frozen=True)
class CurvePoint:
    """A point. `written_bytes`: since the purge, from the device's counter, at the start of the measurement.

    `cells`: (interval, bin, I/Os); an interval is `interval_ns` long (experiment time). `p99_ns`: None with
    too few I/Os; `iops`: I/Os per second, one at a time.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    stage: str
    op: str
    block_bytes: int
    written_bytes: int
    interval_ns: int
    ios: int
    p99_ns: int | None
    iops: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    cells: tuple[tuple[Count, Count, Count], ...]


def point(
    stage: str, op: str, block_bytes: int, written_bytes: int, latency_ns: IntArray, clock: Clock
) -> CurvePoint:
    """Make a point from latencies in ns (host time), in order. Raises MeasurementUnknown without any."""
    if not latency_ns.size:
        raise MeasurementUnknown(f"{stage}: no {op} was measured")
    experiment_ns = latency_ns // clock.dilation
    ends_ns = np.cumsum(experiment_ns)
    total_ns = max(int(ends_ns[-1]), 1)
    interval_ns = nice_interval_ns(total_ns)
    # One I/O at a time: an I/O ends at the sum of the latencies up to it.
    column = np.minimum(ends_ns - 1, total_ns - 1).clip(0) // interval_ns
    counted = Counter(zip(column.tolist(), bin_index(experiment_ns).tolist(), strict=True))
    return CurvePoint(
        stage=stage,
        op=op,
        block_bytes=block_bytes,
        written_bytes=written_bytes,
        interval_ns=interval_ns,
        ios=int(experiment_ns.size),
        p99_ns=quantile_ns(experiment_ns, 0.99),
        iops=round(experiment_ns.size * 1e9 / total_ns, 3),
        cells=tuple((interval, index, count) for (interval, index), count in sorted(counted.items())),
    )


def quantile_ns(latency_ns: IntArray, q: float) -> int | None:
    """The smallest latency that at least the part `q` of them do not exceed; None if they are too few."""
    if latency_ns.size < sample_needed(q):
        return None
    return int(np.quantile(latency_ns, q, method="inverted_cdf"))


def nice_interval_ns(total_ns: int) -> int:
    """About 1/50 of `total_ns`: 1, 2 or 5 times a power of ten, at least 1."""
    exact_ns = max(total_ns / _COLUMNS, 1.0)
    power = int(10 ** math.floor(math.log10(exact_ns)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= exact_ns)


def frame(device: str, role: str, capacity_bytes: int, points: list[CurvePoint]) -> pl.DataFrame:
    """Rows of ageing.parquet."""
    stages = list(dict.fromkeys(point.stage for point in points))
    rows = []
    for point in points:
        prefix = (device, role, stages.index(point.stage), point.stage, point.written_bytes, capacity_bytes)
        lows, highs = bin_edges(np.array([index for _, index, _ in point.cells], dtype=np.int64))
        for (interval, _, count), low, high in zip(point.cells, lows.tolist(), highs.tolist(), strict=True):
            start_ns = interval * point.interval_ns
            rows.append((*prefix, point.op, point.block_bytes, start_ns, point.interval_ns, low, high, count))
    return pl.DataFrame(rows, schema=AGEING_SCHEMA, orient="row")
