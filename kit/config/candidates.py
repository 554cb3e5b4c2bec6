"""The candidates of a testbed, as values of an axis (docs/sweeps.md).

    [sweep.candidate]
    set = ["use.log", "use.cache"]
    to = "auto"

Each log device and each L2ARC device is a candidate of its own name; log-NAME and cache-NAME are one, NAME.

An axis of devices by name, or by number, may say `elsewhere = "auto"`: a testbed that has not all of them
takes its own in their place, and with fewer than two the axis is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kit.config.tables.precondition_table import Role
from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.config.workload_base import Document, WorkloadSource, tables_of

AUTO = "auto"
_ROLES: Mapping[str, Role] = {"use.log": "log", "use.cache": "cache", "use.special": "special"}
_ELSEWHERE: Mapping[str, Role] = {**_ROLES, "use.data": "data"}
# A phase with one of these tiers, targets or removed devices measures a device of the role.
_ABOUT = {
    "slog": "log", "device:log": "log", "log": "log",
    "l2arc": "cache", "device:cache": "cache", "cache": "cache",
    "special": "special", "device:special": "special",
}  # fmt: skip


def name_of(device: Device) -> str:
    """The candidate that the device is, or is a part of."""
    return device.name.removeprefix(f"{device.role}-")


def roles_of(phase: Mapping[str, Any]) -> set[str]:
    """The roles that a phase, as it stands in a file, is about: without such a device it shows nothing."""
    tiers = phase.get("tiers")
    named = [*(tiers if isinstance(tiers, list) else ()), phase.get("remove"), phase.get("target")]
    return {_ABOUT[each] for each in map(str, named) if each in _ABOUT}


def with_candidates(source: WorkloadSource, read_testbed: Callable[[], Testbed]) -> WorkloadSource:
    """The workload with the testbed's candidates in the place of "auto". Raises ConfigError.

    Phases about a role that no candidate has are left out. The testbed is read only where it is needed.
    """
    source = _elsewhere(source, read_testbed)
    axes: Document = {
        name: axis
        for name, axis in (source.sweep.get("sweep") or {}).items()
        if isinstance(axis, dict) and axis.get("to") == AUTO
    }
    if not axes:
        return source
    testbed = read_testbed()
    roles = {role for axis in axes.values() for role in _roles(axis.get("set"))}
    missing = {role for role in roles if not testbed.devices(role)}
    gone = [each.get("name") for each in tables_of(source.document.get("phase")) if roles_of(each) & missing]
    sweep: Document = {}
    for name, axis in source.sweep["sweep"].items():
        filled = {**axis, "to": _values(source, name, axis.get("set"), testbed)} if name in axes else axis
        sweep[name] = _kept(filled, gone)
        if isinstance(axis, dict) and axis.get("phases") and not sweep[name]["phases"]:
            text = f"the testbed '{testbed.name}' has no device of role {' or '.join(sorted(missing))}"
            source.refuse(("sweep", name, "phases"), f"{text}, so there is nothing to measure")
    tables = {**source.sweep, "sweep": sweep}
    if "sweeps" in tables:
        tables["sweeps"] = _kept(tables["sweeps"], gone)
    source = replace(source, sweep=tables, expanded=frozenset(axes))
    return source.part(_others(source, "phase", "name", gone), _others(source, "expect", "phase", gone))


def _elsewhere(source: WorkloadSource, read_testbed: Callable[[], Testbed]) -> WorkloadSource:
    """The workload with devices of the testbed on the axes that say so. Raises ConfigError."""
    tables = source.sweep.get("sweep") or {}
    axes = {name: axis for name, axis in tables.items() if isinstance(axis, dict) and "elsewhere" in axis}
    if not axes:
        return source
    testbed, sweep, gone = read_testbed(), dict(tables), list[str]()
    for name, axis in axes.items():
        kept = _values_there(source, name, axis, testbed)
        if kept is None:
            continue
        others = {key: value for key, value in axis.items() if key != "published" or kept == axis.get("to")}
        sweep[name] = {**others, "to": kept}
        if len(kept) < 2:
            del sweep[name]
            gone.append(name)
    return replace(source, sweep=_without(source.sweep, sweep, gone))


def _values_there(source: WorkloadSource, name: str, axis: Document, testbed: Testbed) -> Any:
    """The numbers that the testbed has devices for, or its own devices; None if it has all that are named."""
    to, roles = axis.get("to"), _roles(axis.get("set"), _ELSEWHERE)
    values = list(to.values()) if isinstance(to, dict) else to if isinstance(to, list) else []
    if len(roles) == 1 and values and all(type(value) is int for value in values):
        most = len(testbed.devices(roles[0]))
        if isinstance(to, dict):
            return {each: number for each, number in to.items() if number <= most}
        return [number for number in values if number <= most]
    if _named(values) <= {device.name for device in testbed.device}:
        return None
    found = _values(source, name, axis.get("set"), testbed, roles)
    # One that is a log device alone says nothing about the pair.
    return {each: value for each, value in found.items() if 0 not in _named([value])}


def _in_list(value: Any) -> list[Any]:
    """Of keys that change together or their values: a single one is not in a list."""
    return value if isinstance(value, list) else [value]


def _named(values: Any) -> set[Any]:
    """Names of devices in the values of an axis, before these are checked."""
    return {each for value in values for each in _in_list(value) if isinstance(each, (str, int))}


def _without(tables: Document, sweep: Document, gone: Sequence[str]) -> Document:
    """The tables of a sweep, with nothing about the axes that are gone."""
    made: Document = {**tables, "sweep": sweep}
    if isinstance(sweeps := tables.get("sweeps"), dict):
        cross, quick = _listed(sweeps, "cross"), _listed(sweeps, "quick")
        made["sweeps"] = {
            **sweeps,
            "cross": [each for each in cross if not any(name in gone for name in _in_list(each))],
            "quick": [
                each for each in quick if not (isinstance(each, str) and each.partition("=")[0] in gone)
            ],
        }
    if isinstance(expect := tables.get("expect"), list):
        made["expect"] = [
            each for each in expect if not (isinstance(each, dict) and each.get("axis") in gone)
        ]
    return made


def _listed(table: Document, key: str) -> list[Any]:
    return value if isinstance(value := table.get(key), list) else []


def _roles(keys: object, roles: Mapping[str, Role] = _ROLES) -> list[Role]:
    return [roles[key] for key in map(str, _in_list(keys)) if key in roles]


def _values(
    source: WorkloadSource, name: str, keys: object, testbed: Testbed, roles: list[Role] | None = None
) -> Document:
    """The devices of each candidate for each key, by its name; those in use first: the first is the base."""
    roles, many = _roles(keys) if roles is None else roles, isinstance(keys, list)
    if len(roles) != len(_in_list(keys)):
        source.refuse(("sweep", name, "set"), f'to = "auto" takes devices, so set has {" or ".join(_ROLES)}')
    found: dict[str, list[Device]] = {}
    for device in sorted(testbed.device, key=lambda each: each.idle):
        if device.role in roles:
            found.setdefault(name_of(device), []).append(device)
    if not found:
        text = f"the testbed '{testbed.name}' has no device of role {' or '.join(roles)}: add the candidates"
        source.refuse(("sweep", name, "to"), text)
    values = {
        candidate: [_value([each.name for each in devices if each.role == role]) for role in roles]
        for candidate, devices in found.items()
    }
    return {candidate: value if many else value[0] for candidate, value in values.items()}


def _value(names: list[str]) -> int | str | list[str]:
    return 0 if not names else names[0] if len(names) == 1 else names


def _kept(table: Any, gone: Sequence[Any]) -> Any:
    """A table without the phases that are gone, in its lists of names and of tables that name a phase."""
    if not gone or not isinstance(table, dict):
        return table
    made = dict(table)
    for key, value in table.items():
        if isinstance(value, list):
            names = [each.get("phase") if isinstance(each, dict) else each for each in value]
            made[key] = [each for each, name in zip(value, names, strict=True) if name not in gone]
    return made


def _others(source: WorkloadSource, tables: str, key: str, gone: Sequence[Any]) -> list[int]:
    """Numbers of the tables that are not about a phase that is gone."""
    listed = tables_of(source.document.get(tables))
    return [number for number, each in enumerate(listed) if each.get(key) not in gone]
