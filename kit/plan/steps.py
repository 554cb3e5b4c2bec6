"""The steps of a run, as values: what changes on which host, by which commands, and how it is undone. Pure.

A run performs them (kit.setup.context), the journal records them, teardown undoes them in the reverse order,
and `hsp plan` prints them, all from the functions here. Commands that only look at something are not listed,
but for the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kit.config.tables.age_table import filled_to
from kit.config.tables.precondition_table import Precondition
from kit.config.testbed import client_key
from kit.config.testbed_devices import Device
from kit.hosts.base import Command
from kit.hosts.identity import HostIdentity
from kit.load import fio
from kit.load.programs import force_program
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.plan import power_steps, setting_steps
from kit.plan.array_steps import partitions
from kit.plan.load_steps import mounts, phases, settings_of, warm_up
from kit.plan.names import Names, place_of, pool_spec, shown
from kit.plan.plan import Plan, export_of
from kit.plan.step import ANY_HOST, Step
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.precondition.stage_loads import measured_load, probe_loads, stage_loads, stages
from kit.recovery import host_undos, storage_undos, work_directory
from kit.recovery.action import Action
from kit.rules.combination import MAX_BYTES
from kit.sizes.workload_sizes import pool_bytes
from kit.zfs import datasets, pool, tunables

_AGE_PROGRAM = Path(__file__).parents[1] / "remote" / "age_pool.py"
# Which blocks are freed is the same in each run.
_AGE_SEED = 1


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
        yield from setting_steps.planned(plan, names)
        yield from phases(plan, names, on_devices=True)
    if not (plan.testbed.is_appliance or plan.workload.on_devices):
        yield from _planned_tunables(plan)
        yield from partitions(plan, names)
        yield create_pool(plan, names)
        yield create_dataset(plan, names)
        yield from age_pool(plan, names)
        yield from exports(plan, names)
        yield from mounts(plan, names)
        yield fill(plan, names)
    yield from warm_up(plan, names)
    yield from phases(plan, names, on_devices=False)
    yield from power_steps.planned(plan)


def undone(steps: Sequence[Step]) -> Iterator[tuple[str, Action]]:
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


def work_directories(plan: Plan, names: Names, token: str = "") -> Iterator[Step]:
    """First, so that they go last: as long as one is there, something may be left."""
    commands = work_directory.create_commands(names.run_id, token)
    for key, address in plan.hosts.items():
        if address != "none":
            action = host_undos.WorkDirectory(path=names.work_dir)
            yield Step("make work directory", key, commands, action, {"path": names.work_dir})


def claims(plan: Plan, names: Names) -> Iterator[Step]:
    """Real devices, given back without the pool's label."""
    for device in plan.testbed.device:
        if device.is_real:
            path, serial = device.path or "", device.serial or ""
            action = storage_undos.UndoDevice(path=path, serial=serial, pool=names.pool)
            details = {"device": device.name, "path": device.path, "serial": device.serial}
            yield Step("take device", "server", (), action, details)


def set_tunables(
    settings: Sequence[tunables.PlannedTunable],
    before: Mapping[str, str],
    effects: Mapping[str, str],
    server: HostIdentity,
) -> Iterator[tuple[tunables.PlannedTunable, Step]]:
    """`before`: the values that the server has, `effects`: what is in effect where a value is 0."""
    for tunable in tunables.in_order(tuple(settings), dict(effects)):
        old, new = before[tunable.name], str(tunable.host_value)
        command = tunables.write_command(tunable.name, new)
        action = host_undos.UndoTunable(
            name=tunable.name,
            value=old,
            effect=effects.get(tunable.name, ""),
            set=new,
            **asdict(server),
        )
        details = {"before": old, "value": new}
        yield tunable, Step(f"set {tunable.name}", "server", (command,), action, details)


def _planned_tunables(plan: Plan) -> Iterator[Step]:
    """In the order of a server whose ARC may be larger than the workload asks for, as most are."""
    settings = settings_of(plan)
    before, maximum = {tunable.name: "0" for tunable in settings}, {"zfs_arc_max": str(MAX_BYTES)}
    return (step for _, step in set_tunables(settings, before, maximum, ANY_HOST))


def create_pool(plan: Plan, names: Names) -> Step:
    spec = pool_spec(plan, names)
    command = pool.create_command(spec)
    action = storage_undos.UndoPool(name=spec.name, run_id=names.run_id, devices=[*spec.devices])
    details = {"pool": spec.name, "argv": list(command.argv)}
    return Step("create pool", "server", (command,), action, details)


