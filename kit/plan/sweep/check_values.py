"""Values of an axis that no cell can have: the axis is wrong, not the cell. Pure."""

from __future__ import annotations

from kit.config.sweep import PHASE_TABLES, Axis, Sweep
from kit.config.testbed import Testbed
from kit.config.toml import Setting, validate
from kit.config.workload import OF_POOL, Workload
from kit.config.workload_base import WorkloadSource
from kit.plan.sweep.cells import covers, phases_of
from kit.plan.sweep.draft import check_use, draft, on_devices
from kit.zfs import properties, tunables


def check_values(sweep: Sweep, testbed: Testbed) -> None:
    """Refuse values that no cell can have: the axis is wrong, not the cell. Raises ConfigError."""
    for name, axis in sweep.axes.items():
        _check_tables(sweep, name, axis)
        for value in () if axis.named_phases else axis.values:
            at = {name: value}
            measured = [phase for phase in phases_of(sweep) if covers(sweep, at, phase)]
            source, use, _ = draft(
                sweep, at if axis.kind == "build" else {}, [(at, phase) for phase in measured]
            )
            workload = validate(source.document, Workload, source.place_of, source.as_written)
            problems = [
                *properties.problems("dataset", workload.dataset.properties),
                *properties.problems("pool", workload.pool.properties),
                *tunables.problems(_set_tunables(workload, source), testbed.clock, None),
            ]
            for key, text in problems:
                source.refuse(key, text)
            check_use(source, name, testbed, use)


def _check_tables(sweep: Sweep, name: str, axis: Axis) -> None:
    """Of keys of a phase's table, such as force.method: a phase without that table has none."""
    phases = {str(phase["name"]): phase for phase in sweep.source.document["phase"]}
    for key in axis.keys:
        table = key.partition(".")[0]
        if table in OF_POOL and axis.phases and all(on_devices(phases[each]) for each in axis.phases):
            text = f"there is no pool in phase '{axis.phases[0]}', which goes to devices"
            sweep.source.refuse(("sweep", name, "phases"), f"{key}: {text}: name phases that have one")
        without = [each for each in axis.phases or phases if table not in phases[each]]
        # Of an axis of all phases, those that have the table are meant.
        if table in PHASE_TABLES and (without if axis.phases else len(without) == len(phases)):
            text = f"phase '{without[0]}' has no {table}: name phases that have it"
            if not axis.phases:
                text = f"no phase has {table}: add it to one, or remove the key"
            sweep.source.refuse(("sweep", name, "phases" if axis.phases else "set"), f"{key}: {text}")


def _set_tunables(workload: Workload, source: WorkloadSource) -> dict[str, Setting]:
    """The tunables that the axis sets; "auto" is chosen later."""
    return {
        name: value
        for name, value in workload.tunables.items()
        if ("tunables", name) in source.set_at and value != "auto"
    }
