"""Reasons why a device may not be used: a closed list, each with what to do about it. Pure.

The whole tree is checked: the disk, its partitions, all devices made of them, and their users.
Missing information is a reason, too. No option switches a reason off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from kit.config.testbed_devices import MIN_DEVICE_BYTES
from kit.core.units import format_size_bytes
from kit.devices.inventory import (
    BY_ID,
    DeviceMount,
    DiskContent,
    Inventory,
    Node,
    lacks_namespace,
    preferred_link,
)
from kit.devices.tool_output import CACHE, DESTROYED, EXPORTED, SPARE, Label

# A link directly in that directory.
_BY_ID_LINK = re.compile(rf"{BY_ID}(?!\.{{1,2}}\Z)[^/]+", re.DOTALL)
_SYSTEM_MOUNTS = ("/", "/usr", "/boot", "/boot/efi", "/efi")
_ROLES = {SPARE: "a spare", CACHE: "a cache device"}
_SIGNATURES = {"LVM2_member": "lvm", "linux_raid_member": "md", "crypto_LUKS": "crypt"}


# The closed list of what `hsp host wipe` may remove: contents that are whole on the disk. A member of what
# spans disks (an array, a cache, a cluster, a multi-device file system) is missed elsewhere.
# Types of libblkid, as wipefs prints them:
WIPEABLE_SIGNATURES = frozenset(
    "ext2 ext3 ext4 xfs vfat exfat ntfs swap iso9660 udf gpt dos PMBR zfs_member".split()
)
# Types of partitions, as lsblk prints them. Windows' dynamic disks and Storage Spaces, VMFS, Ceph and others
# have members without any signature, with partitions of their own types.
WIPEABLE_PARTITIONS = frozenset(
    (
        "0x1 0x4 0x5 0x6 0x7 0xb 0xc 0xe 0xf 0x27 0x82 0x83 0x85 0xee 0xef "
        "0fc63daf-8483-4772-8e79-3d69d8477de4 "  # Linux file system
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f "  # Linux swap
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709 "  # Linux root (x86-64)
        "933ac7e1-2eb4-4f13-b844-0e14e2aef915 "  # Linux home
        "3b8f8425-20e0-4f3b-907f-1a25a76f98e8 "  # Linux server data
        "bc13c2ff-59e6-4262-a352-b275fd6f7172 "  # Linux extended boot
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b "  # EFI system
        "21686148-6449-6e6f-744e-656564454649 "  # BIOS boot
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7 "  # Microsoft basic data
        "e3c9e316-0b5c-4db8-817d-f92df00215ae "  # Microsoft reserved
        "de94bba4-06d1-4d40-a16a-bfd50179d6ac "  # Windows recovery
        "6a898cc3-1dd2-11b2-99a6-080020736631 "  # ZFS
        "6a945a3b-1dd2-11b2-99a6-080020736631"  # ZFS, reserved
    ).split()
)


class Code(StrEnum):
    """Kinds of reasons."""

    KERNEL_NAME = "kernel-name"
    NO_ID = "no-by-id-link"
    SHARED_ID = "by-id-link-of-several"
    NOT_FOUND = "not-found"
    NOT_WHOLE = "not-a-whole-disk"
    SERIAL = "serial-differs"
    SIZE = "size-differs"
    DUPLICATE = "duplicate"
    ROOT_DISK = "root-disk"
    MOUNTED = "mounted"
    SWAP = "swap"
    LVM = "lvm"
    MD = "md"
    MULTIPATH = "multipath"
    CRYPT = "crypt"
    HOLDER = "holder"
    OPEN = "open"
    POOL_IMPORTED = "pool-imported"
    POOL_LABEL = "pool-label"
    OLD_LABEL = "old-zfs-label"
    PARTITIONS = "partitions"
    SIGNATURE = "signature"
    FOREIGN = "foreign-contents"
    REMOVABLE = "removable"
    READ_ONLY = "read-only"
    TOO_SMALL = "too-small"
    SIBLING = "nvme-sibling"
    BUSY = "busy"
    UNDETERMINED = "undetermined"


WIPEABLE = frozenset({Code.SIGNATURE, Code.PARTITIONS, Code.OLD_LABEL})
"""Unused contents, which `hsp host wipe` removes; not if there are foreign ones beside."""

CONTENT = WIPEABLE | {Code.POOL_LABEL, Code.FOREIGN}
"""Reasons about the contents of a device, not about its use."""

_HOLDERS = {"lvm": Code.LVM, "md": Code.MD, "multipath": Code.MULTIPATH, "crypt": Code.CRYPT}
_IN_USE = frozenset(Code) - WIPEABLE - {Code.SIBLING, Code.REMOVABLE, Code.READ_ONLY, Code.TOO_SMALL}


@dataclass(frozen=True)
class Reason:
    """`text` completes "… is not touched: "; `remedy` is what to do."""

    code: Code
    text: str
    remedy: str


@dataclass(frozen=True)
class DeviceSpec:
    """A device as the testbed gives it. `trusted`: checked by the caller, needs neither link nor serial."""

    path: str
    serial: str | None = None
    size_bytes: int | None = None
    trusted: bool = False


def reasons(inventory: Inventory, spec: DeviceSpec, others: Sequence[DeviceSpec] = ()) -> tuple[Reason, ...]:
    """All reasons not to use a device; `others` are the other devices of the same testbed."""
    node = inventory.find(spec.path)
    listed = [*_name_reasons(inventory, spec, node)]
    if node is None:
        return (*listed, *map(_undetermined, inventory.problems))
    listed += _identity_reasons(inventory, node, spec)
    listed += _duplicate_reasons(inventory, node, others)
    listed += device_reasons(inventory, node)
    listed += _sibling_reasons(inventory, node, others, listed)
    return _without_consequences(listed)


def _without_consequences(listed: Sequence[Reason]) -> tuple[Reason, ...]:
    """A path that multipathd has joined is busy and without a link for this reason alone: said once."""
    joined = [reason for reason in listed if reason.code is Code.MULTIPATH][:1]
    follow = (Code.MULTIPATH, Code.BUSY, Code.NO_ID, Code.KERNEL_NAME)
    others = (each for each in listed if each.code not in follow)
    return tuple(dict.fromkeys([*joined, *others] if joined else listed))


def _name_reasons(inventory: Inventory, spec: DeviceSpec, node: Node | None) -> Iterator[Reason]:
    if not spec.trusted and not _BY_ID_LINK.fullmatch(spec.path):
        link = preferred_link(node) if node else None
        yield Reason(
            Code.KERNEL_NAME,
            f"it is not named by a link in {BY_ID}; any other name may be another disk after the next boot",
            f'write path = "{link}"' if link else f"write its path below {BY_ID}",
        )
        if node and not link:
            # udev's link leads to one of the paths to a disk.
            other = next(filter(None, map(preferred_link, inventory.other_paths(node))), None)
            remedy = f"it is another path to {other}: use that link" if other else "use another disk"
            yield Reason(Code.NO_ID, f"it has no link in {BY_ID}", remedy)
    if node is None:
        yield Reason(
            Code.NOT_FOUND,
            f"there is no such block device on {inventory.host}",
            "is it connected, and no directory? `hsp host disks` lists the disks of the server",
        )


def _identity_reasons(inventory: Inventory, node: Node, spec: DeviceSpec) -> Iterator[Reason]:
    if node.kind not in ("disk", "loop"):
        owner = f" of {node.parent}" if node.parent else ""
        kind = {"part": "a partition", "zvol": "a volume of a ZFS pool"}.get(
            node.kind, f"a {node.kind} device"
        )
        is_joined = node.kind == "multipath"
        yield Reason(
            Code.NOT_WHOLE,
            f"it is not a whole disk but {kind}{owner}",
            _APART if is_joined else "name the whole disk",
        )
        if is_joined:  # its other facts are those of its paths
            return
    if spec.serial is None and not spec.trusted:
        text = f"its serial is '{node.serial}', the testbed says none"
        yield Reason(Code.SERIAL, text, f'write serial = "{node.serial}"')
    if spec.serial is not None and spec.serial != node.serial:
        yield Reason(
            Code.SERIAL,
            f"its serial is '{node.serial}', the testbed says '{spec.serial}'",
            "is it the intended disk? correct path or serial in the testbed",
        )
    if spec.serial == "":
        yield Reason(Code.SERIAL, "it has no serial number to identify it", "use another disk")
    if spec.size_bytes is not None and spec.size_bytes != node.size_bytes:
        text = f"it has {node.size_bytes} bytes, the testbed says {spec.size_bytes}"
        yield Reason(Code.SIZE, text, "is it the intended disk? correct path or size in the testbed")
    if inventory.siblings(node) and lacks_namespace(node, spec.path):
        yield Reason(
            Code.SHARED_ID,
            "its link does not name a namespace of the controller, and may lead to another one after boot",
            f'write path = "{preferred_link(node)}"',
        )


def _duplicate_reasons(inventory: Inventory, node: Node, others: Sequence[DeviceSpec]) -> Iterator[Reason]:
    own = {tree_node.kernel_name for tree_node in inventory.tree(node)} | {node.parent}
    disk = inventory.nodes.get(node.parent, node) if node.parent else node
    paths = {
        tree_node.kernel_name: path
        for path in inventory.other_paths(disk)
        for tree_node in inventory.tree(path)
    }
    for other in others:
        other_node = inventory.find(other.path)
        if other_node is None:
            continue
        if other_node.kernel_name == node.kernel_name:
            text = f"{other.path} of the same testbed is the same disk"
        elif other_node.kernel_name in own:
            text = f"{other.path} of the same testbed lies on the same disk"
        elif other_node.kernel_name in paths:
            path = paths[other_node.kernel_name]
            text = f"{other.path} of the same testbed is another path to the same disk ({_same(disk, path)})"
        else:
            continue
        yield Reason(Code.DUPLICATE, text, "name each disk once, for one role")


def device_reasons(inventory: Inventory, node: Node) -> Iterator[Reason]:
    """Reasons that do not depend on the testbed."""
    disk = inventory.nodes.get(node.parent, node) if node.parent else node
    yield from _hardware_reasons(disk)
    yield from _path_reasons(inventory, disk)
    for path in inventory.other_paths(disk):
        # The kernel treats them as two disks: a use of one is not seen at the other.
        for reason in _path_reasons(inventory, path):
            text = f"{reason.text} (as /dev/{path.kernel_name}, another path to it: {_same(disk, path)})"
            yield Reason(reason.code, text, reason.remedy)
    for other, what in inventory.doubtful(disk):
        yield Reason(
            Code.UNDETERMINED,
            f"it could not be determined whether /dev/{other.kernel_name} is another path to it: both have "
            + what,
            "disconnect one of the paths; of two disks, use one that says who it is",
        )
    yield from map(_undetermined, inventory.problems)


def _same(disk: Node, path: Node) -> str:
    return f"both have serial '{disk.serial or path.serial}', WWN '{disk.wwn or path.wwn}' and the same size"


def _path_reasons(inventory: Inventory, disk: Node) -> Iterator[Reason]:
    """Uses and contents of a disk, by one of its kernel names."""
    tree = inventory.tree(disk)
    content = inventory.disks.get(disk.kernel_name)
    yield from _use_reasons(inventory, disk, tree)
    if content is None:
        # What is not examined has a reason of its own that says why.
        if disk.kind != "multipath" and disk.size_bytes:
            yield _undetermined("it was not examined")
    else:
        yield from _pool_reasons(inventory, tree, content)
        yield from _content_reasons(inventory, disk, content)
        yield from map(_undetermined, content.problems)
        if content.open_error == "Device or resource busy":
            yield Reason(
                Code.BUSY, "the kernel reports that it is in use", "find the user with lsblk and fuser"
            )
        elif content.open_error:
            yield _undetermined(f"opening it failed: {content.open_error}")


def _hardware_reasons(disk: Node) -> Iterator[Reason]:
    if disk.kind == "rom" or disk.removable:
        yield Reason(Code.REMOVABLE, "it is a removable disk", "use a fixed disk")
    if disk.read_only:
        yield Reason(Code.READ_ONLY, "it is read-only", "use another disk, or see hdparm -r and blockdev")
    if not disk.size_bytes or disk.sector_bytes & (disk.sector_bytes - 1):
        yield Reason(
            Code.TOO_SMALL,
            f"it has {disk.size_bytes} bytes in sectors of {disk.sector_bytes}: without a medium, or with "
            "sectors that Linux does not support, as 520 bytes of disks from storage arrays",
            'where dmesg says "Unsupported sector size", `sg_format --format --size=512 DISK` gives it '
            "others (it erases the disk, and takes hours); else use another disk",
        )
    elif disk.size_bytes < MIN_DEVICE_BYTES:
        text = f"it has {disk.size_bytes} bytes, ZFS needs {format_size_bytes(MIN_DEVICE_BYTES)}"
        yield Reason(Code.TOO_SMALL, text, "use a larger disk")


def _use_reasons(inventory: Inventory, disk: Node, tree: Sequence[Node]) -> Iterator[Reason]:
    names = {node.kernel_name: node for node in tree}
    numbers = {node.device_number: node for node in tree}
    for node in tree:
        # Those of the host's own namespace are in most others, too.
        places = {
            mount.mountpoint: mount
            for mount in sorted(inventory.mounts, key=lambda mount: mount.own)
            if (names.get(mount.kernel_name) or numbers.get(mount.device_number)) == node
        }
        yield from _mount_reasons(sorted(places.values(), key=lambda mount: not mount.own), node, disk)
    for swap in inventory.swaps:
        if swap in names:
            yield Reason(Code.SWAP, f"/dev/{swap} is swap space", f"swapoff /dev/{swap}, if that is right")
    joined = {node.kernel_name for node in tree if node.udev_fstype == "mpath_member"}
    for user in inventory.users:
        if user.kernel_name in names and not (user.kernel_name in joined and user.name == "multipathd"):
            yield Reason(
                Code.OPEN,
                f"{user.describe()} has /dev/{user.kernel_name} open",
                "end it, if the disk is not needed there: a virtual machine, a target (iSCSI, NVMe, NBD), a "
                "database?",
            )
    for node in tree:
        for name in node.holders:
            holder = inventory.nodes.get(name)
            kind = holder.kind if holder else "unknown"
            yield Reason(
                _HOLDERS.get(kind, Code.HOLDER),
                f"/dev/{node.kernel_name} is part of /dev/{name} ({kind})",
                _APART if kind == "multipath" else f"remove {name} first, if it is not needed",
            )
        if node.udev_fstype == "mpath_member":
            yield Reason(Code.MULTIPATH, f"/dev/{node.kernel_name} is one path of a multipath disk", _APART)


_APART = (
    "the kit uses no multipath disks: blacklist it in /etc/multipath.conf, flush it with `multipath -f`, "
    "disconnect all but one of its paths, `udevadm trigger --settle`; then name that disk by its link"
)


def _mount_reasons(places: Sequence[DeviceMount], node: Node, disk: Node) -> Iterator[Reason]:
    """`places`: where it is mounted, the host's own namespace first. A service has copies of its own."""
    for place in places:
        if place.own and place.mountpoint in _SYSTEM_MOUNTS:
            text = f"the system runs from it ({place.mountpoint})"
            yield Reason(Code.ROOT_DISK, text, "do not use the system disk")
    if not places:
        return
    mount, more = places[0], f", and at {len(places) - 1} more places" if len(places) > 1 else ""
    where = "" if mount.own else f" in the mount namespace of process {mount.pid}"
    subject = "" if node == disk else f"/dev/{node.kernel_name} on it "
    yield Reason(
        Code.MOUNTED,
        f"{subject or 'it '}is mounted at {mount.mountpoint}{where}{more}",
        f"umount {mount.mountpoint}{where}, if that is right",
    )


