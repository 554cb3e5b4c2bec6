"""An `[[expect]]` of a workload: what a row of the result must be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kit.config.tables.phase_table import Name, Op, Tier
from kit.config.toml import Problems, Table
from kit.store.parts import expectation as stored

RATIOS = ("p50_ratio_min", "p50_ratio_max", "p99_ratio_min", "p99_ratio_max")


class RatioTo(stored.RatioTo, Table):
    """The row that a row is compared with, of the same layer; what is left out is the row's own."""

    phase: Name | None = None
    op: Op | None = None
    tier: Tier | Literal["all"] | None = None


class Expectation(stored.Expectation, Table):
    """An expected result: number of I/Os, range or share inside the published one, limits.

    `layer`: "device" in a phase whose target is devices. Percentiles and the longest I/O are those at the
    layer, in microseconds; a share is of the phase's I/Os there, 0 to 1. A stall is a time in which no I/O of
    the phase ended at the layer, of any op and tier. A ratio is that of this row's percentile to the other
    row's. `inside`: the range must be inside the published one, whose conditions the phase must meet;
    `inside_share_min`: at least this part of the I/Os instead.
    """

    phase: Name
    op: Op
    # "all" is what clients see, and devices: they cannot tell tiers apart.
    tier: Tier | Literal["all"]
    layer: Literal["nfs-server", "client", "device"] = "nfs-server"
    min_count: Annotated[int, Field(ge=1)] = 1
    ratio_to: RatioTo | None = None

    @property
    def is_inside(self) -> bool:
        """Whether it is about the published range."""
        return self.inside or self.inside_share_min is not None

    def _problems(self) -> Problems:
        yield from self._shares_problems()
        yield from self._ratios_problems()

    def _shares_problems(self) -> Problems:
        if self.share_min is not None and self.share_max is not None and self.share_min > self.share_max:
            text = f"share_min = {self.share_min:g} is above share_max = {self.share_max:g}"
            yield "share_min", text
        if (self.tier == "all") == (self.layer == "nfs-server"):
            yield (
                "tier",
                'tier = "all" goes with layer = "client" or "device", and any other tier with "nfs-server"',
            )
        if self.is_inside and self.layer != "nfs-server":
            text = "the published ranges are those at the NFS server: remove it"
            yield "inside" if self.inside else "inside_share_min", text
        if "inside" in self.model_fields_set and not self.inside and self.inside_share_min is not None:
            text = "inside_share_min is judged where inside is, and inside is false: remove one of them"
            yield "inside_share_min", text

    def _ratios_problems(self) -> Problems:
        limits = [name for name in RATIOS if getattr(self, name) is not None]
        if limits and self.ratio_to is None:
            yield limits[0], 'to which row? such as ratio_to = { phase = "...", tier = "..." }'
        if self.ratio_to is not None and not limits:
            yield "ratio_to", f"no limit on the ratio; add {', '.join(RATIOS[:-1])} or {RATIOS[-1]}"
        for figure in ("p50", "p99"):
            low, high = (getattr(self, f"{figure}_ratio_{end}") for end in ("min", "max"))
            if low is not None and high is not None and low > high:
                yield f"{figure}_ratio_min", f"{low:g} is above {figure}_ratio_max = {high:g}"
