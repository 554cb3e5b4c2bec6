"""What a workload expects of the rows of its result (`expect` and `impact` of manifest.json)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.store.labels import Layer, Op, Tier
from kit.store.stored import Count, Share, Stored

# Of a latency or of a ratio.
Limit = Annotated[float, Field(gt=0, le=1 << 53)]


class RatioTo(Stored):
    """The row that a row is compared with; None: the same as of the row."""

    phase: str | None = None
    op: Op | None = None
    tier: Tier | None = None


class Expectation(Stored):
    """A row that the workload expects, and its limits; latencies in us, shares of 1."""

    phase: str
    op: Op
    tier: Tier
    layer: Layer = "nfs-server"
    min_count: Count
    inside: bool = False
    inside_share_min: Share | None = None
    p50_us_max: Limit | None = None
    p95_us_max: Limit | None = None
    p99_us_max: Limit | None = None
    p999_us_max: Limit | None = None
    max_us_max: Limit | None = None
    stall_ms_max: Limit | None = None
    share_min: Share | None = None
    share_max: Share | None = None
    ratio_to: RatioTo | None = None
    p50_ratio_min: Limit | None = None
    p50_ratio_max: Limit | None = None
    p99_ratio_min: Limit | None = None
    p99_ratio_max: Limit | None = None


class Impact(Stored):
    """Phases with the same I/Os of `op`: alone, and beside another load; limits of the ratios.

    Each side is a phase, or several of them.
    """

    alone: str | tuple[str, ...]
    beside: str | tuple[str, ...]
    op: Op
    p50_ratio_max: Limit | None = None
    p99_ratio_max: Limit | None = None

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Phases alone, and beside."""
        alone, beside = ((each,) if isinstance(each, str) else each for each in (self.alone, self.beside))
        return alone, beside
