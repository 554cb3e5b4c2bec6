"""Bands of latency in summary.json, and what is known of their tiers (docs/formats/results.md).

Latencies in us.
"""

from __future__ import annotations

from kit.store.stored import Count, Many, Range, Stored


class BandPublished(Stored):
    """A tier whose published range meets a band; `inside`: it holds 95 % of the band's I/Os."""

    tier: str
    inside: bool


class BandRow(Stored):
    """A band between two borders. `share` of 1, with its 95 % interval; `tier`: of most of its I/Os."""

    from_us: float
    to_us: float
    count: Count
    share: float
    share_interval: Range
    range_us: Range
    modes_us: Many[float]
    overlap: float
    separable: bool
    tier: str | None
    published: Many[BandPublished]


class KernelLabels(Stored):
    """I/Os of each tier in each band, and the tier that a band belongs to; `judged` of them are `right`."""

    tiers: dict[str, Many[Count]]
    owners: Many[str | None]
    judged: Count
    right: Count
    share_right: float | None
    warnings: Many[str]


class PublishedCount(Stored):
    """The I/Os inside a published range."""

    tier: str
    range_us: Range
    count: Count
    share: float


class PublishedBorders(Stored):
    """I/Os by the ranges of `reference`, and by the borders that these imply; None where they overlap."""

    reference: str
    ranges: Many[PublishedCount]
    outside: Count
    borders_us: tuple[float, ...] | None
    share_right: float | None


class LevelsInTime(Stored):
    """Two levels that follow each other in time: their medians, and the `share` (of 1) of the second.

    `changes`: 1 for a step, `from_s` after the phase began; 2 for a second level from `from_s` to `to_s`
    alone; else about how often the levels change.
    """

    p50_us: Range
    share: float
    changes: Count
    from_s: float
    to_s: float


class PhaseBands(Stored):
    """One phase x layer x op. `reason`: why it has no bands, or why they are not (wholly) separable.

    `levels`: where tiers are not known and the bands are not there at the same times.
    """

    phase: str
    layer: str
    op: str
    count: Count
    overlap_limit: float
    separable: bool
    reason: str | None
    borders_us: Many[float] = ()
    bands: Many[BandRow] = ()
    kernel: KernelLabels | None = None
    published: PublishedBorders | None = None
    levels: LevelsInTime | None = None
