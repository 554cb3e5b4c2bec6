"""The workload and the testbed of one build of a sweep: its values in place, its cells as phases. Pure."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kit.config.sweep import Sweep, changed_keys, set_key, set_phase_key
from kit.config.tables.precondition_table import BESIDE_DATA
from kit.config.testbed import Testbed
from kit.config.toml import Place, nearest
from kit.config.toml_lines import KeyPath
from kit.config.workload import OF_POOL
from kit.config.workload_base import WorkloadSource

BASE = "base"
_PHASE_NAME = 41
# Values by axis; the axes that have their base's value are left out.
At = Mapping[str, str]


@dataclass(frozen=True)
class Cell:
    """A phase of the workload with its values.

    `in_run`: what its run calls it; `again`: it is the base, once more.
    """

    at: At
    phase: str
    in_run: str
    again: bool = False

    @property
    def name(self) -> str:
        """What `--only` selects it by, such as io-size=4k."""
        return name_of(self.at)


def name_of(at: At) -> str:
    """The name of a cell: axis=value, in the order of the axes."""
    return ",".join(f"{axis}={value}" for axis, value in at.items()) or BASE


def kind_of(sweep: Sweep, phase: str) -> dict[str, str]:
    """The values of a phase that is itself a value of an axis; none for the base's."""
    return {
        name: value
        for name, axis in sweep.axes.items()
        if axis.named_phases
        for value, phases in list(axis.values.items())[1:]
        if phases == (phase,)
    }


def base_of(sweep: Sweep, phase: str) -> str:
    """The phase that it stands beside: for a value of an axis of phases, the axis's first."""
    return next((sweep.axes[axis].named_phases[0] for axis in kind_of(sweep, phase)), phase)


def draft(
    sweep: Sweep, at: At, group: Sequence[tuple[At, str]], also: Sequence[str] = ()
) -> tuple[WorkloadSource, dict[str, Any], tuple[Cell, ...]]:
    """The content of a build, the devices that it uses, and its cells.

    `at`: its values on the axes that need a build; `also`: phases that are no cells.
    """
    group = [*group, *(({}, name) for name in also)]
    document, places, use = _shared(sweep, at, {name for _, name in group})
    declared = sweep.source.document["phase"]
    phases: list[dict[str, Any]] = []
    origins, cells = [], []
    removed: set[str] = set()
    taken: set[str] = set()
    for number, phase in enumerate(declared):
        name = str(phase["name"])
        for cell, again in _in_turn(group, phase["name"]):
            made = copy.deepcopy(phase)
            own = {
                axis: value
                for axis, value in cell.items()
                if axis not in at and not sweep.axes[axis].named_phases
            }
            # The pool is as the phases before left it: a device is removed once.
            _remove(made, removed, declared[: number + 1])
            made["name"] = _phase_name(name, own, taken, again=again)
            if cell or again:
                values = "once more" if again else name_of(cell).replace(",", ", ")
                made["title"] = f"{made.get('title', phase['name'])} ({values})"
            for axis, key, setting, place in _settings(sweep, {**at, **own}):
                if _is_about(sweep, axis, phase, at):
                    set_phase_key(made, places, len(phases), key, setting, place, name)
            phases.append(made)
            origins.append(sweep.source.phase_origins[number])
            cells.append(Cell(dict(cell), base_of(sweep, name), made["name"], again))
    unused = {*_of_others(phases, declared)}
    document = {key: value for key, value in document.items() if key not in unused}
    document["phase"] = phases
    _keep_expectations(document, {cell.in_run for cell in cells}, at)
    source = replace(
        sweep.source,
        document=document,
        phase_origins=tuple(origins),
        set_at={**sweep.source.set_at, **places},
    )
    return source, use, tuple(cell for cell in cells if cell.phase not in also)


def _in_turn(group: Sequence[tuple[At, str]], phase: str) -> list[tuple[At, bool]]:
    """The cells of a phase; behind others the base once more."""
    cells = [(cell, False) for cell, name in group if name == phase]
    return [*cells, ({}, True)] if len(cells) > 1 and not cells[0][0] else cells


