"""The steps of mounts, warm-up and phases: marks of the tracer, samples of the machines, fio. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kit.capacity.open_words import open_words, replay_words
from kit.config.device_model import DeviceModel
from kit.config.tables.capacity_table import OpenJob, ReplayJob
from kit.config.tables.force_table import ForceJob
from kit.config.tables.phase_table import ARRAY, Phase
from kit.config.tables.tree_table import MetadataJob
from kit.config.testbed import client_key
from kit.emulation.served import counters_command
from kit.hosts.base import Command
from kit.instruments.drives import reading
from kit.instruments.machine import sampler, wear
from kit.load import fio
from kit.load.ordinary_user import ordinary
from kit.load.programs import force_program
from kit.nfs import export, null_calls
from kit.nfs import mount as nfs_mount
from kit.plan import power_steps, schedule_steps
from kit.plan.array_steps import make_array, partitions, spec_of
from kit.plan.names import Names, place_of, pool_spec, used_path, used_paths
from kit.plan.plan import Plan, export_of
from kit.plan.step import Step
from kit.recovery import host_undos, storage_undos, work_directory
from kit.rules.appliance_limits import measured_phases
from kit.rules.cold import has_curve
from kit.trace import nfsd_tracer
from kit.trace.support import TracingSupport, programs
from kit.zfs import pool, rebuild_watch, tunables, zil
from kit.zfs.tunables import PlannedTunable

# A program of a load: the number of the client, argv, and a note for people.
_Call = tuple[int, list[str], str]
_NEWEST_TRACING = TracingSupport("full", programs()[-1], "0.23")


def mounts(plan: Plan, names: Names) -> Iterator[Step]:
    """On each client whose fio needs it. Of an appliance the first one always: it makes the file."""
    spec, through_mount = plan.workload.nfs, plan.workload.nfs.engine == "kernel"
    clients = len(names.client_names) if through_mount else int(plan.testbed.is_appliance)
    for number in range(clients):
        source = nfs_mount.source_of(names.server_addresses[number], names.path)
        if plan.testbed.is_appliance:
            source = export_of(plan)
        commands = nfs_mount.mount_commands(source, names.mount_point, spec.version, spec.mount_options)
        details = {"client": names.client_names[number]}
        action = storage_undos.UndoMount(target=names.mount_point)
        yield Step("mount", client_key(number), commands, action, details)


def warm_up(plan: Plan, names: Names) -> Iterator[Step]:
    warmup = plan.workload.warmup
    if warmup is None:
        return
    file, over_nfs = plan.workload.file_set.file, plan.workload.over_nfs
    if warmup.read_first:
        direct = plan.testbed.is_appliance
        path = place_of(plan, names) if direct else names.path
        argv = fio.read_through_command(f"{path}/{file}", warmup.read_first, direct=direct)
        argv = ordinary(argv) if direct else argv
        yield Step("warm up", client_key(0) if direct else "server", (Command(tuple(argv)),))
    files = fio.FioFiles(fio.directory(names.work_dir, 0, "warm-up"))
    job = f"{warmup.job} in {place_of(plan, names)}"
    command = Command(_by_fios_user(plan, fio.command(files), by_client=over_nfs), job)
    yield Step("warm up", client_key(0) if over_nfs else "server", (command,))


def _by_fios_user(plan: Plan, argv: list[str], *, by_client: bool) -> tuple[str, ...]:
    """On clients as an ordinary user; libnfs needs a port that only root may have."""
    return tuple(ordinary(argv) if by_client and plan.workload.nfs.engine == "kernel" else argv)


def phases(plan: Plan, names: Names, *, on_devices: bool) -> Iterator[Step]:
    """The tracer's marks and fio, phase by phase: those on bare devices, or those with a pool."""
    tracer = nfsd_tracer.TracerFiles(names.work_dir)
    measured = measured_phases(plan.workload, plan.testbed)
    of_place = (phase for phase in measured if phase.on_devices == on_devices)
    groups = tracer_groups(list(of_place), _probes)
    for group in groups:
        if group[0].restart and not plan.testbed.is_appliance:
            yield from _restart_steps(plan, names, group[0])
        if plan.is_traced and any(each.over_nfs for each in group):
            yield _start_tracer(plan, tracer, group, "all phases" if len(groups) == 1 else "")
        for number, phase in enumerate(group, 1):
            yield from _phase(plan, names, phase, tracer, number)