def create_dataset(plan: Plan, names: Names) -> Step:
    """It goes with the pool."""
    properties, key_file = plan.workload.dataset.properties, f"{names.work_dir}/key"
    commands = datasets.dataset_commands(names.dataset, names.run_id, properties, key_file)
    return Step("create dataset", "server", tuple(commands), details={"dataset": names.dataset})


def age_pool(plan: Plan, names: Names) -> Iterator[Step]:
    """Fill the pool and free blocks of it (kit.precondition.age_pool). It goes with the pool."""
    age, size = plan.workload.pool.age, pool_bytes(plan.workload, plan.testbed)
    if age is None:
        return
    block_bytes, dataset = age.block_bytes(size), f"{names.pool}/age"
    asked = {
        "pool": names.pool, "file": f"{names.mount_root}/age/file", **age.model_dump(),
        "filled_to": filled_to(size), "block_bytes": block_bytes,
        "reserve_bytes": plan.workload.file_set.size, "seed": _AGE_SEED,
    }  # fmt: skip
    options = [f"recordsize={block_bytes}", "compression=off", "atime=off", "primarycache=metadata"]
    create = ("zfs", "create", *(word for each in options for word in ("-o", each)), dataset)
    argv = ("/usr/bin/python3", "-I", "-", json.dumps(asked))
    program = Command(argv, "kit/remote/age_pool.py", _AGE_PROGRAM.read_bytes())
    yield Step("age the pool", "server", (Command(create), program), details={"pool": names.pool})


def exports(plan: Plan, names: Names) -> Iterator[Step]:
    """To each client alone."""
    for address in names.client_addresses:
        command = nfs_export.export_command(names.path, address)
        action = storage_undos.UndoExport(path=names.path, client=address)
        yield Step("export", "server", (command,), action, {"path": names.path, "client": address})


def fill(plan: Plan, names: Names) -> Step:
    """Fill the working set on the server, and snapshot it."""
    working_set = plan.workload.file_set
    made = [force_program.DIRECTORY for each in plan.workload.phase if each.force and not each.on_devices]
    made += [force_program.TREES] if plan.workload.tree else []
    directories = [f"{names.path}/{name}" for name in dict.fromkeys(made)]
    commands = (
        fio.fill_command(names.path, working_set.file, working_set.size, working_set.fill_block),
        # root is squashed on the clients, and stays so.
        Command(("chmod", "0666", f"{names.path}/{working_set.file}")),
        *(Command(("mkdir", "--mode=1777", "--", each)) for each in directories),
        Command(("zpool", "sync")),
        datasets.snapshot_command(f"{names.dataset}@filled", names.run_id),
    )
    return Step("fill", "server", commands)


def make_directory(plan: Plan, names: Names) -> Step:
    """In an appliance's export, through the first client."""
    spec = plan.workload.nfs
    action = storage_undos.ExportDirectory(
        target=names.mount_point,
        directory=names.directory,
        file=plan.workload.file_set.file,
        source=export_of(plan),
        version=spec.version,
        options=list(spec.options),
    )
    command = export_directory.make_command(place_of(plan, names))
    return Step("make directory", client_key(0), (command,), action, {"directory": names.directory})


def fill_export(plan: Plan, names: Names, *, ordinary: bool = True) -> Step:
    """Fill the working set in that directory. `ordinary`: as `export_directory.make` has found."""
    file = plan.workload.file_set
    command = export_directory.fill_command(
        place_of(plan, names), file.file, file.size, file.fill_block, ordinary
    )
    return Step("fill", client_key(0), (command,))


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
    points, active = 0, settings.active_bytes(device.size)
    for stage in stages(settings):
        is_purge = stage.kind == "purge"
        span = budget.span_bytes(active) if is_purge else active
        loads = [
            load.argv(f"{directory}/load.json") for load in stage_loads(stage, path, device.size, settings)
        ]
        measured = []
        for op in ("write", "read"):
            load = measured_load(path, op, active if op == "write" else span, settings, points)
            measured.append(load.argv(f"{directory}/measure.json", f"{directory}/measure"))
        note = "or nvme format or sanitize, if the device has them and no namespace beside it is hit"
        purge = [Command(("blkdiscard", path), note)] if is_purge else []
        # While nothing is on it, writes are measured first.
        order = [measured[0], *loads, measured[1]] if is_purge else [*loads, *measured]
        yield Step(f"{name}: {stage}", "server", (*purge, *(Command(tuple(argv)) for argv in order)))
        points += len(measured)
