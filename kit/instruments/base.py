"""The protocol of instruments, which observe the load of a phase.

A phase calls, on each of its instruments: `begin`, then the load runs, then `end`, `latency` and `report`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kit.core.clock import Clock
from kit.hosts.base import Host
from kit.instruments.histograms import IntervalGrid
from kit.store.parts.metadata import Metadata
from kit.store.phase import Check, Event, Extreme, Missing, ProblemCode, Sum

Json = dict[str, Any]
_TAIL_HEADER = re.compile(r"^==> (\S+) <==$", re.MULTILINE)


@dataclass(frozen=True)
class MeasuredPhase:
    """A phase after its load. `start_ns`, `end_ns`: in ns of the experiment since the run began.

    `block_bytes`: of one I/O, by each op that the load does; 0: of several sizes. `duration_ns`: of the load,
    on the hosts' clock.
    `client_ios`: fio's counts by client and op. `run_origin_ns`: the reference clock at the start of the
    run. `asynchronous`: its writes return before they are on stable storage. `calls_per_io`: WRITEs that the
    storage gets for an I/O, None where that is not known; each I/O may have `spare_bytes` more than
    `block_bytes` of them, of a page cache that writes whole pages. `metadata`: of a tree.
    """

    block_bytes: Mapping[str, int]
    duration_ns: int
    start_ns: int
    end_ns: int
    client_ios: Mapping[str, Mapping[str, int]]
    run_origin_ns: int
    clock: Clock
    asynchronous: bool = False
    calls_per_io: int | None = 1
    spare_bytes: int = 0
    metadata: Metadata | None = None

    @property
    def ios(self) -> int:
        """The sum over all clients and ops."""
        return sum(sum(by_op.values()) for by_op in self.client_ios.values())

    @property
    def ios_by_op(self) -> dict[str, int]:
        """The sum over all clients, by each op that the load does."""
        return {op: sum(ios.get(op, 0) for ios in self.client_ios.values()) for op in self.block_bytes}

    def calls(self, ios: Mapping[str, int]) -> dict[str, int]:
        """Calls of the storage for these I/Os, by op; without writes where they are not known."""
        per_io = {"read": 1, "write": self.calls_per_io}
        return {op: count * calls for op, count in ios.items() if (calls := per_io[op]) is not None}

    @property
    def call_bytes(self) -> dict[str, int]:
        """Bytes of one call, by each op of which all calls have one size."""
        return {op: size // self.calls({op: 1}).get(op, 1) for op, size in self.block_bytes.items() if size}

    def during(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """The events of the phase, by time. Those outside belong to no measurement."""
        within = [
            event
            for event in events
            if event.time_ns <= self.end_ns and (event.end_ns or event.time_ns) >= self.start_ns
        ]
        return tuple(sorted(within, key=lambda event: (event.time_ns, event.kind)))

    def experiment_ns(self, host_ns: int) -> int:
        """A time of the reference clock, in ns of the experiment since the run began; not before it."""
        return self.clock.from_host_ns(max(0, host_ns - self.run_origin_ns))


@dataclass
class InstrumentLatency:
    """What an instrument adds to latency.parquet, and the exact extremes and sums of the same I/Os.

    `keys`: rows of keys.parquet; `notes`: for the report.
    """

    rows: list[pl.DataFrame] = field(default_factory=list)
    extremes: list[Extreme] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    keys: list[pl.DataFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class InstrumentReport:
    """What an instrument adds to the stored phase; `entry`: other fields of it."""

    checks: list[Check | Missing] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    entry: Json = field(default_factory=dict)


def unknown_calls(name: str, source: str, **subject: Any) -> Missing:
    """Instead of a check of calls (`name`), where it is not known how many a load makes. `subject`: of."""
    why = (
        "threads share a file, or nothing forces: records of several forces go out together, at times that "
        "are not those of the forces"
    )
    return Missing(id="NFS-CALLS", name=name, source=source, op="write", why=why, **subject)


def read_files(host: Host, paths: Sequence[str], *, check: bool = False) -> dict[str, str]:
    """Contents by path, without files that are not there. Raises HostError."""
    # -v prints the name of each file.
    return split_tail(host.run(["tail", "-v", "-n", "+1", *paths], check=check).stdout)


def split_tail(output: str) -> dict[str, str]:
    """Contents by file name, from the output of `tail -v -n +1`."""
    parts = _TAIL_HEADER.split(output)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def minus(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """The change of counters by name; one that was not there before began at 0."""
    return {name: value - before.get(name, 0) for name, value in after.items()}


class Instrument:
    """One instrument for one phase. Each method may raise HostError; the phase then ends.

    `code`: of its problems and checks, in the manifest.
    """

    code: ProblemCode

    # Times of the instrument's own snapshots, on the reference clock; the intervals are aligned to them.
    printed_ns: Sequence[int] = ()

    def begin(self) -> None:
        """Before the load. Raises MeasurementUnknown if the load is useless without this instrument."""

    def running(self) -> bool:
        """Whether it still measures; the load is stopped if not."""
        return True

    def stop(self) -> bool:
        """Whether the load has to end before its time; what it did until then is good."""
        return False

    def end(self) -> None:
        """After the load."""

    def abandon(self) -> None:
        """Instead of the end, where the phase failed: stop what it has started on hosts."""

    def latency(self, phase: str, grid: IntervalGrid) -> InstrumentLatency:
        """Rows of the instrument's own layer. `phase`: its name."""
        return InstrumentLatency()

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        """Checks, events and problems."""
        return InstrumentReport()