def tracer_groups(phases: Sequence[Phase], probes: Callable[[Phase], object]) -> list[list[Phase]]:
    """Phases in a row with one tracer: with the same probes, and no restart of the server between them."""
    groups: list[list[Phase]] = []
    for phase in phases:
        if groups and not phase.restart and probes(phase) == probes(groups[-1][0]):
            groups[-1].append(phase)
        else:
            groups.append([phase])
    return groups


def _probes(phase: Phase) -> tuple[bool, int | None, bool]:
    """What a tracer has to be started with for it."""
    return bool(phase.split_of), phase.keys, bool(phase.metadata)


def _phase(
    plan: Plan, names: Names, phase: Phase, tracer: nfsd_tracer.TracerFiles, number: int
) -> Iterator[Step]:
    """`number`: of the phase among those of its tracer, from 1."""
    step = f"phase {phase.name}"
    if phase.remove and not plan.testbed.is_appliance:
        yield Step(step, "server", removal(plan, names, phase.remove))
    if phase.cold and not plan.testbed.is_appliance:
        yield from _cold_steps(plan, names, step)
    if begins_with_empty_log(plan, phase):
        yield Step(step, "server", (zil.empty_log_command(names.pool),))
    if phase.array:
        yield make_array(plan, names, phase)
    yield from (null := [*_null_calls(plan, phase, step)])
    yield from _sampling(plan, names, phase, step)
    is_traced = plan.is_traced and phase.over_nfs
    if is_traced:
        argv = nfsd_tracer.begin_command(tracer, number, plan.testbed.clock.to_host_ns(phase.interval))
        commands = [Command(tuple(argv))]
        if phase.log == "histograms":
            argv = nfsd_tracer.follow_command(tracer, "SIZE")
            commands.append(Command(tuple(argv), "as the phase goes on"))
        yield Step(step, "server", tuple(commands))
    yield from _load(plan, names, phase, step)
    yield from schedule_steps.steps(plan, names, phase)
    if is_traced:
        argv = nfsd_tracer.end_command(tracer, number, "SIZE", followed=phase.log == "histograms")
        yield Step(step, "server", (Command(tuple(argv), "SIZE: what the mark before has printed"),))
    argv = sampler.end_command("PID", locked=phase.on_devices)
    ended = Command(tuple(argv), "PID: what the program has printed")
    yield from (Step(step, key, (ended,)) for key in _machines(plan))
    yield from null


def _null_calls(plan: Plan, phase: Phase, step: str) -> Iterator[Step]:
    """On each client with a mount, before the load and after."""
    if plan.workload.nfs.engine == "kernel" and phase.over_nfs:
        argv = null_calls.command("SERVER", "2049", plan.workload.nfs.version)
        command = Command(tuple(argv), f"{null_calls.SOURCE}, over TCP, at the address of the mount")
        for number, _ in enumerate(plan.testbed.client):
            yield Step(step, client_key(number), (command,))


def removal(plan: Plan, names: Names, role: str) -> tuple[Command, ...]:
    """The devices of a role leave the pool; without a log device a new ZIL begins."""
    remove = pool.remove_command(names.pool, pool.removal_names(pool_spec(plan, names), role))
    return (remove, *(zil.begin_zil_commands(names.pool, names.path) if role == "log" else ()))


def cache_commands(plan: Plan, names: Names) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """Cache devices leave the pool before it is exported, and come back, empty, after its import."""
    spec = pool_spec(plan, names)
    if not spec.cache:
        return (), ()
    remove = pool.remove_command(names.pool, pool.removal_names(spec, "cache"))
    return (remove,), (pool.add_cache_command(names.pool, spec.cache),)


