"""What a phase collects, and its entry and rows for the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kit.config.fio_job import FioJob
from kit.config.tables.capacity_table import ReplayJob
from kit.config.tables.phase_table import Phase
from kit.core.errors import KitError
from kit.hosts.clock_offset import Offset
from kit.instruments import client_windows, histograms
from kit.instruments.base import Instrument, InstrumentLatency, InstrumentReport, MeasuredPhase
from kit.instruments.histograms import IntervalGrid
from kit.instruments.machine.clock_offsets import ClockOffsets
from kit.load.fio_latency_log import ClientLatencies
from kit.load.fio_windows import ClientWindows
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult
from kit.run import parts
from kit.setup.bench import Bench
from kit.store.load.open_loop import OpenLoop
from kit.store.load.replayed import Replayed
from kit.store.parts.forces import Forces
from kit.store.parts.metadata import Metadata
from kit.store.phase import (
    Check,
    ClientRow,
    Event,
    Extreme,
    Missing,
    Problem,
    ProblemCode,
    Sum,
    problems_of,
)
from kit.store.phase import Phase as StoredPhase
from kit.store.tables import CLIENT, DEVICE

_PARTS: dict[type[Any], str] = {
    Forces: "forces",
    Metadata: "metadata",
    OpenLoop: "open",
    Replayed: "replayed",
}
_COLLECTED = ("checks", "unavailable", "extremes", "sums", "problems")


@dataclass
class PhaseRecord:
    """What a phase collects until it is stored. `entry`: fields of the stored phase set by instruments."""

    problems: list[Problem] = field(default_factory=list)
    frames: list[pl.DataFrame] = field(default_factory=list)
    keys: list[pl.DataFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extremes: list[Extreme] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    unavailable: list[Missing] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    entry: dict[str, Any] = field(default_factory=dict)

    def add(self, code: ProblemCode, texts: Iterable[str]) -> None:
        self.problems += problems_of(code, texts)

    def add_early(self, text: str) -> None:
        """Why the load ended before its time; "" if it did not."""
        self.problems += [Problem(code="load", text=text, ended_early=True)] if text else []

    def add_exact(self, layer: str, extremes: Sequence[Extreme], sums: Sequence[Sum]) -> None:
        """Extremes and sums of what issued I/Os, at its layer."""
        self.extremes += [each.model_copy(update={"layer": layer}) for each in extremes]
        self.sums += [each.model_copy(update={"layer": layer}) for each in sums]

    def add_latency(self, instrument: Instrument, made: InstrumentLatency) -> None:
        self.frames += made.rows
        self.keys += made.keys
        self.notes += made.notes
        self.extremes += made.extremes
        self.sums += made.sums
        self.add(instrument.code, made.problems)

    def add_report(self, instrument: Instrument, report: InstrumentReport) -> None:
        for check in report.checks:
            if isinstance(check, Check):
                self.checks.append(check.model_copy(update={"instrument": instrument.code}))
            else:
                self.unavailable.append(check)
        self.events += report.events
        self.add(instrument.code, report.problems)
        self.entry |= report.entry


@dataclass(frozen=True)
class Collected:
    """One client's I/Os on the reference's time axis, and how well that is known."""

    host: str
    ios: dict[str, int]
    latencies: ClientLatencies | ClientWindows
    offset: Offset


def collect(bench: Bench, load: PhaseLoad, offsets: ClockOffsets, record: PhaseRecord) -> list[Collected]:
    """The results of the clients, but for one whose clock cannot be compared."""
    results: list[ClientResult] = load.collect(bench.run_dir)
    record.add("load", load.problems)
    collected = []
    for kind, name in _PARTS.items():
        if made := [result.part for result in results if isinstance(result.part, kind)]:
            record.entry[name] = kind.together(made)
    if isinstance(replayed := record.entry.get("replayed"), Replayed):
        record.add("load", replayed.problems())
        record.notes.append(f"{load.spec.name}: {replayed.sentence()}")
    for result in results:
        host = result.worker.host.name
        try:
            offset = offsets.between(host)
        except KitError as error:
            record.add(offsets.code, [f"the clock of {host} cannot be compared: {error.message}"])
            continue
        latencies = result.latencies.earlier(offset.ns)
        collected.append(Collected(result.worker.name, result.ios, latencies, offset))
    return collected


def analyse(
    bench: Bench,
    phase: Phase,
    job: FioJob,
    record: PhaseRecord,
    collected: Sequence[Collected],
    ended: Sequence[Instrument],
) -> StoredPhase:
    """The rows go into the record. A source that cannot be read is a problem; the others count.

    Counts and tiers that only a server has are None and empty without one.
    """
    clock, grid = bench.site.clock, _grid(bench, phase, ended, collected)
    clients = _client_rows(bench, phase, grid, collected, record)
    for instrument in ended:
        record.add_latency(instrument, instrument.latency(phase.name, grid))
    start_ns = clock.from_host_ns(grid.phase_origin_ns - bench.run_origin_ns)
    last = max((int(frame["time_ns"].max() or 0) for frame in record.frames if frame.height), default=0)  # type: ignore[arg-type]
    end_ns = max(last + phase.interval, start_ns)
    # A tree, and a load that was stopped, may be done long before.
    took_ns = min(phase.duration, end_ns - start_ns)
    record.add("late-clients", histograms.late_clients(clients, max(phase.interval, took_ns // 10)))
    measured = MeasuredPhase(
        block_bytes=_sizes(job),
        duration_ns=clock.to_host_ns(took_ns),
        start_ns=start_ns,
        end_ns=end_ns,
        client_ios={client.host: client.ios for client in collected},
        run_origin_ns=bench.run_origin_ns,
        clock=clock,
        asynchronous=job.is_async_write,
        calls_per_io=job.writes_per_io,
        spare_bytes=job.spare_bytes,
        metadata=record.entry.get("metadata"),
    )
    for instrument in ended:
        record.add_report(instrument, instrument.report(measured))
    counts = dict.fromkeys(("server_ios", "lost_events"), 0 if bench.storage and phase.over_nfs else None)
    spans = bench.spans(job, phase.devices)
    return StoredPhase(
        **parts.about(phase, job),
        expected_tiers=tuple(phase.tiers) if bench.storage else (),
        cold=phase.cold,
        client_ios=measured.ios,
        events=measured.during(record.events),
        in_order_ns=histograms.in_order_ns([c.latencies for c in collected], clock) if phase.in_order else (),
        clients=clients,
        start_ns=measured.start_ns,
        end_ns=measured.end_ns,
        **({name: tuple(getattr(record, name)) for name in _COLLECTED} | counts | record.entry | spans),
    )


def _sizes(job: FioJob) -> dict[str, int]:
    """Bytes of an I/O, by op; those of a replay have several sizes, which 0 stands for."""
    return dict.fromkeys(job.operations, 0) if isinstance(job, ReplayJob) else job.block_bytes_by_op


def layer_of(phase: Phase) -> str:
    """Where fio's latencies are measured."""
    return DEVICE if phase.on_devices else CLIENT


