"""Why a device may not be used: a closed list of reasons, each with what to do about it. Pure.

The whole tree is looked at: the disk, its partitions, whatever is made of them, and who uses any of those.
What is not known is a reason like any other. There is nothing here that switches a reason off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from kit.core.units import format_size_bytes
from kit.devices.inventory import BY_ID, Inventory, Look, Mount, Node, names_no_namespace, paste_ready
from kit.devices.tool_output import CACHE, DESTROYED, EXPORTED, SPARE, Label, Pool

# ZFS refuses smaller devices (SPA_MINDEVSIZE, include/sys/fs/zfs.h).
MIN_DEVICE_BYTES = 64 << 20
_BOOT_PLACES = ("/", "/usr", "/boot", "/boot/efi", "/efi")
_ROLES = {SPARE: "a spare", CACHE: "a cache device"}
_SIGNATURES = {"LVM2_member": "lvm", "linux_raid_member": "md", "crypto_LUKS": "crypt"}


class Code(StrEnum):
    """What can be the matter with a device."""

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
    POOL_IMPORTED = "pool-imported"
    POOL_LABEL = "pool-label"
    OLD_LABEL = "old-zfs-label"
    PARTITIONS = "partitions"
    SIGNATURE = "signature"
    REMOVABLE = "removable"
    READ_ONLY = "read-only"
    TOO_SMALL = "too-small"
    SIBLING = "nvme-sibling"
    BUSY = "busy"
    UNDETERMINED = "undetermined"


WIPEABLE = frozenset({Code.SIGNATURE, Code.PARTITIONS, Code.OLD_LABEL})
"""What the explicit wipe step removes: contents that nobody uses."""

CONTENT = WIPEABLE | {Code.POOL_LABEL}
"""What lies on a device, as against who uses it."""

_HOLDERS = {"lvm": Code.LVM, "md": Code.MD, "multipath": Code.MULTIPATH, "crypt": Code.CRYPT}
_IN_USE = frozenset(Code) - CONTENT - {Code.SIBLING, Code.REMOVABLE, Code.READ_ONLY, Code.TOO_SMALL}


@dataclass(frozen=True)
class Reason:
    """`text` completes "… is not touched: "; `remedy` is what to do."""

    code: Code
    text: str
    remedy: str


@dataclass(frozen=True)
class Wanted:
    """What a testbed says of a device. `emulated` ones, made by the kit, need neither link nor serial."""

    path: str
    serial: str | None = None
    size_bytes: int | None = None
    emulated: bool = False


def reasons(inventory: Inventory, wanted: Wanted, others: Sequence[Wanted] = ()) -> tuple[Reason, ...]:
    """All reasons not to use `wanted`; `others` are the other devices of the same testbed."""
    node = inventory.find(wanted.path)
    found = list(_of_the_name(inventory, wanted, node))
    if node is None:
        found += [_undetermined(problem) for problem in inventory.problems]
        return tuple(found)
    found += _of_the_identity(node, wanted)
    found += _of_the_namespace(inventory, node, wanted)
    found += _of_the_duplicates(inventory, node, others)
    found += of_the_device(inventory, node)
    found += _of_the_siblings(inventory, node, others, found)
    return tuple(dict.fromkeys(found))


def is_by_id(path: str) -> bool:
    """Whether a path is one link among the by-id links, and leads nowhere else by itself."""
    name = path.removeprefix(BY_ID)
    return path.startswith(BY_ID) and name not in ("", ".", "..") and "/" not in name


def _of_the_name(inventory: Inventory, wanted: Wanted, node: Node | None) -> Iterator[Reason]:
    if not is_by_id(wanted.path) and not wanted.emulated:
        link = paste_ready(node) if node else None
        yield Reason(
            Code.KERNEL_NAME,
            f"it is not named by a link in {BY_ID}; any other name can be another disk's after the next boot",
            f'write path = "{link}"' if link else f"write its path below {BY_ID}",
        )
        if node and not link:
            yield Reason(Code.NO_ID, f"it has no link in {BY_ID}", "use a disk that has a serial of its own")
    if node is None:
        yield Reason(
            Code.NOT_FOUND,
            f"there is no such block device on {inventory.host}",
            "is it plugged in? `hsp devices` lists the disks of the server",
        )


def _of_the_namespace(inventory: Inventory, node: Node, wanted: Wanted) -> Iterator[Reason]:
    if inventory.siblings(node) and names_no_namespace(node, wanted.path):
        link = paste_ready(node)
        yield Reason(
            Code.SHARED_ID,
            "its link does not say which namespace of its controller it is, and can be another's after boot",
            f'write path = "{link}"',
        )


def _of_the_identity(node: Node, wanted: Wanted) -> Iterator[Reason]:
    if not node.is_whole:
        owner = f" of {node.parent}" if node.parent else ""
        kind = {"part": "a partition", "zvol": "a volume of a ZFS pool"}.get(
            node.kind, f"a {node.kind} device"
        )
        yield Reason(Code.NOT_WHOLE, f"it is no whole disk but {kind}{owner}", "name the whole disk")
    if wanted.serial is None and not wanted.emulated:
        yield Reason(
            Code.SERIAL,
            f"its serial is '{node.serial}', the testbed says none",
            f'write serial = "{node.serial}"',
        )
    if wanted.serial is not None and wanted.serial != node.serial:
        yield Reason(
            Code.SERIAL,
            f"its serial is '{node.serial}', the testbed says '{wanted.serial}'",
            "is it the disk that was meant? correct path or serial in the testbed",
        )
    if wanted.serial == "":
        yield Reason(Code.SERIAL, "it has no serial to recognise it by", "use another disk")
    if wanted.size_bytes is not None and wanted.size_bytes != node.size_bytes:
        yield Reason(
            Code.SIZE,
            f"it has {node.size_bytes} bytes, the testbed says {wanted.size_bytes}",
            "is it the disk that was meant? correct path or size in the testbed",
        )


def _of_the_duplicates(inventory: Inventory, node: Node, others: Sequence[Wanted]) -> Iterator[Reason]:
    own = {tree_node.kernel_name for tree_node in inventory.tree(node)} | {node.parent}
    for other in others:
        found = inventory.find(other.path)
        if found is None:
            continue
        if found.kernel_name == node.kernel_name:
            text = f"{other.path} of the same testbed is the same disk"
        elif found.kernel_name in own:
            text = f"{other.path} of the same testbed lies on the same disk"
        else:
            continue
        yield Reason(Code.DUPLICATE, text, "name each disk once, for one role")


def of_the_device(inventory: Inventory, node: Node) -> Iterator[Reason]:
    """Reasons that lie in the device itself, whatever a testbed says."""
    disk = inventory.nodes.get(node.parent, node) if node.parent else node
    tree = inventory.tree(disk)
    look = inventory.looks.get(disk.kernel_name)
    yield from _of_its_nature(disk)
    yield from _of_its_use(inventory, disk, tree)
    if look is None:
        yield _undetermined("it was not looked at")
    else:
        yield from _of_its_pools(inventory, tree, look)
        yield from _of_its_content(inventory, disk, look)
        yield from (_undetermined(problem) for problem in look.problems)
        if look.alone == "Device or resource busy":
            yield Reason(
                Code.BUSY, "the kernel says that somebody uses it", "find out who; lsblk and fuser help"
            )
        elif look.alone:
            yield _undetermined(f"opening it failed: {look.alone}")
    yield from (_undetermined(problem) for problem in inventory.problems)


def _of_its_nature(disk: Node) -> Iterator[Reason]:
    if disk.kind == "rom" or disk.removable:
        yield Reason(Code.REMOVABLE, "it is a removable disk", "use a disk that stays where it is")
    if disk.read_only:
        yield Reason(
            Code.READ_ONLY, "it is read-only", "use another disk, or find out why; see hdparm -r, blockdev"
        )
    if disk.size_bytes < MIN_DEVICE_BYTES:
        yield Reason(
            Code.TOO_SMALL,
            f"it has {disk.size_bytes} bytes, ZFS needs {format_size_bytes(MIN_DEVICE_BYTES)}",
            "use a larger disk",
        )


def _of_its_use(inventory: Inventory, disk: Node, tree: Sequence[Node]) -> Iterator[Reason]:
    names = {node.kernel_name: node for node in tree}
    numbers = {node.device_number: node for node in tree}
    seen = set()
    # What is mounted in the host's own namespace is in most others, too.
    for mount in sorted(inventory.mounts, key=lambda mount: not mount.own):
        node = names.get(mount.kernel_name) or numbers.get(mount.device_number)
        if node is not None and (node.kernel_name, mount.place) not in seen:
            seen.add((node.kernel_name, mount.place))
            yield from _of_a_mount(mount, node, disk)
    for swap in inventory.swaps:
        if swap in names:
            yield Reason(Code.SWAP, f"/dev/{swap} is swap space", f"swapoff /dev/{swap}, if that is right")
    for node in tree:
        for name in node.holders:
            holder = inventory.nodes.get(name)
            kind = holder.kind if holder else "unknown"
            yield Reason(
                _HOLDERS.get(kind, Code.HOLDER),
                f"/dev/{node.kernel_name} is part of /dev/{name} ({kind})",
                f"take {name} apart first, if it is not needed",
            )
        if node.udev_fstype == "mpath_member":
            yield Reason(Code.MULTIPATH, f"/dev/{node.kernel_name} is one path of a multipath disk", _APART)


_APART = "use the disk it is a path of, or take multipath off it"


def _of_a_mount(mount: Mount, node: Node, disk: Node) -> Iterator[Reason]:
    where = "" if mount.own else f" in the mount namespace of process {mount.pid}"
    if mount.own and mount.place in _BOOT_PLACES:
        yield Reason(Code.ROOT_DISK, f"the system runs from it ({mount.place})", "never this one")
    on = "" if node == disk else f"/dev/{node.kernel_name} on it "
    yield Reason(
        Code.MOUNTED,
        f"{on or 'it '}is mounted at {mount.place}{where}",
        f"umount {mount.place}{where}, if that is right",
    )


def _of_its_pools(inventory: Inventory, tree: Sequence[Node], look: Look) -> Iterator[Reason]:
    paths = {f"/dev/{node.kernel_name.replace('!', '/')}" for node in tree}
    links = {link for node in tree for link in node.links}
    for pool in inventory.imported:
        if pool.members & (paths | links):
            yield Reason(
                Code.POOL_IMPORTED,
                f"it belongs to the imported pool '{pool.name}' (GUID {pool.guid})",
                f"destroy that pool, if it is not needed: zpool destroy {pool.name}",
            )
    known = {label.guid for label in look.labels if label.guid}
    for label in look.labels:
        yield from _of_a_label(label, known)
    if any(label.state in _ROLES for label in look.labels):
        words = {PurePosixPath(path).name for path in paths | links}
        for pool in inventory.importable:
            if pool.members & words:
                yield _belongs(pool, "it belongs to")


def _belongs(pool: Pool, what: str) -> Reason:
    return Reason(
        Code.POOL_LABEL,
        f"{what} the pool '{pool.name}' (GUID {pool.guid}), which is not imported ({pool.state})",
        f"import and destroy that pool, if it is not needed: zpool import {pool.guid}",
    )


def _of_a_label(label: Label, known: set[str]) -> Iterator[Reason]:
    if label.state == DESTROYED or label.state in _ROLES:
        what = _ROLES.get(label.state, f"the destroyed pool '{label.pool}' (GUID {label.guid})")
        yield Reason(
            Code.OLD_LABEL, f"/dev/{label.kernel_name} has the ZFS label of {what}",
            "if it is not needed, `hsp wipe` clears it",
        )  # fmt: skip
        return
    state = "exported" if label.state == EXPORTED else "which its label says is in use"
    yield Reason(
        Code.POOL_LABEL,
        f"/dev/{label.kernel_name} belongs to the pool '{label.pool}' (GUID {label.guid}), {state}",
        f"destroy that pool where it is imported, or import and destroy it: zpool import {label.guid}",
    )


def _of_its_content(inventory: Inventory, disk: Node, look: Look) -> Iterator[Reason]:
    # What a table of partitions leads to is told by the partitions.
    parts = inventory.parts(disk)
    if parts:
        named = ", ".join(f"/dev/{part.kernel_name}" for part in parts)
        yield Reason(Code.PARTITIONS, f"it has partitions: {named}", _WIPE)
    for kind, name in dict.fromkeys((s.kind, s.kernel_name) for s in look.signatures):
        if kind == "zfs_member" and look.labels:
            continue
        code = _HOLDERS.get(_SIGNATURES.get(kind, ""), Code.SIGNATURE)
        remedy = _WIPE if code is Code.SIGNATURE else "take it out of there with that system's own tools"
        yield Reason(code, f"there is a signature on /dev/{name}: {kind}", remedy)


_WIPE = "if what is on it is not needed, `hsp wipe` removes it, with a backup of each signature"


def _of_the_siblings(
    inventory: Inventory, node: Node, others: Sequence[Wanted], own: Sequence[Reason]
) -> Iterator[Reason]:
    """Namespaces of one controller share flash, queue and, for many controllers, `nvme format`."""
    ours = {found.kernel_name for other in others if (found := inventory.find(other.path))}
    for sibling in inventory.siblings(node):
        if sibling.kernel_name in ours:
            continue
        used = [
            reason
            for reason in of_the_device(inventory, sibling)
            if reason not in own and (reason.code in _IN_USE or reason.code is Code.POOL_LABEL)
        ]
        if used:
            yield Reason(
                Code.SIBLING,
                f"/dev/{sibling.kernel_name}, a namespace of the same controller, is in use ({used[0].text})",
                "use a controller of which nothing else is used",
            )


def _undetermined(problem: str) -> Reason:
    return Reason(
        Code.UNDETERMINED,
        f"it could not be determined ({problem})",
        "make that work on the server, and look again with `hsp devices`",
    )
