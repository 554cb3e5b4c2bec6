"""Whether a run's accounting closes: the first part of its outcomes (docs/verdict.md). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from kit.core.text import commas, some
from kit.store.checks.ids import SUM_IDS, UNKNOWN_ID, id_of_problem
from kit.store.checks.outcome import Outcome, Tally
from kit.store.labels import SYNCS, RunKind, tier_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase, Problem
from kit.store.summary import Row
from kit.store.tables import CLIENT, DEVICE, SERVER
from reports.verdict import appliance
from reports.verdict.flushes import flush_outcomes
from reports.verdict.stored_values import contradictions

IMPORTED = "Imported log: tiers and completeness are unknown."
# Of runs that are unknown by their nature: the one sentence that all of a kind have.
NATURES = {"IMPORTED": IMPORTED, "APPLIANCE": appliance.UNSEEN}
# A phase ends with the interval of its last I/O; this many more are no damage.
_LATE_INTERVALS = 10
_NAMED_FAULTS = 8
_NOT_ENDED = (
    "The run has not ended: it still goes on, was killed, or could not store more. Phases may be missing, "
    "and settings were not compared at the end."
)


def accounting(
    manifest: Manifest,
    latency: Latency,
    aged: pl.DataFrame | None,
    rows: Sequence[Row],
    found: Sequence[Outcome],
) -> list[Outcome]:
    """The sums of each phase, and what does not close. `found`: outcomes of the counts themselves."""
    phases = manifest.phases
    made = [*_strays(phases, rows), *_problems(manifest.problems)]
    probed = any(device.dram_probe for device in manifest.testbed.devices)
    if probed and all(each.id != "DEVICE-DRAM" for each in made):
        made.append(Outcome.ok("DEVICE-DRAM"))
    if not manifest.ended:
        made.append(Outcome.failed("NOT-ENDED", _NOT_ENDED))
    kind = manifest.kind
    if kind is RunKind.IMPORT:
        made.insert(0, Outcome.unknown("IMPORTED", IMPORTED))
    if kind.value.counts_twice:
        for phase in phases:
            outcomes = [*_of_phase(manifest, phase, rows)]
            made += outcomes
            made += _faults(phase) if any(each.decides for each in outcomes) else ()
        # An incomplete run has contradictions although no file was changed.
        whole = not any(each.decides for each in (*found, *made))
        made += contradictions(manifest, latency) if whole else ()
        made += _unanswered(manifest, rows) if whole else ()
    if not phases:
        made.append(Outcome.failed("NO-PHASES", "The run has no phases."))
    if kind is RunKind.APPLIANCE:
        closes = not any(each.decides for each in (*found, *made))
        made.insert(0, Outcome.unknown("APPLIANCE", appliance.verdict_reason(phases, closes)))
    return [*made, *_gaps(manifest, latency.intervals, aged), *flush_outcomes(manifest)]


def _unanswered(manifest: Manifest, rows: Sequence[Row]) -> Iterator[Outcome]:
    """Phases of which no expected tier has answered, where no expectation judges it."""
    for phase in manifest.phases:
        served = {r.tier for r in rows if (r.phase, r.layer) == (phase.name, SERVER) and r.count}
        expected = set(phase.expected_tiers)
        judged = any(each.phase == phase.name and each.tier in expected for each in manifest.expect)
        if served and expected and not (served & expected or judged or phase.metadata or phase.target):
            names = " or ".join(map(tier_name, phase.expected_tiers))
            text = f"no I/O was answered by {names}, which the workload expects."
            yield Outcome.failed("EXPECTED-TIERS", text, phase.name)


def _gaps(manifest: Manifest, intervals: pl.DataFrame, aged: pl.DataFrame | None) -> Iterator[Outcome]:
    """Parts of a run that are not as a run stores them. An import has none of them."""
    if not manifest.kind.value.counts_twice:
        return
    if manifest.clock is None:
        text = "The manifest lacks the clock: it is not known what a second of this run is."
        yield Outcome.failed("NO-CLOCK", text)
    local = bool(manifest.phases) and all(phase.target for phase in manifest.phases)
    no_clients = local or not manifest.kind.value.drives_load
    if not (manifest.testbed.server and (manifest.testbed.clients or no_clients)):
        yield Outcome.failed("NO-HOSTS", "The manifest lacks the server or the clients of the testbed.")
    if (manifest.precondition or {}).get("devices") and (aged is None or not aged.height):
        text = "Devices were preconditioned, and ageing.parquet, which shows it, is missing or empty."
        yield Outcome.failed("NO-AGEING", text)
    yield from _late(manifest, intervals)


def _late(manifest: Manifest, intervals: pl.DataFrame) -> Iterator[Outcome]:
    """Phases whose time is not that of their I/Os."""
    spans = intervals.group_by("phase").agg(first=pl.col("time_ns").min(), last=pl.col("time_ns").max())
    seen = {phase: (first, last) for phase, first, last in spans.iter_rows()}
    for phase in manifest.phases:
        if phase.name not in seen:
            yield Outcome.absent("PHASE-TIMES", "not available", "the phase has no I/O", phase.name)
            continue
        first, last = seen[phase.name]
        end_ns = last + phase.interval_ns
        late_ns = phase.end_ns - end_ns
        may_idle = not manifest.kind.value.drives_load
        if may_idle and phase.start_ns <= first and last <= phase.end_ns:
            continue
        most_ns = max(_LATE_INTERVALS * phase.interval_ns, end_ns - first)
        if first < phase.start_ns or not 0 <= late_ns <= most_ns:
            text = f"the phase is from {phase.start_ns} to {phase.end_ns} ns, its I/Os are from"
            yield Outcome.failed("PHASE-TIMES", f"{text} {first} to {end_ns} ns.", phase.name)


def _strays(phases: Sequence[Phase], rows: Sequence[Row]) -> list[Outcome]:
    """I/Os of phases that the manifest does not have: they are not accounted for."""
    names = {phase.name for phase in phases}
    strays = Counter[str]()
    for row in rows:
        if row.phase not in names:
            strays[row.phase] += row.count
    return [
        Outcome.failed("STRAY-IOS", f"{commas(n)} I/Os are of phase {name}, which the manifest lacks.")
        for name, n in strays.items()
    ]


def _problems(problems: Iterable[Problem], phase: str | None = None) -> Iterator[Outcome]:
    for each in problems:
        yield Outcome.failed(id_of_problem(each.code), each.text, phase)


def _sums(phase: Phase) -> Iterator[Outcome]:
    """The sums of a phase, and those that its hosts cannot make."""
    for check in phase.checks:
        id_ = check.id if check.id in SUM_IDS else UNKNOWN_ID
        if check.closes:
            yield Outcome.ok(id_, phase.name, check.title)
        else:
            yield Outcome.failed(id_, str(check), phase.name, check.title)
    for missing in phase.unavailable:
        text = f"{missing.title}: {missing.why}"
        id_ = missing.id if missing.id in SUM_IDS else UNKNOWN_ID
        yield Outcome.absent(id_, "not available", text, phase.name, missing.title)


def _of_phase(manifest: Manifest, phase: Phase, rows: Sequence[Row]) -> Iterator[Outcome]:
    yield from _problems(phase.problems, phase.name)
    yield from _trouble(manifest, phase, rows)
    yield from _sums(phase)


def _trouble(manifest: Manifest, phase: Phase, rows: Sequence[Row]) -> Iterator[Outcome]:
    """What does not close of the counts, by who can tell."""
    if phase.target:
        layer = DEVICE if phase.on_devices else CLIENT
        return _load_trouble(phase, rows, layer, "fio")
    if not manifest.kind.value.sees_server:
        return _load_trouble(phase, rows, CLIENT, "the clients")
    if not manifest.kind.value.drives_load:
        return _observed_trouble(phase, rows, nfs=manifest.kind.value.serves_nfs)
    return _phase_trouble(phase, rows)


def _load_trouble(phase: Phase, rows: Sequence[Row], layer: str, issuer: str) -> Iterator[Outcome]:
    """What does not close where only who issued the I/Os, and checks, can tell."""
    name, issued = phase.name, phase.client_ios
    binned = sum(r.count for r in rows if r.phase == name and r.layer == layer)
    if not (issued and binned):
        yield Outcome.failed("NO-IO", "the phase has no I/O.", name)
    elif issued != binned:
        yield Outcome.failed("STORED-IOS", _unlike(binned, issued, issuer), name)


def _observed_trouble(phase: Phase, rows: Sequence[Row], *, nfs: bool) -> Iterator[Outcome]:
    """What does not close between the tracer, the counters of the server and the counts."""
    name, server = phase.name, phase.server_ios
    if phase.lost_events:
        yield Outcome.failed("LOST-EVENTS", f"{phase.lost_events} trace events were lost.", name)
    if server is None or phase.lost_events is None:
        text = "the manifest lacks the server's I/Os or the lost trace events."
        yield Outcome.failed("COUNTS-MISSING", text, name)
    binned = sum(r.count for r in rows if r.phase == name and r.layer == SERVER and r.op not in SYNCS)
    if not server:
        who = "client read or wrote on ZFS over NFS" if nfs else "program read or wrote files of ZFS"
        yield Outcome.failed("NO-IO", f"no {who} meanwhile.", name)
    elif binned != server:
        yield Outcome.failed("STORED-IOS", _unlike(binned, server, "the server"), name)


def _phase_trouble(phase: Phase, rows: Sequence[Row]) -> Iterator[Outcome]:
    """What does not close between clients, server and the counts."""
    name, client, server = phase.name, phase.client_ios, phase.server_ios
    apart = sum(each.apart_ios for each in (phase.schedule, *phase.parts) if each)
    if server is None or phase.lost_events is None:
        text = "the manifest lacks the server's I/Os or the lost trace events."
        yield Outcome.failed("COUNTS-MISSING", text, name)
    elif (calls := _calls(phase)) is not None and abs(calls - server) > apart:
        text = f"the clients issued {commas(client)} I/Os, the server saw {commas(server)}."
        yield Outcome.failed("CLIENT-SERVER-IOS", text, name)
    if phase.lost_events:
        yield Outcome.failed("LOST-EVENTS", f"{phase.lost_events} trace events were lost.", name)
    binned, at_clients = (
        sum(r.count for r in rows if r.phase == name and r.layer == layer and r.op != "commit")
        for layer in (SERVER, CLIENT)
    )
    yield from _server_trouble(phase, binned, at_clients)
    # A run need not store what its clients saw, but must not store a part of it.
    if at_clients not in (0, client):
        yield Outcome.failed("STORED-IOS", _unlike(at_clients, client, "the clients"), name)


def _calls(phase: Phase) -> int | None:
    """Requests that the server gets for the I/Os of the clients; None where forced writes leave that open.

    Of files and directories one is several requests.
    """
    if phase.metadata:
        return None
    if phase.forces is None:
        return phase.client_ios
    per_group = phase.forces.writes_per_group
    return None if per_group is None else phase.client_ios * per_group


def not_known(phases: Sequence[Phase]) -> list[str]:
    """What a valid run has not looked at, because the server cannot tell: use of its other pools."""
    whys = {each.of: each.why for phase in phases for each in phase.unavailable if each.id == "OTHER-POOL"}
    return [f"Whether the pool {pool} was used meanwhile is not known: {why}." for pool, why in whys.items()]


def _unlike(held: int, said: int, of: str) -> str:
    return f"latency.parquet holds {commas(held)} I/Os of {of}, the manifest says {commas(said)}."


def _faults(phase: Phase) -> Iterator[Outcome]:
    """The injected faults that may be the cause of a phase's trouble; one may be older than the phase."""
    texts = [each.fault.what for each in phase.events if each.fault and not each.fault.declared]
    if texts:
        until = "faults were injected into emulated devices until the end of this phase"
        yield Outcome.failed("INJECTED-FAULTS", f"{until}: {some(texts, _NAMED_FAULTS)}.", phase.name)


