"""The ageing curve of each preconditioned device: percentiles by what was written. Latencies in us.

From ageing.parquet (see kit.store.tables): counts per device, point, op, interval and bin. A point's
place is what was written since the purge, by the device's own counter, in multiples of its capacity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from reports.statistics.quantiles import Bins, percentiles_ns, rank_ns

QUANTILES = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
_KEYS = ("device", "role", "op", "point", "stage", "written_bytes", "capacity_bytes", "block_bytes")


@dataclass(frozen=True)
class Point:
    """A point of a curve. `us`: percentiles by name; None where the I/Os are too few for a bound on one.

    `open_us`: what the number of I/Os leaves open of each, from and to.
    """

    device: str
    role: str
    op: str
    point: int
    stage: str
    written_bytes: int
    capacity_bytes: int
    block_bytes: int
    ios: int
    us: dict[str, float | None]
    open_us: dict[str, tuple[float, float]]

    @property
    def written(self) -> float:
        """What was written since the purge, in multiples of the capacity."""
        return self.written_bytes / self.capacity_bytes


def curve(frame: pl.DataFrame) -> list[Point]:
    """A point per device, op and place on the curve, in order."""
    binned = (
        frame.filter(pl.col("count") > 0)
        .group_by(*_KEYS, "lo_ns", "hi_ns", maintain_order=True)
        .agg(pl.col("count").sum())
        .sort(*_KEYS, "lo_ns")
    )
    points = []
    for key, part in binned.group_by(*_KEYS, maintain_order=True):
        bins = list(part.select("lo_ns", "hi_ns", "count").iter_rows())
        values = percentiles_ns(bins, [q for q, _ in QUANTILES], (bins[0][0], bins[-1][1]))
        us = [None if value is None else value / 1e3 for value in values]
        names = [name for _, name in QUANTILES]
        named = dict(zip(_KEYS, key, strict=True))
        open_us = {name: _open_us(bins, q) for q, name in QUANTILES}
        ios = sum(b[2] for b in bins)
        points.append(Point(**named, ios=ios, us=dict(zip(names, us, strict=True)), open_us=open_us))
    return points


def _open_us(bins: Bins, q: float) -> tuple[float, float]:
    """From the ranks two standard errors of a count around that of the q-quantile."""
    ios = sum(b[2] for b in bins)
    around = 2 * math.sqrt(ios * q * (1 - q))
    ranks = max(ios * q - around, 0.0), min(ios * q + around, float(ios))
    return rank_ns(bins, ranks[0]) / 1e3, rank_ns(bins, ranks[1]) / 1e3


def devices(frame: pl.DataFrame) -> list[str]:
    """Their names, in the order they were preconditioned in."""
    return list(frame["device"].unique(maintain_order=True))
