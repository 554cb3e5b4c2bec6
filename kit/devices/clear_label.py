"""Giving a device back as bare as it was taken: the label and partitions of the run's own pool are removed.

Only what carries the name of that pool, on the device of that serial number; and the bare partition table
that `zpool create` writes first, if it was ended before it wrote a label. Nothing is forced.
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


def release(host: Host, path: str, serial: str, pool: str) -> None:
    """Wipe what `pool`, which is destroyed, left on the device. Raises SafetyRefusal, HostError."""
    found = host.run(["lsblk", "--nodeps", "--noheadings", "--output", "SERIAL", path], check=False)
    if found.returncode:
        raise HostError(f"{path} on {host.name} is not there any more", "put it back, and clean up again")
    if found.stdout.strip() != serial:
        raise SafetyRefusal(
            f"{path} on {host.name} has the serial '{found.stdout.strip()}', the run used '{serial}'",
            "it is another device; it was left alone",
        )
    part = f"{path}{WHOLE_DISK_PART}"
    names = _pools_on(host, part) | _pools_on(host, path)
    if names - {pool}:
        raise SafetyRefusal(
            f"{path} on {host.name} carries a label of the pool {', '.join(sorted(names - {pool}))}",
            "that is not the run's pool; it was left alone",
        )
    if not names and not _is_begun(host, path):
        return
    for one in (part, path):
        if host.run(["test", "-b", one], check=False).returncode == 0:
            host.run(["wipefs", "--all", "--quiet", one])
    host.run(["udevadm", "settle", "--timeout=30"])


def _is_begun(host: Host, path: str) -> bool:
    """Whether the device has the partitions that `zpool create` gives a whole disk, and nothing in them.

    Partition 1 is named zfs-..., 9 is reserved (lib/libzutil/os/linux/zutil_device_path_os.c and
    lib/libzfs/os/linux/libzfs_pool_os.c of OpenZFS, zpool_label_disk).
    """
    labels = [host.run(["zdb", "-l", one], check=False) for one in (path, f"{path}{WHOLE_DISK_PART}")]
    # A label without a pool's name is that of somebody's spare or cache device.
    if any(one.returncode in (126, 127) or _LABEL.search(one.stdout) for one in labels):
        return False
    # It may have been ended before the kernel read the new table.
    host.run(["blockdev", "--rereadpt", path], check=False)
    host.run(["udevadm", "settle", "--timeout=30"])
    listed = host.run(["lsblk", "--noheadings", "--list", "--output", "TYPE", path]).stdout.split()
    if sorted(listed) != ["disk", "part", "part"]:
        return False
    for number, kind, name in _ZFS_PARTITIONS:
        probed = host.run(["blkid", "-p", "-o", "export", f"{path}-part{number}"], check=False).stdout
        found = dict(line.split("=", 1) for line in probed.splitlines() if "=" in line)
        wanted = found.get("PART_ENTRY_TYPE") == kind and found.get("PART_ENTRY_NAME", "").startswith(name)
        if not wanted or found.keys() & {"TYPE", "PTTYPE", "USAGE"}:
            return False
        if host.run(["wipefs", "--noheadings", f"{path}-part{number}"]).stdout.strip():
            return False
    return True


def _pools_on(host: Host, path: str) -> set[str]:
    """Names of the pools that labels on it have, destroyed ones as well."""
    return set(_NAME.findall(host.run(["zdb", "-l", path], check=False).stdout))
