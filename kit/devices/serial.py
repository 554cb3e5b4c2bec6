"""Checks right before something is removed from a device that the path still leads to that device."""

from __future__ import annotations

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import Host


def check_serial(host: Host, path: str, serial: str) -> None:
    """Raises SafetyRefusal if the device at `path` has another serial, HostError if there is none."""
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
