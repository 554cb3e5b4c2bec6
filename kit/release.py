"""Giving a device back as bare as it was taken: the label and partitions of the run's own pool are removed.

Only what carries the name of that pool, on the device of that serial number. Nothing is forced.
"""

from __future__ import annotations

import re

from kit.errors import HostError, SafetyRefusal
from kit.hosts.base import Host
from kit.pool import WHOLE_DISK_PART

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
    if not names:
        return
    for one in (part, path):
        if host.run(["test", "-b", one], check=False).returncode == 0:
            host.run(["wipefs", "--all", "--quiet", one])
    host.run(["udevadm", "settle", "--timeout=30"])


def _pools_on(host: Host, path: str) -> set[str]:
    """Names of the pools that labels on it have, destroyed ones as well."""
    return set(_NAME.findall(host.run(["zdb", "-l", path], check=False).stdout))
