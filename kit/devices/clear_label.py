"""Removes the label and the partitions of the run's own pool from a device at the teardown.

Only labels with the name of that pool, on the device with that serial number, are removed; and the
partition table that `zpool create` writes first, if it was interrupted before the label. Nothing is forced.
"""

from __future__ import annotations

import re

from kit.core.errors import SafetyRefusal
from kit.devices import udev
from kit.devices.serial import check_serial
from kit.hosts.base import Host
from kit.zfs.pool import WHOLE_DISK_PART, is_cache_label

# Number, type and begin of the name.
_ZFS_PARTITIONS = (
    (1, "6a898cc3-1dd2-11b2-99a6-080020736631", "zfs-"),
    (9, "6a945a3b-1dd2-11b2-99a6-080020736631", ""),
)
_LABEL = re.compile(r"^LABEL \d|^\s*(pool_)?guid: ", re.MULTILINE)
_NAME = re.compile(r"^\s*name: '(.*)'$", re.MULTILINE)


def clear(host: Host, path: str, serial: str, pool: str, guid: str = "") -> None:
    """Remove what the destroyed `pool` left on the device. Raises SafetyRefusal, HostError.

    `guid` is that of the pool, "" if the run ended before it was known; the label of a cache device has no
    other evidence of its pool.
    """
    check_serial(host, path, serial)
    places = (f"{path}{WHOLE_DISK_PART}", path)
    labels = [host.run(["zdb", "-l", place], check=False) for place in places]
    # Destroyed pools have labels, too.
    names = {name for label in labels for name in _NAME.findall(label.stdout)}
    if names - {pool}:
        raise SafetyRefusal(
            f"{path} on {host.name} carries a label of the pool {', '.join(sorted(names - {pool}))}",
            "that is not the run's pool; the device was not changed",
        )
    # A label without a pool's name belongs to a spare or cache device.
    nameless = {
        place: label.stdout
        for place, label in zip(places, labels, strict=True)
        if _LABEL.search(label.stdout) and not _NAME.search(label.stdout)
    }
    foreign = [place for place, text in nameless.items() if not (guid and is_cache_label(text, guid))]
    if foreign:
        raise SafetyRefusal(
            f"{foreign[0]} on {host.name} carries the label of a cache device or a spare of an unknown pool",
            f"it was not changed; if no pool needs it: zpool labelclear {foreign[0]}, then `hsp clean`",
        )
    is_unknown = any(label.returncode in (126, 127) for label in labels)
    if not (names or nameless) and (is_unknown or not _has_only_partitions(host, path)):
        return
    for place in nameless:
        check_serial(host, path, serial)
        host.run(["zpool", "labelclear", place])
    for place in places:
        if host.run(["test", "-b", place], check=False).returncode == 0:
            check_serial(host, path, serial)
            host.run(wipe_command(place))
    udev.settle(host)


def wipe_command(path: str) -> list[str]:
    """argv. The lock keeps udev and other tools away meanwhile (docs/decisions/0009-device-locks.md)."""
    return ["wipefs", "--all", "--quiet", "--lock", path]


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