def begun_log(plan: Plan, names: Names) -> tuple[Command, ...]:
    """A new log after an import: else the first operation that changes a tree, or writes, waits for a txg."""
    replays = any(phase.replay and _writes(plan, phase) for phase in plan.workload.phase)
    return (*zil.begin_zil_commands(names.pool, names.path),) if plan.workload.tree or replays else ()


def _writes(plan: Plan, phase: Phase) -> bool:
    return "write" in plan.jobs[phase.load].operations


def _cold_steps(plan: Plan, names: Names, step: str) -> Iterator[Step]:
    """As `hsp plan` prints them (kit.setup.reimport)."""
    remove, add = cache_commands(plan, names)
    spec = pool_spec(plan, names)
    left = tuple(path for path in spec.devices if path not in spec.cache)
    put_back = _put_back(names, left, *begun_log(plan, names))
    anew = Step(step, "server", (*remove, *_take_out(names), *put_back, *add))
    yield from _unmounted(plan, names, step, [anew])


def _unmounted(plan: Plan, names: Names, step: str, meanwhile: Iterable[Step]) -> Iterator[Step]:
    """Clients have no mount `meanwhile`."""
    mounted = [*mounts(plan, names)]
    for each in mounted:
        yield Step(step, each.host, (Command(("umount", names.mount_point)),))
    yield from meanwhile
    for each in mounted:
        yield Step(step, each.host, each.commands)


def _restart_steps(plan: Plan, names: Names, phase: Phase) -> Iterator[Step]:
    """As `hsp plan` prints them (kit.run.power.restart)."""
    step, restart = f"restart before phase {phase.name}", plan.testbed.restart
    if phase.restart == "reboot":
        assert restart, "kit.rules.cold has refused it"
        command = Command(restart.command, "[restart] of the testbed; then the server is waited for")
        down = Step(step, "server", (*_take_out(names), command))
    else:
        assert plan.testbed.power, "kit.rules.cold has refused it"
        down = power_steps.cut(plan.testbed.power, "the server", "`on` after it; the server is waited for")
    again = [tunables.write_command(each.name, str(each.host_value)) for each in settings_of(plan)]
    watch = Command(rebuild_watch.watch_argv("DEVICES"), rebuild_watch.SOURCE)
    put_back = _put_back(names, pool_spec(plan, names).devices)
    made = work_directory.create_commands(names.run_id)
    parts = [command for each in partitions(plan, names) for command in each.commands]
    up = Step(step, "server", (*made, *parts, *again, watch, *put_back))
    yield from _unmounted(plan, names, step, [down, up])


def settings_of(plan: Plan) -> tuple[PlannedTunable, ...]:
    """The tunables that a run sets: the workload's and, where shares come from it, of the list of reads."""
    untraced = plan.testbed.server.trace == "none" or plan.has_phases_in_dataset
    return (*plan.tunables, *(tunables.read_history_tunables(plan.tunables) if untraced else ()))


def _take_out(names: Names) -> Iterator[Command]:
    for each in names.client_addresses:
        yield Command(tuple(export.unexport_command(names.path, each)), "and nfsd's caches flushed")
    yield Command(("zpool", "export", names.pool))


def _put_back(names: Names, devices: tuple[str, ...], *begin: Command) -> Iterator[Command]:
    """`begin`: before it is exported."""
    yield Command(tuple(pool.import_argv("GUID", devices)), "GUID: of the pool")
    yield Command(("zfs", "mount", "-l", names.dataset))
    yield from begin
    yield from (export.export_command(names.path, each) for each in names.client_addresses)


def _start_tracer(plan: Plan, tracer: nfsd_tracer.TracerFiles, phases: Sequence[Phase], names: str) -> Step:
    """One tracer for `phases`; `names`: what to call them, "" by name."""
    intervals = [phase.interval for phase in phases if phase.over_nfs]
    argv = nfsd_tracer.command(tracer, plan.testbed.clock, intervals, _NEWEST_TRACING)
    files = "kit/trace/nfsd.bt" + (" with split.bt" if phases[0].split_of else "")
    files += " with metadata.bt" if phases[0].metadata else ""
    files += f", a sample of one in {phases[0].keys} blocks" if phases[0].keys else ""
    command = Command(tuple(argv), f"{files}, for {names or ', '.join(phase.name for phase in phases)}")
    return Step("start the tracer", "server", (command,), host_undos.UndoTracer(directory=tracer.directory))


