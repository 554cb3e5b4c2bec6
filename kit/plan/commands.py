"""The commands of a plan, in their order, before there is a run: what `hsp plan` shows. Pure.

They come from the functions that a run itself calls, with RUN in place of the run's id. What a run
really ran is in its raw/commands.jsonl. Commands that only look at something are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kit.config.address import HostAddress
from kit.config.precondition_table import Precondition
from kit.config.testbed import Client, Device, client_key
from kit.config.workload import Phase
from kit.devices import partition
from kit.load import fio, fio_server_commands
from kit.nfs import export as nfs
from kit.nfs import export_directory
from kit.plan.appliance_limits import left_out
from kit.plan.plan import MAX_BYTES, Plan
from kit.precondition import budget
from kit.precondition.selection import wanted_devices
from kit.precondition.stage_loads import measured_load, probe_loads, stage_loads, stages
from kit.recovery import work_directory
from kit.trace import nfsd_tracer
from kit.trace.program import programs
from kit.trace.support import Tracing
from kit.zfs import pool, tunables

# Stand for the run's id, for its last part, and for a number that is made of the path.
RUN, ID, FSID = "RUN", "ID", "FSID"
_NEWEST_TRACING = Tracing("full", programs()[-1], "0.23")
# What is written each second, to say how long writing takes at least: a disk, and a fast SSD.
RATES_BYTES = (100_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Command:
    """`host`: a key such as "server" or "client0"; `input`: what it reads, or what is known only there."""

    host: str
    step: str
    argv: tuple[str, ...]
    input: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "argv": list(self.argv)}


@dataclass(frozen=True)
class Written:
    """Bytes that will be written to a device, or to all of a role, before the measurement."""

    device: str
    min_bytes: int
    max_bytes: int
    text: str


def commands(plan: Plan) -> list[Command]:
    """Everything that changes something, in order."""
    parts = _of_an_appliance(plan) if plan.testbed.is_appliance else _of_a_server(plan)
    return list(parts)


def _of_a_server(plan: Plan) -> Iterator[Command]:
    yield from _directories(plan)
    settings = plan.workload.precondition
    for device in wanted_devices(settings, plan.testbed) if settings and settings.writes else ():
        assert settings is not None
        yield from _precondition(settings, device)
    for one in _tunables(plan):
        argv = ("tee", tunables.parameter_path(one.name))
        yield Command("server", f"set {one.name}", argv, input=str(one.host_value))
    yield from _build(plan)
    yield from _share(plan)
    yield from _fill(plan)
    yield from _load(plan, plan.workload.phase, mount_point())
    yield from _undo(plan)


def _of_an_appliance(plan: Plan) -> Iterator[Command]:
    yield from _directories(plan)
    options = plan.workload.nfs
    target, directory = mount_point(), export_directory.name_of(RUN)
    # Through libnfs only the file itself has to be made by a mount.
    mounting = _client_keys(plan) if options.engine == "kernel" else _client_keys(plan)[:1]
    for key in mounting:
        argv = nfs.mount_command(plan.testbed.server.export or "", target, options.version, options.options)
        yield Command(key, "mount", tuple(argv))
    place, working_set = f"{target}/{directory}", plan.workload.working_set
    yield Command("client0", "fill", ("mkdir", "--mode=0777", "--", place))
    argv = fio.fill_command(place, working_set.file, working_set.size, working_set.fill_block)
    yield Command("client0", "fill", tuple(argv))
    yield Command("client0", "fill", ("chmod", "0666", f"{place}/{working_set.file}"))
    skipped = left_out(plan.workload).skipped
    yield from _load(plan, tuple(p for p in plan.workload.phase if p.name not in skipped), place)
    yield Command("client0", "undo", ("rm", "-f", "--", f"{place}/{working_set.file}"))
    yield Command("client0", "undo", ("rmdir", "--", place))
    for key in mounting:
        yield Command(key, "undo", ("umount", target))
    for key in _client_keys(plan):
        yield Command(key, "undo", _removal())


def _tunables(plan: Plan) -> list[tunables.Tunable]:
    """In the order of a server whose ARC may be larger than the workload wants, as almost every one's may.

    With trace = "none" the kernel's list of reads takes the tracer's place, and has settings of its own.
    """
    history = tunables.read_history_tunables(plan.tunables) if plan.testbed.server.trace == "none" else ()
    return tunables.in_order((*plan.tunables, *history), {"zfs_arc_max": str(MAX_BYTES)})


def mount_point() -> str:
    return f"/mnt/hsp-{RUN}"


def _client_keys(plan: Plan) -> list[str]:
    return [client_key(number) for number, _ in enumerate(plan.testbed.client)]


def _directories(plan: Plan) -> Iterator[Command]:
    for key, host in plan.hosts.items():
        for argv in work_directory.create_commands(RUN) if host != "none" else ():
            yield Command(key, "work directory", tuple(argv))


def device_path(device: Device) -> str:
    """Where it is; the lab says so only when it has made it."""
    return device.path or f"/dev/{device.name}"


def used_path(plan: Plan, device: Device) -> str:
    """What of it becomes part of the pool."""
    wanted = plan.workload.pool.cache_size
    if device.role == "cache" and wanted is not None and device.size > wanted:
        return partition.path_of(device_path(device))
    return device_path(device)


def _precondition(settings: Precondition, device: Device) -> Iterator[Command]:
    path = device_path(device)
    directory = f"{work_directory.path_of(RUN)}/precondition-{device.name}"
    points = 0
    for load in probe_loads(path, device.size, settings):
        yield Command(
            "server", f"precondition {device.name}: probe", tuple(load.argv(f"{directory}/probe.json"))
        )
    for stage in stages(settings):
        step, is_purge = f"precondition {device.name}: {stage}", stage == "purge"
        span = budget.span_bytes(device.size) if is_purge else device.size
        loads = [
            load.argv(f"{directory}/load.json") for load in stage_loads(stage, path, device.size, settings)
        ]
        measured = []
        for op in ("write", "read"):
            load = measured_load(path, op, device.size if op == "write" else span, settings, points)
            measured.append(load.argv(f"{directory}/measure.json", f"{directory}/measure"))
        if is_purge:
            note = "or nvme format or sanitize, if the device has them and no namespace beside it is hit"
            yield Command("server", step, ("blkdiscard", path), input=note)
        # While nothing is on it, writes are measured first.
        order = [measured[0], *loads, measured[1]] if is_purge else [*loads, *measured]
        for argv in order:
            yield Command("server", step, tuple(argv))
        points += len(measured)


def _build(plan: Plan) -> Iterator[Command]:
    workload = plan.workload
    for device in plan.testbed.devices("cache"):
        if used_path(plan, device) != device_path(device):
            argv = partition.create_command(device_path(device), workload.pool.cache_size or 0)
            yield Command("server", "use a part", tuple(argv), input="kit/remote/partition.py")

    def paths(role: Any) -> tuple[str, ...]:
        return tuple(used_path(plan, device) for device in plan.testbed.devices(role))

    spec = pool.PoolSpec(
        name=_pool_name(),
        run_id=RUN,
        data_layout=workload.pool.data,
        data=paths("data"),
        log=paths("log"),
        cache=paths("cache"),
        properties=workload.pool.properties,
        mount_root=f"{work_directory.path_of(RUN)}/pool",
    )
    yield Command("server", "create pool", tuple(pool.create_arguments(spec)))
    dataset, properties = f"{_pool_name()}/bench", workload.dataset.properties
    made = pool.pyzfs_command("create", dataset, RUN, str(pool.record_bytes(properties)))
    yield Command("server", "create dataset", tuple(made), input="kit/remote/create_dataset.py")
    for argv in pool.dataset_commands(dataset, properties):
        yield Command("server", "create dataset", tuple(argv))


def _pool_name() -> str:
    return f"hsp-{ID}"


def _path() -> str:
    return f"{work_directory.path_of(RUN)}/pool/bench"


def _client_address(key: str, client: Client) -> str:
    return client.address or f"{key.upper()}-ADDRESS"


def _share(plan: Plan) -> Iterator[Command]:
    options, server = plan.workload.nfs, server_address(plan)
    for key, client in zip(_client_keys(plan), plan.testbed.client, strict=True):
        argv = nfs.export_command(_path(), _client_address(key, client))
        number = f"fsid={nfs.fsid(_path())}"
        yield Command("server", "export", tuple(w.replace(number, f"fsid={FSID}") for w in argv))
    if options.engine == "kernel":
        for key in _client_keys(plan):
            source = nfs.source_of(server, _path())
            argv = nfs.mount_command(source, mount_point(), options.version, options.options)
            yield Command(key, "mount", tuple(argv))


def server_address(plan: Plan) -> str:
    """What clients mount from, as far as it is known before they are asked."""
    server = plan.testbed.server
    return (
        server.address or server.at.host or ("127.0.0.1" if server.at.kind == "local" else "SERVER-ADDRESS")
    )


def _fill(plan: Plan) -> Iterator[Command]:
    working_set = plan.workload.working_set
    argv = fio.fill_command(_path(), working_set.file, working_set.size, working_set.fill_block)
    yield Command("server", "fill", tuple(argv))
    yield Command("server", "fill", ("chmod", "0666", f"{_path()}/{working_set.file}"))
    yield Command("server", "fill", ("zpool", "sync"))
    snapshot = pool.pyzfs_command("snapshot", f"{_pool_name()}/bench@filled", RUN)
    yield Command("server", "fill", tuple(snapshot), input="kit/remote/create_dataset.py")


def _load(plan: Plan, phases: tuple[Phase, ...], place: str) -> Iterator[Command]:
    workload, testbed = plan.workload, plan.testbed
    if workload.warmup:
        files = fio.FioFiles(f"{work_directory.path_of(RUN)}/{_client_name(plan)}-warm-up")
        job = f"{workload.warmup.job} in {place}"
        yield Command("client0", "warm up", tuple(fio.command(files)), input=job)
    is_traced = not testbed.is_appliance and testbed.server.trace == "auto"
    tracer = nfsd_tracer.Place(work_directory.path_of(RUN))
    if is_traced:
        intervals = [phase.interval for phase in phases]
        argv = nfsd_tracer.command(tracer, testbed.clock, intervals, _NEWEST_TRACING)
        yield Command("server", "start the tracer", tuple(argv), input="kit/trace/nfsd.bt, for all phases")
    for number, phase in enumerate(phases, start=1):
        step = f"phase {phase.name}"
        if phase.remove and not testbed.is_appliance:
            paths = tuple(used_path(plan, device) for device in testbed.devices(phase.remove))
            yield Command("server", step, tuple(pool.remove_command(_pool_name(), paths)))
        if is_traced:
            argv = nfsd_tracer.begin_command(tracer, number, testbed.clock.to_host_ns(phase.interval))
            yield Command("server", step, tuple(argv))
        yield from _clients(plan, phase, step, place)
        if is_traced:
            argv = nfsd_tracer.end_command(tracer, number, "SIZE")
            yield Command("server", step, tuple(argv), input="SIZE: what the mark before has printed")


def _clients(plan: Plan, phase: Phase, step: str, place: str) -> Iterator[Command]:
    job = f"{phase.job} in {place}"
    keys = _client_keys(plan)
    if len(keys) == 1:
        files = fio.FioFiles(f"{work_directory.path_of(RUN)}/{_client_name(plan)}-{phase.name}")
        yield Command(keys[0], step, tuple(fio.command(files)), input=job)
        return
    sockets = [fio_server_commands.socket_name(number) for number, _ in enumerate(keys)]
    for number, key in enumerate(keys):
        directory = fio_server_commands.directory_of(work_directory.path_of(RUN), number, phase.name)
        yield Command(key, step, tuple(fio_server_commands.server_command(directory, sockets[number])))
    directory = fio_server_commands.directory_of(work_directory.path_of(RUN), 0, phase.name)
    yield Command(keys[0], step, tuple(fio_server_commands.leader_command(directory, sockets)), input=job)


def _client_name(plan: Plan) -> str:
    """How files of the first client begin."""
    return host_name(plan.testbed.client[0].at).replace("/", "-")


def host_name(at: HostAddress) -> str:
    """What results call a host."""
    if at.kind == "ssh":
        return f"{at.host}" if at.port is None else f"{at.host}:{at.port}"
    return "lab/client0" if at.kind == "lab" else at.kind


def _removal() -> tuple[str, ...]:
    return tuple(work_directory.remove_command(work_directory.path_of(RUN)))


def _undo(plan: Plan) -> Iterator[Command]:
    if plan.workload.nfs.engine == "kernel":
        for key in _client_keys(plan):
            yield Command(key, "undo", ("umount", mount_point()))
    for key, client in zip(_client_keys(plan), plan.testbed.client, strict=True):
        yield Command("server", "undo", ("exportfs", "-u", f"{_client_address(key, client)}:{_path()}"))
    yield Command("server", "undo", ("zpool", "destroy", _pool_name()))
    for device in plan.testbed.devices("cache"):
        if used_path(plan, device) != device_path(device):
            argv = tuple(partition.remove_command(device_path(device)))
            yield Command("server", "undo", argv, input="kit/remote/partition.py")
    for one in reversed(_tunables(plan)):
        path = tunables.parameter_path(one.name)
        yield Command("server", "undo", ("tee", path), input="what it was before")
    for device in plan.testbed.device:
        if device.is_real:
            yield Command("server", "undo", ("wipefs", "--all", "--quiet", device_path(device)))
    for key in (*_client_keys(plan), "server"):
        yield Command(key, "undo", _removal())


def written(plan: Plan) -> list[Written]:
    """What is written to the devices before anything is measured; the load itself comes on top."""
    found, settings = [], plan.workload.precondition
    for device in wanted_devices(settings, plan.testbed) if settings and settings.writes else ():
        assert settings is not None
        needed = budget.effort(settings, device.size)
        text = f"preconditioning, {settings.method}"
        found.append(Written(device.name, needed.min_bytes, needed.max_bytes, text))
    data, size = plan.testbed.devices("data"), plan.workload.working_set.size
    copies = len(data) if plan.workload.pool.data == "mirror" else 1
    what = "data devices" if data else "export"
    found.append(Written(what, size * copies, size * copies, "working set, without parity and metadata"))
    return found


def seconds(plan: Plan) -> tuple[float, float]:
    """How long it takes at least, if the devices write as fast, or as slowly, as RATES_BYTES."""
    workload = plan.workload
    load_ns = sum(phase.duration for phase in workload.phase)
    load_ns += workload.warmup.duration if workload.warmup else 0
    least = sum(one.min_bytes for one in written(plan))
    slow, fast = RATES_BYTES
    return load_ns / 1e9 + least / fast, load_ns / 1e9 + least / slow
