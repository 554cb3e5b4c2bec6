"""summary.json: verdict, accounting and ranges (docs/formats/results.md). Latencies in microseconds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.store.checks.known_failures import KnownState
from kit.store.checks.outcome import Outcome, Tally, Verdict
from kit.store.format import FORMAT, Format
from kit.store.labels import verdict_name
from kit.store.load.open_loop import CapacityRow
from kit.store.manifest import Clock
from kit.store.parts.bands import PhaseBands
from kit.store.parts.client_figures import ClientFigures
from kit.store.parts.faults import FaultChecks, FaultRow
from kit.store.parts.judged import JudgedExpectation
from kit.store.parts.metadata import MetadataRow
from kit.store.parts.observed import ObservedRow
from kit.store.parts.power_loss import PowerLossResult
from kit.store.parts.resource_use import ArcUse, CacheLife, SpecialRow
from kit.store.parts.soak import ImpactRow, SoakPhase
from kit.store.parts.split import NetworkPhase, ObserverRow, SplitPhase
from kit.store.phase import Check, Missing, Shares
from kit.store.printed.slog import SlogRow
from kit.store.run_directory import RunDir
from kit.store.stored import Count, Json, Many, Stored, read_versioned
from kit.store.stored import Range as Range
from kit.store.tables import SERVER

# A part of the time of all CPUs of a machine.
CPU_BOUND = 0.85


class Published(Stored):
    """A published range, and whether the range of the row is inside it."""

    reference: str
    range_us: Range
    inside: bool


class Conditions(Stored):
    """What a phase must have for a published range to stand beside it; None: any will do.

    `io_size` in bytes. `outstanding`: I/Os on their way at a time, of all clients together.
    """

    io_size: Count | None = None
    outstanding: Count | None = None
    nfs_version: str | None = None
    random: bool | None = None


class PublishedRange(Stored):
    """What `op` takes when `tier` answers it. summary.json does not have the conditions."""

    op: str
    tier: str
    range_us: Range
    conditions: Annotated[Conditions | None, Field(exclude=True)] = None


class Reference(Stored):
    """What somebody published."""

    name: str
    title: str
    source: str
    ranges: Many[PublishedRange]

    @property
    def ranges_us(self) -> dict[tuple[str, str], Range]:
        """By op and tier."""
        return {(each.op, each.tier): each.range_us for each in self.ranges}


class Interpolated(Stored):
    """A percentile interpolated within its bin, in us. `bound_us`: the exact one is in it, for certain.

    `error_us`: how far off it is at most where latencies around it are spread as in the bins beside.
    """

    us: float
    bound_us: Range
    error_us: float


class Row(Stored):
    """One phase x layer x op x tier. `share` of 1; a percentile is None where the I/Os are too few for it.

    `range_us`: the shortest range that holds 95 % of the I/Os. `not_published`: why no published range stands
    beside it although there is one, as a sentence.
    `mean_us`: from the exact sum of latencies; None where the run has none. `interpolated`: by name (`p50`,
    ...), with how far it may be off; `p50_us` is the same value.
    """

    phase: str
    layer: str
    op: str
    tier: str
    count: Count
    share: float
    min_us: float
    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    p999_us: float | None
    max_us: float
    range_us: Range
    published: Published | None = None
    not_published: str | None = None
    mean_us: float | None = None
    interpolated: dict[str, Interpolated | None] = Field(default_factory=dict)


class PhaseAccounting(Stored):
    """The counts of one phase and the sums that must close."""

    phase: str
    client_ios: Count | None
    server_ios: Count | None
    lost_events: Count | None
    checks: Many[Check] = ()
    unavailable: Many[Missing] = ()
    shares: Shares | None = None


class Accounting(Stored):
    """The sums over all phases, and each phase."""

    client_ios: Count | None
    server_ios: Count | None
    lost_events: Count | None
    phases: Many[PhaseAccounting]


class MachineUse(Stored):
    """Parts of the time of all CPUs of a machine while the load ran, each of 1.

    `busiest`: of the time of one, from each sample to the next the busiest; None: not counted.
    """

    host: str
    cpus: Count
    busy: float
    user: float
    system: float
    softirq: float
    busiest: float | None = None

    @property
    def bound(self) -> float:
        """How busy the CPUs are that are busiest: one, or all where that is not known."""
        return max(self.busy, self.busiest or 0.0)


class DeviceRow(Stored):
    """A device of the testbed in a phase: sums, and rates while the load ran.

    `busy`: part of the time with an I/O on its way; `queue`: so many were on average. `tbw_per_day`: 10^12
    bytes. `model_written_bytes`, `pages_...`, `write_amplification` (bytes programmed / bytes written): of a
    device with a model, of flash. None: not counted there.
    """

    device: str
    role: str
    reads: Count
    read_bytes: Count
    writes: Count
    written_bytes: Count
    flushes: Count | None
    busy: float
    queue: float
    read_bytes_per_s: float
    written_bytes_per_s: float
    tbw_per_day: float
    model_written_bytes: Count | None = None
    pages_programmed: Count | None = None
    pages_copied: Count | None = None
    write_amplification: float | None = None


class BytesOnTheWay(Stored):
    """Bytes of a phase at each place that counts them. None: not known there.

    `clients` and `nfs` are the same where each I/O is a call. A block of the ZIL is larger than a small
    write; `log_blocks`, what the kernel wrote to log devices and what their models got are the same. The last
    two are sums over the devices: with a mirrored log they are `log_blocks` times the number of devices.
    """

    clients: Count | None = None
    nfs: Count | None = None
    log_blocks: Count | None = None
    log_devices: Count | None = None
    log_models: Count | None = None


class PhaseUse(Stored):
    """What a phase used. Rates are over the time from the first I/O of any client to the last.

    `is_cpu_bound`: all CPUs of a machine, or one, were busier than CPU_BOUND: latencies may be of a CPU.
    `missing`: what was not sampled, and why.
    """

    phase: str
    seconds: float
    iops: float | None
    bytes_per_s: float | None
    bytes: BytesOnTheWay
    cpu: Many[MachineUse]
    devices: Many[DeviceRow]
    arc: ArcUse | None
    l2arc_written_bytes_per_s: float | None
    log_bytes_per_s: float | None
    is_cpu_bound: bool
    missing: Many[str]


class ForcesRow(Stored):
    """Forced writes of a phase (kit.store.parts.forces): rates, and us of a group until it is safe.

    `records_per_s`: transactions. `write_p50_us`, `force_p50_us`: of the writes alone, and of the call that
    forces. `durable`: "durable", "not-durable", "memory" (sync=disabled), "unforced" or "unknown"; `why`: a
    part of a sentence. `lost`, `damaged`: of the records that were read back.
    """

    phase: str
    method: str
    record_bytes: Count
    per_force: Count
    direct: bool
    append: bool
    files: Count
    threads: Count
    group_commit: bool
    forces: Count
    records: Count
    overwritten: Count
    recovered: Count | None
    damaged: Count | None
    lost: Count
    records_per_s: float
    forces_per_s: float
    bytes_per_s: float
    mean_us: float
    p50_us: float | None
    p99_us: float | None
    write_p50_us: float | None
    force_p50_us: float | None
    durable: str
    why: str

    @property
    def may_lose(self) -> bool:
        """Whether a power loss may take what was forced; where it is not known, that is not said."""
        return self.durable not in ("durable", "unknown")


class Disclosure(Stored):
    """What a published figure needs beside it: sentences, and pairs of name and value."""

    stable_storage: Many[str] = ()
    materials: Many[tuple[str, str]] = ()
    dates: Many[tuple[str, str]] = ()


class Summary(Stored):
    """The whole file. `by_nature`: the one reason that every run of its kind has; None for others.

    `outcomes`: all that the verdict rests on, what decides first; `reasons`: the sentences of what decides,
    or the one of a valid run.
    """

    format: Format = FORMAT
    run: str | None = None
    workload: str | None = None
    title: str | None = None
    length: str | None = None
    verdict: Verdict
    reasons: Many[str] = ()
    outcomes: Many[Outcome] = ()
    known: Many[KnownState] = ()
    by_nature: str | None = None
    notes: Many[str] = ()
    tracebacks: Many[str] = ()
    clock: Clock | None = None
    precondition: Json | None = None
    accounting: Accounting
    versions: dict[str, str] | None = None
    reference: Reference | None = None
    rows: Many[Row] = ()
    bands: Many[PhaseBands] = ()
    clients: Many[ClientFigures] = ()
    expect: Many[JudgedExpectation] = ()
    power_loss: PowerLossResult | None = None
    observer_effect: Many[ObserverRow] = ()
    use: Many[PhaseUse] = ()
    forces: Many[ForcesRow] = ()
    slog: Many[SlogRow] = ()
    disclosure: Disclosure | None = None
    faults: Many[FaultRow] = ()
    fault_checks: Many[FaultChecks] = ()
    soak: Many[SoakPhase] = ()
    impact: Many[ImpactRow] = ()
    split: Many[SplitPhase] = ()
    network: Many[NetworkPhase] = ()
    observed: Many[ObservedRow] = ()
    special: Many[SpecialRow] = ()
    metadata: Many[MetadataRow] = ()
    caches: Many[CacheLife] = ()
    capacity: Many[CapacityRow] = ()

    @property
    def causes(self) -> tuple[Outcome, ...]:
        """Why the run is not valid: first what the verdict is by, whatever else is open."""
        decide = (each for each in self.outcomes if each.decides)
        return tuple(sorted(decide, key=lambda each: each.makes != self.verdict))

    @property
    def is_usable(self) -> bool:
        """Whether its figures can be used: not unknown, or only so by nature or for too few I/Os."""
        unknown = [each for each in self.causes if each.makes == "unknown"]
        few = bool(unknown) and all(each.of_amount for each in unknown)
        return self.verdict != "unknown" or self.by_nature is not None or few

    @property
    def state(self) -> str:
        """The verdict as people see it: an import that is unknown by its nature alone is no failure."""
        imported = self.is_unknown_by_nature and any(each.id == "IMPORTED" for each in self.causes)
        return "imported" if imported else verdict_name(self.verdict)

    @property
    def is_unknown_by_nature(self) -> bool:
        """Whether nothing but its nature keeps it from a verdict; a limit that is not met is one."""
        return self.verdict == "unknown" and self.by_nature is not None

    @property
    def tally(self) -> Tally:
        """How many outcomes there are of each kind."""
        return Tally.of(self.outcomes)

    @property
    def is_known(self) -> bool:
        """Whether it is not valid, and each reason is a known failure: nothing is new."""
        return self.verdict != "valid" and bool(self.causes) and all(each.known for each in self.causes)

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """The reasons for people: known failures are marked, and entries that excuse nothing are listed."""
        several = len(self.accounting.phases) > 1
        marked = [
            f"{each.phase}: {each.marked}" if several and each.phase else each.marked for each in self.causes
        ]
        return (*(marked or self.reasons), *self.known_notes)

    @property
    def known_notes(self) -> tuple[str, ...]:
        """The state of each entry that excuses nothing."""
        texts = {
            "passes": "passes now: remove it from [[known]].",
            "open": "is known, and could not be judged.",
            "over": "its entry in [[known]] is over: a failure counts again.",
        }
        return tuple(f"{each.check}: {texts[each.state]}" for each in self.known if each.state in texts)

    @property
    def rows_by_key(self) -> dict[tuple[str, str, str, str], Row]:
        """By phase, layer, op and tier."""
        return {(row.phase, row.layer, row.op, row.tier): row for row in self.rows}

    def rows_of(self, layer: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.layer == layer)

    @property
    def main_rows(self) -> tuple[Row, ...]:
        """Of each phase the server's rows; where no server was traced, those that it has."""
        at_server = {row.phase for row in self.rows if row.layer == SERVER}
        return tuple(row for row in self.rows if row.layer == SERVER or row.phase not in at_server)


def read_summary(run: RunDir) -> Summary:
    """summary.json of a run. Raises ConfigError."""
    path = run.path / "summary.json"
    return Summary.from_json(read_versioned(path), path)