def begins_with_empty_log(plan: Plan, phase: Phase) -> bool:
    """Whether log blocks of phases before are given back first: a full log sends writes to the pool.

    Also before each look at a rate: what an earlier rate has dirtied would make writes of a later one wait.
    """
    if (phase.open or phase.replay) and _writes(plan, phase):
        return not (phase.on_devices or plan.testbed.is_appliance)
    phases = plan.workload.phase
    before = [each for each in phases[: phases.index(phase)] if not each.on_devices]
    wrote = any(_writes(plan, each) for each in before)
    return wrote and "slog" in phase.tiers and not plan.testbed.is_appliance


def _machines(plan: Plan) -> list[str]:
    """Of hosts of one kernel a run takes the first; the lab is one."""
    testbed = plan.testbed
    keys = [client_key(number) for number, _ in enumerate(testbed.client)]
    return ["server"] if testbed.is_lab else [*([] if testbed.is_appliance else ["server"]), *keys]


def _sampling(plan: Plan, names: Names, phase: Phase, step: str) -> Iterator[Step]:
    """CPUs of each machine, and the server's devices."""
    of_caches = has_curve(phase, plan.workload.schedule(phase))
    logs = used_paths(plan, names, "log")
    period_ns = sampler.period_ns(
        phase.duration, plan.testbed.clock, of_array=phase.array is not None, of_caches=of_caches
    )
    devices = {
        device.name: sampler.Sampled(
            path := names.device_paths[device.name] if phase.on_devices else used_path(plan, names, device),
            counters_command(device.name) if device.emulated else None,
            path in logs and not phase.on_devices,
        )
        for device in plan.testbed.device
    }
    lock = phase.devices
    if phase.array:
        devices[ARRAY], lock = sampler.Sampled(spec_of(names, phase).path), (*lock, ARRAY)
    for key in _machines(plan):
        of_server = key == "server"
        argv = sampler.command(
            period_ns, devices if of_server else {}, lock, of_caches=of_caches and of_server
        )
        yield Step(step, key, (Command(tuple(argv), sampler.SOURCE),))
    yield from _drives(plan, names, step)
    if phase.soak and phase.soak.limits and not plan.testbed.is_appliance:
        paths = {name: each.path for name, each in devices.items() if name != ARRAY}
        yield Step(step, "server", (Command(tuple(wear.command(paths)), wear.SOURCE),))


def _drives(plan: Plan, names: Names, step: str) -> Iterator[Step]:
    """What the server's drives say of themselves, before the load and after it."""
    devices = [each for each in plan.testbed.device if not plan.testbed.is_lab or _throttles(each.emulated)]
    if devices and not plan.testbed.is_appliance:
        paths = {each.name: names.device_paths[each.name] for each in devices}
        models = {each.name: counters_command(each.name) for each in devices if plan.testbed.is_lab}
        argv = reading.command(paths, dict.fromkeys(paths, reading.LOGS), models)
        yield Step(step, "server", (Command(tuple(argv), reading.SOURCE),))


def _throttles(model: DeviceModel | None) -> bool:
    """Whether it makes itself slower because of heat, and says so: a controller hides it."""
    return model is not None and model.ssd is not None and model.ssd.throttle is not None


def _times_ns(plan: Plan, phase: Phase) -> tuple[int, int]:
    """See LoadSpec."""
    return fio.times_ns(*map(plan.testbed.clock.to_host_ns, (phase.interval, phase.duration)))


