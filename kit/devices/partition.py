"""A part of a device: how a cache device that is larger than the workload wants is made small.

The partition is known to the kernel alone (kit/remote/partition.py): no partition table is written, and after
a restart of the host it is gone.
"""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import Host

# As partitioning tools begin: aligned to any flash page.
_START_BYTES = 1 << 20
HELPER = Path(__file__).parents[1] / "remote" / "partition.py"
_PYTHON = ["/usr/bin/python3", "-I", "-"]


def path_of(device_path: str) -> str:
    """Where udev links the first partition of a device that it links in /dev/disk (60-persistent-storage)."""
    return f"{device_path}-part1"


def create_command(device_path: str, size_bytes: int) -> list[str]:
    """argv; what it reads is the helper's text."""
    return [*_PYTHON, "add", device_path, str(_START_BYTES), str(size_bytes)]


def remove_command(device_path: str) -> list[str]:
    return [*_PYTHON, "del", device_path]


def create(host: Host, device_path: str, size_bytes: int) -> str:
    """Make the first `size_bytes` after 1 MiB a device of its own; returns its path. Raises HostError."""
    host.run(create_command(device_path, size_bytes), stdin=HELPER.read_bytes())
    host.run(["udevadm", "settle", "--timeout=30"])
    path = path_of(device_path)
    found = host.run(["blockdev", "--getsize64", path], check=False).stdout.strip()
    if found != str(size_bytes):
        raise HostError(
            f"on {host.name}: {path} should have {size_bytes} bytes, it has {found or 'not come to be'}",
            "does udev make links to partitions there (/lib/udev/rules.d/60-persistent-storage.rules)?",
        )
    return path


def remove(host: Host, device_path: str) -> None:
    """Take it away again. Not there is no error."""
    there = host.run(["test", "-e", path_of(device_path)], check=False)
    if there.returncode == 0:
        host.run(remove_command(device_path), stdin=HELPER.read_bytes())
        host.run(["udevadm", "settle", "--timeout=30"])