def _server_trouble(phase: Phase, binned: int, at_clients: int) -> Iterator[Outcome]:
    """Of the server's I/Os in latency.parquet; one that was not traced has none there, only a count."""
    name, untraced = phase.name, phase.shares is not None
    if not (phase.client_ios and phase.server_ios and (binned or untraced)):
        yield Outcome.failed("NO-IO", "the phase has no I/O.", name)
        return
    text = ""
    if untraced and binned:
        text = f"latency.parquet holds {commas(binned)} I/Os of a server that was not traced."
    elif untraced and not at_clients:
        text = "latency.parquet has neither the server's I/Os nor the clients'."
    elif not untraced and binned != phase.server_ios:
        text = _unlike(binned, phase.server_ios, "the server")
    if text:
        yield Outcome.failed("STORED-IOS", text, name)


def all_well(phases: Sequence[Phase], outcomes: Sequence[Outcome], kept: str) -> str:
    """The sentence of a valid run. `kept`: of its power losses, "" without."""
    count = Tally.of(outcomes)
    ios = sum((phase.client_ios if phase.target else phase.server_ios) or 0 for phase in phases)
    words = f"All {commas(ios)} I/Os are accounted for, {count.words}."
    if count.unavailable:
        words += f" {count.unavailable} check{'s' * (count.unavailable != 1)} cannot be made on these hosts."
    if count.unjudged:
        words += f" {count.unjudged} expectations on tiers could not be judged: the server was not traced."
    return f"{words} {kept}".strip()
