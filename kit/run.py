"""A run: from a plan and a site to a run directory, step by step, and everything undone at the end."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from kit import (
    __version__,
    agedevices,
    conditions,
    devicewatch,
    fio,
    fioserver,
    leaks,
    libnfs,
    nfs,
    partition,
    pool,
    powerloss,
    store,
    undo,
    untraced,
    workdir,
    zfsversion,
)
from kit.clockoffset import Clocks
from kit.errors import ConfigError, HostError, KitError, SafetyRefusal
from kit.hosts.base import CommandFailed
from kit.journal import Journal, Leftover
from kit.phase import Bench, PhaseResult, run_phase, server_now_ns
from kit.plan import Plan
from kit.progress import Progress
from kit.resume import Earlier, check_same_hosts, end_of
from kit.site import Site, client_key
from kit.trace.tracing import Tracing, find_tracing
from kit.tunables import Tunable, in_order, read_effects, read_tunables, write_tunable
from kit.warmup import warm_up
from kit.workload import Expectation, Phase

_FILL_DEADLINE_S = 1800.0


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
    run_dir: store.RunDir,
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
    8  measure phase by phase; store after each
    9  undo 5 to 3, whatever happened, and check that all is as it was

    With `earlier`, the phases that an interrupted run has measured are not measured again.

    A problem with the measurement is in the manifest (verdict unknown); a lost host raises
    after what was measured has been stored.
    """
    started = time.monotonic()
    outcome = Outcome(_manifest(plan, site, run_dir, command))
    if earlier:
        earlier.hand_on(outcome.manifest, outcome.latency)
    with Journal(run_dir.journal, run_dir.path.name, plan.digest) as journal:
        was: leaks.Settings | None = None
        try:
            with journal.step("look at the hosts"):
                _refuse_leftovers(site)
                was = leaks.read(site.server, tuple(site.device_paths.values()))
            _run_steps(plan, site, run_dir, progress, journal, outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
            outcome.manifest["problems"].append("interrupted by the user")
        except KitError as error:
            outcome.manifest["problems"].append(error.message)
            raise
        finally:
            with progress.step("cleaning up"):
                outcome.left = tear_down(journal, site, was)
            outcome.manifest["problems"] += [f"not undone: {left}" for left in outcome.left]
            outcome.manifest["wall_s"] = round(time.monotonic() - started, 1)
            _store(run_dir, outcome)
    return outcome


def tear_down(journal: Journal, site: Site, was: leaks.Settings | None) -> list[Leftover]:
    """Undo everything that is pending, then compare. Returns what is not as it was."""
    hosts = site.hosts
    left = journal.teardown(
        lambda item, kinds: undo.undo(item, hosts, kinds), lambda item: undo.by_hand(item, hosts)
    )
    if was is None:
        return left
    try:
        now = leaks.read(site.server, tuple(site.device_paths.values()))
    except KitError as error:
        return [*left, Leftover("settings of the server", f"cannot be compared: {error.message}")]
    return left + [
        Leftover(leak, "it was changed and is not what it was") for leak in leaks.between(was, now)
    ]


def _refuse_leftovers(site: Site) -> None:
    """Another run may have been killed before it could clean up. Raises SafetyRefusal."""
    for host in site.hosts.values():
        runs = workdir.left_by(host)
        if runs:
            raise SafetyRefusal(
                f"{host.name} still has what the run {', '.join(runs)} made there ({workdir.ROOT})",
                f"`hsp clean {runs[0]}` cleans it up, on the machine that made it; then begin again",
            )


def _run_steps(
    plan: Plan,
    site: Site,
    run_dir: store.RunDir,
    progress: Progress,
    journal: Journal,
    outcome: Outcome,
) -> None:
    manifest, workload = outcome.manifest, plan.workload
    with progress.step("checking server and clients"), journal.step("check"):
        zfs = zfsversion.read(site.server)
        tracing = find_tracing(site.server, zfs, plan.testbed.server.trace)
        manifest["versions"].update(_versions(site, zfs, tracing))
        check_same_hosts(manifest.pop("earlier_versions", {}), manifest["versions"])
        _tell_limits(manifest, site, zfs, tracing, progress)
        if workload.nfs.engine == "libnfs":
            for client in site.clients:
                libnfs.check_client(client.host)
    work_dir = _make_work_directories(site, run_dir, journal)
    _claim_devices(plan, site, run_dir, journal)
    if workload.precondition and "precondition" not in manifest:
        asked = workload.precondition.writes
        with progress.step("preconditioning the devices") if asked else nullcontext():
            agedevices.precondition_all(
                workload.precondition, plan.testbed, site, run_dir, work_dir, journal, progress, manifest
            )
    run_origin_ns = server_now_ns(site.server) - site.clock.to_host_ns(end_of(manifest))
    with progress.step("building the pool"):
        history = untraced.tunables(plan.tunables) if tracing.kind == "none" else ()
        _set_tunables((*plan.tunables, *history), site, journal, manifest)
        if site.guard:
            # Preconditioning may have taken hours, and what lies on the devices is its own.
            site.guard.before_writing(content=not _is_filled(manifest))
        site = _with_parts(plan, site, journal)
        built, dataset = _build_pool(plan, site, run_dir, journal, manifest)
    with progress.step("exporting it over NFS"):
        path = pool.mountpoint(site.server, dataset)
        mount = _share(plan, site, run_dir, path, journal, manifest)
        plan = _reaching(plan, site, path, manifest)
    with progress.step("filling the working set"), journal.step("fill"):
        _fill(plan, site, path)
        pool.snapshot(site.server, built, f"{dataset}@filled")
        for client in site.clients if workload.nfs.engine == "kernel" else ():
            nfs.check_file(client.host, f"{mount}/{workload.working_set.file}", workload.working_set.size)
    properties = pool.dataset_properties(site.server, dataset, ["objsetid"])
    bench = Bench(
        site=site,
        run_dir=run_dir,
        pool=built,
        objset=int(properties["objsetid"]),
        log_devices=_paths(plan, site, "log"),
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
            place = powerloss.Place(dataset, path, tuple(site.device_paths.values()), site.clients[0])
            manifest["power_loss"] = powerloss.run_power_losses(bench, place, workload.power_loss)
    devicewatch.check_alive(site.devices)
    with progress.step("checking that nothing was changed meanwhile"), journal.step("check settings"):
        manifest["problems"] += _changed_settings(site, built, path, manifest)


def _changed_settings(site: Site, built: pool.Pool, path: str, manifest: dict[str, Any]) -> list[str]:
    """Settings that somebody else changed during the run, in words."""
    was_pool, was_dataset = manifest["pool"]["properties"], manifest["dataset"]["properties"]
    name = manifest["dataset"]["name"]
    found = conditions.changed(was_pool, pool.pool_properties(site.server, built, list(was_pool)), built.name)
    now = pool.dataset_properties(site.server, name, list(was_dataset))
    found += conditions.changed(was_dataset, now, name)
    names = [tunable["name"] for tunable in manifest["tunables"]]
    values = {tunable["name"]: tunable["set"] for tunable in manifest["tunables"]}
    found += conditions.changed(values, read_tunables(site.server, names), "module parameters")
    try:
        lines = nfs.effective_export(site.server, path)
    except HostError as error:
        return [*found, error.message]
    if lines != manifest["export"]["lines"]:
        found.append(f"the export of {path} is no longer the one the run made: {'; '.join(lines)}")
    return found


def _make_work_directories(site: Site, run_dir: store.RunDir, journal: Journal) -> str:
    """Registered first, so that they go last: as long as one is there, something may be left."""
    run_id = run_dir.path.name
    path = workdir.path_of(run_id)
    for key, host in site.hosts.items():
        with journal.step("make work directory", host=host.name, path=path):
            journal.on_teardown("work-directory", key, f"remove {path} on {host.name}", path=path)
            workdir.create(host, run_id)
    return path


def _claim_devices(plan: Plan, site: Site, run_dir: store.RunDir, journal: Journal) -> None:
    """Real devices are bare now, and shall be bare again afterwards."""
    if site.guard:
        site.guard.before_writing()
    for device in plan.testbed.device:
        if device.is_real:
            with journal.step("take device", device=device.name, path=device.path, serial=device.serial):
                journal.on_teardown(
                    "device",
                    "server",
                    f"remove the pool's label from {device.path}",
                    path=device.path,
                    serial=device.serial,
                    pool=_pool_name(run_dir),
                )


def _is_filled(manifest: dict[str, Any]) -> bool:
    """Whether preconditioning has written to devices in this run."""
    return bool(manifest.get("precondition", {}).get("devices"))


def _pool_name(run_dir: store.RunDir) -> str:
    return f"hsp-{run_dir.path.name.rsplit('-', 1)[1]}"


def _run_phases(plan: Plan, bench: Bench, progress: Progress, journal: Journal, outcome: Outcome) -> None:
    measured = {phase["name"] for phase in outcome.manifest["phases"]}
    for phase in plan.workload.phase:
        if phase.name in measured:
            bench = _without(bench, plan, phase)
            continue
        with progress.step(f"measuring: {phase.title}"), journal.step(f"phase {phase.name}"):
            bench = _without(bench, plan, phase)
            result = run_phase(bench, phase, plan.jobs[phase.job])
            _watch_devices(bench, result)
        _keep(result, bench.run_dir, outcome)
        if result.interrupted:
            raise KeyboardInterrupt
        if any(problem.startswith("fio failed") for problem in result.entry["problems"]):
            outcome.manifest["problems"].append(f"stopped after phase {phase.name}: its load failed")
            return
        devicewatch.check_alive(bench.site.devices)


def _without(bench: Bench, plan: Plan, phase: Phase) -> Bench:
    """The bench after the devices that are to be taken out before this phase are."""
    if not phase.remove:
        return bench
    pool.remove_devices(bench.site.server, bench.pool, _paths(plan, bench.site, phase.remove))
    return replace(bench, log_devices=()) if phase.remove == "log" else bench


def _watch_devices(bench: Bench, result: PhaseResult) -> None:
    """Faults go onto the phase's time axis. What a server that died leaves is kept, and the run ends."""
    devices, site = bench.site.devices, bench.site
    if devices is None:
        return
    entry = result.entry
    entry["events"] += devicewatch.fault_events(devices.faults(), entry, bench.run_origin_ns, site.clock)
    if devices.crashes():
        entry["problems"].append("the server of the emulated devices died")


def _keep(result: PhaseResult, run_dir: store.RunDir, outcome: Outcome) -> None:
    """Store after every phase: what was measured is there even if the next one is the end."""
    outcome.manifest["phases"].append(result.entry)
    outcome.latency.append(result.latency)
    _store(run_dir, outcome)


def _store(run_dir: store.RunDir, outcome: Outcome) -> None:
    empty = pl.DataFrame(schema=store.LATENCY_SCHEMA)
    store.write_latency(run_dir, pl.concat([empty, *outcome.latency]))
    store.write_json(run_dir.path / "manifest.json", outcome.manifest)


def _manifest(plan: Plan, site: Site, run_dir: store.RunDir, command: list[str]) -> dict[str, Any]:
    workload, testbed = plan.workload, plan.testbed
    clients = [client.host.name for client in site.clients]
    outstanding = max(job.outstanding for job in plan.jobs.values()) * len(clients)
    return {
        "format": store.FORMAT,
        "run": run_dir.path.name,
        "workload": workload.name,
        "title": agedevices.title(workload.title, workload.precondition, testbed),
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "clock": {"kind": site.clock.kind, "dilation": site.clock.dilation},
        "reference": workload.reference,
        "testbed": {
            "name": testbed.name,
            "file": plan.testbed_file,
            "server": site.server.name,
            "clients": clients,
            "emulated": site.emulated,
            "devices": [
                {
                    "name": device.name,
                    "role": device.role,
                    "model": device.title,
                    "size_bytes": device.size,
                    "latency_ns": device.latency,
                    "parameters": device.emulated.model_dump(mode="json") if device.emulated else None,
                    "path": site.device_paths[device.name],
                    "identity": site.identities.get(device.name),
                }
                for device in testbed.device
            ],
        },
        "versions": {"hsp": __version__, **site.versions},
        "tunables": [],
        "working_set": {"bytes": workload.working_set.size},
        "load": f"closed loop, {outstanding} outstanding",
        "phases": [],
        "problems": [],
        "notes": [],
        "expect": [_expectation(expectation, site.emulated) for expectation in workload.expect],
    }


def _expectation(expectation: Expectation, emulated: bool) -> dict[str, Any]:
    asked = expectation.model_dump()
    return {**asked, "inside": emulated if asked["inside"] is None else asked["inside"]}


def _paths(plan: Plan, site: Site, role: Any) -> tuple[str, ...]:
    return tuple(site.device_paths[device.name] for device in plan.testbed.devices(role))


def _tell_limits(
    manifest: dict[str, Any],
    site: Site,
    zfs: zfsversion.ZfsVersion,
    tracing: Tracing,
    progress: Progress,
) -> None:
    """What this server cannot show: said now, in the manifest, and first on the page."""
    manifest["tracing"] = tracing.as_json()
    notes = zfsversion.notes(site.server, zfs)
    if tracing.kind == "none":
        sentence = untraced.words(tracing)
        if tracing.asked_for:
            notes.append(sentence)
        else:
            progress.note(sentence)
            manifest["problems"].append(
                f'{sentence} Expectations on tiers cannot be judged; server.trace = "none" in the testbed '
                "accepts that."
            )
    for note in notes:
        progress.note(note)
    manifest["notes"] += notes


def _versions(site: Site, zfs: zfsversion.ZfsVersion, tracing: Tracing) -> dict[str, str]:
    """What ran. Also the first proof that every tool is there. Raises HostError."""
    server = site.server
    found = {
        "kernel": server.run(["uname", "-r"]).stdout.strip(),
        "zfs": zfs.text,
        "bpftrace": tracing.bpftrace or "none",
    }
    fios = {client.host.name: fio.version(client.host) for client in site.clients}
    fioserver.check_versions(fios)
    found |= {f"fio on {host}": version for host, version in fios.items()}
    packages = ["nfs-kernel-server", "python3-pyzfs"]
    for package in packages:
        query = ["dpkg-query", "--show", "--showformat", "${Version}", package]
        answer = server.run(query, check=False)
        found[package] = answer.stdout.strip() if answer.returncode == 0 else "unknown"
    return found


def _set_tunables(
    tunables: tuple[Tunable, ...], site: Site, journal: Journal, manifest: dict[str, Any]
) -> None:
    names = [tunable.name for tunable in tunables]
    before, effects = read_tunables(site.server, names), read_effects(site.server, names)
    for tunable in in_order(tunables, effects):
        old, new = before[tunable.name], str(tunable.host_value)
        effect = effects.get(tunable.name, "")
        with journal.step(f"set {tunable.name}", before=old, value=new):
            text = f"set {tunable.name} back to {old}"
            journal.on_teardown("tunable", "server", text, name=tunable.name, value=old, effect=effect)
            write_tunable(site.server, tunable.name, new)
        manifest["tunables"].append(
            {"name": tunable.name, "before": old, "set": new, "written": tunable.written}
        )


def _build_pool(
    plan: Plan, site: Site, run_dir: store.RunDir, journal: Journal, manifest: dict[str, Any]
) -> tuple[pool.Pool, str]:
    workload, run_id = plan.workload, run_dir.path.name
    spec = pool.PoolSpec(
        name=_pool_name(run_dir),
        run_id=run_id,
        data_layout=workload.pool.data,
        data=_paths(plan, site, "data"),
        log=_paths(plan, site, "log"),
        cache=_paths(plan, site, "cache"),
        properties=workload.pool.properties,
        mount_root=f"{workdir.path_of(run_id)}/pool",
    )
    with journal.step("create pool", pool=spec.name, argv=pool.create_arguments(spec)):
        paths = [*spec.data, *spec.log, *spec.cache]
        number = journal.on_teardown(
            "pool", "server", f"destroy pool {spec.name}", name=spec.name, run_id=run_id, devices=paths
        )
        built = pool.create_pool(site.server, spec)
        journal.know(number, guid=str(built.guid))
    dataset = f"{spec.name}/bench"
    with journal.step("create dataset", dataset=dataset, guid=built.guid):
        pool.create_dataset(site.server, built, dataset, workload.dataset.properties)
    named = dict.fromkeys((*workload.dataset.properties, *conditions.DECISIVE_PROPERTIES))
    manifest["pool"] = {
        "name": built.name,
        "guid": str(built.guid),
        "properties": pool.pool_properties(site.server, built, list(workload.pool.properties)),
    }
    manifest["dataset"] = {
        "name": dataset,
        "properties": pool.dataset_properties(site.server, dataset, list(named)),
    }
    tiers = {str(tier) for phase in workload.phase for tier in phase.tiers}
    manifest["problems"] += conditions.property_problems(manifest["dataset"]["properties"], tiers)
    return built, dataset


def _with_parts(plan: Plan, site: Site, journal: Journal) -> Site:
    """The site with so much of each cache device as the workload wants."""
    wanted, paths = plan.workload.pool.cache_size, dict(site.device_paths)
    for device in plan.testbed.devices("cache"):
        if wanted is None or device.size <= wanted:
            continue
        path = paths[device.name]
        with journal.step("use a part", device=device.name, path=path, bytes=wanted):
            journal.on_teardown("partition", "server", f"remove the partition of {path}", device_path=path)
            paths[device.name] = partition.create(site.server, path, wanted)
    return replace(site, device_paths=paths)


def _share(
    plan: Plan,
    site: Site,
    run_dir: store.RunDir,
    path: str,
    journal: Journal,
    manifest: dict[str, Any],
) -> str:
    """Export `path` and, unless fio does without, mount it on each client; returns the mount point."""
    target = f"/mnt/hsp-{run_dir.path.name}"
    nfs_spec = plan.workload.nfs
    for client in site.clients:
        with journal.step("export", path=path, client=client.address):
            journal.on_teardown(
                "export",
                "server",
                f"unexport {path} to {client.address}",
                path=path,
                client=client.address,
            )
            nfs.export(site.server, path, client.address)
    manifest["export"] = {"lines": nfs.effective_export(site.server, path)}
    for number, client in enumerate(site.clients) if nfs_spec.engine == "kernel" else ():
        with journal.step("mount", client=client.host.name):
            journal.on_teardown(
                "mount", client_key(number), f"unmount {target} on {client.host.name}", target=target
            )
            found = nfs.mount(
                client.host,
                f"{client.server_address}:{path}",
                target,
                nfs_spec.version,
                nfs_spec.options,
            )
        manifest["mount"] = {"source": found.source, "options": found.options}
    return target


def _reaching(plan: Plan, site: Site, path: str, manifest: dict[str, Any]) -> Plan:
    """The plan with jobs that reach the export: through the mount, or through libnfs. Raises ConfigError."""
    if plan.workload.nfs.engine == "kernel":
        return plan
    addresses = {client.server_address for client in site.clients}
    if len(addresses) > 1:
        raise ConfigError(
            f'nfs.engine = "libnfs": the clients know the server by different addresses, {sorted(addresses)}',
            'all of them run one job, with one URL; use one client, or engine = "kernel"',
        )
    url = libnfs.url(addresses.pop(), path)
    manifest["mount"] = {"source": url, "options": "none: fio reads through libnfs"}
    return replace(plan, jobs={name: libnfs.through(job, url) for name, job in plan.jobs.items()})


def _fill(plan: Plan, site: Site, path: str) -> None:
    working_set = plan.workload.working_set
    fill = fio.fill_command(path, working_set.file, working_set.size, working_set.fill_block)
    try:
        result = site.server.run(fill, deadline_s=_FILL_DEADLINE_S)
    except CommandFailed as error:
        raise HostError(f"filling the working set failed: {error.message}") from error
    fio.parse_output(result.stdout)
    # root is squashed on the clients, and stays so.
    site.server.run(["chmod", "0666", f"{path}/{working_set.file}"])
    site.server.run(["zpool", "sync"])
