"""A run on a server that nobody can log into: only its clients are driven, and only they are looked at.

The sequence beside kit.run.execute's: no pool, no export, no tracer. What that leaves unseen is in the
manifest (`appliance`), and the verdict is never better than unknown (docs/verdict.md).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import polars as pl

from kit import __version__
from kit.config.testbed import client_key
from kit.core.errors import ConfigError, MeasurementUnknown, SafetyRefusal, error_text
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.load import fio, fio_server
from kit.nfs import export as nfs
from kit.nfs import export_directory, libnfs
from kit.plan.appliance_limits import LeftOut, left_out
from kit.plan.plan import Plan
from kit.recovery import undo, work_directory
from kit.recovery.journal import Journal
from kit.run import appliance_load
from kit.run.appliance_load import Bench
from kit.run.execute import Outcome
from kit.run.resume import Earlier, check_same_hosts, end_of
from kit.run.site import ApplianceSite
from kit.store import run_directory

_READ_DEADLINE_S = 3600.0


def execute(
    plan: Plan,
    site: ApplianceSite,
    run_dir: run_directory.RunDir,
    progress: Progress,
    command: list[str],
    earlier: Earlier | None = None,
) -> Outcome:
    """Run the plan. Steps:

    1  check the clients and record versions
    2  mount the export on each
    3  make a directory of our own in it, and the working set in that, from the first client
    4  warm up, for as long as the workload says: its gate is at the server
    5  measure phase by phase; store after each
    6  check that the mounts still are what they were; undo 3 and 2, whatever happened

    Errors as of kit.run.execute.execute: what was measured is stored before they are raised.
    """
    started = time.monotonic()
    skipped = left_out(plan.workload)
    outcome = Outcome(_manifest(plan, site, run_dir, command, skipped))
    manifest = outcome.manifest
    if earlier:
        earlier.hand_on(manifest, outcome.latency)
    with Journal(run_dir.journal, run_dir.path.name, plan.digest) as journal:
        try:
            with journal.step("look at the hosts"):
                _refuse_leftovers(site)
            _run_steps(plan, site, run_dir, progress, journal, outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
            manifest["problems"].append("interrupted by the user")
        except Exception as error:
            manifest["problems"].append(error_text(error))
            raise
        finally:
            with ignore_interrupts(progress.note), progress.step("cleaning up"):
                hosts = site.hosts
                outcome.left = journal.teardown(
                    lambda item, kinds: undo.undo(item, hosts, kinds), lambda item: undo.by_hand(item, hosts)
                )
            manifest["problems"] += [f"not undone: {left}" for left in outcome.left]
            manifest["wall_s"] = round(time.monotonic() - started, 1)
            manifest["ended"] = True
            _store(run_dir, outcome)
    return outcome


def export_of(plan: Plan) -> str:
    """What the appliance exports, as mount(8) takes it. Raises ConfigError."""
    export = plan.testbed.server.export
    if export is None:
        raise ConfigError(f"{plan.testbed_file}: server.export is missing", 'such as export = "nas:/pool/x"')
    return export


def _refuse_leftovers(site: ApplianceSite) -> None:
    for host in site.clients:
        runs = work_directory.left_by(host)
        if runs:
            raise SafetyRefusal(
                f"{host.name} still has what the run {', '.join(runs)} made there ({work_directory.ROOT})",
                f"if that run still goes on, wait for it; else `hsp clean` its directory ({runs[0]}) on the "
                "machine that made it",
            )


def _run_steps(
    plan: Plan,
    site: ApplianceSite,
    run_dir: run_directory.RunDir,
    progress: Progress,
    journal: Journal,
    outcome: Outcome,
) -> None:
    manifest, workload = outcome.manifest, plan.workload
    with progress.step("checking the clients"), journal.step("check"):
        manifest["versions"].update(_versions(plan, site))
        check_same_hosts(manifest.pop("earlier_versions", {}), manifest["versions"])
    run_id = run_dir.path.name
    work_dir = work_directory.path_of(run_id)
    for key, host in site.hosts.items():
        with journal.step("make work directory", host=host.name, path=work_dir):
            journal.on_teardown("work-directory", key, f"remove {work_dir} on {host.name}", path=work_dir)
            work_directory.create(host, run_id)
    target, directory = f"/mnt/hsp-{run_id}", export_directory.name_of(run_id)
    # Through libnfs only the file itself has to be made by a mount.
    mounting = site.clients if workload.nfs.engine == "kernel" else site.clients[:1]
    with progress.step("mounting the export"):
        manifest["mount"] = _mount(plan, mounting, target, journal)
    with progress.step("filling the working set"):
        _fill(plan, mounting, target, directory, journal)
    bench = Bench(
        clients=site.clients,
        origin_ns=read_clock_ns(site.clients[0]) - site.clock.to_host_ns(end_of(manifest)),
        mounted=site.clients if workload.nfs.engine == "kernel" else (),
        run_dir=run_dir,
        target=target,
        directory=directory,
        work_dir=work_dir,
        size_bytes=workload.working_set.size,
        clock=site.clock,
        clocks=Clocks(site.clients[0]),
        seed=site.seed,
    )
    plan = _reaching(plan, directory)
    if workload.warmup:
        with progress.step("warming up"), journal.step("warm up"):
            _warm_up(plan, bench)
    _run_phases(plan, bench, progress, journal, outcome)
    with progress.step("checking that nothing was changed meanwhile"), journal.step("check settings"):
        for host in bench.mounted:
            now = nfs.effective_mount(host, target)
            if now.options != manifest["mount"][host.name]:
                manifest["problems"].append(f"{host.name}: the mount's options changed to {now.options}")


def _versions(plan: Plan, site: ApplianceSite) -> dict[str, str]:
    found = {}
    for host in site.clients:
        found[f"kernel of {host.name}"] = host.run(["uname", "-r"]).stdout.strip()
        if plan.workload.nfs.engine == "libnfs":
            libnfs.check_client(host)
    fios = {host.name: fio.version(host) for host in site.clients}
    fio_server.check_versions(fios)
    return found | {f"fio on {host}": version for host, version in fios.items()}


def _mount(plan: Plan, clients: tuple[Host, ...], target: str, journal: Journal) -> dict[str, str]:
    """On each client; returns what is in effect, by the client's name."""
    export, spec = export_of(plan), plan.workload.nfs
    found = {"source": export}
    for number, host in enumerate(clients):
        with journal.step("mount", client=host.name):
            journal.on_teardown(
                "mount", client_key(number), f"unmount {target} on {host.name}", target=target
            )
            found[host.name] = nfs.mount(host, export, target, spec.version, spec.options).options
    return found


