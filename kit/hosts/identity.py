"""What a host is recognised by: which machine it is, and since which boot it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host

_FILES = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id")
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class HostIdentity:
    """`machine_id`: of machine-id(5), "" where there is none; `boot_id`: another one after each boot."""

    machine_id: str
    boot_id: str


def read_identity(host: Host) -> HostIdentity:
    """Raises HostError if the host does not say."""
    boot_id, _, machine_id = host.run(["cat", *_FILES], check=False).stdout.partition("\n")
    if not _BOOT_ID.fullmatch(boot_id):
        raise HostError(f"{host.name} does not say which boot it is ({_FILES[0]})", "is it Linux?")
    return HostIdentity(machine_id.strip(), boot_id)
