"""The set-up of a run on a server that it can log into. Each thing has its undo in the journal first."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from kit.config.fio_job import FioJob
from kit.config.testbed import client_key
from kit.core.errors import ConfigError, HostError
from kit.devices import partition
from kit.hosts.base import CommandFailed, Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.instruments import server_activity
from kit.load import fio
from kit.nfs import export as nfs
from kit.nfs import libnfs
from kit.plan.plan import Plan
from kit.recovery import undo
from kit.run import manifest as manifests
from kit.run import precondition_devices
from kit.run.bench import Bench, Storage
from kit.run.context import Context
from kit.run.resume import end_of
from kit.run.site import Site
from kit.trace.support import Tracing, find_tracing
from kit.zfs import openzfs_version, pool
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.tunables import (
    Tunable,
    in_order,
    read_effects,
    read_history_tunables,
    read_tunables,
    write_tunable,
)

_FILL_DEADLINE_S = 1800.0


def check(run: Context, server: Host) -> tuple[ZfsVersion, Tracing]:
    """Whether every tool is there, and which versions. Raises HostError."""
    zfs = openzfs_version.read(server)
    tracing = find_tracing(server, zfs, run.plan.testbed.server.trace)
    run.manifest["versions"].update(manifests.server_versions(server, zfs, tracing))
    manifests.add_limits(run.manifest, server, zfs, tracing, run.progress)
    return zfs, tracing


def set_up(run: Context, server: Host, zfs: ZfsVersion, tracing: Tracing) -> tuple[Bench, dict[str, FioJob]]:
    """From bare devices to a filled, mounted working set, and the jobs that reach it."""
    _claim_devices(run, server)
    _precondition(run, server)
    run_origin_ns = read_clock_ns(server) - run.site.clock.to_host_ns(end_of(run.manifest))
    with run.progress.step("building the pool"):
        history = read_history_tunables(run.plan.tunables) if tracing.kind == "none" else ()
        _set_tunables((*run.plan.tunables, *history), run, server)
        if run.site.guard:
            # Preconditioning may have taken hours, and what lies on the devices is its own.
            run.site.guard.before_writing(content=not _is_preconditioned(run.manifest))
        run = _partition_cache(run, server)
        built, dataset = _build_pool(run, server)
    with run.progress.step("exporting it over NFS"):
        path = pool.mountpoint(server, dataset)
        _share(run, server, path)
        jobs = _jobs(run, path)
    with run.progress.step("filling the working set"), run.journal.step("fill"):
        _fill(run, server, built, dataset, path)
    objset = int(pool.dataset_properties(server, dataset, ["objsetid"])["objsetid"])
    log_devices = paths(run.plan, run.site, "log")
    bench = Bench(
        site=run.site,
        run_dir=run.run_dir,
        work_dir=run.work_dir,
        mount_point=run.mount_point,
        mount=run.mount_point,
        mounted=tuple(c.host for c in run.site.clients) if run.plan.workload.nfs.engine == "kernel" else (),
        size_bytes=run.plan.workload.working_set.size,
        run_origin_ns=run_origin_ns,
        clocks=Clocks(server),
        storage=Storage(server, zfs, tracing, built, dataset, path, objset, log_devices),
    )
    return bench, jobs


def changed_settings(storage: Storage, manifest: dict[str, Any]) -> list[str]:
    """Settings that somebody else changed during the run, in words."""
    server, built = storage.server, storage.pool
    was_pool, was_dataset = manifest["pool"]["properties"], manifest["dataset"]["properties"]
    changed = server_activity.changed(
        was_pool, pool.pool_properties(server, built, list(was_pool)), built.name
    )
    now = pool.dataset_properties(server, storage.dataset, list(was_dataset))
    changed += server_activity.changed(was_dataset, now, storage.dataset)
    values = {tunable["name"]: tunable["set"] for tunable in manifest["tunables"]}
    changed += server_activity.changed(values, read_tunables(server, list(values)), "module parameters")
    try:
        lines = nfs.effective_export(server, storage.path)
    except HostError as error:
        return [*changed, error.message]
    if lines != manifest["export"]["lines"]:
        changed.append(f"the export of {storage.path} is no longer the one the run made: {'; '.join(lines)}")
    return changed


def paths(plan: Plan, site: Site, role: Any) -> tuple[str, ...]:
    return tuple(site.device_paths[device.name] for device in plan.testbed.devices(role))


def _claim_devices(run: Context, server: Host) -> None:
    """Register that real devices are given back without the pool's label."""
    if run.site.guard:
        run.site.guard.before_writing()
    for device in run.plan.testbed.device:
        if device.is_real:
            with run.journal.step("take device", device=device.name, path=device.path, serial=device.serial):
                given_back = undo.Device(
                    path=device.path or "", serial=device.serial or "", pool=_pool_name(run)
                )
                undo.register(run.journal, "server", server, given_back)


def _precondition(run: Context, server: Host) -> None:
    settings = run.plan.workload.precondition
    if settings is None or "precondition" in run.manifest:
        return
    with run.progress.step("preconditioning the devices") if settings.writes else nullcontext():
        precondition_devices.precondition_all(settings, run, server)


def _is_preconditioned(manifest: dict[str, Any]) -> bool:
    """Whether preconditioning has written to devices in this run."""
    return bool(manifest.get("precondition", {}).get("devices"))


def _pool_name(run: Context) -> str:
    return f"hsp-{run.run_id.rsplit('-', 1)[1]}"


