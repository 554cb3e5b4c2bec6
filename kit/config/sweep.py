"""The sweeps of a workload: keys that take several values, one after another (docs/sweeps.md).

    [sweep.io-size]                                    # the axis
    set    = ["job.bs", "dataset.recordsize"]          # its keys; they change together
    to     = { 512 = ["512", 512], 4k = ["4k", "4KiB"] }   # its values, by name; the first is the base
    phases = ["read"]                                  # default: all

Each axis stands by itself around the base. `[sweeps] cross` asks for the product of some.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NoReturn, get_args

from pydantic import AfterValidator, Field

from kit.config.tables.phase_table import Name
from kit.config.tables.precondition_table import Role
from kit.config.toml import Place, Table, nearest, printable, validate
from kit.config.toml_lines import KeyPath, KeyProblems
from kit.config.workload_base import Document, WorkloadSource, tables_of
from kit.core.text import counted

# What another value of a key needs: only another phase, a pool of its own (a build), or nothing, because
# its values are phases that the workload has.
KeyClass = Literal["phase", "build", "nothing"]
Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...]
MOST_AXES = 12

_PHASE_KEYS = ("duration", "duration_max", "interval", "ios", "job", "log", "resumable", "tiers")
# Tables of a phase, which others do not have.
PHASE_TABLES = ("array", "force", "open", "replay")
# Of the array that a phase goes to.
_ARRAY_KEYS = ("level", "chunk", "members")
_BUILD_TABLES: Mapping[str, tuple[str, ...]] = {
    "capacity": ("p99_max", "rate_min", "rate_max", "precision", "ios"),
    "host": ("nfsd_threads", "scheduler", "governor", "transparent_hugepage", "write_cache", "tune"),
    "nfs": ("version", "options", "engine", "proto", "nconnect"),
    "precondition": (),
    "setting": (),
    "use": (*get_args(Role), "clients"),
    "warmup": ("duration", "read_first", "l2arc_min", "feed_max", "windows", "window", "deadline"),
    "working_set": ("size", "fill_block"),
    "tree": ("files", "depth", "width", "size", "size_max", "fsync"),
}
# Of the pool itself; its other keys are properties.
_POOL_KEYS = ("data", "groups", "log", "cache_size", "special_size", "age.capacity", "age.fragmentation")
# Where the key stands in the workload; a property's table may be left out.
_PROPERTIES = {"dataset": ("dataset", "properties"), "pool": ("pool", "properties")}
_PART = re.compile(r"[0-9]{1,3}%")
_VALUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,40}")


# A value of an axis, by its name. A number is its own name.
ValueName = Annotated[str | int, AfterValidator(str)]


class Claim(Table):
    """What was published about the ratio of a row at `to` to that at the axis's base: words for people."""

    to: ValueName
    phase: Name
    op: str
    tier: str
    text: Annotated[str, Field(min_length=1, max_length=200)]


