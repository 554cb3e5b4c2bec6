"""Removes the label and the partitions of the run's own pool from a device at the teardown.

Only labels with the name of that pool, on the device with that serial number, are removed; and the
partition table that `zpool create` writes first, if it was interrupted before the label. Nothing is forced.
"""

from __future__ import annotations

import re

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import Host
from kit.zfs.pool import WHOLE_DISK_PART

# Number, type and begin of the name.
_ZFS_PARTITIONS = (
    (1, "6a898cc3-1dd2-11b2-99a6-080020736631", "zfs-"),
    (9, "6a945a3b-1dd2-11b2-99a6-080020736631", ""),
)
_LABEL = re.compile(r"^LABEL \d|^\s*(pool_)?guid: ", re.MULTILINE)
_NAME = re.compile(r"^\s*name: '(.*)'$", re.MULTILINE)


def clear(host: Host, path: str, serial: str, pool: str) -> None:
    """Remove what the destroyed `pool` left on the device. Raises SafetyRefusal, HostError."""
    result = host.run(["lsblk", "--nodeps", "--noheadings", "--output", "SERIAL", path], check=False)
    if result.returncode:
        raise HostError(
            f"{path} on {host.name} does not exist any more", "connect it again, and run `hsp clean`"
        )
    if result.stdout.strip() != serial:
        raise SafetyRefusal(
            f"{path} on {host.name} has the serial '{result.stdout.strip()}', the run used '{serial}'",
            "it is another device and was not changed",
        )
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
    is_unknown = any(label.returncode in (126, 127) or _LABEL.search(label.stdout) for label in labels)
    if not names and (is_unknown or not _has_only_partitions(host, path)):
        return
    for place in places:
        if host.run(["test", "-b", place], check=False).returncode == 0:
            host.run(["wipefs", "--all", "--quiet", place])
    host.run(["udevadm", "settle", "--timeout=30"])


def _has_only_partitions(host: Host, path: str) -> bool:
    """Whether the device has only the partitions that `zpool create` makes on a whole disk, all empty.

    Partition 1 is named zfs-..., 9 is reserved (lib/libzutil/os/linux/zutil_device_path_os.c and
    lib/libzfs/os/linux/libzfs_pool_os.c of OpenZFS, zpool_label_disk).
    """
    # zpool may have been interrupted before the kernel read the new table.
    host.run(["blockdev", "--rereadpt", path], check=False)
    host.run(["udevadm", "settle", "--timeout=30"])
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