def _pool_reasons(inventory: Inventory, tree: Sequence[Node], content: DiskContent) -> Iterator[Reason]:
    paths = {f"/dev/{node.kernel_name.replace('!', '/')}" for node in tree}
    links = {link for node in tree for link in node.links}
    for pool in inventory.imported:
        if pool.members & (paths | links):
            yield Reason(
                Code.POOL_IMPORTED,
                f"it belongs to the imported pool '{pool.name}' (GUID {pool.guid})",
                f"destroy that pool, if it is not needed: zpool destroy {pool.name}",
            )
    known = {label.guid for label in content.labels if label.guid}
    for label in content.labels:
        yield from _label_reasons(label, known)
    if any(label.state in _ROLES for label in content.labels):
        names = {PurePosixPath(path).name for path in paths | links}
        for pool in inventory.importable:
            if pool.members & names:
                yield Reason(
                    Code.POOL_LABEL,
                    f"it belongs to the pool '{pool.name}' (GUID {pool.guid}), which is not imported "
                    f"({pool.state})",
                    f"import and destroy that pool, if it is not needed: zpool import {pool.guid}",
                )


def _label_reasons(label: Label, known: set[str]) -> Iterator[Reason]:
    if label.state == DESTROYED or label.state in _ROLES:
        owner = _ROLES.get(label.state, f"the destroyed pool '{label.pool}' (GUID {label.guid})")
        yield Reason(
            Code.OLD_LABEL, f"/dev/{label.kernel_name} has the ZFS label of {owner}",
            "if it is not needed, `hsp host wipe` clears it",
        )  # fmt: skip
        return
    state = "exported" if label.state == EXPORTED else "which its label says is in use"
    yield Reason(
        Code.POOL_LABEL,
        f"/dev/{label.kernel_name} belongs to the pool '{label.pool}' (GUID {label.guid}), {state}",
        f"destroy that pool where it is imported, or import and destroy it: zpool import {label.guid}",
    )


