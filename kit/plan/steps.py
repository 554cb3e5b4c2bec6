"""The steps of a run, as values: what changes on which host, by which commands, and how it is undone. Pure.

A run performs them (kit.run.context), the journal records them, teardown undoes them in the reverse order,
and `hsp plan` prints them, all from the functions here. Commands that only look at something are not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit.config.precondition_table import Precondition
from kit.config.testbed import Device, client_key
from kit.config.workload import Phase
from kit.devices import partition
from kit.emulation.served import counters_command
from kit.hosts import settings as host_settings
from kit.hosts.identity import HostIdentity
from kit.instruments import sampler
from kit.load import fio
from kit.load.ordinary_user import ordinary
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.nfs import mount as nfs_mount
from kit.plan.appliance_limits import left_out
from kit.plan.combination import MAX_BYTES
from kit.plan.names import Names, shown
from kit.plan.plan import Plan, export_of
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.precondition.stage_loads import measured_load, probe_loads, stage_loads, stages
from kit.recovery import undo, work_directory
from kit.trace import nfsd_tracer
from kit.trace.support import Tracing, programs
from kit.zfs import pool, tunables

_ANY_HOST = HostIdentity("", "")
_NEWEST_TRACING = Tracing("full", programs()[-1], "0.23")


@dataclass(frozen=True)
class Command:
    """`input`: what it reads, in words: a program of kit/remote, a value, or what only the host knows."""

    argv: tuple[str, ...]
    input: str = ""


@dataclass(frozen=True)
class Step:
    """One thing that a run does. `name`: the journal's; `host`: a key such as "server" or "client0".

    `undo` is registered before the commands run; `details` go into the journal as well.
    """

    name: str
    host: str
    commands: tuple[Command, ...] = ()
    undo: undo.Action | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def of(plan: Plan, names: Names) -> Iterator[Step]:
    """All steps of a run, in order; those of its end are in `undone`."""
    yield from work_directories(plan, names)
    if plan.testbed.is_appliance:
        yield from mounts(plan, names)
        yield make_directory(plan, names)
        yield fill_export(plan, names)
    else:
        yield from claims(plan, names)
        yield from precondition(plan, names)
        yield from _planned_tunables(plan)
        used = tuple(device.name for device in plan.testbed.device)
        wanted = host_settings.planned(plan.workload.host.wanted, used)
        yield from (step for _, step in set_host_settings((each, "none") for each in wanted))
        yield from partitions(plan, names)
        yield create_pool(plan, names)
        yield create_dataset(plan, names)
        yield from exports(plan, names)
        yield from mounts(plan, names)
        yield fill(plan, names)
    yield from warm_up(plan, names)
    yield from phases(plan, names)


def undone(steps: Sequence[Step]) -> Iterator[tuple[str, undo.Action]]:
    """The host's key and the undo of each step that has one, in the order of teardown."""
    return ((step.host, step.undo) for step in reversed(steps) if step.undo)


def listed(plan: Plan, names: Names) -> list[dict[str, Any]]:
    """Every command of a run, with `host` and `step`: what `hsp plan --json` prints."""
    steps = list(of(plan, names))
    commands = [(step.host, step.name, command) for step in steps for command in step.commands]
    for host, action in undone(steps):
        commands += [(host, "undo", Command(tuple(argv), note)) for argv, note in action.changes()]
    return [
        {
            "host": host,
            "step": name,
            "argv": [shown(word, names) for word in command.argv],
            "input": command.input,
        }
        for host, name, command in commands
    ]


# --- Set-up ---


def work_directories(plan: Plan, names: Names) -> Iterator[Step]:
    """First, so that they go last: as long as one is there, something may be left."""
    argvs = work_directory.create_commands(names.run_id)
    for key, address in plan.hosts.items():
        if address != "none":
            commands = tuple(
                Command(tuple(argv), "the run's token" if argv[0] == "tee" else "") for argv in argvs
            )
            action = undo.WorkDirectory(path=names.work_dir)
            yield Step("make work directory", key, commands, action, {"path": names.work_dir})


