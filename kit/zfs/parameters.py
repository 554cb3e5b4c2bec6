"""The module parameters of OpenZFS 2.1 to 2.4, and which values OpenZFS takes. Pure.

`parameters.txt` has all of them. OpenZFS ignores some values silently: limits of the ARC out of their range
(arc_tuning_update in module/zfs/arc.c), and a maximum of I/Os below its minimum (module/zfs/vdev_queue.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kit.config.toml import suggested
from kit.config.toml_lines import KeyProblems
from kit.core.units import format_iec, format_size_bytes

_FILE = Path(__file__).with_name("parameters.txt")
_MOST = {"int": 2**31 - 1, "uint": 2**32 - 1, "u64": 2**63 - 1}
_WHY_NOT = {
    "text": "it takes a word, and a run sets numbers only: remove it",
    "load": "it is read only, set when the module is loaded (/etc/modprobe.d of the server): remove it",
    "spl": "a parameter of the module spl, of which a run sets none: remove it",
}
_MIB = 1 << 20
# Least and highest value of those that have narrower limits than their kind; 0 leaves some as they are.
_LIMITS: Mapping[str, tuple[int, int]] = {
    "zfs_arc_min": (32 * _MIB, _MOST["u64"]),
    "zfs_arc_max": (64 * _MIB, _MOST["u64"]),
    "zfs_arc_meta_min": (16 * _MIB, _MOST["u64"]),
    "zfs_arc_lotsfree_percent": (0, 100),
    "zfs_arc_dnode_limit_percent": (0, 100),
    "zfs_arc_meta_limit_percent": (0, 100),
    "zfs_max_recordsize": (512, 16 * _MIB),
    "spa_slop_shift": (1, 31),
    "zfs_vdev_min_auto_ashift": (9, 16),
    "zfs_vdev_max_auto_ashift": (9, 16),
}
_ZERO_IS_DEFAULT = frozenset({"zfs_arc_min", "zfs_arc_max", "zfs_arc_meta_min"})


@dataclass(frozen=True)
class Parameter:
    """`kind`: int, uint, u64, text, load or spl (parameters.txt). `default`: of one of a pair.

    `keeps_data`: it changes what keeps the data of all pools of a server.
    """

    kind: str
    versions: str
    is_size: bool = False
    default: int | None = None
    keeps_data: bool = False


@dataclass(frozen=True)
class Memory:
    """Of the server: bytes of memory, and the ARC's minimum in effect while zfs_arc_min is not set."""

    all_bytes: int
    arc_min_bytes: int


@cache
def known() -> Mapping[str, Parameter]:
    """All parameters by name."""
    parameters = {}
    for line in _FILE.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, kind, versions, *rest = line.split()
            default = next((int(word[1:]) for word in rest if word.startswith("=")), None)
            parameters[name] = Parameter(kind, versions, "B" in rest, default, "S" in rest)
    return parameters


def guest_memory(size_bytes: int) -> Memory:
    """Of a guest with `size_bytes`, of which its kernel keeps a few percent for itself."""
    return Memory(size_bytes, size_bytes // 34)


def name_problem(name: str) -> str:
    """Why a run cannot set this parameter; "" if it can."""
    parameter = known().get(name)
    if parameter is not None:
        return _WHY_NOT.get(parameter.kind, "")
    settable = [name for name, each in known().items() if each.kind in _MOST]
    hint = suggested(name, settable) or "zfs(4) has them all"
    return f"OpenZFS 2.1 to 2.4 have no such module parameter, {hint}"


def range_problems(values: Mapping[str, int], memory: Memory | None) -> KeyProblems:
    """Key and text for each value that OpenZFS would not take. `values`: in the module's units, by name."""
    texts = {name: _range_problem(name, value) for name, value in values.items()}
    good = {name: value for name, value in values.items() if not texts[name]}
    for name, text in texts.items():
        if text := text or _pair_problem(name, good):
            yield ("tunables", name), text
    if memory:
        yield from _memory_problems(values, memory)


def missing_problem(name: str, version: str) -> str:
    """Text for a parameter that the server's OpenZFS does not have."""
    first, _, last = known()[name].versions.partition("-")
    which = first if first == last else f"{first} to {last}"
    return f"OpenZFS {version} of the server has no such module parameter, it is of {which}: remove it"


def _range_problem(name: str, value: int) -> str:
    low, high = _LIMITS.get(name, (0, _MOST[known()[name].kind]))
    if low <= value <= high or (value == 0 and name in _ZERO_IS_DEFAULT):
        return ""
    if value < low:
        zero = " (or 0: as it is)" if name in _ZERO_IS_DEFAULT else ""
        return f"{_shown(name, value)} is below {_shown(name, low)}, the least that OpenZFS takes{zero}"
    return f"{_shown(name, value)} is above {_shown(name, high)}, the most that OpenZFS takes"


def _pair_problem(name: str, values: Mapping[str, int]) -> str:
    """A minimum above its maximum, whichever of the two is set."""
    for word, other_word in (("min", "max"), ("max", "min")):
        other = "_".join(other_word if part == word else part for part in name.split("_"))
        if other == name or other not in known() or (word == "max" and other in values):
            continue  # where both are set, it is the minimum's problem
        default = known()[other].default
        if not (limit := values.get(other, default)) or not values[name]:
            continue
        low, high = (name, other) if word == "min" else (other, name)
        pair = {name: values[name], other: limit}
        must_differ = low == "zfs_arc_min"
        if pair[low] > pair[high] or (must_differ and pair[low] == pair[high]):
            own = "" if other in values else ", its default"
            relation = "below" if must_differ else "not above"
            return (
                f"{_shown(name, values[name])} with {other} = {_shown(other, limit)}{own}: OpenZFS would not "
                f"do what it says, because the minimum is to be {relation} the maximum: set both, {low} "
                f"{relation} {high}"
            )
    return ""


def _memory_problems(values: Mapping[str, int], memory: Memory) -> KeyProblems:
    """Limits of the ARC that the memory of the server rules out: OpenZFS ignores them."""
    for name in ("zfs_arc_min", "zfs_arc_max"):
        if values.get(name, 0) >= memory.all_bytes:
            text = f"{_shown(name, values[name])} is not below the memory of the server"
            text += f", {format_iec(memory.all_bytes)}, so OpenZFS ignores it: make it smaller"
            yield ("tunables", name), text
    arc_max = values.get("zfs_arc_max", 0)
    if arc_max and not values.get("zfs_arc_min") and arc_max <= memory.arc_min_bytes:
        yield (
            ("tunables", "zfs_arc_max"),
            f"{_shown('zfs_arc_max', arc_max)} is not above the ARC's minimum there, "
            f"{format_iec(memory.arc_min_bytes)} (a 32nd of the memory), so OpenZFS ignores it: "
            'add zfs_arc_min = "32MiB"',
        )


def _shown(name: str, value: int) -> str:
    return format_size_bytes(value) if known()[name].is_size else str(value)
