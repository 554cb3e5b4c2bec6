"""Every block device of a host, who uses it, and what lies on it, as values (kit.devices.probe reads them).

What a tool did not say, or not in a way that can be understood, is a problem: of one disk, or of all of them.
Whoever has a problem is refused (kit.devices.reasons).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from kit.devices.tool_output import Health, Label, Pool, Signature

BY_ID = "/dev/disk/by-id/"
NO_HEALTH = Health()
# With NVMe multipath each way to a namespace is a hidden device of its own.
_PATH_OF_A_NAMESPACE = re.compile(r"nvme\d+c\d+n\d+")


@dataclass(frozen=True)
class Node:
    """One block device: a disk, a partition, or what is made of others (dm, md, loop, zvol).

    `kind` is disk, part, lvm, crypt, multipath, dm, md, loop, zvol or rom. `links` are its by-id paths.
    `sequence` is another one each time a disk is plugged in (diskseq of Linux 5.15, else "").
    """

    kernel_name: str
    device_number: str
    sequence: str
    kind: str
    size_bytes: int
    sector_bytes: int
    physical_sector_bytes: int
    discard_bytes: int
    serial: str
    model: str
    wwn: str
    transport: str
    rotational: bool
    removable: bool
    read_only: bool
    write_cache: str
    parent: str | None
    holders: tuple[str, ...]
    controller: str
    udev_fstype: str
    links: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return self.kind in ("disk", "loop")

    def identity(self) -> dict[str, Any]:
        """What it is recognised by, also after something was plugged in or out."""
        return {
            "kernel_name": self.kernel_name,
            "device_number": self.device_number,
            "sequence": self.sequence,
            "serial": self.serial,
            "wwn": self.wwn,
            "model": self.model,
            "size_bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class Mount:
    """`own`: in the mount namespace of the host's commands, else of process `pid` only."""

    device_number: str
    kernel_name: str
    place: str
    pid: int
    own: bool


@dataclass(frozen=True)
class Look:
    """What was found on one disk and its partitions. `alone`: why it cannot be opened exclusively, or ""."""

    alone: str
    signatures: tuple[Signature, ...] = ()
    labels: tuple[Label, ...] = ()
    health: Health = NO_HEALTH
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """`links` leads from paths to kernel names; `looks` are of the disks that were asked for."""

    host: str
    nodes: dict[str, Node]
    links: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    swaps: tuple[str, ...] = ()
    imported: tuple[Pool, ...] = ()
    importable: tuple[Pool, ...] = ()
    looks: dict[str, Look] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def find(self, path: str) -> Node | None:
        """What a path leads to, if it was asked for or is a by-id link."""
        name = self.links.get(path) or (path.removeprefix("/dev/") if path.startswith("/dev/") else "")
        return self.nodes.get(name)

    def parts(self, node: Node) -> tuple[Node, ...]:
        return tuple(other for other in self.nodes.values() if other.parent == node.kernel_name)

    def tree(self, node: Node) -> tuple[Node, ...]:
        """The device, its partitions, and whatever is made of any of them."""
        found: dict[str, Node] = {}
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.kernel_name not in found:
                found[one.kernel_name] = one
                waiting += [*self.parts(one), *(self.nodes[h] for h in one.holders if h in self.nodes)]
        return tuple(found.values())

    def siblings(self, node: Node) -> tuple[Node, ...]:
        """Other namespaces of the same NVMe controller."""
        if not node.kernel_name.startswith("nvme") or not node.controller:
            return ()
        return tuple(
            other for other in self.nodes.values()
            if other.kind == "disk" and other.controller == node.controller and other != node
            and not _PATH_OF_A_NAMESPACE.match(other.kernel_name)
        )  # fmt: skip


def paste_ready(node: Node) -> str | None:
    """The by-id link to put into a testbed: the shortest that says the serial; None if there is none."""
    plain = [link for link in node.links if not _is_derived(PurePosixPath(link).name)]
    return min(plain, key=lambda link: _rank(node, link), default=None)


def _is_derived(name: str) -> bool:
    return name.startswith(("dm-", "md-", "lvm-", "raid-"))


def names_no_namespace(node: Node, link: str) -> bool:
    """Whether a link says an NVMe device's serial and not which of its namespaces: all of them claim it."""
    return bool(node.serial) and node.kernel_name.startswith("nvme") and link.endswith(node.serial)


def _rank(node: Node, link: str) -> tuple[bool, bool, bool, int, str]:
    """Of a namespace the link with its number, which need not be that of the kernel's name."""
    name = PurePosixPath(link).name
    said = bool(node.serial) and node.serial in name
    numbered = said and not names_no_namespace(node, link)
    return (
        name.startswith(("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.")),
        not said,
        not numbered,
        len(name),
        name,
    )
