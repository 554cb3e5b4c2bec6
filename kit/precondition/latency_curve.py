"""A point of the ageing curve: latencies of one op on a device by itself, after so much was written. Pure.

A point keeps counts in the kit's bins over the time of its measurement, so that its percentiles and its
heat map come from the same counts. Tracked values are computed from the exact latencies.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.core.sample_size import sample_needed
from kit.store.run_directory import AGEING_SCHEMA

# Columns of a point's heat map, about.
_COLUMNS = 50


@dataclass(frozen=True)
class Point:
    """`written_bytes`: since the purge, by the device's own counter, when the measurement began.

    `cells`: (interval, bin, I/Os); an interval is `interval_ns` of the experiment long. `p99_ns` is None
    where the I/Os are too few; `iops`: how many there were a second, one after another.
    """

    stage: str
    op: str
    block_bytes: int
    written_bytes: int
    interval_ns: int
    ios: int
    p99_ns: int | None
    iops: float
    cells: tuple[tuple[int, int, int], ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def point(
    stage: str, op: str, block_bytes: int, written_bytes: int, latency_ns: IntArray, clock: Clock
) -> Point:
    """From latencies in ns of the host's time, in order. Raises MeasurementUnknown without any."""
    if not latency_ns.size:
        raise MeasurementUnknown(f"{stage}: no {op} was measured")
    mine = latency_ns // clock.dilation
    ends = np.cumsum(mine)
    total_ns = max(int(ends[-1]), 1)
    interval_ns = nice_interval_ns(total_ns)
    # One after another: when an I/O ends is the sum of those before it.
    column = np.minimum(ends - 1, total_ns - 1).clip(0) // interval_ns
    counted = Counter(zip(column.tolist(), bin_index(mine).tolist(), strict=True))
    return Point(
        stage=stage,
        op=op,
        block_bytes=block_bytes,
        written_bytes=written_bytes,
        interval_ns=interval_ns,
        ios=int(mine.size),
        p99_ns=quantile_ns(mine, 0.99),
        iops=round(mine.size * 1e9 / total_ns, 3),
        cells=tuple((at, index, count) for (at, index), count in sorted(counted.items())),
    )


def quantile_ns(latency_ns: IntArray, q: float) -> int | None:
    """The smallest latency that at least the part `q` of them do not exceed; None if they are too few."""
    if latency_ns.size < sample_needed(q):
        return None
    rank = math.ceil(q * latency_ns.size) - 1
    return int(np.partition(latency_ns, rank)[rank])


def nice_interval_ns(total_ns: int) -> int:
    """About a fiftieth of `total_ns`: 1, 2 or 5 times a power of ten, at least 1."""
    wanted = max(total_ns / _COLUMNS, 1.0)
    power = int(10 ** math.floor(math.log10(wanted)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= wanted)


def frame(device: str, role: str, capacity_bytes: int, points: list[Point]) -> pl.DataFrame:
    """Rows of ageing.parquet."""
    stages = list(dict.fromkeys(found.stage for found in points))
    rows = []
    for found in points:
        place = (device, role, stages.index(found.stage), found.stage, found.written_bytes, capacity_bytes)
        lows, highs = bin_edges(np.array([index for _, index, _ in found.cells], dtype=np.int64))
        for (at, _, count), low, high in zip(found.cells, lows.tolist(), highs.tolist(), strict=True):
            start = at * found.interval_ns
            rows.append((*place, found.op, found.block_bytes, start, found.interval_ns, low, high, count))
    return pl.DataFrame(rows, schema=AGEING_SCHEMA, orient="row")