def _of_others(phases: Sequence[Mapping[str, Any]], declared: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tables that only phases of other builds need."""
    if all(map(on_devices, phases)) and not all(map(on_devices, declared)):
        yield from OF_POOL
    if all("rate" in each["open"] for each in phases if isinstance(each.get("open"), dict)):
        yield "capacity"
    if not any("metadata" in each for each in phases):
        yield "tree"


def on_devices(phase: Mapping[str, Any]) -> bool:
    """As Phase.on_devices, of a phase as it stands in the file."""
    return phase.get("target", "nfs") not in ("nfs", "dataset")


def _shared(
    sweep: Sweep, at: At, names: set[str]
) -> tuple[dict[str, Any], dict[KeyPath, Place], dict[str, Any]]:
    """The content without values of single phases, the places of its values, and the devices it uses."""
    # Expectations stay the same objects: WorkloadSource finds by these where they stand.
    document = {
        key: value if key == "expect" else copy.deepcopy(value)
        for key, value in sweep.source.document.items()
    }
    places: dict[KeyPath, Place] = {}
    use: dict[str, Any] = {}
    for axis, key, setting, place in _settings(sweep, at):
        if key.startswith("use."):
            use[key.removeprefix("use.")] = setting
        elif _is_for_all(sweep, axis, key, names, at):
            set_key(document, places, key, setting, place)
    return document, places, use


def _settings(sweep: Sweep, at: At) -> Iterator[tuple[str, str, Any, Place]]:
    """Axis, key, value and its place in the file, in the order in which they are set."""
    for axis, value in with_bases(sweep, at):
        place = sweep.source.place_of(("sweep", axis, "to", value))
        yield from ((axis, key, setting, place) for key, setting in changed_keys(sweep.axes[axis], value))


def with_bases(sweep: Sweep, at: At) -> list[tuple[str, str]]:
    """Axes and values in the order in which they are set: first those that have their base's value."""
    keyed = [name for name, axis in sweep.axes.items() if not axis.named_phases]
    bases = [(name, sweep.axes[name].base) for name in keyed if name not in at]
    return [*bases, *((name, at[name]) for name in keyed if name in at)]


def _is_about(sweep: Sweep, axis: str, phase: Mapping[str, Any], at: At) -> bool:
    """Whether the phase has the axis's keys: it is one of its phases, or all of the build has the value."""
    default = () if kind_of(sweep, str(phase["name"])) else (phase["name"],)
    return axis in at or phase["name"] in (sweep.axes[axis].phases or default)


def _is_for_all(sweep: Sweep, axis: str, key: str, names: set[str], at: At) -> bool:
    """Whether the workload itself has the key: [job] is of all phases, so each of `names` has the axis's."""
    kept = [phase for phase in sweep.source.document["phase"] if phase["name"] in names]
    return not key.startswith("job.") or all(_is_about(sweep, axis, phase, at) for phase in kept)


def _remove(phase: dict[str, Any], removed: set[str], before: Sequence[Mapping[str, Any]]) -> None:
    """Give the phase the `remove` that it needs: a phase before it may not be measured, or measured twice."""
    needed = [str(each["remove"]) for each in before if each.get("remove")]
    phase.pop("remove", None)
    for role in needed:
        if role not in removed:
            phase["remove"] = role
            removed.add(role)
            return


def _phase_name(phase: str, own: At, taken: set[str], *, again: bool) -> str:
    """The phase's name in the run: its own for the base, else with the values."""
    parts = [phase, *(f"{axis}-{value}" for axis, value in own.items()), *(["again"] if again else [])]
    name = re.sub(r"[^a-z0-9-]", "-", "-".join(parts).lower())[:_PHASE_NAME]
    number = 1
    while name in taken:
        number += 1
        name = f"{name[: _PHASE_NAME - 1 - len(str(number))]}-{number}"
    taken.add(name)
    return name


def _keep_expectations(document: dict[str, Any], names: set[str], at: At) -> None:
    """Expectations of a phase are for the base: only its build has them."""
    if not isinstance(document.get("expect"), list):
        return
    kept = [each for each in document["expect"] if isinstance(each, dict) and each.get("phase") in names]
    if kept and not at:
        document["expect"] = kept
    else:
        del document["expect"]


def check_use(source: WorkloadSource, axis: str, testbed: Testbed, use: Mapping[str, Any]) -> None:
    for role, value in use.items():
        names = [device.name for device in testbed.device if device.role == role]
        if role == "clients" or isinstance(value, int):
            most = len(testbed.client) if role == "clients" else len(names)
            least = 0 if role in BESIDE_DATA else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                kind = "clients" if role == "clients" else f"devices of role {role}"
                text = f"expected a number from {least} to {most}, the {kind} of the testbed"
                source.refuse(("sweep", axis, "to"), f"use.{role}: {value!r}: {text}")
            continue
        for name in (value,) if isinstance(value, str) else value:
            if name not in names:
                text = (
                    f"use.{role}: no device '{name}' of role {role}, {nearest(str(name), names, 'devices')}"
                )
                source.refuse(("sweep", axis, "to"), text)


def used(testbed: Testbed, use: Mapping[str, Any]) -> Testbed:
    """The testbed with the devices and clients that the build uses; the others stay untouched.

    A number takes the first of a role, those that are idle else, too.
    """
    devices, clients = testbed.device, testbed.client
    for role, value in use.items():
        if role == "clients":
            clients = clients[:value]
            continue
        names = [device.name for device in devices if device.role == role]
        kept = names[:value] if isinstance(value, int) else [value] if isinstance(value, str) else list(value)
        devices = tuple(
            device if device.role != role else device.model_copy(update={"idle": False})
            for device in devices
            if device.role != role or device.name in kept
        )
    return testbed.model_copy(update={"device": devices, "client": clients})