def claims(plan: Plan, names: Names) -> Iterator[Step]:
    """Real devices, given back without the pool's label."""
    for device in plan.testbed.device:
        if device.is_real:
            path, serial = device.path or "", device.serial or ""
            action = undo.Device(path=path, serial=serial, pool=names.pool)
            details = {"device": device.name, "path": device.path, "serial": device.serial}
            yield Step("take device", "server", (), action, details)


def set_tunables(
    settings: Sequence[tunables.Tunable],
    before: Mapping[str, str],
    effects: Mapping[str, str],
    server: HostIdentity,
) -> Iterator[tuple[tunables.Tunable, Step]]:
    """`before`: the values that the server has, `effects`: what is in effect where a value is 0."""
    for tunable in tunables.in_order(tuple(settings), dict(effects)):
        old, new = before[tunable.name], str(tunable.host_value)
        command = Command(("tee", tunables.parameter_path(tunable.name)), new)
        action = undo.Tunable(
            name=tunable.name,
            value=old,
            effect=effects.get(tunable.name, ""),
            set=new,
            machine_id=server.machine_id,
            boot_id=server.boot_id,
        )
        details = {"before": old, "value": new}
        yield tunable, Step(f"set {tunable.name}", "server", (command,), action, details)


def _planned_tunables(plan: Plan) -> Iterator[Step]:
    """In the order of a server whose ARC may be larger than the workload asks for, as most are."""
    history = tunables.read_history_tunables(plan.tunables) if plan.testbed.server.trace == "none" else ()
    settings = (*plan.tunables, *history)
    before, maximum = {tunable.name: "0" for tunable in settings}, {"zfs_arc_max": str(MAX_BYTES)}
    return (step for _, step in set_tunables(settings, before, maximum, _ANY_HOST))


def set_host_settings(
    wanted: Iterable[tuple[host_settings.FileSetting, str]], server: HostIdentity = _ANY_HOST
) -> Iterator[tuple[host_settings.FileSetting, Step]]:
    """`wanted`: each with the value that the server has."""
    for each, before in wanted:
        action = undo.HostSetting(
            path=each.path,
            value=before,
            set=each.value,
            machine_id=server.machine_id,
            boot_id=server.boot_id,
        )
        details = {"before": before, "value": each.value}
        command = Command(("tee", each.path), each.value)
        yield each, Step(f"set {each.name} of the host", "server", (command,), action, details)


def partitions(plan: Plan, names: Names) -> Iterator[Step]:
    """Of each cache device the part that the workload asks for (pool.cache_size)."""
    for device in plan.testbed.devices("cache"):
        size_bytes, path = _part_bytes(plan, device), names.device_paths[device.name]
        if size_bytes is not None:
            argv = tuple(partition.create_command(path, size_bytes))
            details = {"device": device.name, "path": path, "bytes": size_bytes}
            commands = (Command(argv, "kit/remote/partition.py"),)
            action = undo.Partition(device_path=path, serial=device.serial or "")
            yield Step("use a part", "server", commands, action, details)


def _part_bytes(plan: Plan, device: Device) -> int | None:
    """None where the whole device is used."""
    size_bytes = plan.workload.pool.cache_size
    is_larger = device.role == "cache" and size_bytes is not None and device.size > size_bytes
    return size_bytes if is_larger else None


def used_paths(plan: Plan, names: Names, role: Any) -> tuple[str, ...]:
    """What of the devices of a role becomes part of the pool."""
    return tuple(_used_path(plan, names, device) for device in plan.testbed.devices(role))


def _used_path(plan: Plan, names: Names, device: Device) -> str:
    path = names.device_paths[device.name]
    return path if _part_bytes(plan, device) is None else partition.path_of(path)


def pool_spec(plan: Plan, names: Names) -> pool.PoolSpec:
    return pool.PoolSpec(
        name=names.pool,
        run_id=names.run_id,
        data_layout=plan.workload.pool.data,
        data=used_paths(plan, names, "data"),
        log=used_paths(plan, names, "log"),
        cache=used_paths(plan, names, "cache"),
        properties=plan.workload.pool.properties,
        mount_root=names.mount_root,
    )


