"""The block devices of a host, their users and their contents, as values (read by kit.devices.probe).

Missing or malformed output of a tool is a problem of one disk or of all disks. A disk with a problem
is refused (kit.devices.refusal_reasons).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from kit.devices.tool_output import Health, Label, ListedPool, Signature

BY_ID = "/dev/disk/by-id/"
NO_HEALTH = Health()
_IDENTITY = ("kernel_name", "device_number", "sequence", "serial", "wwn", "model", "size_bytes")
_BLANKS, _PREFIX = re.compile(r"[\s_.:-]+"), re.compile(r"^(0x|naa|eui|t10)")
# With NVMe multipath each path to a namespace is a hidden device of its own.
_PATH_OF_A_NAMESPACE = re.compile(r"nvme\d+c\d+n\d+")


@dataclass(frozen=True)
class DeviceSettings:
    """Driver, firmware and queue of a disk, as the kernel has them (Documentation/ABI/stable/sysfs-block).

    `max_sectors_kb`: the largest request, in KiB. `sector_bytes`: the smallest. `controller`: the PCI device
    that it is behind, with `address`, `driver`, and, if the kernel has them, `version` of the driver's module
    and `firmware`. None: the kernel does not say.
    """

    driver: str | None = None
    firmware: str | None = None
    scheduler: str | None = None
    nr_requests: int | None = None
    max_sectors_kb: int | None = None
    rotational: bool | None = None
    write_cache: str | None = None
    fua: bool | None = None
    sector_bytes: int | None = None
    controller: dict[str, str] | None = None


@dataclass(frozen=True)
class Node:
    """A block device: a disk, a partition, or a device made of others (dm, md, loop, zvol).

    `kind` is disk, part, lvm, crypt, multipath, dm, md, loop, zvol or rom. `links` are its by-id paths.
    `sequence` is new each time a disk is connected (diskseq since Linux 5.15, else ""). `namespace` is the
    NSID of NVMe, `partition_type` a GUID (GPT) or a number such as 0x83 (MBR); both "" if unknown.
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
    namespace: str
    udev_fstype: str
    partition_type: str
    links: tuple[str, ...]

    def identity(self) -> dict[str, Any]:
        """Values that identify it, also after devices were connected or removed."""
        return {name: getattr(self, name) for name in _IDENTITY}


@dataclass(frozen=True)
class DeviceMount:
    """A mount of a block device. `own`: in the mount namespace of the host's commands, else of `pid`."""

    device_number: str
    kernel_name: str
    mountpoint: str
    pid: int
    own: bool


@dataclass(frozen=True)
class DeviceUser:
    """A process that has a device open, or a part of the kernel (`pid` "")."""

    kernel_name: str
    pid: str
    name: str

    def describe(self) -> str:
        return f"process {self.pid} ({self.name})" if self.pid else f"the kernel ({self.name})"


@dataclass(frozen=True)
class DiskContent:
    """Contents of a disk and its partitions. `open_error`: why it cannot be opened exclusively, or ""."""

    open_error: str
    signatures: tuple[Signature, ...] = ()
    labels: tuple[Label, ...] = ()
    health: Health = NO_HEALTH
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """`links`: kernel names by path. `disks`: contents of the examined disks, by kernel name."""

    host: str
    nodes: dict[str, Node]
    links: dict[str, str]
    mounts: tuple[DeviceMount, ...] = ()
    users: tuple[DeviceUser, ...] = ()
    swaps: tuple[str, ...] = ()
    imported: tuple[ListedPool, ...] = ()
    importable: tuple[ListedPool, ...] = ()
    disks: dict[str, DiskContent] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def find(self, path: str) -> Node | None:
        """The device of an examined path or by-id link; None if there is none."""
        name = self.links.get(path) or (path.removeprefix("/dev/") if path.startswith("/dev/") else "")
        return self.nodes.get(name)

    def parts(self, node: Node) -> tuple[Node, ...]:
        return tuple(other for other in self.nodes.values() if other.parent == node.kernel_name)

    def tree(self, node: Node) -> tuple[Node, ...]:
        """The device, its partitions, and all devices made of them."""
        tree: dict[str, Node] = {}
        waiting = [node]
        while waiting:
            device = waiting.pop()
            if device.kernel_name not in tree:
                tree[device.kernel_name] = device
                waiting += [*self.parts(device), *(self.nodes[h] for h in device.holders if h in self.nodes)]
        return tuple(tree.values())

    def other_paths(self, node: Node) -> tuple[Node, ...]:
        """Other kernel names of the same disk: a disk with two ports that multipath has not joined."""
        return tuple(
            other
            for name, other in self.nodes.items()
            if name != node.kernel_name and _same_disk(node, other)
        )

    def doubtful(self, node: Node) -> tuple[tuple[Node, str], ...]:
        """Disks of which it cannot be told whether they are other paths to this one, and what they share."""
        pairs = ((other, _likeness(node, other)) for other in self.nodes.values() if other != node)
        return tuple((other, what) for other, what in pairs if what and not _same_disk(node, other))

    def siblings(self, node: Node) -> tuple[Node, ...]:
        """Other namespaces of the same NVMe controller."""
        if not node.kernel_name.startswith("nvme") or not node.controller:
            return ()
        return tuple(
            other for other in self.nodes.values()
            if other.kind == "disk" and other.controller == node.controller and other != node
            and not _same_disk(node, other)
            and not _PATH_OF_A_NAMESPACE.match(other.kernel_name)
        )  # fmt: skip


