"""A run: from a plan and a site to a run directory, step by step, and everything undone at the end."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from kit.config.fio_job import FioJob
from kit.config.tables.fault_table import STOPS_NFSD
from kit.config.tables.phase_table import Phase
from kit.config.workload import Warmup
from kit.core.errors import MeasurementUnknown, SafetyRefusal, error_text
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts
from kit.hosts.base import Host, HostLost
from kit.hosts.identity import read_identity
from kit.hosts.wrapped import Recorder
from kit.instruments import fault_events
from kit.plan import steps
from kit.plan.load_steps import begins_with_empty_log, removal, tracer_groups
from kit.plan.names import used_paths
from kit.plan.plan import Plan
from kit.recovery import clean, registry, work_directory
from kit.recovery.journal import Journal, Leftover
from kit.run import attempts, observer_effect, parts, schedule
from kit.run.joined_parts import joined
from kit.run.phase import PhaseResult, probes_of, run_phase, traced
from kit.run.power import loss, restart
from kit.run.resume import Earlier, check_same_hosts
from kit.run.teardown import explained, lab_ended, read_settings, tear_down, why_gone
from kit.run.warmup import advice, warm_up
from kit.setup import (
    appliance_setup,
    array_setup,
    device_setup,
    own_commands,
    reimport,
    server_setup,
    switch_settings,
)
from kit.setup import manifest as manifests
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.setup.record import RunRecord
from kit.setup.site import Site, recorded_site
from kit.sizes.workload_sizes import planned_tiers
from kit.store import json_file, run_directory, tables
from kit.store.phase import Phase as StoredPhase
from kit.trace.nfsd_tracer import Tracer
from kit.trace.support import TracingSupport
from kit.zfs import pool, settings_snapshot, zil
from kit.zfs.openzfs_version import ZfsVersion

# Gives fields of the manifest: what is found on the hosts before anything is set.
Look = Callable[[Site], dict[str, Any]]


@dataclass
class Execution:
    """What a run collected so far. `failure`: the error that ended it."""

    record: RunRecord
    interrupted: bool = False
    left: list[Leftover] = field(default_factory=list)
    failure: Exception | None = None


def execute(
    plan: Plan,
    site: Site,
    run_dir: run_directory.RunDir,
    progress: Progress,
    command: list[str],
    earlier: Earlier | None = None,
    journal: Journal | None = None,
    *,
    despite_warm_up: bool = False,
    observe: bool = False,
    live: bool = False,
    look: Look | None = None,
) -> Execution:
    """Run the plan. Steps; those in brackets need a server that can be logged into:

    1  check the tools and record versions
    2  [precondition the devices, while nothing is on them]
    3  [set the tunables; build the pool and the dataset; export it]
    4  mount the export on the clients
    5  fill the working set
    6  warm up [until the gate opens; without it the run ends here, but for `despite_warm_up`]
    7  [start the tracer;] measure phase by phase, store after each [with `observe`: then the observer effect]
    8  undo 5 to 3, whatever happened [and check that all is as it was]

    What `earlier`, an interrupted run, has measured is not measured again. `journal`: the run's, if it is
    locked already. `live`: the tracer's output comes while it is written. A problem with the measurement is
    in the manifest (verdict unknown), an error that ended the run in the outcome, after all else is stored.
    """
    record = RunRecord(manifests.new_manifest(plan, site, run_dir, command))
    outcome = Execution(record)
    if earlier:
        earlier.hand_on(record)
    recorder = Recorder(run_dir.raw / "commands.jsonl")
    site = recorded_site(site, recorder)
    with closing(recorder), ExitStack() as stack:
        journal = journal or stack.enter_context(Journal(run_dir.journal))
        entry = registry.enter(run_dir.path.name, run_dir.path)
        journal.begin(entry.run, plan.digest, registry.digest(entry.token))
        left_ns = earlier.left_ns if earlier else {}
        run = Context(plan, site, run_dir, journal, progress, record, entry.token, left_ns)
        _tell_notes(run)
        started, before = time.monotonic(), None
        try:
            before = _look_at_hosts(run, look)
            _run_steps(run, earlier, despite_warm_up, observe, live)
        except KeyboardInterrupt:
            outcome.interrupted = True
            record.add_problems("interrupted", "interrupted by the user")
        except Exception as error:
            outcome.failure = explained(error, site)
            record.add_problems("error", error_text(outcome.failure))
        finally:
            with ignore_interrupts(progress.note):
                _clean_up(run, outcome, before)
                if recorder.unwritten:
                    record.add_problems("record", f"the list of commands is not whole: {recorder.unwritten}")
                record.fill(wall_s=round(time.monotonic() - started, 1), ended=True)
                _store_last(run_dir, outcome)
    return outcome


def _look_at_hosts(run: Context, look: Look | None) -> settings_snapshot.Settings | None:
    """Refuse what an earlier run left; journal each machine; return the settings before the run."""
    with run.journal.step("look at the hosts"):
        _refuse_leftovers(run.site)
        for key, host in run.site.hosts.items():
            run.journal.know_host(key, read_identity(host))
        run.record.fill(**(look(run.site) if look else {}))
        before = read_settings(run.site)
        run.record.fill(**manifests.found(before or {}))
        return before


def _tell_notes(run: Context) -> None:
    """The plan's notes, for the user and for the report; a run that is resumed may have them already."""
    for note in run.plan.notes:
        run.progress.note(f"note: {note}")
        run.record.add_notes(*({note} - set(run.record.manifest.notes)))