def create_pool(plan: Plan, names: Names) -> Step:
    spec = pool_spec(plan, names)
    argv = pool.create_arguments(spec)
    action = undo.Pool(name=spec.name, run_id=names.run_id, devices=[*spec.data, *spec.log, *spec.cache])
    return Step("create pool", "server", (Command(tuple(argv)),), action, {"pool": spec.name, "argv": argv})


def create_dataset(plan: Plan, names: Names) -> Step:
    """It goes with the pool."""
    properties = plan.workload.dataset.properties
    made = pool.pyzfs_command("create", names.dataset, names.run_id, str(pool.record_bytes(properties)))
    commands = [Command(tuple(made), "kit/remote/create_dataset.py")]
    commands += [Command(tuple(argv)) for argv in pool.dataset_commands(names.dataset, properties)]
    return Step("create dataset", "server", tuple(commands), details={"dataset": names.dataset})


def exports(plan: Plan, names: Names) -> Iterator[Step]:
    """To each client alone."""
    for address in names.client_addresses:
        command = Command(tuple(nfs_export.export_command(names.path, address)))
        action = undo.Export(path=names.path, client=address)
        yield Step("export", "server", (command,), action, {"path": names.path, "client": address})


def mounts(plan: Plan, names: Names) -> Iterator[Step]:
    """On each client whose fio needs it. Of an appliance the first one always: it makes the file."""
    spec, through_mount = plan.workload.nfs, plan.workload.nfs.engine == "kernel"
    clients = len(names.client_names) if through_mount else int(plan.testbed.is_appliance)
    for number in range(clients):
        source = export_of(plan) if plan.testbed.is_appliance else source_of(names, number)
        argvs = nfs_mount.mount_commands(source, names.mount_point, spec.version, spec.options)
        commands = tuple(Command(tuple(argv)) for argv in argvs)
        details = {"client": names.client_names[number]}
        action = undo.Mount(target=names.mount_point)
        yield Step("mount", client_key(number), commands, action, details)


def source_of(names: Names, client: int) -> str:
    """What that client mounts."""
    return nfs_mount.source_of(names.server_addresses[client], names.path)


def fill(plan: Plan, names: Names) -> Step:
    """Fill the working set on the server, and snapshot it."""
    working_set = plan.workload.working_set
    argvs = [
        fio.fill_command(names.path, working_set.file, working_set.size, working_set.fill_block),
        # root is squashed on the clients, and stays so.
        ["chmod", "0666", f"{names.path}/{working_set.file}"],
        ["zpool", "sync"],
    ]
    snapshot = pool.pyzfs_command("snapshot", f"{names.dataset}@filled", names.run_id)
    commands = [Command(tuple(argv)) for argv in argvs]
    return Step("fill", "server", (*commands, Command(tuple(snapshot), "kit/remote/create_dataset.py")))


def make_directory(plan: Plan, names: Names) -> Step:
    """In an appliance's export, through the first client."""
    spec = plan.workload.nfs
    action = undo.ExportDirectory(
        target=names.mount_point,
        directory=names.directory,
        file=plan.workload.working_set.file,
        source=export_of(plan),
        version=spec.version,
        options=list(spec.options),
    )
    command = Command(tuple(export_directory.make_command(names.mount_point, names.directory)))
    return Step("make directory", client_key(0), (command,), action, {"directory": names.directory})


def fill_export(plan: Plan, names: Names) -> Step:
    """Fill the working set in that directory."""
    working_set, place = plan.workload.working_set, f"{names.mount_point}/{names.directory}"
    argv = export_directory.fill_command(place, working_set.file, working_set.size, working_set.fill_block)
    return Step("fill", client_key(0), (Command(tuple(argv)),))


# --- What is measured: kit.precondition, kit.load and kit.trace run these commands ---


