"""The verdict of a run: valid, invalid or unknown, and why (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Verdict
from kit.store.tables import CLIENT, DEVICE, SERVER
from reports.verdict import appliance, recovery

IMPORTED = "Imported: nothing says which tier answered, nor that all I/Os are here."
Json = dict[str, Any]
# A phase ends with the interval of its last I/O; this many more are no damage.
_LATE_INTERVALS = 10
_NAMED_FAULTS = 8
_NOT_ENDED = (
    "The run has not ended: it still goes on, was killed, or could not store more. Phases may be missing, "
    "and settings were not compared at the end."
)


def of(reasons: Sequence[str], unmet: Sequence[str], by_nature: str | None) -> Verdict:
    """`reasons`: what cannot be trusted; `unmet`: expectations that are not met.

    What is unknown by its nature, and for no other reason, can still show that an expectation is not met.
    """
    if reasons and not (by_nature and unmet):
        return "unknown"
    return "invalid" if unmet else "valid"


def judge_accounting(
    manifest: Manifest,
    intervals: pl.DataFrame,
    aged: pl.DataFrame | None,
    rows: Sequence[Json],
    reasons: list[str],
) -> str | None:
    """Add what does not close to `reasons`; returns the one sentence that all runs of its kind have.

    `intervals`: kit.store.latency.
    """
    phases = manifest.phases
    reasons += _strays(phases, rows)
    reasons += [*map(str, manifest.problems), *([] if manifest.ended else [_NOT_ENDED])]
    by_nature = None
    if manifest.import_:
        by_nature = IMPORTED
        reasons.insert(0, IMPORTED)
    else:
        # An import has no second count: there is no accounting to judge.
        for phase in phases:
            troubles = [*_trouble(manifest, phase, rows)]
            reasons += [*troubles, *(_faults(phase) if troubles else [])]
    if not phases:
        reasons.append("The run has no phases.")
    if manifest.appliance:
        by_nature = appliance.UNSEEN
        reasons.insert(0, appliance.verdict_reason(phases, not reasons))
    reasons += _gaps(manifest, intervals, aged)
    return by_nature


def _gaps(manifest: Manifest, intervals: pl.DataFrame, aged: pl.DataFrame | None) -> Iterator[str]:
    """Parts of a run that are not as a run stores them. An import has none of them."""
    if manifest.import_:
        return
    if manifest.clock is None:
        yield "The manifest lacks the clock: it is not known what a second of this run is."
    no_clients = bool(manifest.phases) and all(phase.target for phase in manifest.phases)
    if not (manifest.testbed.server and (manifest.testbed.clients or no_clients)):
        yield "The manifest lacks the server or the clients of the testbed."
    if (manifest.precondition or {}).get("devices") and (aged is None or not aged.height):
        yield "Devices were preconditioned, and ageing.parquet, which shows it, is missing or empty."
    spans = intervals.group_by("phase").agg(first=pl.col("time_ns").min(), last=pl.col("time_ns").max())
    seen = {phase: (first, last) for phase, first, last in spans.iter_rows()}
    for phase in manifest.phases:
        first, last = seen.get(phase.name, (phase.start_ns, phase.end_ns))
        end_ns = last + phase.interval_ns
        late_ns = phase.end_ns - end_ns
        if first < phase.start_ns or not 0 <= late_ns <= max(
            _LATE_INTERVALS * phase.interval_ns, end_ns - first
        ):
            yield (
                f"{phase.name}: the phase is from {phase.start_ns} to {phase.end_ns} ns, "
                f"its I/Os are from {first} to {end_ns} ns."
            )


def _strays(phases: Sequence[Phase], rows: Sequence[Json]) -> list[str]:
    """I/Os of phases that the manifest does not have: they are not accounted for."""
    names = {phase.name for phase in phases}
    strays: dict[str, int] = {}
    for row in rows:
        if row["phase"] not in names:
            strays[row["phase"]] = strays.get(row["phase"], 0) + row["count"]
    return [f"{n} I/Os are of phase {name}, which the manifest lacks." for name, n in strays.items()]


def _trouble(manifest: Manifest, phase: Phase, rows: Sequence[Json]) -> Iterator[str]:
    """Why this phase cannot be judged, as sentences."""
    if phase.target:
        layer = DEVICE if phase.on_devices else CLIENT
        return _load_trouble(phase, rows, layer, "fio")
    if manifest.appliance:
        return _load_trouble(phase, rows, CLIENT, "the clients")
    return _phase_trouble(phase, rows)


def _load_trouble(phase: Phase, rows: Sequence[Json], layer: str, issuer: str) -> Iterator[str]:
    """What does not close where only who issued the I/Os, and checks, can tell."""
    name, issued = phase.name, phase.client_ios
    yield from (f"{name}: {problem}" for problem in phase.problems)
    binned = sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer)
    if not (issued and binned):
        yield f"{name}: the phase has no I/O."
    elif issued != binned:
        yield f"{name}: latency.parquet holds {binned} I/Os of {issuer}, the manifest says {issued}."
    yield from (f"{name}: {check}" for check in phase.checks if not check.ok)


def _phase_trouble(phase: Phase, rows: Sequence[Json]) -> Iterator[str]:
    """Why this phase cannot be judged, as sentences."""
    name, client, server = phase.name, phase.client_ios, phase.server_ios
    yield from (f"{name}: {problem}" for problem in phase.problems)
    if server is None or phase.lost_events is None:
        yield f"{name}: the manifest lacks the server's I/Os or the lost trace events."
    elif (calls := _calls(phase)) is not None and abs(calls - server) > recovery.apart_ios(phase) + sum(
        part.apart_ios for part in phase.parts
    ):
        yield f"{name}: the clients issued {client} I/Os, the server saw {server}."
    if phase.lost_events:
        yield f"{name}: {phase.lost_events} trace events were lost."
    binned, at_clients = (
        sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer and r["op"] != "commit")
        for layer in (SERVER, "client")
    )
    yield from _server_trouble(phase, binned, at_clients)
    # A run need not store what its clients saw, but must not store a part of it.
    if at_clients not in (0, client):
        yield f"{name}: latency.parquet holds {at_clients} I/Os of the clients, the manifest says {client}."
    yield from (f"{name}: {check}" for check in phase.checks if not check.ok)


def _calls(phase: Phase) -> int | None:
    """WRITEs that the server gets for the I/Os of the clients; None where forced writes leave that open."""
    if phase.forces is None:
        return phase.client_ios
    per_group = phase.forces.writes_per_group
    return None if per_group is None else phase.client_ios * per_group


def _faults(phase: Phase) -> Iterator[str]:
    """The injected faults that may be the cause of a phase's trouble; one may be older than the phase."""
    injected = [event.text for event in phase.events if event.kind == "fault"]
    texts = [text.removeprefix("fault: ") for text in injected if not text.startswith("declared: ")]
    if texts:
        more = f", and {len(texts) - _NAMED_FAULTS} more" if len(texts) > _NAMED_FAULTS else ""
        yield (
            f"{phase.name}: faults were injected into emulated devices until the end of this phase: "
            f"{', '.join(texts[:_NAMED_FAULTS])}{more}."
        )


