"""`hsp host wipe`: shows the unused contents of a disk, copies them (wipe_backup), and removes them.

Only unused contents can be removed (kit.devices.refusal_reasons.WIPEABLE): the owner of a pool, an LVM volume
or an array removes it with its own tools. Nothing is forced: never `zpool create -f`.
Sources: wipefs(8), zpool-labelclear(8), docs/decisions/0009-device-locks.md.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from kit.devices import udev, wipe_backup
from kit.devices.check import Checked, check, judge, recheck, refuse_any
from kit.devices.probe import probe
from kit.devices.refusal_reasons import WIPEABLE, DeviceSpec
from kit.devices.tool_output import Signature
from kit.devices.wipe_backup import Region
from kit.hosts.base import Host


@dataclass(frozen=True)
class Wipe:
    """The plan of a wipe: what is removed, by which `commands`, in order. `copied`: what is copied before."""

    checked: Checked
    items: tuple[Signature, ...]
    commands: tuple[tuple[str, ...], ...]
    copied: tuple[Region, ...]

    def describe(self) -> str:
        """The items and the commands as text."""
        lines = [
            f"  /dev/{item.kernel_name} at {item.offset_bytes}: {item.kind} {item.label}".rstrip()
            for item in self.items
        ]
        return "\n".join([*lines, *(f"  $ {shlex.join(argv)}" for argv in self.commands)])


def plan_wipe(host: Host, spec: DeviceSpec) -> Wipe:
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
    parts = inventory.parts(node)
    names = [*sorted(part.kernel_name for part in parts), node.kernel_name]
    commands: list[tuple[str, ...]] = [("zpool", "labelclear", f"/dev/{name}") for name in labelled]
    # Partitions before the table that leads to them.
    commands += [("wipefs", "--all", "--lock", f"/dev/{name}") for name in names if name in signed]
    # The kernel does not know that it is the same disk, and would keep its partitions.
    paths = [path for path in inventory.other_paths(node) if inventory.parts(path)]
    commands += [("blockdev", "--rereadpt", f"/dev/{path.kernel_name}") for path in paths if commands]
    copied = wipe_backup.regions((*parts, node), disk.signatures)
    return Wipe(checked, (*disk.signatures, *labels), tuple(commands), copied)


def wipe(host: Host, planned: Wipe, results: Path) -> Path:
    """Copy, run the plan, and check the result. Returns the new directory below `results` with the copies.

    Raises SafetyRefusal if the disk has changed, HostError.
    """
    folder = wipe_backup.save(host, planned.checked, planned.items, planned.copied, results)
    recheck(host, [planned.checked])
    for argv in planned.commands:
        host.run(list(argv))
    udev.settle(host, check=False)
    (after,) = check(host, [planned.checked.spec])
    refuse_any(host.name, [after])
    return folder
