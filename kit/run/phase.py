"""One phase: the load on every client, and the instruments around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import polars as pl

from kit.capacity.open_load import OpenLoad
from kit.capacity.replay_load import ReplayLoad
from kit.config.fio_job import FioJob
from kit.config.tables.capacity_table import OpenJob, ReplayJob
from kit.config.tables.force_table import ForceJob
from kit.config.tables.phase_table import ARRAY, Phase
from kit.config.tables.tree_table import MetadataJob
from kit.core.errors import KitError, MeasurementUnknown
from kit.core.progress import Progress
from kit.core.seed import seed_for
from kit.hosts.base import HostLost
from kit.instruments.arc_zil_counters import ArcZilCounters
from kit.instruments.array_state import ArrayState
from kit.instruments.base import Instrument
from kit.instruments.drives.health import DriveHealth
from kit.instruments.fault_events import FaultEvents
from kit.instruments.machine import sampler
from kit.instruments.machine.clock_offsets import ClockOffsets
from kit.instruments.machine.host_health import HostHealth
from kit.instruments.machine.resource_use import ResourceUse
from kit.instruments.machine.stop_rules import StopRules, limits
from kit.instruments.mount_stats import MountStatistics
from kit.instruments.network_floor import NetworkFloor
from kit.instruments.nfs_operations import NfsCounts, NfsOperations
from kit.instruments.read_history import ReadHistory
from kit.instruments.server_activity import ServerActivity
from kit.instruments.special_vdevs import SpecialVdevs
from kit.instruments.tier_tracer import TierTracer
from kit.load.launch import PhaseLoad
from kit.load.phase_load import LoadSpec, Worker
from kit.load.programs.force_load import ForceLoad
from kit.load.programs.metadata_load import MetadataLoad
from kit.recovery import host_undos, undo
from kit.recovery.journal import Journal
from kit.rules.cold import has_curve
from kit.run import parts, phase_record, schedule, watch
from kit.run.watch import LoadEnd
from kit.setup.bench import Bench, Storage
from kit.setup.record import RunRecord
from kit.store import under_way
from kit.store.parts.split import PhaseSplit
from kit.store.phase import Phase as StoredPhase
from kit.store.tables import LATENCY_SCHEMA
from kit.trace import nfsd_tracer, support
from kit.trace.tier import Vdevs


@dataclass(frozen=True)
class PhaseResult:
    """`entry` goes into the manifest, `latency` into latency.parquet.

    `failed`: the load was not carried out. `keys` goes into keys.parquet; None: no blocks were sampled.
    `notes`: for the report.
    """

    entry: StoredPhase
    latency: pl.DataFrame
    interrupted: bool
    failed: bool
    keys: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()

    @property
    def why_stop(self) -> str:
        """Why nothing more can be measured; "" if it can."""
        if any(problem.code == "array" for problem in self.entry.problems):
            return "its array lost a member"
        return "its load failed" if self.failed else ""


def is_split(bench: Bench, phase: Phase) -> bool:
    """Whether the phase needs the tracer with the probes of split.bt, and this server can have it."""
    return bool(phase.split_of) and bench.storage is not None and not bench.storage.tracing.no_split


def probes_of(bench: Bench, phase: Phase) -> dict[str, int]:
    """What `traced` has to be told so that its tracer has the probes of this phase, which others need not."""
    return {
        "split": is_split(bench, phase), "one_in": phase.keys or 0, "metadata": phase.metadata is not None,
    }  # fmt: skip


@contextmanager
def traced(
    bench: Bench,
    intervals_ns: Sequence[int],
    journal: Journal,
    record: RunRecord,
    *,
    writes: bool,
    split: bool = False,
    one_in: int = 0,
    metadata: bool = False,
) -> Iterator[nfsd_tracer.Tracer | None]:
    """One tracer for phases with these intervals, ended afterwards; None where the server cannot be traced.

    `writes`: whether any of them writes; else the probes that tell tiers of writes are left out. `split`:
    with the probes of phases with split_of. `one_in`: with a sample of blocks. `metadata`: with all
    operations of NFS. Problems of its end go into `record`. Raises HostError if it cannot be started.
    """
    if bench.storage is None or bench.storage.tracing.kind != "full" or not intervals_ns:
        yield None
        return
    server, place = bench.storage.server, nfsd_tracer.TracerFiles(bench.work_dir)
    special = bool(bench.storage.special_devices)
    program = support.program(
        bench.storage.zfs, writes=writes, split=split, special=special, one_in=one_in, metadata=metadata
    )
    tracing = replace(bench.storage.tracing, program=program)
    with journal.step("start the tracer"):
        # Its connection's end ends it, but not on this machine, nor that of a shell that went on without.
        mounts = nfsd_tracer.will_mount(server)
        undo.register(
            journal, "server", server, host_undos.UndoTracer(directory=place.directory, mounts=mounts)
        )
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
    chosen: list[Instrument] = [offsets, HostHealth(machines), *_null_calls(bench, phase, part)]
    drives, models = bench.drives()
    if bench.site.server and drives:
        chosen.append(DriveHealth(bench.site.server, drives, models, bench.once))
    declared = bench.schedule
    named = partial(schedule.is_named, actions=declared) if declared else None
    faults = FaultEvents(bench.site.devices, named) if bench.site.devices else None
    chosen += [faults] if faults else []
    of_caches = has_curve(phase, [each.scheduled for each in declared])
    period_ns = sampler.period_ns(
        phase.duration, bench.site.clock, of_array=bench.array is not None, of_caches=of_caches
    )
    chosen.append(
        ResourceUse(
            machines,
            bench.site.server,
            bench.sampled(),
            period_ns,
            parts.stem(bench.run_dir, phase.name, part),
            offsets,
            faults,
            phase.devices,
            bench.array.layout.level if bench.array else None,
            of_caches=of_caches,
        )
    )
    if bench.array and bench.site.server:
        array = bench.array
        chosen.append(ArrayState(bench.site.server, array.spec, array.layout, array.members))
    if phase.soak and phase.soak.limits and bench.site.server:
        paths = {name: each.path for name, each in bench.sampled().items() if name != ARRAY}
        watched = limits(phase.soak, {name: bench.endurance_bytes.get(name) for name in paths})
        chosen.append(StopRules(bench.site.server, paths, watched, bench.site.clock))
    if phase.on_devices:
        return chosen
    # Nearest to the load: it waits for the first I/O.
    timed = [schedule.Scheduler(bench, phase, declared)] if declared else []
    if bench.storage is None:
        return [*chosen, MountStatistics(bench.mounted, bench.mount_point), *timed]
    return [*chosen, *_of_pool(bench, phase, bench.storage, tracer, timed, part), *timed]


def _null_calls(bench: Bench, phase: Phase, part: int) -> list[Instrument]:
    """Far from the load: what counts calls at the server begins after them, and ends before."""
    if not (bench.mounted and phase.over_nfs):
        return []
    stem = parts.stem(bench.run_dir, phase.name, part)
    return [NetworkFloor(bench.mounted, bench.mount_point, bench.site.clock, stem)]


def _of_pool(
    bench: Bench,
    phase: Phase,
    storage: Storage,
    tracer: nfsd_tracer.Tracer | None,
    timed: Sequence[schedule.Scheduler],
    part: int,
) -> list[Instrument]:
    """Activity, counters, and the tracer's tiers; without a tracer the pool's history of reads."""
    local, name = not phase.over_nfs, storage.pool.name
    of_pool = storage.server, name, storage.objset, storage.zfs
    expected = schedule.expected(bench.schedule, timed)
    excused = schedule.excused(bench.schedule, replays=phase.replay is not None)
    activity = ServerActivity(storage.server, name, storage.zfs, local=local, expected=expected)
    if tracer is None or local:
        # With sync=disabled nothing is committed.
        commits = local and storage.sync != "disabled"
        counters = ArcZilCounters(*of_pool, local=commits, excused=excused)
        history = ReadHistory(storage.server, name, storage.objset, activity, counters, local=local)
        rebuild = [bench.rebuild] if phase.restart and bench.rebuild else []
        return [activity, *rebuild, counters, history]
    tiers = TierTracer(
        tracer,
        storage.server.name,
        bench.site.clock.to_host_ns(phase.interval),
        storage.vdevs,
        bench.run_dir.raw / parts.trace_name(phase.name, part),
        streamed=bench.live or phase.log == "histograms",
        split_of=phase.split_of if is_split(bench, phase) else "",
        sampled=(storage.dataset, phase.keys) if phase.keys else None,
    )
    counters = ArcZilCounters(*of_pool, tiers, excused=excused)
    made: list[Instrument] = [activity, counters, tiers]
    if phase.metadata:
        outer = NfsCounts(storage.server)
        made = [activity, counters, outer, tiers, NfsOperations(storage.server, tiers, outer)]
    if phase.restart and bench.rebuild:
        made.append(bench.rebuild)
    if storage.special_devices:
        made.append(SpecialVdevs(storage.server, name, storage.special_devices, tiers))
    return made


def run_phase(
    bench: Bench,
    phase: Phase,
    job: FioJob,
    tracer: nfsd_tracer.Tracer | None = None,
    progress: Progress | None = None,
    attempt: int = 1,
) -> PhaseResult:
    """Measure one phase: begin the instruments, run the load, end them, make rows and the entry.

    Each `attempt` asks for other blocks.

    What goes wrong with the load or the instruments becomes a problem of the result, which
    makes the verdict unknown; what was measured until then is kept. A lost host raises.
    """
    record = phase_record.PhaseRecord()
    load_end = LoadEnd("itself")
    workers = bench.workers(phase.devices, over_nfs=phase.over_nfs)
    counted = phase.log == "histograms"
    part = parts.next_number(bench.run_dir, phase.name) if counted else 1
    load = load_on(
        bench,
        workers,
        phase.name,
        _at_rate(job, phase),
        phase.duration,
        phase.interval if counted else None,
        part,
        attempt=attempt,
    )
    if counted:
        watch.check_room(bench, workers, phase.duration, phase.interval)
    load.prepare()
    offsets = ClockOffsets(bench.clocks, [worker.host for worker in workers])
    around = instruments(bench, phase, tracer, offsets, part)
    with _abandoned_on_error(around):
        begun = _begin(around, record)
        complete = len(begun) == len(around)
        if complete:
            if load.outputs:
                parts.write_begun(bench, phase, job, load, offsets)
            _tell_under_way(bench, phase, load, around, part)
            load_end = drive(bench, load, phase.duration, around, progress)
            record.add_early(load_end.early)
        else:
            load.finish(False)
        for instrument in reversed(begun):
            instrument.end()
    collected = phase_record.collect(bench, load, offsets, record) if complete else []
    entry = phase_record.analyse(bench, phase, job, record, collected, begun[::-1])
    if phase.split_of and entry.split is None:
        why = bench.storage.tracing.no_split if bench.storage else "an appliance has no login for the tracer"
        entry = entry.model_copy(update={"split": PhaseSplit(of=phase.split_of, why=why)})
    if phase.resumable:
        end: Literal["itself", "stopped"] = "stopped" if load_end.early or load.failed else "itself"
        entry = entry.model_copy(update={"parts": (parts.part_of(entry, part, end),)})
    latency = pl.concat([pl.DataFrame(schema=LATENCY_SCHEMA), *record.frames])
    keys = pl.concat(record.keys) if record.keys else None
    notes = tuple(record.notes)
    return PhaseResult(entry, latency, load_end.by == "user", load.failed and complete, keys, notes)


def _at_rate(job: FioJob, phase: Phase) -> FioJob:
    """The job of an open loop at the rate of the phase, which may be a look of a search."""
    return replace(job, open=phase.open) if isinstance(job, OpenJob) and phase.open else job


def _tell_under_way(
    bench: Bench, phase: Phase, load: PhaseLoad, around: Sequence[Instrument], part: int
) -> None:
    """Name the files that grow while the phase runs, if there are any. Raises HostError."""
    arriving = next((each.arriving for each in around if isinstance(each, TierTracer)), None)
    if arriving is None and not load.outputs:
        return
    trace, vdevs = arriving or (None, Vdevs(None))
    under_way.write(bench.run_dir, under_way.UnderWay(
        phase=phase.name, part=part, duration_ns=phase.duration, interval_ns=phase.interval,
        clock=bench.site.clock.kind, dilation=bench.site.clock.dilation, trace=trace,
        log_vdevs=None if vdevs.log is None else tuple(sorted(vdevs.log)),
        special_vdevs=tuple(sorted(vdevs.special)),
        clients=tuple(path.name for path in load.outputs),
    ))  # fmt: skip


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
    attempt: int = 1,
) -> PhaseLoad:
    """One fio, or several together. `name` is the phase's; `histograms_ns`: see LoadSpec."""
    drawn = f"{name} attempt {attempt}" if attempt > 1 else name
    through_mount = bool(bench.mounted) and all(worker.by_client for worker in workers)
    spec = LoadSpec(
        name=name,
        job=job,
        work_dir=bench.work_dir,
        duration_ns=duration_ns,
        clock=bench.site.clock,
        # Each part asks for other blocks.
        seed=seed_for(bench.site.seed, drawn if part == 1 else f"{drawn} part {part}"),
        # libnfs needs a port that only root may have.
        ordinary=bench.ordinary and through_mount,
        mounted=through_mount,
        histograms_ns=histograms_ns,
        raw=bench.run_dir.raw,
        part=part,
        logged=logged,
    )
    kinds: dict[type[FioJob], type[PhaseLoad]] = {
        ForceJob: ForceLoad, MetadataJob: MetadataLoad, OpenJob: OpenLoad,
        ReplayJob: ReplayLoad,
    }  # fmt: skip
    return kinds.get(type(job), PhaseLoad)(workers, spec, bench.clocks)


@contextmanager
def _abandoned_on_error(around: Sequence[Instrument]) -> Iterator[None]:
    """Nothing that an instrument has started goes on after a phase that failed."""
    try:
        yield
    except BaseException:
        for instrument in around:
            instrument.abandon()
        raise


def _begin(around: Sequence[Instrument], record: phase_record.PhaseRecord) -> list[Instrument]:
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
    load: PhaseLoad,
    duration_ns: int,
    around: Sequence[Instrument] = (),
    progress: Progress | None = None,
) -> LoadEnd:
    """Start fio everywhere and wait for its end."""
    try:
        load.start()
        end = watch.wait(bench, load, duration_ns, around, progress)
    except KeyboardInterrupt:
        end = LoadEnd("user", "interrupted by the user: the load was stopped early")
    load.finish(end.by in ("user", "instrument"))
    return end
