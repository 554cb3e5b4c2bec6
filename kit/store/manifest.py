"""manifest.json: what was asked for, on what, and what came out (docs/formats/results.md).

Tables that are only shown (pool, dataset, mount, preconditioning) stay JSON objects.
"""

from __future__ import annotations

import math
import os
from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kit.core.clock import ClockKind
from kit.core.seed import SEED_BITS
from kit.store.checks.known_failures import Known
from kit.store.format import FORMAT, Format
from kit.store.labels import Op, RunKind, Tier
from kit.store.parts.expectation import Expectation as Expectation
from kit.store.parts.expectation import Impact as Impact
from kit.store.parts.import_source import UNKNOWN, ImportSource
from kit.store.parts.machine import Bus, DramProbe, HostFinding, HostSetting, Warmup
from kit.store.parts.observed import Observed
from kit.store.parts.resource_use import PoolSpace
from kit.store.phase import Event, Phase, Problem
from kit.store.run_directory import RunDir, refuse_no_result
from kit.store.stored import (
    Count,
    Json,
    Many,
    Nanoseconds,
    Number,
    Positive,
    Stored,
    contradiction,
    read_versioned,
)

_MOST_PHASES = 10_000
# The widest range of latencies in ticks of their clock, times the root of their number. With less, such as
# few I/Os by a coarse clock, two measurements may have the same sum and extremes by chance.
_TOLD_APART = 100_000
# Of a run: number and exact sum, smallest and largest of its latencies; not the names of hosts or files.
Fingerprint = frozenset[tuple[str | int, ...]]


def _is_utc(text: str) -> str:
    """Such as 2026-11-21T05:30:00Z. Raises ValueError."""
    if not text.endswith("Z") or datetime.fromisoformat(text).utcoffset() != timedelta():
        raise ValueError("expected a time such as 2026-11-21T05:30:00Z")
    return text


class Clock(Stored):
    """`dilation`: how many times slower the experiment ran than its stored times say."""

    kind: ClockKind
    dilation: Annotated[int, Field(ge=1, le=1 << 20)] = 1

    @model_validator(mode="after")
    def _is_a_clock(self) -> Self:
        if self.kind == "real" and self.dilation != 1:
            raise contradiction(f"a real clock has no dilation, {self.dilation}")
        return self


class Device(Stored):
    """A device of the testbed, as far as numbers depend on it: of the testbed, and as the run found it.

    `model`: of an emulated one the title of its preset, as in `parameters`. `identity`: of a real one.
    `settings`: as the kernel has them. `endurance_bytes`: rated. `capacitor_health`: of a device that a phase
    goes to, in percent; None: it says nothing of capacitors.
    """

    name: str | None = None
    role: str | None = None
    model: str | None = None
    size_bytes: Annotated[Count, Field(ge=1)] | None = None
    latency_ns: Count | None = None
    parameters: Json | None = None
    bus: Bus | None = None
    price: str | None = None
    endurance_bytes: Count | None = None
    path: str | None = None
    identity: Json | None = None
    settings: Json | None = None
    capacitor_health: Count | None = None
    dram_probe: DramProbe | None = None

    @model_validator(mode="after")
    def _is_one_device(self) -> Self:
        size = (self.identity or {}).get("size_bytes", self.size_bytes)
        if self.size_bytes is not None and size != self.size_bytes:
            raise contradiction(f"size_bytes is {self.size_bytes}, that of its identity {str(size)[:40]}")
        return self

    @property
    def power_loss_protection(self) -> bool | None:
        """Of its model; None: not known."""
        parts = [each for each in (self.parameters or {}).values() if isinstance(each, dict)]
        found = [part.get("power_loss_protection") for part in parts]
        return next((each for each in found if isinstance(each, bool)), None)


class Testbed(Stored):
    """Of an import it has a name alone."""

    name: str | None = None
    file: str | None = None
    server: str | None = None
    clients: Many[str] = ()
    emulated: bool | None = None
    devices: Many[Device] = ()

    def of_role(self, role: str) -> list[Device]:
        return [each for each in self.devices if each.role == role]


class Tunable(Stored):
    """A tunable of the server and its values, as text."""

    name: str
    before: str | None = None
    set: str | None = None
    written: str | None = None


class Vdev(Stored):
    """A top-level vdev that was made of several devices: `kind` is mirror, raidz1, ...; names of devices."""

    role: str
    kind: str
    devices: Many[str]


class PoolState(Stored):
    """The pool and the properties that the workload set, as zpool prints them. `space`: before the phases."""

    name: str | None = None
    guid: str | None = None
    vdevs: Many[Vdev] = ()
    properties: dict[str, str] | None = None
    space: PoolSpace | None = None


class DatasetState(Stored):
    """The dataset; `properties` as zfs prints them."""

    name: str | None = None
    properties: dict[str, str] | None = None


class Mount(Stored):
    """`options` in effect; on an appliance they are by the client's name instead, each a key."""

    source: str | None = None
    options: str | None = None