def precondition(plan: Plan, names: Names) -> Iterator[Step]:
    settings = plan.workload.precondition
    for device in selected_devices(settings, plan.testbed):
        assert settings is not None
        yield from _precondition_device(settings, device, names)


def _precondition_device(settings: Precondition, device: Device, names: Names) -> Iterator[Step]:
    path, name = names.device_paths[device.name], f"precondition {device.name}"
    directory = f"{names.work_dir}/precondition-{device.name}"
    probes = [load.argv(f"{directory}/probe.json") for load in probe_loads(path, device.size, settings)]
    yield Step(f"{name}: probe", "server", tuple(Command(tuple(argv)) for argv in probes))
    points = 0
    for stage in stages(settings):
        is_purge = stage == "purge"
        span = budget.span_bytes(device.size) if is_purge else device.size
        loads = [
            load.argv(f"{directory}/load.json") for load in stage_loads(stage, path, device.size, settings)
        ]
        measured = []
        for op in ("write", "read"):
            load = measured_load(path, op, device.size if op == "write" else span, settings, points)
            measured.append(load.argv(f"{directory}/measure.json", f"{directory}/measure"))
        note = "or nvme format or sanitize, if the device has them and no namespace beside it is hit"
        purge = [Command(("blkdiscard", path), note)] if is_purge else []
        # While nothing is on it, writes are measured first.
        order = [measured[0], *loads, measured[1]] if is_purge else [*loads, *measured]
        yield Step(f"{name}: {stage}", "server", (*purge, *(Command(tuple(argv)) for argv in order)))
        points += len(measured)


def place_of(plan: Plan, names: Names) -> str:
    """The directory of the working set, as clients see it."""
    is_appliance = plan.testbed.is_appliance
    return f"{names.mount_point}/{names.directory}" if is_appliance else names.mount_point


def warm_up(plan: Plan, names: Names) -> Iterator[Step]:
    warmup, file = plan.workload.warmup, plan.workload.working_set.file
    if warmup is None:
        return
    if warmup.read_first:
        direct = plan.testbed.is_appliance
        path = place_of(plan, names) if direct else names.path
        argv = fio.read_through_command(f"{path}/{file}", warmup.read_first, direct=direct)
        argv = ordinary(argv) if direct else argv
        yield Step("warm up", client_key(0) if direct else "server", (Command(tuple(argv)),))
    files = fio.FioFiles(f"{names.work_dir}/{names.client_names[0].replace('/', '-')}-warm-up")
    job = f"{warmup.job} in {place_of(plan, names)}"
    yield Step("warm up", client_key(0), (Command(_by_fios_user(plan, fio.command(files)), job),))


def _by_fios_user(plan: Plan, argv: list[str]) -> tuple[str, ...]:
    """As an ordinary user; libnfs needs a port that only root may have."""
    return tuple(ordinary(argv) if plan.workload.nfs.engine == "kernel" else argv)


def phases(plan: Plan, names: Names) -> Iterator[Step]:
    """The tracer's marks and fio, phase by phase."""
    testbed = plan.testbed
    skipped = left_out(plan.workload).skipped if testbed.is_appliance else {}
    measured = [phase for phase in plan.workload.phase if phase.name not in skipped]
    is_traced = not testbed.is_appliance and testbed.server.trace == "auto"
    tracer = nfsd_tracer.Place(names.work_dir)
    if is_traced:
        intervals = [phase.interval for phase in measured]
        argv = nfsd_tracer.command(tracer, testbed.clock, intervals, _NEWEST_TRACING)
        command = Command(tuple(argv), "kit/trace/nfsd.bt, for all phases")
        yield Step("start the tracer", "server", (command,), undo.Tracer(directory=tracer.directory))
    for number, phase in enumerate(measured, start=1):
        step = f"phase {phase.name}"
        if phase.remove and not testbed.is_appliance:
            removal = [pool.remove_command(names.pool, used_paths(plan, names, phase.remove))]
            if phase.remove == "log":
                removal += pool.begin_zil_commands(names.pool, names.path)
            yield Step(step, "server", tuple(Command(tuple(argv)) for argv in removal))
        if begins_with_empty_log(plan, phase):
            yield Step(step, "server", (Command(tuple(pool.empty_log_command(names.pool))),))
        yield from _sampling(plan, names, phase, step)
        if is_traced:
            argv = nfsd_tracer.begin_command(tracer, number, testbed.clock.to_host_ns(phase.interval))
            yield Step(step, "server", (Command(tuple(argv)),))
        yield from _load(plan, names, phase, step)
        if is_traced:
            argv = nfsd_tracer.end_command(tracer, number, "SIZE", followed=phase.log == "histograms")
            yield Step(step, "server", (Command(tuple(argv), "SIZE: what the mark before has printed"),))
        for key in _machines(plan):
            command = Command(tuple(sampler.end_command("PID")), "PID: what the program has printed")
            yield Step(step, key, (command,))