def _fill(plan: Plan, clients: tuple[Host, ...], target: str, directory: str, journal: Journal) -> None:
    spec, wanted, first = plan.workload.nfs, plan.workload.working_set, clients[0]
    with journal.step("make directory", directory=directory):
        journal.on_teardown(
            "export-directory",
            client_key(0),
            f"remove {directory} from {export_of(plan)}",
            target=target,
            directory=directory,
            file=wanted.file,
            source=export_of(plan),
            version=spec.version,
            options=list(spec.options),
        )
        export_directory.make(first, target, directory)
    with journal.step("fill"):
        export_directory.fill(first, target, directory, wanted.file, wanted.size, wanted.fill_block)
        for host in clients:
            nfs.check_file(host, f"{target}/{directory}/{wanted.file}", wanted.size)


def _reaching(plan: Plan, directory: str) -> Plan:
    """The plan with jobs that reach the export: through the mount, or through libnfs. Raises ConfigError."""
    if plan.workload.nfs.engine == "kernel":
        return plan
    server, _, path = export_of(plan).rpartition(":/")
    url = libnfs.url(server.strip("[]"), f"/{path}")
    jobs = {name: libnfs.through(job, url, directory) for name, job in plan.jobs.items()}
    return replace(plan, jobs=jobs)


def _warm_up(plan: Plan, bench: Bench) -> None:
    """Read what is to be read first, past the client's own cache, then drive the load. From one client."""
    warmup, file = plan.workload.warmup, plan.workload.working_set.file
    assert warmup is not None
    first = bench.clients[0]
    if warmup.read_first:
        path = f"{bench.target}/{bench.directory}/{file}"
        argv = fio.read_through_command(path, warmup.read_first)
        argv = [f"{word},direct" if word.startswith("iflag=") else word for word in argv]
        first.run(argv, deadline_s=_READ_DEADLINE_S)
    load = appliance_load.load_on([first], bench, "warm-up", plan.jobs[warmup.job], warmup.duration)
    load.prepare()
    if appliance_load.drive(load, bench, warmup.duration):
        raise KeyboardInterrupt
    if load.problems:
        raise MeasurementUnknown(f"the warm-up load failed: {'; '.join(load.problems)}")


def _run_phases(plan: Plan, bench: Bench, progress: Progress, journal: Journal, outcome: Outcome) -> None:
    skipped = {entry["phase"] for entry in outcome.manifest["appliance"]["skipped"]}
    skipped |= {entry["name"] for entry in outcome.manifest["phases"]}
    for phase in plan.workload.phase:
        if phase.name in skipped:
            continue
        with progress.step(f"measuring: {phase.title}"), journal.step(f"phase {phase.name}"):
            result = appliance_load.run_phase(bench, phase, plan.jobs[phase.job])
            outcome.manifest["phases"].append(result.entry)
            outcome.latency.append(result.latency)
            # Stored before the journal says that it is done: a run that goes on relies on it.
            _store(bench.run_dir, outcome)
        if result.interrupted:
            raise KeyboardInterrupt
        # A server that does not answer would take its deadline of every phase that follows.
        if any(problem.startswith(("fio failed", "the load on")) for problem in result.entry["problems"]):
            outcome.manifest["problems"].append(f"stopped after phase {phase.name}: its load failed")
            return


def _store(run_dir: run_directory.RunDir, outcome: Outcome) -> None:
    empty = pl.DataFrame(schema=run_directory.LATENCY_SCHEMA)
    run_directory.write_latency(run_dir, pl.concat([empty, *outcome.latency]))
    run_directory.write_json(run_dir.path / "manifest.json", outcome.manifest)


def _manifest(
    plan: Plan, site: ApplianceSite, run_dir: run_directory.RunDir, command: list[str], skipped: LeftOut
) -> dict[str, Any]:
    workload, export = plan.workload, export_of(plan)
    clients = [host.name for host in site.clients]
    outstanding = max(job.outstanding for job in plan.jobs.values()) * len(clients)
    return {
        "format": run_directory.FORMAT,
        "run": run_dir.path.name,
        "workload": workload.name,
        "title": workload.title,
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "clock": {"kind": site.clock.kind, "dilation": site.clock.dilation},
        "reference": workload.reference,
        "testbed": {
            "name": plan.testbed.name,
            "file": plan.testbed_file,
            "server": f"{export}, not to be logged into",
            "clients": clients,
            "emulated": site.emulated,
            "devices": [],
        },
        "appliance": {"export": export, **skipped.as_json()},
        "versions": {"hsp": __version__, **site.versions},
        "tunables": [],
        "working_set": {"bytes": workload.working_set.size},
        "load": f"closed loop, {outstanding} outstanding",
        "phases": [],
        "ended": False,
        "problems": [],
        # They are about tiers, and nobody tells those here.
        "expect": [],
    }