def _store_last(run_dir: run_directory.RunDir, outcome: Execution) -> None:
    """As _store; an error is in the outcome."""
    try:
        _store(run_dir, outcome.record)
    except Exception as error:
        outcome.failure = outcome.failure or error


def _clean_up(run: Context, outcome: Execution, before: settings_snapshot.Settings | None) -> None:
    """Undo everything; what cannot be undone is in the outcome, and so is what failed here."""
    try:
        with run.progress.step("cleaning up"):
            outcome.left = tear_down(run, run.settings_of_boot[-1] if run.settings_of_boot else before)
        if run.journal.settled:
            registry.leave(run.run_id)
    except Exception as error:
        # The manifest must be stored, and what is left told.
        outcome.failure = outcome.failure or error
        outcome.left.append(Leftover("cleaning up", error_text(error)))
    if (why := why_gone(run.site)) and not (outcome.failure or outcome.interrupted):
        outcome.failure = lab_ended(why)
        run.record.add_problems("error", error_text(outcome.failure))
    if isinstance(outcome.failure, HostLost):
        outcome.failure.hint = _after_loss(run, outcome.left)
    run.record.add_problems("not-undone", *(each.problem for each in outcome.left))


def _after_loss(run: Context, left: Sequence[Leftover]) -> str:
    """What to do after a host was lost."""
    if left:
        return next((str(each) for each in left if each.waits), "")
    return (
        "nothing of the run is left on its hosts. `hsp run --resume "
        f"{shlex.quote(os.fspath(run.run_dir.path))}` measures what is missing"
    )


def _refuse_leftovers(site: Site) -> None:
    """Another run may have been killed before it could clean up. Raises SafetyRefusal."""
    for host in site.hosts.values():
        runs = work_directory.left_by(host)
        if runs:
            raise SafetyRefusal(
                f"{host.name} still has what the run {', '.join(runs)} made there ({work_directory.ROOT})",
                clean.advice(runs[0]),
            )


def _run_steps(
    run: Context, earlier: Earlier | None, despite_warm_up: bool, observe: bool, live: bool
) -> None:
    server, record, workload = run.site.server, run.record, run.plan.workload
    with run.progress.step("checking server and clients"), run.journal.step("check"):
        tools = _check_server(run, server) if server else None
        if observe:
            observer_effect.refuse_untraced(tools[1] if tools else None)
        record.add_versions(manifests.client_versions(run.plan, run.site))
        own_commands.check(run)
        if earlier and earlier.manifest:
            check_same_hosts(earlier.manifest.versions or {}, record.manifest.versions or {})
    for step in steps.work_directories(run.plan, run.names, run.token):
        run.perform(step)
    bench, jobs, measured = _set_up(run, server, tools)
    if measured and not workload.on_devices:
        bench = replace(bench, live=live)
        if workload.warmup:
            _warm_up(run, bench, workload.warmup, jobs[workload.warmup.job], despite=despite_warm_up)
        phases = [each for each in workload.phase if not each.on_devices]
        bench, _ = _run_phases(run, bench, jobs, phases)
    if observe:
        _observe(run, bench, jobs)
    if workload.power_loss:
        text = f"losing power {workload.power_loss.moments} times"
        with run.progress.step(text), run.journal.step("power losses"):
            told = loss.run_power_losses(run, bench, workload.power_loss)
        if told.stopped or told.scope == "server":
            # Without its pool, or since another boot, no setting is what the run has made it.
            return
    fault_events.check_alive(bench.site.devices)
    with (
        run.progress.step("checking that nothing was changed meanwhile"),
        run.journal.step("check settings"),
    ):
        record.add_problems("settings-changed", *_changed_settings(run, bench))


