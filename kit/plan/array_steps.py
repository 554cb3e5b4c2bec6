"""The steps that make one device of others, or of a part of one: md arrays of phases, partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.tables.phase_table import Phase
from kit.devices import array, partition
from kit.devices.array import ArraySpec
from kit.plan.names import Names, part_bytes
from kit.plan.plan import Plan
from kit.plan.step import Step
from kit.recovery import storage_undos


def spec_of(names: Names, phase: Phase) -> ArraySpec:
    """The array of a phase that has one."""
    assert phase.array is not None, "it is a phase on an array"
    return ArraySpec(
        # As the pool's: a run has one or the other.
        name=names.pool,
        uuid=array.uuid_of(names.run_id, phase.name),
        level=phase.array.level,
        chunk_bytes=phase.array.chunk,
        members=tuple(names.device_paths[name] for name in phase.devices),
    )


def make_array(plan: Plan, names: Names, phase: Phase) -> Step:
    """Right before the phase; it is undone right after it."""
    spec = spec_of(names, phase)
    serials = {device.name: device.serial or "" for device in plan.testbed.device}
    undo = storage_undos.UndoArray(
        name=spec.name,
        uuid=spec.uuid,
        members=list(spec.members),
        serials=[serials[name] for name in phase.devices],
    )
    details = {"array": spec.name, "uuid": spec.uuid, "members": list(phase.devices)}
    return Step(f"make array {phase.name}", "server", tuple(array.create_commands(spec)), undo, details)


def partitions(plan: Plan, names: Names) -> Iterator[Step]:
    """Of cache and special devices the part that the workload asks for (pool.cache_size, special_size)."""
    for device in plan.testbed.device:
        size_bytes, path = part_bytes(plan, device), names.device_paths[device.name]
        if size_bytes is not None:
            command = partition.create_command(path, size_bytes)
            details = {"device": device.name, "path": path, "bytes": size_bytes}
            action = storage_undos.Partition(
                device_path=path, serial=device.serial or "", size_bytes=size_bytes
            )
            yield Step("use a part", "server", (command,), action, details)
