"""The verdict of a run: valid, invalid or unknown, and why (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from kit.store.checks.ids import id_of_problem, id_of_sum
from kit.store.checks.known import Known
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase, Problem
from kit.store.summary import Reason, Verdict
from kit.store.tables import CLIENT, DEVICE, SERVER
from reports.verdict import appliance, recovery
from reports.verdict.known import excused
from reports.verdict.stored_values import contradictions

IMPORTED = "Imported: nothing says which tier answered, nor that all I/Os are here."
Json = dict[str, Any]
# A phase ends with the interval of its last I/O; this many more are no damage.
_LATE_INTERVALS = 10
_NAMED_FAULTS = 8
_NOT_ENDED = (
    "The run has not ended: it still goes on, was killed, or could not store more. Phases may be missing, "
    "and settings were not compared at the end."
)


def of(reasons: Sequence[Reason], unmet: Sequence[Reason], by_nature: str | None) -> Verdict:
    """`reasons`: what cannot be trusted; `unmet`: expectations that are not met.

    What is unknown by its nature, and for no other reason, can still show that an expectation is not met.
    """
    if reasons and not (by_nature and unmet):
        return "unknown"
    return "invalid" if unmet else "valid"


def judge_accounting(
    manifest: Manifest,
    latency: Latency,
    aged: pl.DataFrame | None,
    rows: Sequence[Json],
    reasons: list[Reason],
) -> str | None:
    """Add what does not close to `reasons`; returns the one sentence that all runs of its kind have."""
    phases = manifest.phases
    reasons += _strays(phases, rows)
    reasons += _problems(manifest.problems)
    if not manifest.ended:
        reasons.append(Reason(id="NOT-ENDED", text=_NOT_ENDED))
    by_nature = None
    if manifest.import_:
        by_nature = IMPORTED
        reasons.insert(0, Reason(id="IMPORTED", text=IMPORTED))
    else:
        # An import has no second count: there is no accounting to judge.
        for phase in phases:
            troubles = [*_trouble(manifest, phase, rows)]
            reasons += troubles
            reasons += _faults(phase) if troubles else ()
        # An incomplete run has contradictions although no file was changed.
        reasons += () if reasons else contradictions(manifest, latency)
    if not phases:
        reasons.append(Reason(id="NO-PHASES", text="The run has no phases."))
    if manifest.appliance:
        by_nature = appliance.UNSEEN
        reasons.insert(0, Reason(id="APPLIANCE", text=appliance.verdict_reason(phases, not reasons)))
    reasons += _gaps(manifest, latency.intervals, aged)
    return by_nature


def _gaps(manifest: Manifest, intervals: pl.DataFrame, aged: pl.DataFrame | None) -> Iterator[Reason]:
    """Parts of a run that are not as a run stores them. An import has none of them."""
    if manifest.import_:
        return
    if manifest.clock is None:
        text = "The manifest lacks the clock: it is not known what a second of this run is."
        yield Reason(id="NO-CLOCK", text=text)
    no_clients = bool(manifest.phases) and all(phase.target for phase in manifest.phases)
    if not (manifest.testbed.server and (manifest.testbed.clients or no_clients)):
        yield Reason(id="NO-HOSTS", text="The manifest lacks the server or the clients of the testbed.")
    if (manifest.precondition or {}).get("devices") and (aged is None or not aged.height):
        text = "Devices were preconditioned, and ageing.parquet, which shows it, is missing or empty."
        yield Reason(id="NO-AGEING", text=text)
    spans = intervals.group_by("phase").agg(first=pl.col("time_ns").min(), last=pl.col("time_ns").max())
    seen = {phase: (first, last) for phase, first, last in spans.iter_rows()}
    for phase in manifest.phases:
        first, last = seen.get(phase.name, (phase.start_ns, phase.end_ns))
        end_ns = last + phase.interval_ns
        late_ns = phase.end_ns - end_ns
        if first < phase.start_ns or not 0 <= late_ns <= max(
            _LATE_INTERVALS * phase.interval_ns, end_ns - first
        ):
            text = (
                f"the phase is from {phase.start_ns} to {phase.end_ns} ns, its I/Os are from {first} to "
                f"{end_ns} ns."
            )
            yield Reason(id="PHASE-TIMES", phase=phase.name, text=text)


def _strays(phases: Sequence[Phase], rows: Sequence[Json]) -> list[Reason]:
    """I/Os of phases that the manifest does not have: they are not accounted for."""
    names = {phase.name for phase in phases}
    strays: dict[str, int] = {}
    for row in rows:
        if row["phase"] not in names:
            strays[row["phase"]] = strays.get(row["phase"], 0) + row["count"]
    return [
        Reason(id="STRAY-IOS", text=f"{n} I/Os are of phase {name}, which the manifest lacks.")
        for name, n in strays.items()
    ]


def _problems(problems: Iterable[Problem], phase: str | None = None) -> Iterator[Reason]:
    for each in problems:
        yield Reason(id=id_of_problem(each.code), phase=phase, text=each.text)


def _open_sums(phase: Phase) -> Iterator[Reason]:
    """The sums of a phase that do not close."""
    for check in phase.checks:
        if not check.closes:
            yield Reason(id=id_of_sum(check.name), phase=phase.name, text=str(check))


def _trouble(manifest: Manifest, phase: Phase, rows: Sequence[Json]) -> Iterator[Reason]:
    """Why this phase cannot be judged, as sentences."""
    if phase.target:
        layer = DEVICE if phase.on_devices else CLIENT
        return _load_trouble(phase, rows, layer, "fio")
    if manifest.appliance:
        return _load_trouble(phase, rows, CLIENT, "the clients")
    return _phase_trouble(phase, rows)


def _load_trouble(phase: Phase, rows: Sequence[Json], layer: str, issuer: str) -> Iterator[Reason]:
    """What does not close where only who issued the I/Os, and checks, can tell."""
    name, issued = phase.name, phase.client_ios
    yield from _problems(phase.problems, name)
    binned = sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer)
    if not (issued and binned):
        yield Reason(id="NO-IO", phase=name, text="the phase has no I/O.")
    elif issued != binned:
        text = f"latency.parquet holds {binned} I/Os of {issuer}, the manifest says {issued}."
        yield Reason(id="STORED-IOS", phase=name, text=text)
    yield from _open_sums(phase)


def _phase_trouble(phase: Phase, rows: Sequence[Json]) -> Iterator[Reason]:
    """Why this phase cannot be judged, as sentences."""
    name, client, server = phase.name, phase.client_ios, phase.server_ios
    yield from _problems(phase.problems, name)
    if server is None or phase.lost_events is None:
        text = "the manifest lacks the server's I/Os or the lost trace events."
        yield Reason(id="COUNTS-MISSING", phase=name, text=text)
    elif (calls := _calls(phase)) is not None and abs(calls - server) > recovery.apart_ios(phase) + sum(
        part.apart_ios for part in phase.parts
    ):
        text = f"the clients issued {client} I/Os, the server saw {server}."
        yield Reason(id="CLIENT-SERVER-IOS", phase=name, text=text)
    if phase.lost_events:
        yield Reason(id="LOST-EVENTS", phase=name, text=f"{phase.lost_events} trace events were lost.")
    binned, at_clients = (
        sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer and r["op"] != "commit")
        for layer in (SERVER, "client")
    )
    yield from _server_trouble(phase, binned, at_clients)
    # A run need not store what its clients saw, but must not store a part of it.
    if at_clients not in (0, client):
        text = f"latency.parquet holds {at_clients} I/Os of the clients, the manifest says {client}."
        yield Reason(id="STORED-IOS", phase=name, text=text)
    yield from _open_sums(phase)


def _calls(phase: Phase) -> int | None:
    """WRITEs that the server gets for the I/Os of the clients; None where forced writes leave that open."""
    if phase.forces is None:
        return phase.client_ios
    per_group = phase.forces.writes_per_group
    return None if per_group is None else phase.client_ios * per_group


def _faults(phase: Phase) -> Iterator[Reason]:
    """The injected faults that may be the cause of a phase's trouble; one may be older than the phase."""
    injected = [event.text for event in phase.events if event.kind == "fault"]
    texts = [text.removeprefix("fault: ") for text in injected if not text.startswith("declared: ")]
    if texts:
        more = f", and {len(texts) - _NAMED_FAULTS} more" if len(texts) > _NAMED_FAULTS else ""
        text = (
            "faults were injected into emulated devices until the end of this phase: "
            f"{', '.join(texts[:_NAMED_FAULTS])}{more}."
        )
        yield Reason(id="INJECTED-FAULTS", phase=phase.name, text=text)