def _set_up(
    run: Context, server: Host | None, tools: tuple[ZfsVersion, TracingSupport] | None
) -> tuple[Bench, dict[str, FioJob], bool]:
    """The bench of the phases with a pool, after those on bare devices; their jobs.

    False: a load on devices failed, so nothing else is measured.
    """
    if server is None:
        return *appliance_setup.set_up(run), True
    prepared = device_setup.prepare(run, server)
    on_devices = [phase for phase in run.plan.workload.phase if phase.on_devices]
    if on_devices:
        bench = device_setup.bench(run, server, prepared)
        bench, measured = _run_phases(run, bench, run.plan.jobs, device_setup.possible(run))
        if tools is None or not measured:
            return bench, run.plan.jobs, measured
    assert tools is not None, "a workload has phases on devices, or a pool"
    made = server_setup.set_up(run, server, *tools, prepared.claims, prepared.run_origin_ns)
    return *made, True


def _check_server(run: Context, server: Host) -> tuple[ZfsVersion, TracingSupport] | None:
    """Whether every tool is there; None where no pool is wanted."""
    workload = run.plan.workload
    if any(not phase.over_nfs for phase in workload.phase):
        device_setup.check(run, server)
    return None if workload.on_devices else server_setup.check(run, server)


def _changed_settings(run: Context, bench: Bench) -> list[str]:
    manifest = run.record.manifest
    if bench.storage:
        return server_setup.changed_settings(bench.storage, manifest, run.switched)
    if bench.device_bytes and bench.site.server:
        return switch_settings.changed(bench.site.server, run.switched)
    return appliance_setup.changed_settings(bench, manifest)


def _warm_up(run: Context, bench: Bench, warmup: Warmup, job: FioJob, *, despite: bool) -> None:
    """Raises MeasurementUnknown if the gate stays closed, unless `despite`."""
    workload = run.plan.workload
    exported = run.exported(over_nfs=workload.over_nfs)
    with run.progress.step("warming up"), run.journal.step("warm up"), exported:
        gate = warm_up(bench, workload, job, run.progress)
    if gate is None:
        return
    run.record.fill(warmup=gate)
    run.record.add_problems("warm-up", *gate.problems)
    if gate.problems and not despite:
        text = "nothing was measured: after the warm-up the L2ARC is not as the workload asks for"
        raise MeasurementUnknown(text, advice(gate, warmup, planned_tiers(workload, run.plan.testbed)))


def _run_phases(
    run: Context, bench: Bench, jobs: dict[str, FioJob], phases: Sequence[Phase]
) -> tuple[Bench, bool]:
    """Those of the phases that are not measured yet, with a tracer for those in a row with the same probes;
    the bench after them, and False if a load failed."""
    for group in tracer_groups(phases, partial(probes_of, bench)):
        bench, goes_on = _run_group(run, bench, jobs, group)
        if not goes_on:
            return bench, False
    return bench, True


def _run_group(
    run: Context, bench: Bench, jobs: dict[str, FioJob], phases: Sequence[Phase]
) -> tuple[Bench, bool]:
    """As _run_phases, of phases with one tracer."""
    manifest = run.record.manifest
    measured = {phase.name for phase in manifest.phases if phase.name not in run.left_ns}
    skipped = manifest.skipped_phases
    missing = [phase for phase in phases if phase.name not in measured | skipped and phase.over_nfs]
    if phases[0].restart and phases[0] in missing:
        bench = restart.restarted(run, bench, phases[0])
    with ExitStack() as stack:
        intervals_ns = [phase.interval for phase in missing]
        kind: dict[str, Any] = {"writes": _writes(missing, jobs), **probes_of(bench, phases[0])}
        traced_by = traced(bench, intervals_ns, run.journal, run.record, **kind)
        has_tracer = bench.storage is not None and bench.storage.tracing.kind == "full" and missing
        with run.progress.step("starting the tracer") if has_tracer else nullcontext():
            tracer = stack.enter_context(traced_by)
        for phase in phases:
            if phase.name in skipped:
                continue
            if phase.name in measured:
                bench = _without(run, bench, phase)
                continue
            bench, result = _measure(run, bench, phase, jobs[phase.load], tracer)
            if result.interrupted:
                raise KeyboardInterrupt
            # A server that does not answer would take its deadline of every phase that follows.
            if why := result.why_stop:
                run.record.add_problems("load", f"stopped after phase {phase.name}: {why}")
                return bench, False
            fault_events.check_alive(bench.site.devices)
    return bench, True


