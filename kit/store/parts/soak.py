"""Soaks and impacts in summary.json (docs/formats/workload.md)."""

from __future__ import annotations

from kit.store.stored import Count, Many, Nanoseconds, Range, Stored


class SoakRow(Stored):
    """A row of a tier, from `at_s` after the start of the phase on. `share` of 1, of all I/Os of the row.

    Percentiles are None where the I/Os are too few; `max_us` is the upper edge of a bin. `events`: marks of
    the time axis that begin in it.
    """

    at_s: float
    seconds: float
    ios: Count
    per_s: float
    share: float
    p50_us: float | None
    p99_us: float | None
    max_us: float | None
    events: Count


class SoakDrift(Stored):
    """A percentile of the row from `at_s` on, the farthest, as a multiple of the first row's.

    `range`: what differs within this run leaves open.
    `ok`: None where no limit was declared, or where it is open. `reason`: a sentence, "" if there is none.
    """

    figure: str
    ratio: float | None
    range: Range | None
    at_s: float | None = None
    limit: float | None
    ok: bool | None
    reason: str


class SoakTier(Stored):
    """One tier of a soak."""

    layer: str
    op: str
    tier: str
    rows: Many[SoakRow]
    drift: Many[SoakDrift]


class SoakPhase(Stored):
    """A phase with a soak. `stopped`: what stopped it before its time, as a sentence; None: nothing."""

    phase: str
    row_ns: Nanoseconds
    duration_ns: Nanoseconds
    stopped: str | None
    tiers: Many[SoakTier]


class ImpactRow(Stored):
    """A percentile in the phases `beside` as a multiple of that in the phases `alone`.

    `range`: 95 % over the phases, whose numbers are `over`; with one on a side what is open within this run.
    `ok`: None where no limit was declared, or where it is open. `titles`: of the first phases.
    """

    titles: tuple[str, str] = ("", "")
    alone: str | tuple[str, ...]
    beside: str | tuple[str, ...]
    op: str
    tier: str
    figure: str
    ratio: float | None
    range: Range | None
    over: tuple[Count, Count] = (1, 1)
    limit: float | None
    ok: bool | None