def _server_trouble(phase: Phase, binned: int, at_clients: int) -> Iterator[Reason]:
    """Of the server's I/Os in latency.parquet; one that was not traced has none there, only a count."""
    name, untraced = phase.name, phase.shares is not None
    if not (phase.client_ios and phase.server_ios and (binned or untraced)):
        yield Reason(id="NO-IO", phase=name, text="the phase has no I/O.")
        return
    text = ""
    if untraced and binned:
        text = f"latency.parquet holds {binned} I/Os of a server that was not traced."
    elif untraced and not at_clients:
        text = "latency.parquet has neither the server's I/Os nor the clients'."
    elif not untraced and binned != phase.server_ios:
        text = f"latency.parquet holds {binned} I/Os of the server, the manifest says {phase.server_ios}."
    if text:
        yield Reason(id="STORED-IOS", phase=name, text=text)


def entry(judged: Verdict, causes: Sequence[Reason], all_well: str, known: Sequence[Known]) -> Json:
    """What the summary has of it. A valid run has the one sentence `all_well`, and no cause."""
    marked = excused(causes, known)
    return {
        "verdict": judged,
        "reasons": [all_well] if judged == "valid" else [*map(str, causes)],
        **({"causes": [each.as_json() for each in marked]} if marked else {}),
    }


def all_well(phases: Sequence[Phase], expect: Sequence[Json], kept: str) -> str:
    """The sentence of a valid run. `kept`: of its power losses, "" without."""
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
    return f"{words} {kept}".strip()