def _server_trouble(phase: Phase, binned: int, at_clients: int) -> Iterator[str]:
    """Of the server's I/Os in latency.parquet; one that was not traced has none there, only a count."""
    name, untraced = phase.name, phase.shares is not None
    if not (phase.client_ios and phase.server_ios and (binned or untraced)):
        yield f"{name}: the phase has no I/O."
    elif untraced and binned:
        yield f"{name}: latency.parquet holds {binned} I/Os of a server that was not traced."
    elif untraced and not at_clients:
        yield f"{name}: latency.parquet has neither the server's I/Os nor the clients'."
    elif not untraced and binned != phase.server_ios:
        yield (
            f"{name}: latency.parquet holds {binned} I/Os of the server, the manifest says "
            f"{phase.server_ios}."
        )


def all_well(phases: Sequence[Phase], expect: Sequence[Json]) -> str:
    checks = sum(len(phase.checks) for phase in phases)
    missing = sum(len(phase.unavailable) for phase in phases)
    ios = sum((phase.client_ios if phase.target else phase.server_ios) or 0 for phase in phases)
    open_ones = sum(e["ok"] is None for e in expect)
    words = (
        f"All {ios} I/Os are accounted for, {checks} checks and {len(expect) - open_ones} expectations hold."
    )
    if missing:
        words += f" {missing} check{'s' * (missing != 1)} cannot be made on these hosts."
    if open_ones:
        words += f" {open_ones} expectations on tiers could not be judged: the server was not traced."
    return words
