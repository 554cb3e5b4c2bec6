"""The set-up of a run on a server that it can log into. Each thing has its undo in the journal first."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.toml import placed_refusal
from kit.config.workload_base import read_source
from kit.core.errors import ConfigError, HostError, KitError
from kit.devices import partition
from kit.devices.probe import device_settings
from kit.hosts.base import CommandFailed, Host, HostLost
from kit.hosts.clock_offset import Clocks
from kit.hosts.identity import read_identity
from kit.instruments import server_activity
from kit.load import fio, ordinary_user
from kit.nfs import export as nfs_export
from kit.nfs import libnfs, unlisted_exports
from kit.nfs import mount as nfs_mount
from kit.plan import array_steps, load_steps, steps
from kit.plan.names import Names, used_paths
from kit.plan.plan import Plan
from kit.precondition import age_pool
from kit.rules import measurable, operations
from kit.setup import manifest as manifests
from kit.setup import precondition_devices, switch_settings
from kit.setup.bench import Bench, Storage
from kit.setup.context import Context, Switched
from kit.setup.long_step import run_writing
from kit.store.manifest import DatasetState, Export, Manifest, Mount, PoolState, Vdev
from kit.store.manifest import Tunable as StoredTunable
from kit.trace.support import TracingSupport, find_tracing, program, why_no_split
from kit.zfs import datasets, openzfs_version, other_pools, pool, properties, tunables
from kit.zfs.layout import SPECIAL_ROLES, data_vdevs, special_vdevs
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.tunables import (
    PlannedTunable,
    check_written,
    read_effects,
    read_history_tunables,
    read_tunables,
)


def check(run: Context, server: Host) -> tuple[ZfsVersion, TracingSupport]:
    """Whether every tool is there, and which versions. Raises HostError."""
    zfs = openzfs_version.read(server)
    _check_workload(run, server, zfs)
    if run.plan.workload.over_nfs:
        tracing = find_tracing(server, zfs, run.plan.testbed.server.trace)
        if any(phase.split_of for phase in run.plan.workload.phase):
            tracing = replace(tracing, no_split=why_no_split(server, zfs, tracing))
        needs = next((phase for phase in run.plan.workload.phase if phase.keys or phase.metadata), None)
        if needs and (why := tracing.why_no_types(server)):
            what, key = ("sample blocks", "keys") if needs.keys else ("trace all operations", "metadata")
            raise HostError(
                f"{server.name} cannot {what} for the phase {needs.name} ({key}): {why}",
                f"`hsp host check` shows what the tracer needs; without {key} the workload runs without",
            )
    else:
        tracing = TracingSupport("none", program(zfs), reason="no phase goes over NFS", asked_for=True)
    run.record.add_versions(manifests.server_versions(server, zfs, tracing))
    manifests.add_limits(run.record, server, zfs, tracing, run.progress)
    refuse_other_pools(run, server)
    return zfs, tracing


def refuse_other_pools(run: Context, server: Host) -> None:
    """What would hit pools and exports that are not the run's. Raises SafetyRefusal, HostError."""
    unlisted_exports.refuse(server)
    asked, power = run.plan.workload.power_loss, run.plan.testbed.power
    settings = run.plan.tunables
    refuse_restart(run, server)
    if asked and asked.control == "no-flush":
        settings = (*settings, *(PlannedTunable(name, "1", 1) for name in other_pools.NO_FLUSH))
    texts = other_pools.refuse_settings(server, settings, agreed=run.site.beside_other_pools)
    run.record.add_notes(*(f"{text} (--beside-other-pools)." for text in texts))
    if asked and power and power.scope == "server":
        texts = other_pools.refuse_power_cut(server, agreed=run.site.cut_other_pools)
        run.record.add_notes(*(f"{text} (--cut-other-pools)." for text in texts))


def refuse_restart(run: Context, server: Host, own_pool: str = "", own_path: str = "") -> None:
    """What others have on a server that is to be restarted. Raises SafetyRefusal, HostError."""
    if not run.plan.workload.restarts:
        return
    agreed = run.site.cut_other_pools
    notes = other_pools.refuse_power_cut(server, own_pool, agreed=agreed, how="a phase restarts")
    notes += unlisted_exports.refuse_restart(server, own_path, agreed=agreed)
    known = run.record.manifest.notes
    run.record.add_notes(*(note for each in notes if (note := f"{each} (--cut-other-pools).") not in known))


