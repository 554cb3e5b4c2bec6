"""Removes the label and the partitions of the run's own pool from a device at the teardown.

The owner may have reused the device since the run was killed: labels 2 and 3 of ZFS lie at the end, where a
new file system leaves them. So the device is first looked at as before a run. With anything on it but ZFS
labels and the partitions that `zpool create` makes, it is left alone. Only labels of the run's pool are
removed, on the device with that serial number, and that partition table. Nothing is forced.
"""

from __future__ import annotations

import re

from kit.core.errors import SafetyRefusal
from kit.devices import udev
from kit.devices.check import Checked, judge
from kit.devices.inventory import DiskContent, Inventory
from kit.devices.probe import probe
from kit.devices.refusal_reasons import CONTENT, Code, DeviceSpec
from kit.devices.serial import check_serial
from kit.hosts.base import Host
from kit.zfs.pool import WHOLE_DISK_PART, is_cache_label

BACKUPS = "/var/lib/hsp/removed"
"""On the host: copies of the signatures that wipefs removes, by the name of the pool."""
# Number, type and begin of the name.
_ZFS_PARTITIONS = (
    (1, "6a898cc3-1dd2-11b2-99a6-080020736631", "zfs-"),
    (9, "6a945a3b-1dd2-11b2-99a6-080020736631", ""),
)
_LABEL = re.compile(r"^LABEL \d|^\s*(pool_)?guid: ", re.MULTILINE)
_NAME = re.compile(r"^\s*name: '(.*)'$", re.MULTILINE)
_GUID = re.compile(r"^\s*pool_guid: (\d+)$", re.MULTILINE)
_COPIES = re.compile(r"^\s*labels = ([0-9 ]+)$", re.MULTILINE)
# What `zpool create` writes; tables are looked at with their partitions.
_OWN_SIGNATURES = frozenset({"zfs_member", "gpt", "PMBR"})
_ELSEWHERE = frozenset(
    {Code.MOUNTED, Code.SWAP, Code.ROOT_DISK, Code.LVM, Code.MD, Code.CRYPT, Code.HOLDER, Code.MULTIPATH}
)
_HARMLESS = CONTENT | {Code.TOO_SMALL, Code.REMOVABLE, Code.SIBLING}


class Foreign(SafetyRefusal):
    """What is on the device now is not the run's."""


def clear(host: Host, path: str, serial: str, pool: str, guid: str = "") -> None:
    """Remove what the destroyed `pool` left on the device.

    `guid` is that of the pool, "" if the run ended before it was known; the label of a cache device has no
    other evidence of its pool. Raises Foreign, other SafetyRefusal, HostError.
    """
    check_serial(host, path, serial)
    inventory = probe(host, [path])
    (checked,) = judge(inventory, [DeviceSpec(path, serial)])
    _refuse_foreign(host, inventory, checked)
    places = (f"{path}{WHOLE_DISK_PART}", path)
    labels = _own_labels(host, path, places, pool, guid)
    if not labels and not _has_only_partitions(host, path):
        return
    # A process that has it open may still write: nothing is said to be clean then.
    if listed := checked.reasons_but(_HARMLESS):
        raise SafetyRefusal(
            f"{path} on {host.name} has the label of the run's pool and was not changed: "
            + "; ".join(reason.text for reason in listed),
            "\n".join(dict.fromkeys(reason.remedy for reason in listed)) + "\nthen `hsp clean` once more",
        )
    for place in labels:
        check_serial(host, path, serial)
        host.run(["zpool", "labelclear", place])
    host.run(["mkdir", "-p", "-m", "0700", f"{BACKUPS}/{pool}"])
    for place in labels:
        check_serial(host, path, serial)
        host.run(wipe_command(place, pool, "zfs_member"))
    if _has_only_partitions(host, path):
        check_serial(host, path, serial)
        host.run(wipe_command(path, pool, "gpt,PMBR"))
    udev.settle(host)


def wipe_command(path: str, pool: str, types: str) -> list[str]:
    """argv. wipefs copies what it removes to files in its home directory.

    The lock keeps udev and other tools away meanwhile (docs/decisions/0009-device-locks.md).
    """
    wipe = ["wipefs", "--all", "--types", types, "--backup", "--quiet", "--lock", path]
    return ["sh", "-c", 'HOME=$1; export HOME; shift; exec "$@"', "sh", f"{BACKUPS}/{pool}", *wipe]


