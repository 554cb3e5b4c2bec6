"""One phase: the load on every client, and the instruments around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from kit.config.fio_job import FioJob
from kit.config.phase_table import Phase
from kit.core.errors import KitError, MeasurementUnknown
from kit.core.progress import Progress
from kit.core.seed import seed_for
from kit.hosts.base import HostLost
from kit.hosts.clock_offset import Offset
from kit.instruments import client_windows, histograms, sampler
from kit.instruments.arc_zil_counters import ArcZilCounters
from kit.instruments.array_state import ArrayState
from kit.instruments.base import Instrument, Latency, Measured, Report
from kit.instruments.clock_offsets import ClockOffsets
from kit.instruments.fault_events import FaultEvents
from kit.instruments.histograms import Grid
from kit.instruments.host_health import HostHealth
from kit.instruments.mount_stats import MountStatistics
from kit.instruments.read_history import ReadHistory
from kit.instruments.resource_use import ResourceUse
from kit.instruments.server_activity import ServerActivity
from kit.instruments.tier_tracer import TierTracer
from kit.load import fio_server
from kit.load.fio_latency_log import ClientLatencies
from kit.load.fio_windows import ClientWindows
from kit.load.phase_load import ClientResult, Load, LoadSpec, Worker
from kit.load.streamed_load import StreamedLoad
from kit.recovery import host_undos, undo
from kit.recovery.journal import Journal
from kit.run import parts, watch
from kit.run.joined_parts import STOPPED
from kit.setup.bench import Bench
from kit.setup.record import RunRecord
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
from kit.store.tables import CLIENT, DEVICE, LATENCY_SCHEMA
from kit.trace import nfsd_tracer, support
from kit.zfs import pool


@dataclass(frozen=True)
class PhaseResult:
    """`entry` goes into the manifest, `latency` into latency.parquet.

    `failed`: the load was not carried out.
    """

    entry: StoredPhase
    latency: pl.DataFrame
    interrupted: bool
    failed: bool


@contextmanager
def traced(
    bench: Bench, intervals_ns: Sequence[int], journal: Journal, record: RunRecord, *, writes: bool
) -> Iterator[nfsd_tracer.Tracer | None]:
    """One tracer for phases with these intervals, ended afterwards; None where the server cannot be traced.

    `writes`: whether any of them writes; else the probes that tell tiers of writes are left
    out. Problems of its end go into `record`. Raises HostError if it cannot be started.
    """
    if bench.storage is None or bench.storage.tracing.kind != "full" or not intervals_ns:
        yield None
        return
    server, place = bench.storage.server, nfsd_tracer.Place(bench.work_dir)
    tracing = replace(bench.storage.tracing, program=support.program(bench.storage.zfs, writes=writes))
    with journal.step("start the tracer"):
        # Its connection's end ends it, but not on this machine, nor that of a shell that went on without.
        undo.register(journal, "server", server, host_undos.Tracer(directory=place.directory))
        process = nfsd_tracer.start(server, place, bench.site.clock, intervals_ns, tracing)
    tracer = nfsd_tracer.Tracer(server, place, process)
    try:
        yield tracer
    finally:
        try:
            record.add_problems("tier-tracer", *tracer.stop())
        except HostLost:
            pass  # the run ends with it and says so; what is left there is in the journal
        except KitError as error:
            record.add_problems("tier-tracer", f"the tracer could not be ended: {error.message}")


def instruments(
    bench: Bench, phase: Phase, tracer: nfsd_tracer.Tracer | None, offsets: ClockOffsets, part: int = 1
) -> list[Instrument]:
    """Those that this testbed can have. They begin in this order and end in the other: the last is nearest
    to the load."""
    machines = bench.clocks.machines(list(bench.site.hosts.values()))
    chosen: list[Instrument] = [offsets, HostHealth(machines)]
    faults = FaultEvents(bench.site.devices) if bench.site.devices else None
    chosen += [faults] if faults else []
    period_ns = sampler.period_ns(phase.duration, bench.site.clock, of_array=bench.array is not None)
    output = parts.stem(bench.run_dir, phase.name, part)
    chosen.append(
        ResourceUse(
            machines,
            bench.site.server,
            bench.sampled(),
            period_ns,
            output,
            offsets,
            faults,
            phase.devices,
            bench.array.layout.level if bench.array else None,
        )
    )
    if bench.array and bench.site.server:
        array = bench.array
        chosen.append(ArrayState(bench.site.server, array.spec, array.layout, array.members))
    if phase.on_devices:
        return chosen
    local = not phase.over_nfs
    if bench.storage is None:
        return [*chosen, MountStatistics(bench.mounted, bench.mount_point)]
    storage, name = bench.storage, bench.storage.pool.name
    activity = ServerActivity(storage.server, name, storage.zfs, local=local)
    if tracer is None or local:
        # With sync=disabled nothing is committed.
        commits = local and storage.sync != "disabled"
        counters = ArcZilCounters(storage.server, name, storage.objset, storage.zfs, local=commits)
        history = ReadHistory(storage.server, name, storage.objset, activity, counters, local=local)
        return [*chosen, activity, counters, history]
    tiers = TierTracer(
        tracer,
        storage.server.name,
        bench.site.clock.to_host_ns(phase.interval),
        None if storage.sync == "disabled" else pool.log_vdev_ids(storage.server, storage.log_devices),
        bench.run_dir.raw / parts.trace_name(phase.name, part),
        streamed=phase.log == "histograms",
    )
    counters = ArcZilCounters(storage.server, name, storage.objset, storage.zfs, tiers)
    return [*chosen, activity, counters, tiers]


_COLLECTED = ("checks", "unavailable", "extremes", "sums", "problems")


@dataclass
class _Record:
    """What a phase collects until it is stored. `entry`: fields of the stored phase set by instruments."""

    problems: list[Problem] = field(default_factory=list)
    frames: list[pl.DataFrame] = field(default_factory=list)
    extremes: list[Extreme] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    unavailable: list[Missing] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    entry: dict[str, Any] = field(default_factory=dict)

    def add(self, code: ProblemCode, texts: Iterable[str]) -> None:
        self.problems += problems_of(code, texts)

    def add_exact(self, layer: str, extremes: Sequence[Extreme], sums: Sequence[Sum]) -> None:
        """Extremes and sums of what issued I/Os, at its layer."""
        self.extremes += [each.model_copy(update={"layer": layer}) for each in extremes]
        self.sums += [each.model_copy(update={"layer": layer}) for each in sums]

    def add_latency(self, instrument: Instrument, made: Latency) -> None:
        self.frames += made.rows
        self.extremes += made.extremes
        self.sums += made.sums
        self.add(instrument.code, made.problems)

    def add_report(self, instrument: Instrument, report: Report) -> None:
        for check in report.checks:
            if isinstance(check, Check):
                self.checks.append(check.model_copy(update={"instrument": instrument.code}))
            else:
                self.unavailable.append(check)
        self.events += report.events
        self.add(instrument.code, report.problems)
        self.entry |= report.entry


def run_phase(
    bench: Bench,
    phase: Phase,
    job: FioJob,
    tracer: nfsd_tracer.Tracer | None = None,
    progress: Progress | None = None,
) -> PhaseResult:
    """Measure one phase: begin the instruments, run the load, end them, make rows and the entry.

    What goes wrong with the load or the instruments becomes a problem of the result, which
    makes the verdict unknown; what was measured until then is kept. A lost host raises.
    """
    record = _Record()
    interrupted = False
    workers = bench.workers(phase.devices, over_nfs=phase.over_nfs)
    counted = phase.log == "histograms"
    part = parts.next_number(bench.run_dir, phase.name) if counted else 1
    load = load_on(bench, workers, phase.name, job, phase.duration, phase.interval if counted else None, part)
    if counted:
        watch.check_room(bench, workers, phase.duration, phase.interval)
    load.prepare()
    offsets = ClockOffsets(bench.clocks, [worker.host for worker in workers])
    around = instruments(bench, phase, tracer, offsets, part)
    with _abandoned_on_error(around):
        begun = _begin(around, record)
        complete = len(begun) == len(around)
        if complete:
            if isinstance(load, StreamedLoad):
                parts.write_begun(bench, phase, job, load, offsets)
            interrupted = drive(bench, load, phase.duration, around, progress)
        else:
            load.finish(False)
        for instrument in reversed(begun):
            instrument.end()
    collected = _collect(bench, load, offsets, record) if complete else []
    entry = _analyse(bench, phase, job, record, collected, begun[::-1])
    if phase.resumable:
        end: Literal["itself", "stopped"] = "stopped" if interrupted or load.failed else "itself"
        entry = entry.model_copy(update={"parts": (parts.part_of(entry, part, end),)})
    latency = pl.concat([pl.DataFrame(schema=LATENCY_SCHEMA), *record.frames])
    return PhaseResult(entry, latency, interrupted, load.failed and complete)


def load_on(
    bench: Bench,
    workers: Sequence[Worker],
    name: str,
    job: FioJob,
    duration_ns: int,
    histograms_ns: int | None = None,
    part: int = 1,
    *,
    logged: bool = True,
) -> Load:
    """One fio, or several together. `name` is the phase's; `histograms_ns`: see LoadSpec."""
    through_mount = bool(bench.mounted) and all(worker.by_client for worker in workers)
    spec = LoadSpec(
        name=name,
        job=job,
        work_dir=bench.work_dir,
        duration_ns=duration_ns,
        clock=bench.site.clock,
        # Each part asks for other blocks.
        seed=seed_for(bench.site.seed, name if part == 1 else f"{name} part {part}"),
        # libnfs needs a port that only root may have.
        ordinary=bench.ordinary and through_mount,
        mounted=through_mount,
        histograms_ns=histograms_ns,
        raw=bench.run_dir.raw,
        part=part,
        logged=logged,
    )
    return fio_server.load_on(workers, spec, bench.clocks)


