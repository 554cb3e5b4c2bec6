"""`hsp wipe`: shows the unused contents of a disk, then removes them, with a backup of each signature.

Only unused contents can be removed (kit.devices.reasons.WIPEABLE): the owner of a pool, an LVM volume or an
array removes it with its own tools. Nothing is forced: never `zpool create -f`.
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
from kit.devices.reasons import WIPEABLE, DeviceSpec
from kit.devices.tool_output import Signature
from kit.hosts.base import Host

_LABEL_AREA_BYTES = 512 << 10  # two labels at each end (include/sys/vdev_impl.h)
# An ordinary user may run sh with sudo, not every tool (kit.hosts.sudo).
_AS_ROOT = ("sh", "-c", 'exec "$@"', "sh")
# In a directory that others may write, it might belong to another user, or be a link.
_OWN_DIRECTORY = (
    'mkdir -p -m 0700 -- "$1" && [ ! -L "$1" ] && [ "$(stat -c %u:%a -- "$1")" = "$(id -u):700" ]'
)


@dataclass(frozen=True)
class Wipe:
    """The plan of a wipe: what is removed, by which `commands`, in order. `backup_dir` is on the host."""

    checked: Checked
    items: tuple[Signature, ...]
    commands: tuple[tuple[str, ...], ...]
    backup_dir: str

    def describe(self) -> str:
        """The items and the commands as text."""
        lines = [
            f"  /dev/{item.kernel_name} at {item.offset_bytes}: {item.kind} {item.label}".rstrip()
            for item in self.items
        ]
        return "\n".join([*lines, *(f"  $ {shlex.join(argv)}" for argv in self.commands)])


def plan_wipe(host: Host, spec: DeviceSpec, backup_dir: str) -> Wipe:
    """Read the disk and plan the wipe. Writes nothing.

    Raises SafetyRefusal if it is not the intended disk, is in use, or has contents that only their own
    tools may remove.
    """
    inventory = probe(host, [spec.path])
    (checked,) = judge(inventory, [spec])
    refuse_any(host.name, [checked], WIPEABLE)
    node = checked.node
    assert node is not None  # it would have been refused
    disk = inventory.disks[node.kernel_name]
    labels = tuple(Signature(label.kernel_name, "ZFS label", 0, label.pool) for label in disk.labels)
    labelled = sorted({label.kernel_name for label in disk.labels})
    signed = {s.kernel_name for s in disk.signatures}
    parts = sorted(part.kernel_name for part in inventory.parts(node))
    commands = [command for name in labelled for command in _clear_label(inventory.nodes[name], backup_dir)]
    # Partitions before the table that leads to them.
    commands += [_wipefs(name, backup_dir) for name in [*parts, node.kernel_name] if name in signed]
    return Wipe(checked, (*disk.signatures, *labels), tuple(commands), backup_dir)


def wipe(host: Host, planned: Wipe) -> None:
    """Run the plan and check the result. Raises SafetyRefusal if the disk has changed, HostError."""
    recheck(host, [planned.checked])
    created = host.run(["sh", "-c", _OWN_DIRECTORY, "sh", planned.backup_dir], check=False)
    if created.returncode != 0:
        raise SafetyRefusal(
            f"{planned.checked.spec.path} on {host.name} is not touched: {planned.backup_dir}, where the "
            f"backup would go, is not a private directory of root {created.stderr.strip()[-200:]}".rstrip(),
            "remove what is there, or choose another place",
        )
    for argv in planned.commands:
        host.run(list(argv))
    host.run(["udevadm", "settle", "--timeout=60"], check=False)
    (after,) = check(host, [planned.checked.spec])
    refuse_any(host.name, [after])


def _clear_label(node: Node, backup_dir: str) -> list[tuple[str, ...]]:
    """labelclear makes no backup, so the areas of all four labels are copied first."""
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
    """wipefs writes its backups to $HOME; only newer versions have an option for the directory."""
    wipefs = ("wipefs", "--all", "--backup", "--lock", f"/dev/{name}")
    return ("sh", "-c", 'HOME=$1; export HOME; shift; exec "$@"', "sh", backup_dir, *wipefs)
