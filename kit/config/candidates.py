"""The candidates of a testbed, as values of an axis (docs/sweeps.md).

    [sweep.candidate]
    set = ["use.log", "use.cache"]
    to = "auto"

Each log device and each L2ARC device is a candidate of its own name; log-NAME and cache-NAME are one, NAME.

An axis of devices by name, or by number, may say `elsewhere = "auto"`: a testbed that has not all of them
takes its own in their place, and with fewer than two the axis is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kit.config.tables.precondition_table import Role
from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.config.workload_base import Document, WorkloadSource, tables_of

AUTO = "auto"
_ROLES: Mapping[str, Role] = {"use.log": "log", "use.cache": "cache"}
_ELSEWHERE: Mapping[str, Role] = {**_ROLES, "use.data": "data"}
# A phase with one of these tiers, targets or removed devices measures a device of the role.
_ABOUT = {
    "slog": "log", "device:log": "log", "log": "log",
    "l2arc": "cache", "device:cache": "cache", "cache": "cache",
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
    missing = {
        role for axis in axes.values() for role in _roles(axis.get("set")) if not testbed.devices(role)
    }
    phases = tables_of(source.document.get("phase"))
    gone = {phase.get("name") for phase in phases if roles_of(phase) & missing}
    sweep: Document = {}
    for name, axis in source.sweep["sweep"].items():
        sweep[name] = axis
        if name in axes:
            sweep[name] = {**axis, "to": _values(source, name, axis.get("set"), testbed)}
        if gone and isinstance(axis, dict):
            sweep[name] = {key: _kept(value, gone) for key, value in sweep[name].items()}
            if axis.get("phases") and not sweep[name]["phases"]:
                text = f"the testbed '{testbed.name}' has no device of role {' or '.join(sorted(missing))}"
                source.refuse(("sweep", name, "phases"), f"{text}, so there is nothing to measure")
    tables = {**source.sweep, "sweep": sweep}
    if isinstance(sweeps := tables.get("sweeps"), dict):
        tables["sweeps"] = {key: _kept(value, gone) for key, value in sweeps.items()}
    source = replace(source, sweep=tables, expanded=frozenset(axes))
    expected = tables_of(source.document.get("expect"))
    return source.part(
        [number for number, phase in enumerate(phases) if phase.get("name") not in gone],
        [number for number, each in enumerate(expected) if each.get("phase") not in gone],
    )


def _elsewhere(source: WorkloadSource, read_testbed: Callable[[], Testbed]) -> WorkloadSource:
    """The workload with devices of the testbed on the axes that say so. Raises ConfigError."""
    tables = source.sweep.get("sweep") or {}
    axes = {name: axis for name, axis in tables.items() if isinstance(axis, dict) and "elsewhere" in axis}
    if not axes:
        return source
    testbed, sweep, gone = read_testbed(), dict(tables), set[str]()
    for name, axis in axes.items():
        to = axis.get("to")
        values = list(to.values()) if isinstance(to, dict) else to if isinstance(to, list) else []
        roles = [_ELSEWHERE[key] for key in _keys(axis) if key in _ELSEWHERE]
        if len(roles) == 1 and values and all(type(value) is int for value in values):
            most = len(testbed.devices(roles[0]))
            kept: Any = [number for number in values if number <= most]
            if isinstance(to, dict):
                kept = {each: number for each, number in to.items() if number <= most}
        elif _named(values) <= {device.name for device in testbed.device}:
            continue
        else:
            found = _values(source, name, axis.get("set"), testbed, roles)
            # One that is a log device alone says nothing about the pair.
            kept = {each: value for each, value in found.items() if 0 not in _named([value])}
        others = {key: value for key, value in axis.items() if key != "published" or kept == to}
        sweep[name] = {**others, "to": kept}
        if len(kept) < 2:
            del sweep[name]
            gone.add(name)
    return replace(source, sweep=_without(source.sweep, sweep, gone))


def _keys(axis: Mapping[str, Any]) -> list[str]:
    keys = axis.get("set")
    return [str(key) for key in (keys if isinstance(keys, list) else [keys])]


def _named(values: Any) -> set[Any]:
    """Names of devices in the values of an axis."""
    return {each for value in values for each in (value if isinstance(value, list) else [value])}


def _without(tables: Document, sweep: Document, gone: set[str]) -> Document:
    """The tables of a sweep, with nothing about the axes that are gone."""
    made: Document = {**tables, "sweep": sweep}
    if isinstance(sweeps := tables.get("sweeps"), dict):
        made["sweeps"] = {
            **sweeps,
            **{"cross": [each for each in sweeps.get("cross", ()) if not gone & {*each}]},
            "quick": [each for each in sweeps.get("quick", ()) if each.partition("=")[0] not in gone],
        }
    if isinstance(expect := tables.get("expect"), list):
        made["expect"] = [each for each in expect if each.get("axis") not in gone]
    return made


def _roles(keys: object) -> list[Role]:
    return [_ROLES[key] for key in map(str, keys if isinstance(keys, list) else [keys]) if key in _ROLES]


def _values(
    source: WorkloadSource, name: str, keys: object, testbed: Testbed, roles: list[Role] | None = None
) -> Document:
    """The devices of each candidate for each key, by its name; those in use first: the first is the base."""
    roles, many = _roles(keys) if roles is None else roles, isinstance(keys, list)
    if len(roles) != (len(keys) if isinstance(keys, list) else 1):
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


def _kept(value: Any, gone: set[Any]) -> Any:
    """Of a list of phases, or of tables that name a phase, those that are not gone; else `value`."""
    if not isinstance(value, list):
        return value
    return [each for each in value if (each.get("phase") if isinstance(each, dict) else each) not in gone]