@contextmanager
def _abandoned_on_error(around: Sequence[Instrument]) -> Iterator[None]:
    """Nothing that an instrument has started goes on after a phase that failed."""
    try:
        yield
    except BaseException:
        for instrument in around:
            instrument.abandon()
        raise


def _begin(around: Sequence[Instrument], record: _Record) -> list[Instrument]:
    """Those that have begun: all, or the ones before the first that says there is nothing to measure."""
    begun = []
    for instrument in around:
        try:
            instrument.begin()
        except MeasurementUnknown as error:
            record.add(instrument.code, [error.message])
            break
        begun.append(instrument)
    return begun


def drive(
    bench: Bench,
    load: Load,
    duration_ns: int,
    around: Sequence[Instrument] = (),
    progress: Progress | None = None,
) -> bool:
    """Start fio everywhere and wait for its end. Returns whether the user interrupted it."""
    interrupted = False
    try:
        load.start()
        watch.wait(bench, load, duration_ns, around, progress)
    except KeyboardInterrupt:
        interrupted = True
        load.problems.append(STOPPED)
    load.finish(interrupted)
    return interrupted


@dataclass(frozen=True)
class _Collected:
    """One client's I/Os on the reference's time axis, and how well that is known."""

    host: str
    ios: dict[str, int]
    latencies: ClientLatencies | ClientWindows
    offset: Offset