def begins_with_empty_log(plan: Plan, phase: Phase) -> bool:
    """Whether log blocks of phases before are given back first: a full log sends writes to the pool."""
    phases = plan.workload.phase
    before = phases[: phases.index(phase)]
    wrote = any("write" in plan.jobs[each.load].operations for each in before)
    return wrote and "slog" in phase.tiers and not plan.testbed.is_appliance


def _machines(plan: Plan) -> list[str]:
    """Of hosts of one kernel a run takes the first; the lab is one."""
    testbed = plan.testbed
    keys = [client_key(number) for number, _ in enumerate(testbed.client)]
    return ["server"] if testbed.is_lab else [*([] if testbed.is_appliance else ["server"]), *keys]


def _sampling(plan: Plan, names: Names, phase: Phase, step: str) -> Iterator[Step]:
    """CPUs of each machine, and the server's devices."""
    logs, period_ns = (
        used_paths(plan, names, "log"),
        sampler.period_ns(phase.duration, plan.testbed.clock),
    )
    devices = {
        device.name: sampler.Sampled(
            path := _used_path(plan, names, device),
            counters_command(device.name) if device.emulated else None,
            path in logs,
        )
        for device in plan.testbed.device
    }
    for key in _machines(plan):
        argv = sampler.command(period_ns, devices if key == "server" else {})
        yield Step(step, key, (Command(tuple(argv), sampler.SOURCE),))


def _counted(plan: Plan, names: Names, phase: Phase, step: str, job: str) -> Iterator[Step]:
    """fio with a program on each client that prints its counts."""
    to_host_ns = plan.testbed.clock.to_host_ns
    window_ms = fio.window_ms(to_host_ns(phase.interval), to_host_ns(phase.duration))
    for number, _ in enumerate(names.client_names):
        directory = fio.group_directory(names.work_dir, number, phase.name)
        argv = _by_fios_user(plan, fio.count_command(directory, window_ms, ordinary=True))
        yield Step(step, client_key(number), (Command(argv, f"kit/remote/count_ios.py; {job}"),))


def _load(plan: Plan, names: Names, phase: Phase, step: str) -> Iterator[Step]:
    job, clients = f"{phase.job} in {place_of(plan, names)}", names.client_names
    if phase.log == "histograms":
        yield from _counted(plan, names, phase, step, job)
        return
    if len(clients) == 1:
        files = fio.FioFiles(f"{names.work_dir}/{clients[0].replace('/', '-')}-{phase.name}")
        yield Step(step, client_key(0), (Command(_by_fios_user(plan, fio.command(files)), job),))
        return
    sockets = [fio.socket_name(number) for number, _ in enumerate(clients)]
    for number, socket in enumerate(sockets):
        directory = fio.group_directory(names.work_dir, number, phase.name)
        argv = fio.server_command(directory, socket)
        yield Step(step, client_key(number), (Command(_by_fios_user(plan, argv)),))
    directory = fio.group_directory(names.work_dir, 0, phase.name)
    argv = fio.leader_command(directory, sockets)
    yield Step(step, client_key(0), (Command(_by_fios_user(plan, argv), job),))
