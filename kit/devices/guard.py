"""The devices of a run: looked at, locked, looked at again before each step that destroys something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kit.devices.check import Checked, check, judge, recheck, refuse_any
from kit.devices.locks import Locks, locked
from kit.devices.probe import probe
from kit.devices.reasons import Wanted
from kit.hosts.base import Host


@dataclass(frozen=True)
class Guard:
    """Devices that are this run's for as long as the locks are held."""

    host: Host
    checked: tuple[Checked, ...]
    locks: Locks

    def before_writing(self, paths: Sequence[str] | None = None, *, content: bool = True) -> None:
        """That nothing has changed since the devices were checked; all of them, or those of `paths`.

        `content=False`: what lies on them is the run's own by now. Raises SafetyRefusal (plan void).
        """
        self.locks.check()
        recheck(self.host, self.checked, paths, content=content)


@contextmanager
def guarded(host: Host, wanted: Sequence[Wanted], run: str) -> Iterator[Guard]:
    """Lock the devices of a testbed and the host, and check the devices under the lock.

    Raises SafetyRefusal with every device and every reason, or with who holds a lock; HostError.
    """
    # Only what is looked at can be locked; what was seen before the lock counts for nothing else.
    seen = judge(probe(host, [one.path for one in wanted], content=False), wanted)
    nodes = [one.node for one in seen if one.node is not None]
    with locked(host, nodes, run) as locks:
        checked = check(host, wanted)
        refuse_any(host.name, checked)
        yield Guard(host, checked, locks)
