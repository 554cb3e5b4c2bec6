"""A run: from a plan and a site to a run directory, step by step, and everything undone at the end."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from kit.config.workload import Phase
from kit.core.errors import HostError, KitError, SafetyRefusal, error_text
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.hosts.recorded import Recorder
from kit.instruments import read_history, server_activity
from kit.nfs import export as nfs
from kit.nfs import libnfs
from kit.plan.plan import Plan
from kit.recovery import undo, work_directory
from kit.recovery.journal import Journal, Leftover
from kit.run import fault_events, power_loss, precondition_devices, setup
from kit.run import manifest as manifests
from kit.run.phase import Bench, PhaseResult, run_phase, traced
from kit.run.resume import Earlier, check_same_hosts, end_of
from kit.run.site import Site, recorded_site
from kit.run.warmup import warm_up
from kit.store import run_directory
from kit.trace.nfsd_tracer import Tracer
from kit.trace.support import find_tracing
from kit.zfs import openzfs_version, pool, settings_snapshot
from kit.zfs.tunables import read_tunables


@dataclass
class Outcome:
    """What a run collected so far; every field is what the manifest or the store will hold."""

    manifest: dict[str, Any]
    latency: list[pl.DataFrame] = field(default_factory=list)
    interrupted: bool = False
    left: list[Leftover] = field(default_factory=list)


def execute(
    plan: Plan,
    site: Site,
    run_dir: run_directory.RunDir,
    progress: Progress,
    command: list[str],
    earlier: Earlier | None = None,
) -> Outcome:
    """Run the plan. Steps:

    1  check the instruments and record versions
    2  precondition the devices, while nothing is on them
    3  set the tunables
    4  build the pool and the dataset
    5  export it and mount it on the clients
    6  fill the working set, snapshot it
    7  warm up until the gate opens
    8  start the tracer; measure phase by phase, store after each; end the tracer
    9  undo 5 to 3, whatever happened, and check that all is as it was

    With `earlier`, the phases that an interrupted run has measured are not measured again.

    A problem with the measurement is in the manifest (verdict unknown); a lost host raises
    after what was measured has been stored.
    """
    started = time.monotonic()
    outcome = Outcome(manifests.new_manifest(plan, site, run_dir, command))
    if earlier:
        earlier.hand_on(outcome.manifest, outcome.latency)
    recorder = Recorder(run_dir.raw / "commands.jsonl")
    site = recorded_site(site, recorder)
    with closing(recorder), Journal(run_dir.journal, run_dir.path.name, plan.digest) as journal:
        was: settings_snapshot.Settings | None = None
        try:
            with journal.step("look at the hosts"):
                _refuse_leftovers(site)
                was = settings_snapshot.read(site.server, tuple(site.device_paths.values()))
            _run_steps(plan, site, run_dir, progress, journal, outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
            outcome.manifest["problems"].append("interrupted by the user")
        except Exception as error:
            outcome.manifest["problems"].append(error_text(error))
            raise
        finally:
            with ignore_interrupts(progress.note), progress.step("cleaning up"):
                outcome.left = tear_down(journal, site, was)
            outcome.manifest["problems"] += [f"not undone: {left}" for left in outcome.left]
            if recorder.unwritten:
                outcome.manifest["problems"].append(
                    f"what was run is not all written down: {recorder.unwritten}"
                )
            outcome.manifest["wall_s"] = round(time.monotonic() - started, 1)
            outcome.manifest["ended"] = True
            _store(run_dir, outcome)
    return outcome


def tear_down(journal: Journal, site: Site, was: settings_snapshot.Settings | None) -> list[Leftover]:
    """Undo everything that is pending, then compare. Returns what is not as it was."""
    hosts = site.hosts
    left = journal.teardown(
        lambda item, kinds: undo.undo(item, hosts, kinds), lambda item: undo.by_hand(item, hosts)
    )
    if was is None:
        return left
    try:
        now = settings_snapshot.read(site.server, tuple(site.device_paths.values()))
    except KitError as error:
        return [*left, Leftover("settings of the server", f"cannot be compared: {error.message}")]
    return left + [
        Leftover(leak, "it was changed and is not what it was")
        for leak in settings_snapshot.between(was, now)
    ]


def _refuse_leftovers(site: Site) -> None:
    """Another run may have been killed before it could clean up. Raises SafetyRefusal."""
    for host in site.hosts.values():
        runs = work_directory.left_by(host)
        if runs:
            raise SafetyRefusal(
                f"{host.name} still has what the run {', '.join(runs)} made there ({work_directory.ROOT})",
                f"if that run still goes on, wait for it; else `hsp clean` its directory ({runs[0]}) on the "
                "machine that made it",
            )


def _run_steps(
    plan: Plan,
    site: Site,
    run_dir: run_directory.RunDir,
    progress: Progress,
    journal: Journal,
    outcome: Outcome,
) -> None:
    manifest, workload = outcome.manifest, plan.workload
    with progress.step("checking server and clients"), journal.step("check"):
        zfs = openzfs_version.read(site.server)
        tracing = find_tracing(site.server, zfs, plan.testbed.server.trace)
        manifest["versions"].update(manifests.versions(site, zfs, tracing))
        check_same_hosts(manifest.pop("earlier_versions", {}), manifest["versions"])
        manifests.tell_limits(manifest, site, zfs, tracing, progress)
        if workload.nfs.engine == "libnfs":
            for client in site.clients:
                libnfs.check_client(client.host)
    work_dir = setup.make_work_directories(site, run_dir, journal)
    setup.claim_devices(plan, site, run_dir, journal)
    if workload.precondition and "precondition" not in manifest:
        asked = workload.precondition.writes
        with progress.step("preconditioning the devices") if asked else nullcontext():
            precondition_devices.precondition_all(
                workload.precondition, plan.testbed, site, run_dir, work_dir, journal, progress, manifest
            )
    run_origin_ns = read_clock_ns(site.server) - site.clock.to_host_ns(end_of(manifest))
    with progress.step("building the pool"):
        history = read_history.tunables(plan.tunables) if tracing.kind == "none" else ()
        setup.set_tunables((*plan.tunables, *history), site, journal, manifest)
        if site.guard:
            # Preconditioning may have taken hours, and what lies on the devices is its own.
            site.guard.before_writing(content=not setup.is_filled(manifest))
        site = setup.with_parts(plan, site, journal)
        built, dataset = setup.build_pool(plan, site, run_dir, journal, manifest)
    with progress.step("exporting it over NFS"):
        path = pool.mountpoint(site.server, dataset)
        mount = setup.share(plan, site, run_dir, path, journal, manifest)
        plan = setup.reaching(plan, site, path, manifest)
    with progress.step("filling the working set"), journal.step("fill"):
        setup.fill(plan, site, path)
        pool.snapshot(site.server, built, f"{dataset}@filled")
        for client in site.clients if workload.nfs.engine == "kernel" else ():
            nfs.check_file(client.host, f"{mount}/{workload.working_set.file}", workload.working_set.size)
    properties = pool.dataset_properties(site.server, dataset, ["objsetid"])
    bench = Bench(
        site=site,
        run_dir=run_dir,
        pool=built,
        objset=int(properties["objsetid"]),
        log_devices=setup.paths(plan, site, "log"),
        mount=mount,
        work_dir=work_dir,
        size_bytes=workload.working_set.size,
        run_origin_ns=run_origin_ns,
        zfs=zfs,
        tracing=tracing,
        clocks=Clocks(site.server),
    )
    if workload.warmup:
        with progress.step("warming up"), journal.step("warm up"):
            file = f"{path}/{workload.working_set.file}"
            gate = warm_up(bench, workload.warmup, plan.jobs[workload.warmup.job], file)
            manifest["warmup"] = gate.as_json()
            manifest["problems"] += gate.problems
    _run_phases(plan, bench, progress, journal, outcome)
    if workload.power_loss:
        text = f"losing power {workload.power_loss.moments} times"
        with progress.step(text), journal.step("power losses"):
            place = power_loss.Place(dataset, path, tuple(site.device_paths.values()), site.clients[0])
            manifest["power_loss"] = power_loss.run_power_losses(bench, place, workload.power_loss)
    fault_events.check_alive(site.devices)
    with progress.step("checking that nothing was changed meanwhile"), journal.step("check settings"):
        manifest["problems"] += _changed_settings(site, built, path, manifest)


def _changed_settings(site: Site, built: pool.Pool, path: str, manifest: dict[str, Any]) -> list[str]:
    """Settings that somebody else changed during the run, in words."""
    was_pool, was_dataset = manifest["pool"]["properties"], manifest["dataset"]["properties"]
    name = manifest["dataset"]["name"]
    found = server_activity.changed(
        was_pool, pool.pool_properties(site.server, built, list(was_pool)), built.name
    )
    now = pool.dataset_properties(site.server, name, list(was_dataset))
    found += server_activity.changed(was_dataset, now, name)
    names = [tunable["name"] for tunable in manifest["tunables"]]
    values = {tunable["name"]: tunable["set"] for tunable in manifest["tunables"]}
    found += server_activity.changed(values, read_tunables(site.server, names), "module parameters")
    try:
        lines = nfs.effective_export(site.server, path)
    except HostError as error:
        return [*found, error.message]
    if lines != manifest["export"]["lines"]:
        found.append(f"the export of {path} is no longer the one the run made: {'; '.join(lines)}")
    return found


def _run_phases(plan: Plan, bench: Bench, progress: Progress, journal: Journal, outcome: Outcome) -> None:
    """All phases that are not measured yet, with one tracer."""
    measured = {phase["name"] for phase in outcome.manifest["phases"]}
    missing = [phase for phase in plan.workload.phase if phase.name not in measured]
    with ExitStack() as stack:
        traced_by = traced(bench, missing, journal, outcome.manifest["problems"])
        with progress.step("starting the tracer") if bench.tracing.kind == "full" else nullcontext():
            tracer = stack.enter_context(traced_by)
        _run_each(plan, bench, tracer, measured, progress, journal, outcome)


def _run_each(
    plan: Plan,
    bench: Bench,
    tracer: Tracer | None,
    measured: set[str],
    progress: Progress,
    journal: Journal,
    outcome: Outcome,
) -> None:
    for phase in plan.workload.phase:
        if phase.name in measured:
            bench = _without(bench, plan, phase)
            continue
        with progress.step(f"measuring: {phase.title}"), journal.step(f"phase {phase.name}"):
            bench = _without(bench, plan, phase)
            result = run_phase(bench, phase, plan.jobs[phase.job], tracer)
            _watch_devices(bench, result)
            # Stored before the journal says that it is done: a run that goes on relies on it.
            _keep(result, bench.run_dir, outcome)
        if result.interrupted:
            raise KeyboardInterrupt
        if any(problem.startswith("fio failed") for problem in result.entry["problems"]):
            outcome.manifest["problems"].append(f"stopped after phase {phase.name}: its load failed")
            return
        fault_events.check_alive(bench.site.devices)


def _without(bench: Bench, plan: Plan, phase: Phase) -> Bench:
    """The bench after the devices that are to be taken out before this phase are."""
    if not phase.remove:
        return bench
    pool.remove_devices(bench.site.server, bench.pool, setup.paths(plan, bench.site, phase.remove))
    return replace(bench, log_devices=()) if phase.remove == "log" else bench


def _watch_devices(bench: Bench, result: PhaseResult) -> None:
    """Faults go onto the phase's time axis. What a server that died leaves is kept, and the run ends."""
    devices, site = bench.site.devices, bench.site
    if devices is None:
        return
    entry = result.entry
    entry["events"] += fault_events.fault_events(devices.faults(), entry, bench.run_origin_ns, site.clock)
    if devices.crashes():
        entry["problems"].append("the server of the emulated devices died")


def _keep(result: PhaseResult, run_dir: run_directory.RunDir, outcome: Outcome) -> None:
    """Store after every phase: what was measured is there even if the next one is the end."""
    outcome.manifest["phases"].append(result.entry)
    outcome.latency.append(result.latency)
    _store(run_dir, outcome)


def _store(run_dir: run_directory.RunDir, outcome: Outcome) -> None:
    empty = pl.DataFrame(schema=run_directory.LATENCY_SCHEMA)
    run_directory.write_latency(run_dir, pl.concat([empty, *outcome.latency]))
    run_directory.write_json(run_dir.path / "manifest.json", outcome.manifest)