class Export(Stored):
    """`lines` as exportfs prints them."""

    lines: Many[str] = ()


class Tracing(Stored):
    """`kind`: "full" or "none"; of "none", why. `missing`: functions and tracepoints the kernel lacks."""

    kind: Literal["full", "none"]
    bpftrace: str = ""
    reason: str = ""
    missing: Many[str] = ()
    asked_for: bool = False


class Soak(Stored):
    """A load of hours in one phase: `row_ns` of a row, and how far the last may be from the first, of 1.

    Less than `soak` of the phase in the workload: nothing of what stops the load.
    """

    phase: str
    row_ns: Annotated[Nanoseconds, Field(gt=0)]
    p50_drift_max: Number | None = None
    p99_drift_max: Number | None = None


class Skipped(Stored):
    """A phase that was not measured."""

    phase: str
    reason: str


class Appliance(Stored):
    """A server without login; `not_seen` and `not_done` are sentences."""

    export: str | None = None
    not_seen: Many[str] = ()
    not_done: Many[str] = ()
    skipped: Many[Skipped] = ()


class PowerProof(Stored):
    """A device's own count of its power losses, before a power loss and after it."""

    device: str
    counter: str
    before: Count
    after: Count


class Classes(Stored):
    """Acknowledged records that were not there after a power loss, by what was in their place.

    `lost`: nothing; `torn`: parts of several contents; `old`: an older record; `foreign`: something else;
    `gone`: it cannot be read, or the device is gone.
    """

    lost: Count = 0
    torn: Count = 0
    old: Count = 0
    foreign: Count = 0
    gone: Count = 0

    @property
    def not_there(self) -> int:
        """Of all classes."""
        return self.lost + self.torn + self.old + self.foreign + self.gone


class Moment(Classes):
    """One power loss: writes that were acknowledged before it, and those that were gone after it.

    `at_ns`: on the witness's clock. `first_lost`: number of the first write that was not there, of the worker
    `first_worker`. `idle_ns`: how long after the last write it came. `in_flight_torn`: records
    without an acknowledgement that are there in part. `again`: found after one more clean power cycle.
    `looked_at`: records that no later one has replaced; `after_ns`, `written_bytes`: from the first
    acknowledgement to the power loss, so that no cache held more.
    """

    acknowledged: Count
    looked_at: Count
    after_ns: Count = 0
    written_bytes: Count = 0
    at_ns: int = 0
    first_lost: Count | None = None
    first_worker: Count | None = None
    idle_ns: Count = 0
    in_flight_torn: Count = 0
    again: Classes | None = None
    proof: Many[PowerProof] = ()

    @model_validator(mode="after")
    def _are_of_acknowledged(self) -> Self:
        if self.looked_at > self.acknowledged:
            raise contradiction(f"looked_at is {self.looked_at}, acknowledged is {self.acknowledged}")
        # After one more power cycle the record under way, which had replaced another, may be gone as well.
        for found, of in ((self, self.looked_at), (self.again or self, self.acknowledged)):
            if (bad := found.not_there) > of:
                raise contradiction(f"{bad} of {of} acknowledged records were not there")
        return self


class PowerLoss(Stored):
    """Every power loss of the run, and the sums.

    `scope`: "lab", "server", "device" or "appliance". `asked`: how many there should be.
    `control`: the positive control of that name, and its power losses. `stopped`: why there were no more.
    """

    moments: Many[Moment]
    acknowledged: Count = 0
    lost: Count = 0
    scope: Annotated[str, Field(pattern="^(?:lab|server|device|appliance)$")]
    asked: Count = 0
    control: Annotated[str, Field(pattern="^(?:|none|no-sync|no-flush|unstable)$")] = ""
    control_moments: Many[Moment] = ()
    stopped: str = ""

    @model_validator(mode="after")
    def _are_sums(self) -> Self:
        given, moments = self.model_fields_set, self.moments
        if "acknowledged" in given and self.acknowledged != (total := sum(m.acknowledged for m in moments)):
            raise contradiction(f"acknowledged is {self.acknowledged}, its moments have {total}")
        bad = {sum(m.lost for m in moments), sum(m.not_there for m in moments)}
        if "lost" in given and self.lost not in bad:
            raise contradiction(f"lost is {self.lost}, its moments have {max(bad)}")
        return self


class ObserverStretch(Stored):
    """A short load by so many threads, with the tracer or without; latencies at the client, in ns."""

    traced: bool
    threads: Annotated[Count, Field(ge=1)]
    ios: Count
    p50_ns: Positive
    p99_ns: Positive

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if self.p50_ns > self.p99_ns:
            raise contradiction(f"p50_ns is {self.p50_ns}, above p99_ns, {self.p99_ns}")
        return self


class ObserverEffect(Stored):
    """Stretches in their order: with the tracer and without, interleaved. All I/Os are `op` from `tier`."""

    op: Op
    tier: Tier
    block_bytes: Annotated[Count, Field(ge=1)]
    stretches: Many[ObserverStretch] = ()