def _check_workload(run: Context, server: Host, zfs: ZfsVersion) -> None:
    """That this OpenZFS has the properties and tunables, before anything is changed. Raises ConfigError."""
    plan, workload = run.plan, run.plan.workload
    problems = [
        *properties.problems("dataset", workload.dataset.properties, zfs),
        *properties.problems("pool", workload.pool.properties, zfs),
        *tunables.server_problems(server, plan.tunables, zfs.text),
    ]
    most = next((each.host_value for each in plan.tunables if each.name == "zfs_max_recordsize"), None)
    record_bytes = datasets.record_bytes(workload.dataset.properties)
    if text := properties.record_problem(record_bytes, zfs, most):
        problems.append((("dataset", "properties", "recordsize"), text))
    if problems:
        raise placed_refusal(read_source(Path(plan.sources[0])).placed(problems))


def set_up(
    run: Context,
    server: Host,
    zfs: ZfsVersion,
    tracing: TracingSupport,
    claims: list[int],
    run_origin_ns: int,
) -> tuple[Bench, dict[str, FioJob]]:
    """From devices (kit.setup.device_setup) to a filled, mounted working set, and the jobs that reach it."""
    plan, names, site = run.plan, run.names, run.site
    with run.progress.step("building the pool"):
        set_tunables(run, server, tracing)
        if site.guard:
            # Preconditioning may have taken hours, and what lies on the devices is the run's own.
            written = any(phase.on_devices for phase in plan.workload.phase)
            site.guard.before_writing(content=not (written or _is_preconditioned(run.record.manifest)))
        unlisted_exports.refuse(server)
        device_paths = _partition_devices(run, server)
        built = _build_pool(run, server, claims)
        _check_mountpoint(server, names)
    _age_pool(run, server)
    if plan.workload.over_nfs:
        with run.progress.step("exporting it over NFS"):
            _share(run, server)
    jobs = _jobs(run)
    with run.progress.step("filling the working set"), run.exported(over_nfs=plan.workload.over_nfs):
        ordinary = _fill(run, server)
    state = run.record.manifest.pool
    assert state, "_build_pool has filled it in"
    run.record.fill(pool=state.model_copy(update={"space": age_pool.space_of(server, names.pool)}))
    of_dataset = pool.properties_of(server, "zfs", names.dataset, ["objsetid", "sync"])
    log_devices = used_paths(plan, names, "log")
    bench = Bench(
        site=replace(site, device_paths=device_paths),
        endurance_bytes={device.name: device.endurance for device in run.plan.testbed.device},
        run_dir=run.run_dir,
        work_dir=names.work_dir,
        mount_point=names.mount_point,
        mount=names.mount_point,
        mounted=tuple(c.host for c in site.clients) if plan.workload.nfs.engine == "kernel" else (),
        size_bytes=plan.workload.file_set.size,
        run_origin_ns=run_origin_ns,
        clocks=Clocks(server),
        ordinary=ordinary,
        storage=Storage(
            server,
            zfs,
            tracing,
            built,
            names.dataset,
            names.path,
            int(of_dataset["objsetid"]),
            log_devices,
            of_dataset["sync"],
            tuple(path for role in SPECIAL_ROLES for path in used_paths(plan, names, role)),
        ),
    )
    return bench, jobs


def _age_pool(run: Context, server: Host) -> None:
    for step in steps.age_pool(run.plan, run.names):
        with run.progress.step("filling and fragmenting the pool"), run.step(step):
            asked, output = run.plan.workload.pool.age, run.run_dir.raw / "age-pool.jsonl"
            assert asked, "a workload without it has no such step"
            age_pool.age_pool(server, step.commands, asked, output, run.progress)


def take_devices(run: Context) -> list[int]:
    """Journal that the devices are taken; returns the numbers of their undos."""
    if run.site.guard:
        run.site.guard.before_writing()
    return [run.perform(step) for step in steps.claims(run.plan, run.names)]


def _check_mountpoint(server: Host, names: Names) -> None:
    path = datasets.mountpoint(server, names.dataset)
    if path != names.path:
        raise HostError(
            f"{names.dataset} is mounted at {path}, expected {names.path}",
            "take the property mountpoint out of the workload's dataset.properties",
        )


