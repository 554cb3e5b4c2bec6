"""A partition on a device, to make a cache device smaller for a workload.

Only the kernel knows the partition (kit/remote/partition.py): no partition table is written, and it does
not exist after a reboot of the host.
"""

from __future__ import annotations

import re
from pathlib import Path

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import udev
from kit.devices.serial import check_serial
from kit.hosts.base import Command, CommandFailed, Host

# The usual start of partitioning tools: aligned to any flash page.
_START_BYTES = 1 << 20
HELPER = Path(__file__).parents[1] / "remote" / "partition.py"
_PYTHON = ["/usr/bin/python3", "-I", "-"]
# Exit code of the helper.
_OTHER = 3


class Repartitioned(SafetyRefusal):
    """The partition is not the run's."""


def path_of(device_path: str) -> str:
    """The first partition: udev's link in /dev/disk (60-persistent-storage.rules), or the kernel's own name.

    The kernel's: disk_name, block/partitions/core.c. Emulated devices have no link.
    """
    if not re.fullmatch("/dev/[a-z]+[a-z0-9]*", device_path):
        return f"{device_path}-part1"
    return f"{device_path}{'p' if device_path[-1].isdecimal() else ''}1"


def create_command(device_path: str, size_bytes: int) -> Command:
    """Create a partition of `size_bytes` that starts at 1 MiB."""
    argv = (*_PYTHON, "add", device_path, str(_START_BYTES), str(size_bytes))
    return Command(argv, "kit/remote/partition.py", HELPER.read_bytes())


def remove_command(device_path: str, size_bytes: int) -> list[str]:
    """argv; its stdin is the helper's text.

    It removes partition 1 only if it is what `create_command` made, of that size.
    """
    return [*_PYTHON, "del", device_path, str(_START_BYTES), str(size_bytes)]


def created(host: Host, device_path: str, size_bytes: int) -> str:
    """The path of the partition that `create_command` made. Raises HostError."""
    udev.settle(host)
    path = path_of(device_path)
    size = host.run(["blockdev", "--getsize64", path], check=False).stdout.strip()
    if size != str(size_bytes):
        raise HostError(
            f"on {host.name}: {path} should have {size_bytes} bytes, it has {size or 'no device node'}",
            "does udev create links to partitions there (/lib/udev/rules.d/60-persistent-storage.rules)?",
        )
    return path


def exists(host: Host, device_path: str) -> bool:
    return host.run(["test", "-e", path_of(device_path)], check=False).returncode == 0


def remove(host: Host, device_path: str, serial: str, size_bytes: int) -> None:
    """Remove the partition. It is no error if it does not exist.

    Raises SafetyRefusal if the device has another `serial` (not checked if it is ""), Repartitioned if the
    partition has another place or size or is in a table, HostError.
    """
    if not exists(host, device_path):
        return
    if serial:
        check_serial(host, device_path, serial)
    path = path_of(device_path)
    probed = host.run(["blkid", "-p", "-o", "export", path], check=False).stdout
    entry = dict(line.split("=", 1) for line in probed.splitlines() if "=" in line)
    if "PART_ENTRY_UUID" in entry or "PART_ENTRY_TYPE" in entry:
        raise Repartitioned(
            f"{path} on {host.name} was left: it is in a partition table (type "
            f"{entry.get('PART_ENTRY_TYPE', 'unknown')}, id {entry.get('PART_ENTRY_UUID', 'unknown')}), and "
            "the run wrote no table",
            "somebody has partitioned the disk since",
        )
    done = host.run(remove_command(device_path, size_bytes), stdin=HELPER.read_bytes(), check=False)
    if done.returncode == _OTHER:
        raise Repartitioned(
            f"{path} on {host.name} was left: it has {done.stdout.strip()}, the run's {size_bytes} bytes at "
            f"{_START_BYTES}",
            "somebody has partitioned the disk since",
        )
    if done.returncode:
        raise CommandFailed(done)
    udev.settle(host)