def _content_reasons(inventory: Inventory, disk: Node, content: DiskContent) -> Iterator[Reason]:
    # The partitions themselves are reported, not the partition table.
    parts = inventory.parts(disk)
    if parts:
        named = ", ".join(f"/dev/{part.kernel_name}" for part in parts)
        yield Reason(Code.PARTITIONS, f"it has partitions: {named}", _WIPE)
    for part in parts:
        if part.partition_type not in WIPEABLE_PARTITIONS:
            kind = f"of type {part.partition_type}" if part.partition_type else "of unknown type"
            yield Reason(Code.FOREIGN, f"/dev/{part.kernel_name} is a partition {kind}", _FOREIGN)
    for kind, name in dict.fromkeys((s.kind, s.kernel_name) for s in content.signatures):
        if kind == "zfs_member" and content.labels:
            continue
        code = Code.SIGNATURE if kind in WIPEABLE_SIGNATURES else Code.FOREIGN
        code = _HOLDERS.get(_SIGNATURES.get(kind, ""), code)
        remedy = {Code.SIGNATURE: _WIPE, Code.FOREIGN: _FOREIGN}.get(
            code, "remove it with the tools of that system"
        )
        yield Reason(code, f"there is a signature on /dev/{name}: {kind}", remedy)


_WIPE = "if its contents are not needed, `hsp host wipe` removes them, with a backup of each signature"

_FOREIGN = (
    "other disks may depend on it, so `hsp host wipe` does not remove it; remove it with the tools of the "
    "system that made it, or use another disk"
)


def _sibling_reasons(
    inventory: Inventory, node: Node, others: Sequence[DeviceSpec], known: Sequence[Reason]
) -> Iterator[Reason]:
    """Namespaces of one controller share flash, queue and, for many controllers, `nvme format`."""
    own = [other_node for other in others if (other_node := inventory.find(other.path))]
    own_names = {path.kernel_name for node in own for path in (node, *inventory.other_paths(node))}
    for sibling in inventory.siblings(node):
        if sibling.kernel_name in own_names:
            continue
        used = [
            reason
            for reason in device_reasons(inventory, sibling)
            if reason not in known and (reason.code in _IN_USE or not sibling.size_bytes)
        ]
        if used:
            yield Reason(
                Code.SIBLING,
                f"/dev/{sibling.kernel_name}, a namespace of the same controller, is in use ({used[0].text})",
                "use a controller with no other namespace in use",
            )


def _undetermined(problem: str) -> Reason:
    return Reason(
        Code.UNDETERMINED,
        f"it could not be determined ({problem})",
        "correct that on the server, and check with `hsp host disks`",
    )