def changed_settings(storage: Storage, manifest: Manifest, switched: list[Switched]) -> list[str]:
    """Settings that somebody else changed during the run, in words."""
    server, built = storage.server, storage.pool
    assert manifest.pool and manifest.dataset, "the set-up has filled them in"
    was_pool, was_dataset = manifest.pool.properties or {}, manifest.dataset.properties or {}
    changed = server_activity.changed(
        was_pool, pool.properties_of(server, "zpool", built.name, list(was_pool)), built.name
    )
    now = pool.properties_of(server, "zfs", storage.dataset, list(was_dataset))
    changed += server_activity.changed(was_dataset, now, storage.dataset)
    values = {tunable.name: tunable.set or "" for tunable in manifest.tunables}
    changed += server_activity.changed(values, read_tunables(server, list(values)), "module parameters")
    changed += switch_settings.changed(server, switched)
    if manifest.export is None:
        return changed
    try:
        lines = nfs_export.effective_export(server, storage.path)
    except HostError as error:
        return [*changed, error.message]
    if tuple(lines) != manifest.export.lines:
        changed.append(f"the export of {storage.path} is no longer the one the run made: {'; '.join(lines)}")
    return changed


def precondition(run: Context, server: Host) -> None:
    """As the workload asks for, unless a run that is resumed has done it."""
    settings = run.plan.workload.precondition
    if settings is None or run.record.manifest.precondition:
        return
    with run.progress.step("preconditioning the devices") if settings.writes else nullcontext():
        precondition_devices.precondition_all(settings, run, server)


def _is_preconditioned(manifest: Manifest) -> bool:
    """Whether preconditioning has written to devices in this run."""
    return bool((manifest.precondition or {}).get("devices"))


def set_tunables(run: Context, server: Host, tracing: TracingSupport, *, again: bool = False) -> None:
    """`again`: after a restart, so that the manifest has them."""
    settings = run.plan.tunables
    if tracing.kind == "none" or run.plan.has_phases_in_dataset:
        # Shares of tiers come from the pool's list of reads.
        settings = (*settings, *read_history_tunables(settings))
    names = [tunable.name for tunable in settings]
    before, effects = read_tunables(server, names), read_effects(server, names)
    for tunable, step in steps.set_tunables(settings, before, effects, read_identity(server)):
        name, new = tunable.name, str(tunable.host_value)
        with run.step(step) as number:
            try:
                run.send(step)
                check_written(server, name, new)
            except HostError:
                # What OpenZFS made of the value is the run's too, and is undone.
                run.journal.know(number, set=read_tunables(server, [name])[name])
                raise
        stored = StoredTunable(name=name, before=before[name], set=new, written=tunable.written)
        if not again:
            run.record.fill(tunables=(*run.record.manifest.tunables, stored))


def _partition_devices(run: Context, server: Host) -> dict[str, str]:
    """Of devices the part that the workload asks for (kit.plan.array_steps); all devices' paths."""
    device_paths = dict(run.site.device_paths)
    for step in array_steps.partitions(run.plan, run.names):
        with run.step(step):
            run.send(step)
            path = partition.created(server, step.details["path"], step.details["bytes"])
            device_paths[step.details["device"]] = path
    return device_paths


def partition_again(run: Context, server: Host) -> None:
    """After a boot: only the kernel knew the partitions. Their undos are in the journal. Raises HostError."""
    for step in array_steps.partitions(run.plan, run.names):
        run.send(step)
        partition.created(server, step.details["path"], step.details["bytes"])


def _build_pool(run: Context, server: Host, claims: list[int]) -> pool.CreatedPool:
    """`claims`: numbers of the undos of the devices, which need the pool's GUID."""
    plan, names = run.plan, run.names
    workload, dataset = plan.workload, names.dataset
    create = steps.create_pool(plan, names)
    with run.step(create) as number:
        if run.site.guard:
            # zpool opens the devices exclusively itself.
            run.site.guard.release()
        run.send(create)
        built = pool.find_pool(server, names.pool, names.run_id)
        for known in (number, *claims):
            run.journal.know(known, guid=str(built.guid))
    create = steps.create_dataset(plan, names)
    with run.step(create):
        datasets.create_dataset(server, create.commands, dataset, workload.dataset.properties)
    named = dict.fromkeys((*workload.dataset.properties, *server_activity.DECISIVE_PROPERTIES))
    properties = pool.properties_of(server, "zfs", dataset, list(named))
    run.record.fill(
        pool=PoolState(
            name=built.name,
            guid=str(built.guid),
            vdevs=vdevs_of(plan),
            properties=pool.properties_of(server, "zpool", built.name, list(workload.pool.properties)),
        ),
        dataset=DatasetState(name=dataset, properties=properties),
    )
    reading = operations.reading(workload, plan.jobs)
    tiers = {str(tier) for phase in reading.phase for tier in phase.tiers}
    run.record.add_problems("properties", *server_activity.property_problems(properties, tiers))
    return built


