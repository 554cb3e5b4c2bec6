"""Waits until udev has looked at a changed device."""

from __future__ import annotations

from kit.hosts.base import CommandFailed, Host

_SETTLE = ("udevadm", "settle", "--timeout=30")
_TIMED_OUT = 1
_TRIES = 3


def settle(host: Host, check: bool = True) -> None:
    """Wait until udev's queue is empty. Source: udevadm(8).

    Asks again after a timeout: an emulated guest's clock runs through 30 s while its host writes to a disk.
    Raises HostError if it fails or is never empty; not if `check` is false.
    """
    for _ in range(_TRIES):
        done = host.run(_SETTLE, check=False)
        if done.returncode != _TIMED_OUT:
            break
    if check and done.returncode:
        raise CommandFailed(done)