def _load(plan: Plan, names: Names, phase: Phase, step: str) -> Iterator[Step]:
    """The programs of the load, on each client or on the server."""
    place = ", ".join(names.device_paths[each] for each in phase.devices) or place_of(plan, names, phase)
    place = spec_of(names, phase).node if phase.array else place
    if phase.force:
        calls = _forced(plan, names, phase, place)
    elif phase.open:
        calls = _open(plan, names, phase, place)
    elif phase.replay:
        calls = _replay(plan, names, phase, place)
    elif phase.metadata:
        calls = _metadata(plan, names, phase)
    else:
        calls = _fio(plan, names, phase, f"{phase.job} in {place}")
    for number, argv, note in calls:
        words = _by_fios_user(plan, argv, by_client=phase.over_nfs)
        yield Step(step, client_key(number) if phase.over_nfs else "server", (Command(words, note),))


def _fio(plan: Plan, names: Names, phase: Phase, job: str) -> Iterator[_Call]:
    """fio of each client, or for each device; with a program that prints its counts, if it counts."""
    window_ns, _ = _times_ns(plan, phase)
    alone = names.client_names if phase.over_nfs else ("server",)
    for number, _ in enumerate((ARRAY,) if phase.array else phase.devices or alone):
        files = fio.FioFiles(fio.directory(names.work_dir, number, phase.name))
        if phase.log == "histograms":
            argv = fio.count_command(files.directory, window_ns // 10**6, ordinary=phase.over_nfs)
            yield number, argv, f"kit/remote/load/count_ios.py; {job}"
        else:
            yield number, fio.command(files), job


def _forced(plan: Plan, names: Names, phase: Phase, place: str) -> Iterator[_Call]:
    """The program of forced writes: before, in and after the phase."""
    job, size_bytes = plan.jobs[phase.load], _least_bytes(plan, phase)
    assert isinstance(job, ForceJob)
    spec = force_program.words_of(job.force, phase.name, place, size_bytes, 0, is_device=phase.on_devices)
    calls = [
        *([] if phase.on_devices else [["prepare", *spec]]),
        force_program.run_words(spec, job.force, size_bytes, *_times_ns(plan, phase)),
        *([["verify", *spec, "WRITTEN"]] if job.force.check else []),
    ]
    for call in calls:
        yield 0, force_program.command(names.work_dir, call), f"{force_program.NAME}; {job.force.text}"


def _metadata(plan: Plan, names: Names, phase: Phase) -> Iterator[_Call]:
    job = plan.jobs[phase.load]
    assert isinstance(job, MetadataJob)
    for number, _ in enumerate(names.client_names):
        directory = fio.directory(names.work_dir, number, phase.name)
        argv = force_program.tree_command(job, directory, names.mount_point, number, _times_ns(plan, phase))
        yield number, argv, "kit/remote/load/metadata_load.py"


def _open(plan: Plan, names: Names, phase: Phase, place: str) -> Iterator[_Call]:
    """The first look of a search; the others have another rate and seed."""
    job, clock = plan.jobs[phase.load], plan.testbed.clock
    assert isinstance(job, OpenJob)
    clients = len(names.client_names) if phase.over_nfs else 1
    size = _least_bytes(plan, phase) or plan.workload.file_set.size
    call = open_words(job, place, size, 0, clock, _times_ns(plan, phase), clients)
    for number in range(clients):
        argv = force_program.command(names.work_dir, call)
        yield number, argv, f"{force_program.NAME}; {phase.load_text}"


def _replay(plan: Plan, names: Names, phase: Phase, place: str) -> Iterator[_Call]:
    job, clock = plan.jobs[phase.load], plan.testbed.clock
    assert isinstance(job, ReplayJob)
    size, times_ns = plan.workload.file_set.size, _times_ns(plan, phase)
    for number, _ in enumerate(names.client_names):
        schedule = f"{fio.directory(names.work_dir, number, phase.name)}/schedule"
        call = replay_words(job, place, size, 0, clock, times_ns, schedule)
        argv = force_program.command(names.work_dir, call)
        yield number, argv, f"{force_program.NAME}; {job.capture.text}"


def _least_bytes(plan: Plan, phase: Phase) -> int:
    """Of the phase's devices, the size of the smallest; 0 without devices."""
    return min((each.size for each in plan.testbed.device if each.name in phase.devices), default=0)