class Axis(Table):
    """An axis. `set`: a key, or several that change together; `to`: a value of each, by its name.

    "auto" there or in `elsewhere`: devices of the testbed (kit.config.candidates), which are in their place
    when this is read.
    """

    set: str | Annotated[tuple[str, ...], Field(min_length=1)]
    to: dict[str, Value | tuple[Value, ...]] | tuple[Value | tuple[Value, ...], ...] | Literal["auto"]
    phases: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    elsewhere: Literal["auto"] | None = None
    published: tuple[Claim, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as they are written."""
        return (self.set,) if isinstance(self.set, str) else self.set

    @cached_property
    def values(self) -> dict[str, tuple[Value, ...]]:
        """By name, a value of each key; the first is the base."""
        named = self.to if isinstance(self.to, dict) else {_name(value): value for value in self.to}
        return {
            name: value if isinstance(value, tuple) and not isinstance(self.set, str) else (value,)  # type: ignore[misc]
            for name, value in named.items()
        }

    @property
    def base(self) -> str:
        """Name of the base's value."""
        return next(iter(self.values))

    @property
    def named_phases(self) -> tuple[str, ...]:
        """The phases that are its values; none of an axis of keys."""
        return tuple(str(value) for (value,) in self.values.values()) if self.keys == ("phase",) else ()

    @property
    def unit(self) -> str:
        """ "%" where each value is a part, such as "10%"; else ""."""
        every = [part for value in self.values.values() for part in value]
        return "%" if all(isinstance(part, str) and _PART.fullmatch(part) for part in every) else ""

    @property
    def kind(self) -> KeyClass:
        """The most that one of its keys needs."""
        kinds = {class_of(key) for key in self.keys}
        return "build" if "build" in kinds else "phase" if "phase" in kinds else "nothing"


class Sweeps(Table):
    """About all axes. `cross`: axes whose product is measured; `quick`: cells of `--quick`.

    `also`: phases that are no cells, and are measured once, in the build of the base: what cells are held
    against, such as each device alone.
    `drift_max`: how far the base may be from its first measurement when it is measured last, of 1.
    """

    cross: tuple[tuple[str, ...], ...] = ()
    drift_max: Annotated[float, Field(gt=0, le=1)] = 0.05
    quick: tuple[str, ...] = ()
    also: tuple[Name, ...] = ()


class AxisExpectation(Table):
    """`[[expect]]` with an axis: the ratio of a row's p50 at `to` to that at `from`."""

    axis: str
    phase: Name
    op: str
    tier: str
    layer: Literal["nfs-server", "client", "device"] = "nfs-server"
    from_: Annotated[ValueName, Field(alias="from")]
    to: ValueName
    ratio_min: Annotated[float, Field(gt=0)] | None = None
    ratio_max: Annotated[float, Field(gt=0)] | None = None


class SweepTables(Table):
    """The tables of a sweep, beside those of its workload."""

    sweep: dict[Name, Axis]
    sweeps: Sweeps = Sweeps()
    expect: tuple[AxisExpectation, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """What a workload sweeps; `source` is its own content, the base."""

    axes: dict[str, Axis]
    sweeps: Sweeps
    expect: tuple[AxisExpectation, ...]
    source: WorkloadSource


def read_sweep(source: WorkloadSource) -> Sweep | None:
    """The sweep of a workload; None without one. Raises ConfigError with file, line and key."""
    if not source.sweep.get("sweep"):
        if "sweeps" in source.sweep:
            source.refuse(
                ("sweeps",), "[sweeps] is about axes, and there is none: add [sweep.NAME], or remove it"
            )
        if source.sweep.get("expect"):
            source.refuse(
                (*source.expect_key(0), "axis"),
                "axis: there is no axis: add [sweep.NAME], or remove the key axis",
            )
        return None
    document = validate(source.sweep, SweepTables, source.place_of)
    sweep = Sweep(document.sweep, document.sweeps, document.expect, source)
    _check(sweep)
    return sweep


def class_of(key: str) -> KeyClass | None:
    """What another value of `key` needs; None for a key that cannot be swept."""
    if key == "phase":
        return "nothing"
    table, dot, name = key.partition(".")
    if not (dot and name):
        return None
    if (
        table in ("job", "force", "open", "replay")
        or (table == "phase" and _phase_key(key)[1] in _PHASE_KEYS)
        or (table == "array" and name in _ARRAY_KEYS)
    ):
        return "phase"
    if table in ("dataset", "pool", "tunables") or (
        table in _BUILD_TABLES and (name in _BUILD_TABLES[table] or not _BUILD_TABLES[table])
    ):
        return "build"
    return None


def _phase_key(key: str) -> tuple[str, str]:
    """Of phase.PHASE.KEY the phase and the key; of phase.KEY "" and the key."""
    phase, _, name = key.removeprefix("phase.").rpartition(".")
    return phase, name


def place_in_workload(key: str) -> KeyPath:
    """The path of a build's key in the document, such as ("dataset", "properties", "recordsize")."""
    table, _, name = key.partition(".")
    if table not in _PROPERTIES or (table == "pool" and name in _POOL_KEYS):
        return (table, *name.split("."))
    return (*_PROPERTIES[table], name.removeprefix("properties."))


def known_keys() -> list[str]:
    """All keys that can be swept, for messages and for docs/sweeps.md."""
    tables = [f"{table}.{name}" for table, names in _BUILD_TABLES.items() for name in names or ("KEY",)]
    return [
        "phase", "job.OPTION", "force.KEY", "open.KEY", "replay.KEY",
        *(f"phase.{name}" for name in _PHASE_KEYS), *(f"phase.PHASE.{name}" for name in _PHASE_KEYS),
        *(f"array.{name}" for name in _ARRAY_KEYS),
        "dataset.PROPERTY",
        "pool.PROPERTY", *(f"pool.{name}" for name in _POOL_KEYS), "tunables.NAME", *tables,
    ]  # fmt: skip


def _name(value: Value | tuple[Value, ...]) -> str:
    """The name of a cell whose value has none of its own."""
    parts = value if isinstance(value, tuple) else (value,)
    return "+".join(str(part).lower() if isinstance(part, bool) else str(part) for part in parts)


def _check(sweep: Sweep) -> None:
    """What the tables alone show. Raises ConfigError."""
    phases = [str(phase.get("name")) for phase in tables_of(sweep.source.document.get("phase"))]
    if len(sweep.axes) > MOST_AXES:
        last = list(sweep.axes)[MOST_AXES]
        sweep.source.refuse(("sweep", last), f"the {MOST_AXES + 1}th axis; {MOST_AXES} is the most")
    for name, axis in sweep.axes.items():
        _check_axis(sweep, name, axis, phases)
    _check_shared(sweep)
    _check_also(sweep, phases)
    for number, group in enumerate(sweep.sweeps.cross):
        for axis_name in group:
            if axis_name not in sweep.axes:
                text = f"no axis '{axis_name}', {nearest(axis_name, list(sweep.axes), 'axes')}"
                sweep.source.refuse(("sweeps", "cross", number), f"{text}")
        if len(set(group)) != len(group) or len(group) < 2:
            sweep.source.refuse(("sweeps", "cross", number), "name two axes or more, each once")
    for number, expected in enumerate(sweep.expect):
        _check_expected(sweep, number, expected)


def _check_also(sweep: Sweep, phases: list[str]) -> None:
    """Phases that are no cells."""
    for number, also in enumerate(sweep.sweeps.also):
        key = "sweeps", "also", number
        if also not in phases:
            sweep.source.refuse(key, f"no phase '{also}', {nearest(also, phases, 'phases')}")
        if also in sweep.sweeps.also[:number]:
            sweep.source.refuse(key, f"'{also}' is named twice: name each phase once")
        for name, axis in sweep.axes.items():
            if also in (axis.phases or axis.named_phases):
                text = f"'{also}' is a phase of the axis {name}, so it is a cell: name it in one of the two"
                sweep.source.refuse(key, text)


def _check_shared(sweep: Sweep) -> None:
    """Two axes about the same phase may set one key if they have one base, and are not crossed."""
    seen: dict[str, list[str]] = {}
    for name, axis in sweep.axes.items():
        for key, value in (
            changed_keys(axis, axis.base) if len(axis.values[axis.base]) == len(axis.keys) else ()
        ):
            for other in seen.get(key, []) if key != "phase" else []:
                _check_pair(sweep, other, name, key, value)
            seen.setdefault(key, []).append(name)


def _check_pair(sweep: Sweep, other: str, name: str, key: str, value: Value) -> None:
    """Of two axes that both set `key`; `value`: that of the base of `name`."""
    ours, theirs = sweep.axes[name].phases, sweep.axes[other].phases
    if class_of(key) == "phase" and ours and theirs and not set(ours) & set(theirs):
        return
    first = dict(changed_keys(sweep.axes[other], sweep.axes[other].base))[key]
    if first != value:
        text = f"{key} is {value!r} in its base, and {first!r} in that of the axis {other}"
        sweep.source.refuse(("sweep", name, "to"), f"{text}: there is one base")
    for number, group in enumerate(sweep.sweeps.cross):
        if {name, other} <= set(group):
            text = f"{other} and {name} both set {key}: a cell cannot have two values of it"
            sweep.source.refuse(("sweeps", "cross", number), text)


def _check_axis(sweep: Sweep, name: str, axis: Axis, phases: list[str]) -> None:
    if len(axis.to) < 2 and name not in sweep.source.expanded:
        sweep.source.refuse(("sweep", name, "to"), "an axis needs at least two values; the first is the base")
    for key, text in (*_key_problems(axis), *_value_problems(axis, phases)):
        sweep.source.refuse(("sweep", name, *key), text)
    about = list(axis.phases or phases)
    for only in filter(None, (_phase_key(key)[0] for key in axis.keys if key.startswith("phase."))):
        if only not in about:
            text = f"no phase '{printable(only)}', {nearest(only, about, 'phases of the axis')}"
            sweep.source.refuse(("sweep", name, "set"), text)
    for claim in axis.published:
        if claim.to not in axis.values or claim.phase not in phases:
            text = f"{claim.to}, {claim.phase}: the axis has no such value, or the workload no such phase"
            sweep.source.refuse(("sweep", name, "published"), text)
    for phase in axis.phases or ():
        if phase not in phases:
            text = f"no phase '{phase}', {nearest(phase, phases, 'phases')}"
            sweep.source.refuse(("sweep", name, "phases"), text)


def _key_problems(axis: Axis) -> KeyProblems:
    for key in axis.keys:
        if class_of(key) is None:
            yield ("set",), f"'{printable(key)}' cannot be swept, {nearest(key, known_keys(), 'keys')}"
    if len(set(axis.keys)) != len(axis.keys):
        yield ("set",), "a key twice: each changes once"
    if "phase" in axis.keys and len(axis.keys) > 1:
        yield ("set",), "'phase' stands alone: its values are phases of the workload"


def _value_problems(axis: Axis, phases: list[str]) -> KeyProblems:
    if not isinstance(axis.to, dict) and len(axis.values) != len(axis.to):
        yield ("to",), f"a value twice; each is measured once, as the cells {', '.join(axis.values)}"
    seen: dict[tuple[Value, ...], str] = {}
    for name, values in axis.values.items():
        if not _VALUE_NAME.fullmatch(name):
            given = printable(name if len(name) <= 40 else f"{name[:37]}...")
            text = "is not a name for a cell: letters, digits and _.+- only, at most 41"
            yield ("to", name), f"'{given}' {text}: write to = {{ NAME = ... }}"
        if len(values) != len(axis.keys):
            text = f"{counted(len(values), 'value')} for the {counted(len(axis.keys), 'key')} of set"
            yield ("to", name), f"{name}: {text}: write one value for each key, in an array"
        elif "phase" in axis.keys and values[0] not in phases:
            text = f"no phase '{printable(str(values[0])[:40])}', {nearest(str(values[0]), phases, 'phases')}"
            yield ("to", name), f"{name}: {text}"
        if values in seen:
            yield ("to", name), f"{name} is the same as {seen[values]}: each value is measured once"
        seen[values] = name


def _check_expected(sweep: Sweep, number: int, expected: AxisExpectation) -> None:
    def refuse(key: str, text: str) -> NoReturn:
        sweep.source.refuse((*sweep.source.expect_key(number), key), text)

    phases = tables_of(sweep.source.document.get("phase"))
    if any(each.get("name") == expected.phase and "metadata" in each for each in phases):
        refuse("phase", "it has metadata, and expectations are of reads and writes: name another phase")
    axis = sweep.axes.get(expected.axis)
    if axis is None:
        refuse("axis", f"no axis '{expected.axis}', {nearest(expected.axis, list(sweep.axes), 'axes')}")
    for key, value in (("from", expected.from_), ("to", expected.to)):
        if str(value) not in axis.values:
            close = nearest(str(value), list(axis.values), "values")
            refuse(key, f"axis {expected.axis} has no value '{value}', {close}")
    if expected.from_ == expected.to:
        refuse("to", "the same value as from: name another")
    if expected.ratio_min is None and expected.ratio_max is None:
        refuse("axis", "no limit: add ratio_min, ratio_max or both")
    if expected.ratio_min and expected.ratio_max and expected.ratio_min > expected.ratio_max:
        refuse("ratio_min", f"{expected.ratio_min:g} is above ratio_max = {expected.ratio_max:g}")


def changed_keys(axis: Axis, value_name: str) -> Iterator[tuple[str, Value]]:
    """Each key of the axis with its value."""
    yield from zip(axis.keys, axis.values[value_name], strict=True)


def with_value(source: WorkloadSource, key: str, value: Any, place: Place) -> WorkloadSource:
    document, places = copy.deepcopy(source.document), dict(source.set_at)
    set_key(document, places, key, value, place)
    phases = document.get("phase")
    for index, phase in enumerate(phases if isinstance(phases, list) else ()):
        name = str(phase.get("name", "")) if isinstance(phase, dict) else ""
        set_phase_key(phase, places, index, key, value, place, name)
    return replace(source, document=document, set_at=places)


def set_key(document: Document, places: dict[KeyPath, Place], key: str, value: Value, place: Place) -> None:
    """A key of the workload itself; those of its phases are left alone."""
    if key.partition(".")[0] in ("phase", *PHASE_TABLES):
        return
    path = place_in_workload(key)
    inner = document
    for part in path[:-1]:
        table = inner.setdefault(str(part), {})
        if not isinstance(table, dict):
            return  # refused when the document is validated
        inner = table
    inner[str(path[-1])] = list(value) if isinstance(value, tuple) else value
    places[path] = place


def set_phase_key(
    phase: Document,
    places: dict[KeyPath, Place],
    index: int,
    key: str,
    value: Value,
    place: Place,
    name_in_file: str,
) -> None:
    """A key of the phase number `index`, whose name in the file is `name_in_file`; others are left alone."""
    table, _, name = key.partition(".")
    value = list(value) if isinstance(value, tuple) else value  # type: ignore[assignment]
    if table == "job":
        phase.setdefault("options", {})[name] = value
        places["phase", index, "options", name] = place
    elif table in PHASE_TABLES:
        if isinstance(phase.get(table), dict):
            phase[table][name] = value
            places["phase", index, table, name] = place
    elif table == "phase":
        only, name = _phase_key(key)
        if only not in ("", name_in_file):
            return
        phase[name] = value
        places["phase", index, name] = place
