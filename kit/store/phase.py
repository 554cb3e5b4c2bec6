"""A phase of manifest.json: what was measured, the sums that must close, and what disturbed it.

Times in ns of the experiment since the run began. Counts are I/Os.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from kit.core.text import commas
from kit.store.checks.ids import UNKNOWN_ID
from kit.store.labels import Layer, Op, Tier
from kit.store.load.open_loop import CapacitySearch, OpenLoop
from kit.store.load.replayed import Replayed
from kit.store.parts.forces import Forces
from kit.store.parts.machine import DriveReport, Machine
from kit.store.parts.metadata import Metadata
from kit.store.parts.resource_use import ArcUse, CacheSample, CpuUse, DeviceUse, Restarted, SpecialUse
from kit.store.parts.schedule import Schedule
from kit.store.parts.split import ClientNetwork, PhaseSplit
from kit.store.stored import Count, Many, Nanoseconds, Signed, Stored, contradiction

ProblemCode = Literal[
    "arc-zil-counters", "array", "clock-offsets", "device-dram", "error", "fault-events", "host-health",
    "interrupted", "late-clients", "load", "mount-statistics", "not-undone", "precondition", "properties",
    "read-history", "scrub", "record", "resource-use", "schedule", "server-activity", "settings-changed",
    "stop-rules", "tier-tracer", "untraced", "warm-up",
]  # fmt: skip
# Kind of the event that ended the load of a soak before its time.
STOP_RULE = "stop-rule"


# Where a load went to, but for NFS: the dataset, bare devices of a role, or an array of them.
_TARGETS = "^(?:dataset|array|device:(?:data|cache|log|special))$"


class _Subject(Stored):
    """What a sum is of. `id`: of kit.store.checks.ids.

    `op`: of which I/Os; `of`: the device, host, pool or level; `out_of`: of which a part is allowed, such as
    the bytes that were written.
    """

    id: Annotated[str, Field(pattern="^[A-Z0-9]+(?:-[A-Z0-9]+){0,5}$", max_length=40)] = UNKNOWN_ID
    name: str
    source: str
    op: Op | None = None
    of: str = ""
    out_of: Count | None = None

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} ({self.source})"


class Check(_Subject):
    """One sum that must close. `source` names the counter; unit of all numbers: I/Os, if `name` has none.

    `instrument`: what made it; None in runs stored before it was recorded.
    """

    expected: Signed
    found: Signed
    tolerance: Count
    ok: bool
    instrument: str | None = None

    @property
    def closes(self) -> bool:
        """By its numbers, whatever `ok` says; what was stored as not ok stays so."""
        return self.ok and abs(self.expected - self.found) <= self.tolerance

    @classmethod
    def of_counts(
        cls, id_: str, name: str, source: str, expected: int, found: int, tolerance: int = 0, **subject: Any
    ) -> Self:
        """`found` held against `expected`. `subject`: op, of, out_of."""
        ok = abs(expected - found) <= tolerance
        return cls(
            id=id_, name=name, source=source, **subject,
            expected=expected, found=found, tolerance=tolerance, ok=ok,
        )  # fmt: skip

    def __str__(self) -> str:
        numbers = map(commas, (self.expected, self.found, self.tolerance))
        return "{}: expected {}, found {}, tolerance {}.".format(self.title, *numbers)


class Problem(Stored):
    """Why a measurement cannot be trusted. `code`: what reported it, for programs; `text`: for people.

    `ended_early`: it says why a load ended before its time; a phase that goes on no longer has it.
    """

    code: str
    text: str
    ended_early: bool = False

    def __str__(self) -> str:
        return self.text


def problems_of(code: ProblemCode, texts: Iterable[str]) -> tuple[Problem, ...]:
    """All `texts` with one code."""
    return tuple(Problem(code=code, text=text) for text in texts)


class Missing(_Subject):
    """A check that this host cannot make: it neither passes nor fails, and is always reported."""

    why: str


class InjectedFault(Stored):
    """A fault of an event. `declared`: the workload asks for it; `what`: in the words of its source."""

    declared: bool
    what: str


class Event(Stored):
    """A mark on the time axis. `end_ns`: None where it has no length."""

    time_ns: Nanoseconds
    end_ns: Nanoseconds | None = None
    kind: str
    text: str = ""
    fault: InjectedFault | None = None


class Extreme(Stored):
    """The exact smallest and largest latency of a host, op and tier; the bins know them only roughly."""

    layer: Layer
    host: str
    op: Op
    tier: Tier
    min_ns: Nanoseconds
    max_ns: Nanoseconds


class Sum(Stored):
    """The exact sum of the latencies of a host, op and tier, and of how many I/Os it is."""

    layer: Layer
    host: str
    op: Op
    tier: Tier
    ios: Count
    sum_ns: Annotated[int, Field(ge=0)]


class ClientRow(Stored):
    """When a client began and ended, None without an I/O. `skew_ns`: after the first I/O of any client."""

    host: str
    ios: Count
    first_ns: Nanoseconds | None
    last_ns: Nanoseconds | None
    skew_ns: Nanoseconds | None
    clock_offset_ns: Nanoseconds
    clock_error_ns: Count


class Shares(Stored):
    """I/Os by tier as the server's own counters have them, where it was not traced."""

    unit: str
    source: str
    counts: dict[Tier, Count]