def _observe(run: Context, bench: Bench, jobs: dict[str, FioJob]) -> None:
    """The observer effect of the tracer that the phases had; not after a load that failed."""
    workload = run.plan.workload
    if {phase.name for phase in workload.phase} - {phase.name for phase in run.record.manifest.phases}:
        run.record.add_notes("The observer effect was not measured: not all phases were.")
        return
    with run.progress.step("measuring the observer effect"), run.journal.step("observer effect"):
        finest_ns = min(phase.interval for phase in workload.phase if phase.over_nfs)
        file, writes = workload.file_set.file, _writes(workload.phase, jobs)
        # With the smallest sample's lines it costs most.
        one_in = min((phase.keys for phase in workload.phase if phase.keys), default=0)
        observer_effect.measure(bench, file, finest_ns, run.journal, run.record, writes=writes, one_in=one_in)


def _writes(phases: Sequence[Phase], jobs: dict[str, FioJob]) -> bool:
    return any("write" in jobs[phase.load].operations for phase in phases)


def _measure(
    run: Context, bench: Bench, phase: Phase, job: FioJob, tracer: Tracer | None
) -> tuple[Bench, PhaseResult]:
    """One phase, stored before the journal says that it is done: a run that goes on relies on it."""
    with run.progress.step(f"measuring: {phase.title}"), run.journal.step(f"phase {phase.name}"):
        bench = _without(run, bench, phase)
        if phase.cold:
            reimport.empty_caches(run, bench)
        before = run.record.manifest.phase_named(phase.name)
        if phase.on_devices and run.site.guard:
            # What lies on the devices is the run's own.
            paths = [run.site.device_paths[name] for name in phase.devices]
            run.site.guard.before_writing(paths, content=False)
        left = phase.model_copy(update={"duration": run.left_ns.get(phase.name, phase.duration)})
        result, tried = None, phase

        def attempt(longer: Phase, number: int) -> PhaseResult:
            nonlocal tried
            # Of an attempt that is cut off, what is there is no measure of the whole.
            tried = max(phase, longer, key=lambda each: each.duration)
            if bench.storage and begins_with_empty_log(run.plan, phase):
                zil.empty_log_command(bench.storage.pool.name).run(bench.storage.server)
            return run_phase(ready, longer, job, tracer, run.progress, number)

        try:
            with (
                array_setup.assembled(run, bench, phase) as with_array,
                schedule.prepared(run, with_array, phase) as ready,
            ):
                restarts = any(each.what in STOPS_NFSD for each in run.plan.workload.schedule(phase))
                # What is said of attempts is for the report; of looks at many rates for the terminal.
                tell = run.progress.note if phase.open else run.record.add_notes
                with run.exported(over_nfs=phase.over_nfs, restarts=restarts):
                    wanted = run.plan.workload.capacity
                    done = attempts.measured(left, attempt, run.run_dir.raw, tell, wanted)
                result = done
        except BaseException:
            # With a result: what was scheduled could not be undone after it.
            rescue = phase.log == "histograms" and not result
            if kept := parts.rescued(run.run_dir, tried, before) if rescue else result:
                _add(run.record, kept.entry, kept)
            raise
        entry = schedule.checked(bench, phase, result.entry)
        _add(run.record, joined(before, entry) if before else entry, result)
        _store(run.run_dir, run.record)
    return bench, result


def _add(record: RunRecord, entry: StoredPhase, measured: PhaseResult | parts.Partial) -> None:
    """A phase with its `entry`."""
    record.add_phase(entry)
    record.latency.append(measured.latency)
    if isinstance(measured, PhaseResult):
        record.keys += [] if measured.keys is None else [measured.keys]
        record.add_notes(*measured.notes)


def _without(run: Context, bench: Bench, phase: Phase) -> Bench:
    """The bench after the devices that are to be taken out before this phase are."""
    if not phase.remove or bench.storage is None:
        return bench
    remove, *begin_zil = removal(run.plan, run.names, phase.remove)
    remove.run(bench.storage.server)
    removed = used_paths(run.plan, run.names, phase.remove)
    pool.check_removed(bench.storage.server, bench.storage.pool, removed)
    for command in begin_zil:
        command.run(bench.storage.server)
    if phase.remove != "log":
        return bench
    return replace(bench, storage=replace(bench.storage, log_devices=()))


def _store(run_dir: run_directory.RunDir, record: RunRecord) -> None:
    empty = pl.DataFrame(schema=tables.LATENCY_SCHEMA)
    tables.write_latency(run_dir, pl.concat([empty, *record.latency]))
    if record.keys:
        tables.write_keys(run_dir, pl.concat(record.keys))
    json_file.write_json(run_dir.path / "manifest.json", record.manifest.as_json())