def _refuse_foreign(host: Host, inventory: Inventory, checked: Checked) -> None:
    """Raises Foreign if the device has, or is a part of, anything that `zpool create` does not make."""
    node = checked.node
    if node is None:
        raise SafetyRefusal(
            f"{checked.spec.path} on {host.name} cannot be looked at: "
            + "; ".join(reason.text for reason in checked.reasons),
            "it was not changed",
        )
    content = inventory.disks.get(node.kernel_name, DiskContent(""))
    found = [
        f"a signature of {each.kind} on /dev/{each.kernel_name}"
        for each in content.signatures
        if each.kind not in _OWN_SIGNATURES
    ]
    types = {kind for _, kind, _ in _ZFS_PARTITIONS}
    found += [
        f"the partition /dev/{part.kernel_name} of type {part.partition_type or 'unknown'}"
        for part in inventory.parts(node)
        if part.partition_type not in types
    ]
    found += [reason.text for reason in checked.reasons if reason.code in _ELSEWHERE]
    if found:
        raise Foreign(
            f"{checked.spec.path} on {host.name} was left as it is: {'; '.join(found)}",
            "somebody has used it since the run; a label of the run's pool may be left behind that",
        )


def _own_labels(host: Host, path: str, places: tuple[str, ...], pool: str, guid: str) -> list[str]:
    """Where the device has labels, all of them the run's. Raises SafetyRefusal, Foreign."""
    found = {place: host.run(["zdb", "-l", place], check=False).stdout for place in places}
    # Destroyed pools have labels, too.
    names = {name for text in found.values() for name in _NAME.findall(text)}
    if names - {pool}:
        raise SafetyRefusal(
            f"{path} on {host.name} carries a label of the pool {', '.join(sorted(names - {pool}))}",
            "that is not the run's pool; the device was not changed",
        )
    labels = {place: text for place, text in found.items() if _LABEL.search(text)}
    for place, text in labels.items():
        # A label without a pool's name belongs to a spare or cache device.
        if not _NAME.search(text) and not (guid and is_cache_label(text, guid)):
            raise SafetyRefusal(
                f"{place} on {host.name} carries the label of a cache device or a spare of an unknown pool",
                f"it was not changed; if no pool needs it: zpool labelclear {place}, then `hsp clean`",
            )
        if guid and set(_GUID.findall(text)) - {guid}:
            raise SafetyRefusal(
                f"{place} on {host.name} carries a label of another pool named {pool}",
                f"the run's had the GUID {guid}; the device was not changed",
            )
        copies = {number for line in _COPIES.findall(text) for number in line.split()}
        if copies and not {"0", "1"} <= copies:
            raise Foreign(
                f"{path} on {host.name} was left as it is: of the pool's label only the copies "
                f"{' '.join(sorted(copies))} are there, its begin was written to since",
                f"if nothing on it is needed: zpool labelclear {place}",
            )
    return list(labels)


def _has_only_partitions(host: Host, path: str) -> bool:
    """Whether the device has only the partitions that `zpool create` makes on a whole disk, all empty.

    Partition 1 is named zfs-..., 9 is reserved (lib/libzutil/os/linux/zutil_device_path_os.c and
    lib/libzfs/os/linux/libzfs_pool_os.c of OpenZFS, zpool_label_disk).
    """
    # zpool may have been interrupted before the kernel read the new table.
    host.run(["blockdev", "--rereadpt", path], check=False)
    udev.settle(host)
    types = host.run(["lsblk", "--noheadings", "--list", "--output", "TYPE", path]).stdout.split()
    if sorted(types) != ["disk", "part", "part"]:
        return False
    for number, kind, name in _ZFS_PARTITIONS:
        probed = host.run(["blkid", "-p", "-o", "export", f"{path}-part{number}"], check=False).stdout
        entry = dict(line.split("=", 1) for line in probed.splitlines() if "=" in line)
        matches = entry.get("PART_ENTRY_TYPE") == kind and entry.get("PART_ENTRY_NAME", "").startswith(name)
        if not matches or entry.keys() & {"TYPE", "PTTYPE", "USAGE"}:
            return False
        if host.run(["wipefs", "--noheadings", f"{path}-part{number}"]).stdout.strip():
            return False
    return True