def _client_rows(
    bench: Bench, phase: Phase, grid: IntervalGrid, collected: Sequence[Collected], record: PhaseRecord
) -> tuple[ClientRow, ...]:
    """The clients' rows of latency.parquet, extremes and sums go into the record."""
    layer = layer_of(phase)
    for client in collected:
        if isinstance(client.latencies, ClientWindows):
            cells = client_windows.cells(client.latencies, grid)
            record.add("load", client_windows.problems(client.latencies, client.host))
        else:
            cells = histograms.client_cells(client.latencies, grid)
        record.frames.append(histograms.frame(cells, phase.name, layer, client.host))
        of_client = client.latencies, grid.clock, client.host
        record.add_exact(layer, histograms.client_extremes(*of_client), histograms.client_sums(*of_client))
    rows = histograms.client_rows(
        [(client.host, client.latencies, client.offset) for client in collected], grid
    )
    counted = [(c.host, c.latencies) for c in collected if isinstance(c.latencies, ClientWindows)]
    if counted:
        record.entry["client_log"] = client_windows.client_log(counted, grid)
    return tuple(rows)


def _grid(
    bench: Bench, phase: Phase, ended: Sequence[Instrument], collected: Sequence[Collected]
) -> IntervalGrid:
    """Time zero of the phase: when an instrument was due to print last before the first I/O of a client."""
    printed_ns = next((instrument.printed_ns for instrument in ended if instrument.printed_ns), ())
    starts = [client.latencies.first_ns for client in collected if client.latencies.ios] or list(
        printed_ns[:1]
    )
    clock = bench.site.clock
    interval_ns = clock.to_host_ns(phase.interval)
    first = min(starts, default=bench.run_origin_ns)
    origin = max(histograms.aligned(first, printed_ns, interval_ns), bench.run_origin_ns)
    return IntervalGrid(bench.run_origin_ns, origin, interval_ns, clock)