class Slowest(Stored):
    """The slowest I/O of a client and op, and between which times it ended."""

    host: str
    op: Op
    latency_ns: Count
    from_ns: Nanoseconds
    to_ns: Nanoseconds


class ClientLog(Stored):
    """How clients counted I/Os without a log of each: per window of fio (`window_ns`), by completion latency.

    `time_error_ns`: how far outside of its interval an I/O may have ended, but for `ios_guessed`: each may be
    at the other end of a pause of fio.
    """

    kind: str
    latency: str
    window_ns: Nanoseconds
    time_error_ns: Nanoseconds
    ios_guessed: Count
    slowest: Many[Slowest] = ()


class Part(Stored):
    """A part of a phase that was continued, from 1. `end`: how it ended; only one that ended itself is whole.

    `apart_ios`: by so many I/Os the counts of clients and server may differ, because what they counted last
    did not arrive.
    """

    number: Count
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    client_ios: Count
    server_ios: Count | None
    end: Literal["itself", "stopped", "lost"]
    apart_ios: Count = 0


class ArrayOf(Stored):
    """The md array that a load went to. `members`: names of devices, in order."""

    level: Annotated[str, Field(pattern="^raid(?:0|1|5|10)$")]
    chunk_bytes: Annotated[Count, Field(ge=1)]
    members: Annotated[Many[str], Field(min_length=1)]

    @field_validator("members")
    @classmethod
    def _check_members(cls, members: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(members)) < len(members):
            raise ValueError("a device is a member once")
        return members


class Phase(Stored):
    """The entry of a phase. What only a server can report is None for an appliance.

    Imports have `tiers` and no `expected_tiers`, job or block size. `op`: "read", "write" or "mixed";
    `target`: where the load went to, None over NFS. `clients` are the devices where it went to devices, and
    `spans` the bytes of each that the load was between: the first, and that after the last; or the one
    `array`. `in_order_ns`: latencies in the order of their ends, where asked for.
    `block_bytes`: None where reads and writes have other sizes, which `block_bytes_by_op` has. `is_random`:
    None where jobs differ. `metadata_reads`: reads that fetched an indirect block or a dnode first, by where
    it was; of two such blocks the last counts. `cold`: ARC and L2ARC were empty at its begin; `caches`: how
    they got warm; `restarted`: of the server, before it.
    """

    name: str
    title: str | None = None
    op: Annotated[str, Field(pattern="^(?:read|write|mixed)$")] | None = None
    expected_tiers: Many[Tier] = ()
    tiers: Many[Tier] = ()
    target: Annotated[str, Field(pattern=_TARGETS)] | None = None
    spans: dict[str, tuple[Count, Count]] = Field(default_factory=dict)
    job: str | None = None
    is_random: bool | None = None
    block_bytes: Count | None = None
    block_bytes_by_op: dict[Op, Count] = Field(default_factory=dict)
    outstanding: Count | None = None
    interval_ns: Annotated[Nanoseconds, Field(gt=0)]
    client_ios: Count
    server_ios: Count | None
    lost_events: Count | None
    checks: Many[Check] = ()
    unavailable: Many[Missing] = ()
    events: Many[Event] = ()
    extremes: Many[Extreme] = ()
    sums: Many[Sum] = ()
    clients: Many[ClientRow] = ()
    problems: Many[Problem] = ()
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    shares: Shares | None = None
    machines: Many[Machine] = ()
    drives: Many[DriveReport] = ()
    client_log: ClientLog | None = None
    parts: Many[Part] = ()
    cpu: Many[CpuUse] = ()
    devices: Many[DeviceUse] = ()
    arc: ArcUse | None = None
    cold: bool = False
    caches: Many[CacheSample] = ()
    restarted: Restarted | None = None
    special: SpecialUse | None = None
    metadata_reads: dict[Tier, Count] = Field(default_factory=dict)
    array: ArrayOf | None = None
    in_order_ns: Many[Annotated[Count, Field(ge=1)]] = ()
    forces: Forces | None = None
    metadata: Metadata | None = None
    open: OpenLoop | None = None
    replayed: Replayed | None = None
    capacity: CapacitySearch | None = None
    schedule: Schedule | None = None
    split: PhaseSplit | None = None
    network: Many[ClientNetwork] = ()

    @model_validator(mode="after")
    def _forces_are_its_ios(self) -> Self:
        """A client that failed, or a part that has its counts alone, may have no forces."""
        if self.forces is None or self.problems or len(self.parts) > 1:
            return self
        if self.forces.group.ios != self.client_ios:
            raise contradiction(
                f"client_ios is {self.client_ios}, but forces.group has {self.forces.group.ios} latencies"
            )
        return self

    @property
    def load_span_ns(self) -> tuple[int, int]:
        """From the first I/O of a client to the last one; what is not known of any is as the phase's."""
        first = (row.first_ns for row in self.clients if row.first_ns is not None)
        last = (row.last_ns for row in self.clients if row.last_ns is not None)
        return min(first, default=self.start_ns), max(last, default=self.end_ns)

    @property
    def on_devices(self) -> bool:
        """Whether the load went to bare devices, or to an array of them."""
        return self.target not in (None, "dataset")