def vdevs_of(plan: Plan) -> tuple[Vdev, ...]:
    """Those of several devices, as `zpool create` makes them."""
    layout, devices = plan.workload.pool, plan.testbed.devices
    data, log = ([each.name for each in of_role] for of_role in (devices("data"), devices("log")))
    made = [("data", layout.data, each) for each in data_vdevs(layout.data, data, layout.groups)]
    made += [("log", layout.log, each) for each in data_vdevs(layout.log, log)]
    for role in SPECIAL_ROLES:
        names = [each.name for each in devices(role)]
        vdevs = special_vdevs(layout.data, len(data), layout.groups, names)
        made += [(role, "mirror", each) for each in vdevs]
    return tuple(Vdev(role=role, kind=kind, devices=each) for role, kind, each in made if len(each) > 1)


def read_back(run: Context, server: Host) -> None:
    """Driver, firmware and queue of each device, for the record."""
    try:
        found = device_settings(server, run.site.device_paths)
    except HostLost:
        raise
    except KitError as error:
        run.record.add_notes(f"Settings of the devices could not be read: {error.message}.")
    else:
        run.record.fill_devices({name: {"settings": asdict(each)} for name, each in found.items()})


def _share(run: Context, server: Host) -> None:
    """Export the dataset and, unless fio does without, mount it on each client."""
    plan, names = run.plan, run.names
    for step in steps.exports(plan, names):
        run.perform(step)
    run.record.fill(export=Export(lines=tuple(nfs_export.effective_export(server, names.path))))
    for step in load_steps.mounts(plan, names):
        client = run.site.hosts[step.host]
        with run.step(step):
            mounted = nfs_mount.mount(client, step.commands)
        measurable.check_mount(plan.workload, plan.jobs, client.name, mounted.options)
        run.record.fill(mount=Mount(source=mounted.source, options=mounted.options))


def _jobs(run: Context) -> dict[str, FioJob]:
    """The plan's jobs, reaching the export through the mount or through libnfs. Raises ConfigError."""
    if run.plan.workload.nfs.engine == "kernel":
        return run.plan.jobs
    addresses = {client.server_address for client in run.site.clients}
    if len(addresses) > 1:
        raise ConfigError(
            f'nfs.engine = "libnfs": the clients know the server by different addresses, {sorted(addresses)}',
            'all of them run one job, with one URL; use one client, or engine = "kernel"',
        )
    url = libnfs.url(addresses.pop(), run.names.path)
    run.record.fill(mount=Mount(source=url, options="none: fio reads through libnfs"))
    return {name: libnfs.through(job, url) for name, job in run.plan.jobs.items()}


def _fill(run: Context, server: Host) -> bool:
    """Every client must see the working set afterwards; returns whether fio can run as an ordinary user."""
    plan, names = run.plan, run.names
    step, working_set = steps.fill(plan, names), plan.workload.file_set
    with run.step(step):
        fill, *others, snapshot = step.commands
        try:
            file = f"{names.path}/{working_set.file}"
            result = run_writing(server, fill, file, working_set.size, run.progress)
        except CommandFailed as error:
            raise HostError(
                f"filling the working set failed: {error.message}", "is there space in the pool for it?"
            ) from error
        fio.parse_output(result.stdout)
        for command in others:
            command.run(server)
        datasets.with_pyzfs(server, snapshot)
        path = f"{names.mount_point}/{working_set.file}"
        clients = [one.host for one in run.site.clients] if plan.workload.nfs.engine == "kernel" else []
        for client in clients:
            nfs_mount.check_file(client, path, working_set.size)
    denied = [client.name for client in clients if not ordinary_user.may_use(client, path)]
    run.record.add_notes(*map(ordinary_user.note_of_root, denied))
    return bool(clients) and not denied
