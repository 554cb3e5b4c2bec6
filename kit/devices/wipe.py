"""The explicit wipe: what lies unused on a disk is shown, then removed, with a backup of each signature.

Only contents that nobody uses can be removed (kit.devices.reasons.WIPEABLE): a pool, an LVM volume or an
array is taken apart with its own tools by whoever owns it. Nothing is forced: never `zpool create -f`.
Sources: wipefs(8), zpool-labelclear(8), docs/decisions/0009-device-locks.md.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from kit.core.errors import SafetyRefusal
from kit.devices.check import Checked, check, judge, recheck, refuse_any
from kit.devices.inventory import Node
from kit.devices.probe import probe
from kit.devices.reasons import WIPEABLE, Wanted
from kit.hosts.base import Host

_LABEL_AREA_BYTES = 512 << 10  # two labels at each end (include/sys/vdev_impl.h)
# An ordinary user has sudo for sh, not for every tool (kit.hosts.sudo).
_AS_ROOT = ("sh", "-c", 'exec "$@"', "sh")
# Where anybody may make files, it might be somebody else's, or a link.
_OWN_DIRECTORY = (
    'mkdir -p -m 0700 -- "$1" && [ ! -L "$1" ] && [ "$(stat -c %u:%a -- "$1")" = "$(id -u):700" ]'
)
_SETTLE = ["udevadm", "settle", "--timeout=60"]


@dataclass(frozen=True)
class Found:
    """One thing that the wipe would remove."""

    device: str
    kind: str
    offset_bytes: int
    label: str


@dataclass(frozen=True)
class Wipe:
    """What would be removed from a disk, and how, in order. `backup_dir` is on the host."""

    checked: Checked
    found: tuple[Found, ...]
    commands: tuple[tuple[str, ...], ...]
    backup_dir: str

    def describe(self) -> str:
        """For a person: what is on it, and the commands."""
        there = [f"  {f.device} at {f.offset_bytes}: {f.kind} {f.label}".rstrip() for f in self.found]
        return "\n".join([*there, *(f"  $ {shlex.join(argv)}" for argv in self.commands)])


def plan_wipe(host: Host, wanted: Wanted, backup_dir: str) -> Wipe:
    """Look, and say what would be done; nothing is changed.

    Raises SafetyRefusal if the disk is not the one that was meant, is used, or holds what its own tools
    must remove.
    """
    inventory = probe(host, [wanted.path])
    (checked,) = judge(inventory, [wanted])
    refuse_any(host.name, [checked], WIPEABLE)
    node = checked.node
    assert node is not None  # it would have been refused
    look = inventory.looks[node.kernel_name]
    found = tuple(
        Found(f"/dev/{s.kernel_name}", s.kind, s.offset_bytes, s.label) for s in look.signatures
    ) + tuple(Found(f"/dev/{label.kernel_name}", "ZFS label", 0, label.pool) for label in look.labels)
    labelled = sorted({label.kernel_name for label in look.labels})
    signed = {s.kernel_name for s in look.signatures}
    parts = sorted(part.kernel_name for part in inventory.parts(node))
    commands = [command for name in labelled for command in _clear_label(inventory.nodes[name], backup_dir)]
    # Partitions before the table that leads to them.
    commands += [_wipefs(name, backup_dir) for name in [*parts, node.kernel_name] if name in signed]
    return Wipe(checked, found, tuple(commands), backup_dir)


def wipe(host: Host, planned: Wipe) -> None:
    """Do it, and look that nothing is left. Raises SafetyRefusal if the disk is not as it was; HostError."""
    recheck(host, [planned.checked])
    made = host.run(["sh", "-c", _OWN_DIRECTORY, "sh", planned.backup_dir], check=False)
    if made.returncode != 0:
        raise SafetyRefusal(
            f"{planned.checked.wanted.path} on {host.name} is not touched: {planned.backup_dir}, where the "
            f"backup would go, is not a directory of root alone {made.stderr.strip()[-200:]}".rstrip(),
            "remove what is there, or choose another place",
        )
    for argv in planned.commands:
        host.run(list(argv))
    host.run(_SETTLE, check=False)
    (after,) = check(host, [planned.checked.wanted])
    refuse_any(host.name, [after])


def _clear_label(node: Node, backup_dir: str) -> list[tuple[str, ...]]:
    """labelclear keeps no backup: the areas of all four labels are copied first."""
    path = f"/dev/{node.kernel_name}"
    copy = str(PurePosixPath(backup_dir) / f"zfs-label-{node.kernel_name}")
    end = (node.size_bytes - _LABEL_AREA_BYTES) // 4096
    blocks = f"count={_LABEL_AREA_BYTES // 4096}"
    return [
        (*_AS_ROOT, "dd", f"if={path}", f"of={copy}-start.bak", "bs=4096", blocks, "status=none"),
        (*_AS_ROOT, "dd", f"if={path}", f"of={copy}-end.bak", "bs=4096", f"skip={end}", "status=none"),
        ("zpool", "labelclear", path),
    ]


def _wipefs(name: str, backup_dir: str) -> tuple[str, ...]:
    """wipefs puts its backups into $HOME; only newer ones have an option for it."""
    wipefs = ("wipefs", "--all", "--backup", "--lock", f"/dev/{name}")
    return ("sh", "-c", 'HOME=$1; export HOME; shift; exec "$@"', "sh", backup_dir, *wipefs)


__all__ = ["Found", "Wipe", "plan_wipe", "wipe"]