def _collect(bench: Bench, load: Load, offsets: ClockOffsets, record: _Record) -> list[_Collected]:
    """The results of the clients, but for one whose clock cannot be compared."""
    results: list[ClientResult] = load.collect(bench.run_dir)
    record.add("load", load.problems)
    collected = []
    for result in results:
        record.entry |= {"forces": result.forces} if result.forces else {}
        host = result.worker.host.name
        try:
            offset = offsets.between(host)
        except KitError as error:
            record.add(offsets.code, [f"the clock of {host} cannot be compared: {error.message}"])
            continue
        latencies = result.latencies.earlier(offset.ns)
        collected.append(_Collected(result.worker.name, result.ios, latencies, offset))
    return collected


def _analyse(
    bench: Bench,
    phase: Phase,
    job: FioJob,
    record: _Record,
    collected: Sequence[_Collected],
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
    measured = Measured(
        block_bytes=job.block_bytes_by_op,
        duration_ns=clock.to_host_ns(phase.duration),
        start_ns=start_ns,
        end_ns=max(last + phase.interval, start_ns),
        client_ios={client.host: client.ios for client in collected},
        run_origin_ns=bench.run_origin_ns,
        clock=clock,
        asynchronous=job.is_async_write,
        calls_per_io=job.writes_per_io,
        spare_bytes=job.spare_bytes,
    )
    for instrument in ended:
        record.add_report(instrument, instrument.report(measured))
    by_server = 0 if bench.storage and phase.over_nfs else None
    counts = {"server_ios": by_server, "lost_events": by_server}
    spans = bench.spans(job, phase.devices)
    return StoredPhase(
        name=phase.name,
        title=phase.title,
        op=job.op,
        is_random=job.is_random,
        expected_tiers=tuple(phase.tiers) if bench.storage else (),
        target=None if phase.over_nfs else phase.target,
        job=phase.job or None,
        block_bytes=job.block_bytes,
        block_bytes_by_op=job.block_bytes_by_op,
        outstanding=job.outstanding,
        interval_ns=phase.interval,
        client_ios=measured.ios,
        events=measured.during(record.events),
        in_order_ns=histograms.in_order_ns([c.latencies for c in collected], clock) if phase.in_order else (),
        clients=clients,
        start_ns=measured.start_ns,
        end_ns=measured.end_ns,
        **({name: tuple(getattr(record, name)) for name in _COLLECTED} | counts | record.entry | spans),
    )


def layer_of(phase: Phase) -> str:
    """Where fio's latencies are measured."""
    return DEVICE if phase.on_devices else CLIENT


def _client_rows(
    bench: Bench, phase: Phase, grid: Grid, collected: Sequence[_Collected], record: _Record
) -> tuple[ClientRow, ...]:
    """The clients' rows of latency.parquet, extremes and sums go into the record."""
    for client in collected:
        if isinstance(client.latencies, ClientWindows):
            _add_windows(phase, grid, client.host, client.latencies, record)
            continue
        cells = histograms.client_cells(client.latencies, grid)
        record.frames.append(histograms.frame(cells, phase.name, layer_of(phase), client.host))
        of_client = client.latencies, grid.clock, client.host
        record.add_exact(
            layer_of(phase), histograms.client_extremes(*of_client), histograms.client_sums(*of_client)
        )
    rows = histograms.client_rows(
        [(client.host, client.latencies, client.offset) for client in collected], grid, bench.run_origin_ns
    )
    counted = [(c.host, c.latencies) for c in collected if isinstance(c.latencies, ClientWindows)]
    if counted:
        record.entry["client_log"] = client_windows.client_log(counted, grid)
    record.add("late-clients", histograms.late_clients(rows, max(phase.interval, phase.duration // 10)))
    return tuple(rows)


def _add_windows(phase: Phase, grid: Grid, host: str, windows: ClientWindows, record: _Record) -> None:
    """The rows, extremes and sums of a client without a log of every I/O."""
    cells = client_windows.cells(windows, grid)
    record.frames.append(histograms.frame(cells, phase.name, layer_of(phase), host))
    of_client = windows, grid.clock, host
    record.add_exact(layer_of(phase), client_windows.extremes(*of_client), client_windows.sums(*of_client))
    record.add("load", client_windows.problems(windows, host))


def _grid(bench: Bench, phase: Phase, ended: Sequence[Instrument], collected: Sequence[_Collected]) -> Grid:
    """Time zero of the phase: when an instrument was due to print last before the first I/O of a client."""
    printed_ns = next((instrument.printed_ns for instrument in ended if instrument.printed_ns), ())
    starts = [client.latencies.first_ns for client in collected if client.latencies.ios] or list(
        printed_ns[:1]
    )
    clock = bench.site.clock
    interval_ns = clock.to_host_ns(phase.interval)
    first = min(starts, default=bench.run_origin_ns)
    origin = max(histograms.aligned(first, printed_ns, interval_ns), bench.run_origin_ns)
    return Grid(bench.run_origin_ns, origin, interval_ns, clock)