class ImportedFile(Stored):
    """A file of an import; `left_out`: I/Os by the reason why they are not counted."""

    file: str
    rows_read: Count | None = None
    rows_counted: Count | None = None
    left_out: dict[str, Count] | None = None


class Import(Stored):
    """What an import was made from.

    `tick_ns`: of the clock or the unit of its latencies; None where single ones were not in the files.
    """

    format: str | None = None
    counts: str | None = None
    source: ImportSource = UNKNOWN
    origin_ns: int | None = None
    tick_ns: Annotated[float, Field(ge=1, le=1e15)] | None = None
    rows_counted: Count | None = None
    warnings: Many[str] = ()
    files: Many[ImportedFile] = ()


class Manifest(Stored):
    """The whole file. What is None or empty was not written, as by an import or of an appliance.

    `findings`, `modules` (parameters of zfs, spl, nfsd and sunrpc) and `nfsd_threads`: as the run found them,
    before it set anything.
    """

    workload: str | None = None
    title: str | None = None
    reference: str | None = None
    testbed: Testbed = Testbed()
    tunables: Many[Tunable] = ()
    host_settings: Many[HostSetting] = ()
    findings: Many[HostFinding] = ()
    modules: dict[str, dict[str, str]] = Field(default_factory=dict)
    nfsd_threads: Count | None = None
    working_set: dict[str, Annotated[Count, Field(ge=1)]] | None = None
    phases: Annotated[Many[Phase], Field(max_length=_MOST_PHASES)] = ()
    ended: bool = False
    problems: Many[Problem] = ()
    notes: Many[str] = ()
    format: Format = FORMAT
    run: str | None = None
    started_utc: Annotated[str, AfterValidator(_is_utc)] | None = None
    command: Many[str] = ()
    seed: Annotated[int, Field(ge=0, lt=1 << SEED_BITS)] | None = None
    clock: Clock | None = None
    versions: dict[str, str] | None = None
    load: str | None = None
    outstanding: Count | None = None
    expect: Many[Expectation] = ()
    known: Many[Known] = ()
    length: str | None = None
    soak: Many[Soak] = ()
    impact: Many[Impact] = ()
    appliance: Appliance | None = None
    observed: Observed | None = None
    resumed: Many[Json] = ()
    tracing: Tracing | None = None
    precondition: Json | None = None
    pool: PoolState | None = None
    dataset: DatasetState | None = None
    export: Export | None = None
    mount: Mount | None = None
    warmup: Warmup | None = None
    power_loss: PowerLoss | None = None
    observer_effect: ObserverEffect | None = None
    import_: Annotated[Import | None, Field(alias="import")] = None
    events: Many[Event] = ()
    wall_s: Positive | None = None

    @property
    def kind(self) -> RunKind:
        if self.import_:
            return RunKind.IMPORT
        if self.observed:
            return RunKind.LOCAL if self.observed.local else RunKind.OBSERVED
        return RunKind.APPLIANCE if self.appliance else RunKind.HOSTS

    def phase_named(self, name: str | None) -> Phase | None:
        return next((each for each in self.phases if each.name == name), None)

    @property
    def served(self) -> set[str]:
        """What the I/Os at the server are stored by: its name, or the file systems of an observed server."""
        return set(self.observed.file_systems) if self.observed else {str(self.testbed.server)}

    @property
    def traced(self) -> bool:
        """Whether the testbed let the kit trace the server; an import and an appliance do not say."""
        return self.tracing is None or self.tracing.kind != "none"

    @property
    def zfs_parameters(self) -> dict[str, str]:
        """Parameters of the module in effect: as the run found them, or as it set them."""
        return {**self.modules.get("zfs", {}), **{each.name: each.set for each in self.tunables if each.set}}

    @property
    def skipped_phases(self) -> set[str]:
        """Names of those that need a login to the server, on an appliance."""
        return {each.phase for each in self.appliance.skipped} if self.appliance else set()

    @property
    def fingerprint(self) -> Fingerprint:
        """Exact figures of all its I/Os, equal only in copies of one measurement. Empty: they do not tell."""
        sums = [each for phase in self.phases for each in phase.sums]
        extremes = [each for phase in self.phases for each in phase.extremes]
        tick_ns = (self.import_ and self.import_.tick_ns) or 1
        ticks = max((each.max_ns - each.min_ns for each in extremes), default=0) / tick_ns
        told_apart = ticks * math.sqrt(sum(each.ios for each in sums)) >= _TOLD_APART
        told = [(each.layer, each.op, each.tier, each.ios, each.sum_ns) for each in sums]
        told += [(each.layer, each.op, each.tier, each.min_ns, each.max_ns) for each in extremes]
        return frozenset[tuple[str | int, ...]](told) if told_apart else frozenset()


def read_manifest(run: RunDir) -> Manifest:
    """manifest.json, checked. Raises ConfigError."""
    path = run.path / "manifest.json"
    if not os.path.lexists(path):
        refuse_no_result(run)
    return Manifest.from_json(read_versioned(path), path)
