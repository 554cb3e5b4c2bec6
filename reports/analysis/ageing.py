"""The ageing curve of each preconditioned device: percentiles by what was written. Latencies in us.

From ageing.parquet (see kit.store.tables): counts per device, point, op, interval and bin. A point's
place is what was written since the purge, by the device's own counter, in multiples of its capacity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from kit.core.text import listed
from kit.core.units import format_binary_bytes, format_factor, format_latency
from reports.statistics.quantiles import Bins, percentiles_ns, rank_ns

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_KEYS = ("device", "role", "op", "point", "stage", "written_bytes", "capacity_bytes", "block_bytes")


@dataclass(frozen=True)
class AgeingPoint:
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


def curve(frame: pl.DataFrame) -> list[AgeingPoint]:
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
        values = percentiles_ns(bins, list(QUANTILES.values()), (bins[0][0], bins[-1][1]))
        us = {name: None if ns is None else ns / 1e3 for name, ns in zip(QUANTILES, values, strict=True)}
        open_us = {name: _open_us(bins, q) for name, q in QUANTILES.items()}
        named = dict(zip(_KEYS, key, strict=True))
        points.append(AgeingPoint(**named, ios=sum(b[2] for b in bins), us=us, open_us=open_us))
    return points


def is_asked(frame: pl.DataFrame | None) -> bool:
    """Whether the run is about ageing: rounds of writes came after the fills."""
    return frame is not None and bool(frame["stage"].str.starts_with("round").any())


def measured(frame: pl.DataFrame | None) -> list[str]:
    """What was measured of devices before the phases, of a run that is about ageing."""
    if frame is None or not is_asked(frame):
        return []
    return [f"{listed(devices(frame))} alone, one I/O at a time, fresh and as it was written to. Then:"]


def sentences(frame: pl.DataFrame | None) -> Iterator[str]:
    """Of each device and op whether it became slower: log devices' writes first."""
    by: dict[tuple[str, str], list[AgeingPoint]] = {}
    for point in curve(frame) if frame is not None else ():
        by.setdefault((point.device, point.op), []).append(point)
    for (device, op), points in sorted(
        by.items(), key=lambda item: (item[1][0].role == "log") == (item[0][1] == "read")
    ):
        first, last = points[0], points[-1]
        before, after = first.us["p50"], last.us["p50"]
        if len(points) < 2 or not before or not after:
            continue
        what = f"{device}: p50 of {format_binary_bytes(first.block_bytes)} {op}s"
        written = f"after {format_factor(last.written, 2)} its capacity was written"
        low, high = (last.open_us["p50"][end] / first.open_us["p50"][1 - end] for end in (0, 1))
        within = f"(within this run: {low:.2f} to {high:.2f})"
        change = "slower" if low > 1 else "faster" if high < 1 else "no change shown"
        yield (
            f"{what} is {format_latency(before)} when fresh, {format_latency(after)} {written}: {change}, "
            f"{format_factor(after / before)} as long {within}."
        )


def _open_us(bins: Bins, q: float) -> tuple[float, float]:
    """From the ranks two standard errors of a count around that of the q-quantile."""
    ios = sum(b[2] for b in bins)
    around = 2 * math.sqrt(ios * q * (1 - q))
    ranks = max(ios * q - around, 0.0), min(ios * q + around, float(ios))
    return rank_ns(bins, ranks[0]) / 1e3, rank_ns(bins, ranks[1]) / 1e3


def devices(frame: pl.DataFrame) -> list[str]:
    """Their names, in the order they were preconditioned in."""
    return list(frame["device"].unique(maintain_order=True))
