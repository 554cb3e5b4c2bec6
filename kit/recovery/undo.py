"""How each thing that a run leaves on a host is undone: by the run itself, or later by `hsp clean`.

Every kind can be done twice, and for what never came to be: it looks before it acts, and acts only on
what carries the run's id.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kit.core.errors import HostError
from kit.devices import clear_label, partition
from kit.hosts.base import Host
from kit.nfs import export as nfs
from kit.nfs import export_directory
from kit.recovery import work_directory
from kit.recovery.journal import Undo
from kit.trace import nfsd_tracer
from kit.zfs import pool, tunables

_Do = Callable[..., object]


@dataclass(frozen=True)
class Kind:
    """`do(host, **arguments)` undoes it; `by_hand(**arguments)` is what a person would type.

    `after`: kinds of which nothing may be left anywhere before this one is undone.
    """

    do: _Do
    by_hand: Callable[..., list[list[str]]]
    after: frozenset[str] = frozenset()


_ALL_OTHERS = frozenset(
    {"export-directory", "mount", "export", "pool", "partition", "tunable", "device", "tracer"}
)

KINDS: Mapping[str, Kind] = {
    # Last: as long as it is there, another run sees that something may be left.
    "work-directory": Kind(
        work_directory.remove,
        lambda path: [["rm", "-r", "--", path]],
        _ALL_OTHERS,
    ),
    "tracer": Kind(
        nfsd_tracer.end_left,
        lambda directory: [["pkill", "-f", f"{directory}/nfsd.bt"]],
    ),
    "tunable": Kind(
        tunables.write_tunable,
        lambda name, value, effect="": [["tee", tunables.parameter_path(name), f"(and type: {value})"]],
    ),
    # Never under a client that still has it mounted: its processes would hang for good.
    "pool": Kind(pool.remove, lambda **a: [["zpool", "destroy", a["name"]]], frozenset({"mount", "export"})),
    "partition": Kind(
        partition.remove,
        lambda device_path: [["partx", "--delete", "--nr", "1", device_path]],
        frozenset({"pool"}),
    ),
    # As bare as it was taken.
    "device": Kind(
        clear_label.clear,
        lambda path, serial, pool: [["wipefs", "--all", f"{path}-part1"], ["wipefs", "--all", path]],
        frozenset({"pool", "partition"}),
    ),
    "export": Kind(
        nfs.unexport,
        lambda path, client: [["exportfs", "-u", f"{client}:{path}"]],
        frozenset({"mount"}),
    ),
    # It is removed through the mount, which is undone after it.
    "export-directory": Kind(
        export_directory.remove,
        lambda target, directory, file, **_: [
            ["rm", "--", f"{target}/{directory}/{file}"],
            ["rmdir", f"{target}/{directory}"],
        ],
    ),
    "mount": Kind(nfs.unmount, lambda target: [["umount", target], ["rmdir", target]]),
}


def undo(item: Undo, hosts: Mapping[str, Host], left: frozenset[str]) -> None:
    """Undo one thing. `left`: kinds of which something could not be undone before it.

    Raises KitError if it is not undone.
    """
    kind = _kind(item)
    in_the_way = sorted(kind.after & left)
    if in_the_way:
        raise HostError(f"left as it is, because this could not be undone: {', '.join(in_the_way)}")
    if item.host not in hosts:
        raise HostError(f"there is no host '{item.host}' in this testbed")
    kind.do(hosts[item.host], **item.arguments)


def by_hand(item: Undo, hosts: Mapping[str, Host]) -> tuple[str, ...]:
    """Commands that a person can type, with the host they belong to."""
    name = hosts[item.host].name if item.host in hosts else item.host
    return tuple(f"on {name}: {shlex.join(argv)}" for argv in _commands(item))


def _commands(item: Undo) -> list[list[str]]:
    arguments: dict[str, Any] = item.arguments
    try:
        return _kind(item).by_hand(**arguments)
    except TypeError:
        return []


def _kind(item: Undo) -> Kind:
    if item.kind not in KINDS:
        raise HostError(
            f"the journal has an undo of an unknown kind, '{item.kind}'", "was it written by another version?"
        )
    return KINDS[item.kind]
