"""The set-up of a run on its hosts: each thing with its undo in the journal before it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kit.config.testbed import client_key
from kit.core.errors import ConfigError, HostError
from kit.devices import partition
from kit.hosts.base import CommandFailed
from kit.instruments import server_activity
from kit.load import fio
from kit.nfs import export as nfs
from kit.nfs import libnfs
from kit.plan.plan import Plan
from kit.recovery import work_directory
from kit.recovery.journal import Journal
from kit.run.site import Site
from kit.store import run_directory
from kit.zfs import pool
from kit.zfs.tunables import Tunable, in_order, read_effects, read_tunables, write_tunable

_FILL_DEADLINE_S = 1800.0


def paths(plan: Plan, site: Site, role: Any) -> tuple[str, ...]:
    return tuple(site.device_paths[device.name] for device in plan.testbed.devices(role))


def make_work_directories(site: Site, run_dir: run_directory.RunDir, journal: Journal) -> str:
    """Registered first, so that they go last: as long as one is there, something may be left."""
    run_id = run_dir.path.name
    path = work_directory.path_of(run_id)
    for key, host in site.hosts.items():
        with journal.step("make work directory", host=host.name, path=path):
            journal.on_teardown("work-directory", key, f"remove {path} on {host.name}", path=path)
            work_directory.create(host, run_id)
    return path


def claim_devices(plan: Plan, site: Site, run_dir: run_directory.RunDir, journal: Journal) -> None:
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
                    pool=pool_name(run_dir),
                )


def is_filled(manifest: dict[str, Any]) -> bool:
    """Whether preconditioning has written to devices in this run."""
    return bool(manifest.get("precondition", {}).get("devices"))


def pool_name(run_dir: run_directory.RunDir) -> str:
    return f"hsp-{run_dir.path.name.rsplit('-', 1)[1]}"


def set_tunables(
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


def with_parts(plan: Plan, site: Site, journal: Journal) -> Site:
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


def build_pool(
    plan: Plan, site: Site, run_dir: run_directory.RunDir, journal: Journal, manifest: dict[str, Any]
) -> tuple[pool.Pool, str]:
    workload, run_id = plan.workload, run_dir.path.name
    spec = pool.PoolSpec(
        name=pool_name(run_dir),
        run_id=run_id,
        data_layout=workload.pool.data,
        data=paths(plan, site, "data"),
        log=paths(plan, site, "log"),
        cache=paths(plan, site, "cache"),
        properties=workload.pool.properties,
        mount_root=f"{work_directory.path_of(run_id)}/pool",
    )
    with journal.step("create pool", pool=spec.name, argv=pool.create_arguments(spec)):
        devices = [*spec.data, *spec.log, *spec.cache]
        number = journal.on_teardown(
            "pool", "server", f"destroy pool {spec.name}", name=spec.name, run_id=run_id, devices=devices
        )
        built = pool.create_pool(site.server, spec)
        journal.know(number, guid=str(built.guid))
    dataset = f"{spec.name}/bench"
    with journal.step("create dataset", dataset=dataset, guid=built.guid):
        pool.create_dataset(site.server, built, dataset, workload.dataset.properties)
    named = dict.fromkeys((*workload.dataset.properties, *server_activity.DECISIVE_PROPERTIES))
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
    manifest["problems"] += server_activity.property_problems(manifest["dataset"]["properties"], tiers)
    return built, dataset


def share(
    plan: Plan,
    site: Site,
    run_dir: run_directory.RunDir,
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
                nfs.source_of(client.server_address, path),
                target,
                nfs_spec.version,
                nfs_spec.options,
            )
        manifest["mount"] = {"source": found.source, "options": found.options}
    return target


def reaching(plan: Plan, site: Site, path: str, manifest: dict[str, Any]) -> Plan:
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


def fill(plan: Plan, site: Site, path: str) -> None:
    working_set = plan.workload.working_set
    fill = fio.fill_command(path, working_set.file, working_set.size, working_set.fill_block)
    try:
        result = site.server.run(fill, deadline_s=_FILL_DEADLINE_S)
    except CommandFailed as error:
        raise HostError(
            f"filling the working set failed: {error.message}", "is there space in the pool for it?"
        ) from error
    fio.parse_output(result.stdout)
    # root is squashed on the clients, and stays so.
    site.server.run(["chmod", "0666", f"{path}/{working_set.file}"])
    site.server.run(["zpool", "sync"])
