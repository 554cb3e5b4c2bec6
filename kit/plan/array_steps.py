"""The step that makes the md array of a phase, and what it is called. Pure."""

from __future__ import annotations

from kit.config.tables.phase_table import Phase
from kit.devices import array
from kit.devices.array import ArraySpec
from kit.plan.names import Names
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
