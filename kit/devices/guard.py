"""The devices of a run: checked, locked, and checked again before each destructive step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kit.devices.check import Checked, check, recheck, refuse_any
from kit.devices.locks import Locks, locked
from kit.devices.reasons import DeviceSpec
from kit.hosts.base import Host


@dataclass(frozen=True)
class Guard:
    """The devices of this run, as long as the locks are held."""

    host: Host
    checked: tuple[Checked, ...]
    locks: Locks

    def before_writing(self, paths: Sequence[str] | None = None, *, content: bool = True) -> None:
        """Check that the devices (all, or those of `paths`) have not changed since they were checked.

        `content=False`: their contents are the run's own. Raises SafetyRefusal (plan void).
        """
        self.locks.check()
        recheck(self.host, self.checked, paths, content=content)


@contextmanager
def guarded(host: Host, specs: Sequence[DeviceSpec], run: str) -> Iterator[Guard]:
    """Lock the devices of a testbed and the host, and check the devices under the lock.

    Raises SafetyRefusal with every device and every reason, or with the owner of a lock; HostError.
    """
    # A first check without the lock, only to know which devices to lock.
    nodes = [device.node for device in check(host, specs, content=False) if device.node is not None]
    with locked(host, nodes, run) as locks:
        checked = check(host, specs)
        refuse_any(host.name, checked)
        yield Guard(host, checked, locks)