def _same_disk(a: Node, b: Node) -> bool:
    """Serial, WWN and size are equal. What is unknown of one of them is no difference."""
    if (a.kind, b.kind) != ("disk", "disk") or a.size_bytes != b.size_bytes:
        return False
    pairs = ((a.serial, b.serial), (a.wwn, b.wwn))
    if any(x and y and x != y for x, y in pairs) or not any(x and x == y for x, y in pairs):
        return False
    # Namespaces of one controller have one serial, and old kernels report no WWN of them.
    return not _are_two_namespaces(a, b)


def _likeness(a: Node, b: Node) -> str:
    """What two disks share that no two disks should, however each path spells it; or "".

    A disk with a host protected area has another size by each path.
    """
    nodes = (a, b)
    if (a.kind, b.kind) != ("disk", "disk") or _are_two_namespaces(a, b):
        return ""
    if any(_PATH_OF_A_NAMESPACE.match(node.kernel_name) for node in nodes):
        return ""
    if _alike(a.wwn, b.wwn):
        return f"WWN '{a.wwn}'"
    # Namespaces of one controller have one serial and one model; their WWNs tell them apart.
    have_wwns = all(node.kernel_name.startswith("nvme") and _spelling(node.wwn) for node in nodes)
    if _spelling(a.model) != _spelling(b.model) or have_wwns:
        return ""
    if _alike(a.serial, b.serial):
        return f"serial '{a.serial}' and model '{a.model}'"
    is_unnamed = any(not (node.serial or node.wwn) for node in nodes)
    if is_unnamed and _alike(a.model, b.model) and a.size_bytes == b.size_bytes:
        return f"size and model '{a.model}', and one of them reports neither serial nor WWN"
    return ""


def _are_two_namespaces(a: Node, b: Node) -> bool:
    return bool(a.namespace and b.namespace and a.namespace != b.namespace)


def _alike(a: str, b: str) -> bool:
    """Both are known, and equal but for their spelling."""
    return bool(_spelling(a)) and _spelling(a) == _spelling(b)


def _spelling(text: str) -> str:
    """Without what tools and drivers spell differently."""
    plain = _BLANKS.sub("", text.casefold())
    return _PREFIX.sub("", plain).lstrip("0")


def preferred_link(node: Node) -> str | None:
    """The by-id link for a testbed: the shortest one with the serial; None if there is no link."""
    derived = ("dm-", "md-", "lvm-", "raid-")
    plain = [link for link in node.links if not PurePosixPath(link).name.startswith(derived)]
    return min(plain, key=lambda link: _rank(node, link), default=None)


def lacks_namespace(node: Node, link: str) -> bool:
    """Whether a link has the serial of an NVMe device but no namespace: it may lead to any of them."""
    return bool(node.serial) and node.kernel_name.startswith("nvme") and link.endswith(node.serial)


def _rank(node: Node, link: str) -> tuple[bool, bool, bool, int, str]:
    """Sort key. For a namespace a link with its number is best, which may differ from the kernel's number."""
    name = PurePosixPath(link).name
    has_serial = bool(node.serial) and node.serial in name
    has_number = has_serial and not lacks_namespace(node, link)
    return (
        name.startswith(("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.")),
        not has_serial,
        not has_number,
        len(name),
        name,
    )
