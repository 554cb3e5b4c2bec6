"""Declared faults and events in summary.json, and what they did (docs/formats/workload.md)."""

from __future__ import annotations

from kit.store.parts.schedule import VdevErrors
from kit.store.stored import Count, Many, Stored


class BandOf(Stored):
    """The largest p50 and p99 of an interval before a fault."""

    layer: str
    op: str
    p50_us: float
    p99_us: float


class FaultRow(Stored):
    """A declared fault or event. Times in s since the load began, None where it did not begin or end.

    `recovered_s`: from its end, or its begin if it `lasted` until the phase ended, until latencies were back
    in the `band` of before; `recovered_from_begin_s` from its begin; both known to within `resolution_s`.
    `longest_us`, `gap_s`: the longest I/O, and the longest time without one, from its begin until then. `ok`:
    None where it cannot be judged. `id`, `why`: of what does not hold (docs/verdict.md).
    """

    phase: str
    kind: str
    what: str
    text: str
    device: str | None = None
    at_s: float
    begin_s: float | None
    end_s: float | None
    times: Count = 0
    error: str = ""
    was_cut: bool = False
    lasted: bool = False
    expect: str | None = None
    recover_within_s: float | None = None
    recovered_s: float | None = None
    recovered_from_begin_s: float | None = None
    resolution_s: float | None = None
    band: Many[BandOf] = ()
    longest_us: float = 0.0
    gap_s: float = 0.0
    ok: bool | None
    id: str | None = None
    why: str = ""


class FaultChecks(Stored):
    """Of a phase with declared faults or events: what clients saw, and what a scrub after it found.

    None: not known; `why`. `vdevs`: devices with errors (kit.store.parts.schedule.VdevErrors).
    """

    phase: str
    client_errors: Count | None = None
    retransmissions: Count | None = None
    vdevs: Many[VdevErrors] = ()
    data_errors: Count | None = None
    scan: str = ""
    why: str = ""