def _set_tunables(tunables: tuple[Tunable, ...], run: Context, server: Host) -> None:
    journal = run.journal
    names = [tunable.name for tunable in tunables]
    before, effects = read_tunables(server, names), read_effects(server, names)
    for tunable in in_order(tunables, effects):
        old, new = before[tunable.name], str(tunable.host_value)
        effect = effects.get(tunable.name, "")
        with journal.step(f"set {tunable.name}", before=old, value=new):
            undo.register(
                journal, "server", server, undo.Tunable(name=tunable.name, value=old, effect=effect)
            )
            write_tunable(server, tunable.name, new)
        run.manifest["tunables"].append(
            {"name": tunable.name, "before": old, "set": new, "written": tunable.written}
        )


def _partition_cache(run: Context, server: Host) -> Context:
    """The run with the part of each cache device that the workload asks for (pool.cache_size)."""
    size_bytes, device_paths = run.plan.workload.pool.cache_size, dict(run.site.device_paths)
    for device in run.plan.testbed.devices("cache"):
        if size_bytes is None or device.size <= size_bytes:
            continue
        path = device_paths[device.name]
        with run.journal.step("use a part", device=device.name, path=path, bytes=size_bytes):
            undo.register(run.journal, "server", server, undo.Partition(device_path=path))
            device_paths[device.name] = partition.create(server, path, size_bytes)
    return replace(run, site=replace(run.site, device_paths=device_paths))


def _build_pool(run: Context, server: Host) -> tuple[pool.Pool, str]:
    """The pool and the name of the dataset in it."""
    plan, site, journal, manifest = run.plan, run.site, run.journal, run.manifest
    workload, run_id = plan.workload, run.run_id
    spec = pool.PoolSpec(
        name=_pool_name(run),
        run_id=run_id,
        data_layout=workload.pool.data,
        data=paths(plan, site, "data"),
        log=paths(plan, site, "log"),
        cache=paths(plan, site, "cache"),
        properties=workload.pool.properties,
        mount_root=f"{run.work_dir}/pool",
    )
    with journal.step("create pool", pool=spec.name, argv=pool.create_arguments(spec)):
        devices = [*spec.data, *spec.log, *spec.cache]
        removal = undo.Pool(name=spec.name, run_id=run_id, devices=devices)
        number = undo.register(journal, "server", server, removal)
        built = pool.create_pool(server, spec)
        journal.know(number, guid=str(built.guid))
    dataset = f"{spec.name}/bench"
    with journal.step("create dataset", dataset=dataset, guid=built.guid):
        pool.create_dataset(server, built, dataset, workload.dataset.properties)
    named = dict.fromkeys((*workload.dataset.properties, *server_activity.DECISIVE_PROPERTIES))
    manifest["pool"] = {
        "name": built.name,
        "guid": str(built.guid),
        "properties": pool.pool_properties(server, built, list(workload.pool.properties)),
    }
    manifest["dataset"] = {
        "name": dataset,
        "properties": pool.dataset_properties(server, dataset, list(named)),
    }
    tiers = {str(tier) for phase in workload.phase for tier in phase.tiers}
    manifest["problems"] += server_activity.property_problems(manifest["dataset"]["properties"], tiers)
    return built, dataset


def _share(run: Context, server: Host, path: str) -> None:
    """Export `path` and, unless fio does without, mount it on each client."""
    site, journal, manifest, target = run.site, run.journal, run.manifest, run.mount_point
    nfs_spec = run.plan.workload.nfs
    for client in site.clients:
        with journal.step("export", path=path, client=client.address):
            undo.register(journal, "server", server, undo.Export(path=path, client=client.address))
            nfs.export(server, path, client.address)
    manifest["export"] = {"lines": nfs.effective_export(server, path)}
    for number, client in enumerate(site.clients) if nfs_spec.engine == "kernel" else ():
        with journal.step("mount", client=client.host.name):
            undo.register(journal, client_key(number), client.host, undo.Mount(target=target))
            mounted = nfs.mount(
                client.host,
                nfs.source_of(client.server_address, path),
                target,
                nfs_spec.version,
                nfs_spec.options,
            )
        manifest["mount"] = {"source": mounted.source, "options": mounted.options}


def _jobs(run: Context, path: str) -> dict[str, FioJob]:
    """The plan's jobs, reaching the export through the mount or through libnfs. Raises ConfigError."""
    if run.plan.workload.nfs.engine == "kernel":
        return run.plan.jobs
    addresses = {client.server_address for client in run.site.clients}
    if len(addresses) > 1:
        raise ConfigError(
            f'nfs.engine = "libnfs": the clients know the server by different addresses, {sorted(addresses)}',
            'all of them run one job, with one URL; use one client, or engine = "kernel"',
        )
    url = libnfs.url(addresses.pop(), path)
    run.manifest["mount"] = {"source": url, "options": "none: fio reads through libnfs"}
    return {name: libnfs.through(job, url) for name, job in run.plan.jobs.items()}


def _fill(run: Context, server: Host, built: pool.Pool, dataset: str, path: str) -> None:
    """Write the working set on the server, then snapshot it; every client must see it."""
    working_set = run.plan.workload.working_set
    fill = fio.fill_command(path, working_set.file, working_set.size, working_set.fill_block)
    try:
        result = server.run(fill, deadline_s=_FILL_DEADLINE_S)
    except CommandFailed as error:
        raise HostError(
            f"filling the working set failed: {error.message}", "is there space in the pool for it?"
        ) from error
    fio.parse_output(result.stdout)
    # root is squashed on the clients, and stays so.
    server.run(["chmod", "0666", f"{path}/{working_set.file}"])
    server.run(["zpool", "sync"])
    pool.snapshot(server, built, f"{dataset}@filled")
    for client in run.site.clients if run.plan.workload.nfs.engine == "kernel" else ():
        nfs.check_file(client.host, f"{run.mount_point}/{working_set.file}", working_set.size)
