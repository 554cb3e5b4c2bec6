"""How far two hosts' monotonic clocks are apart, so that what each saw can be put on one time axis.

A latency is the difference of two readings of one clock and never crosses hosts; only the place of an
interval on the time axis does. The estimate is that of a round trip: while a host reads its clock, this
machine's own clock goes from one value to another, and the reading belongs to the middle of the two, give
or take half of the difference. (Cristian, "Probabilistic clock synchronization", 1989.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host

_TRIPS = 5
# "now at N nsecs" is CLOCK_MONOTONIC (kernel/time/timer_list.c), and quicker to have than an interpreter.
_TIMER_LIST = ["head", "-n", "3", "/proc/timer_list"]
# As the user: neither of these is worth a sudo.
_PYTHON = ["env", "python3", "-I", "-c", "import time; print('now at', time.monotonic_ns(), 'nsecs')"]


@dataclass(frozen=True)
class Offset:
    """A host's monotonic clock minus that of the reference, in ns, and how wrong that may be."""

    ns: int = 0
    error_ns: int = 0


@dataclass(frozen=True)
class Trip:
    """A reading of a host's clock, and this machine's before it was asked for and after it was here (ns)."""

    sent_ns: int
    read_ns: int
    received_ns: int


def read_clock_ns(host: Host) -> int:
    """The host's CLOCK_MONOTONIC. Raises HostError."""
    for command in (_TIMER_LIST, _PYTHON):
        answer = host.run(command, check=False)
        found = re.search(r"^now at (\d+) nsecs", answer.stdout, re.MULTILINE)
        if answer.returncode == 0 and found:
            return int(found[1])
    raise HostError(
        f"{host.name}: its monotonic clock cannot be read, neither from /proc/timer_list nor with python3",
        "the kit needs python3 on every host that it logs into",
    )


def read_boot_id(host: Host) -> str:
    """The kernel's boot id: new at each boot, the same for all hosts of one kernel. Raises HostError."""
    return host.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip()


def estimate(trips: Sequence[Trip]) -> Offset:
    """A host's clock minus this machine's, by the quickest of the round trips. Pure."""
    best = min(trips, key=lambda trip: trip.received_ns - trip.sent_ns)
    half = (best.received_ns - best.sent_ns + 1) // 2
    return Offset(best.read_ns - best.sent_ns - half, half)


def difference(one: Offset, other: Offset) -> Offset:
    """`one` as seen from `other`, both against the same third clock. Errors add up. Pure."""
    return Offset(one.ns - other.ns, one.error_ns + other.error_ns)


def combined(before: Offset, after: Offset) -> Offset:
    """One offset for all the time between two estimates: a clock that drifted is wrong by as much. Pure."""
    middle = (before.ns + after.ns) // 2
    drift = abs(after.ns - before.ns)
    return Offset(middle, max(before.error_ns, after.error_ns) + (drift + 1) // 2)


class Clocks:
    """Offsets of hosts to one reference; those of its own kernel have its clock."""

    def __init__(self, reference: Host) -> None:
        self.reference = reference
        self._boots: dict[str, str] = {}

    def same(self, host: Host) -> bool:
        """Whether the host has the reference's kernel, and so its clock."""
        return host is self.reference or self._boot(host) == self._boot(self.reference)

    def machines(self, hosts: Sequence[Host]) -> list[Host]:
        """The first host of each kernel: the others have its clocks, and its CPUs. Raises HostError."""
        first: dict[str, Host] = {}
        for host in hosts:
            first.setdefault(self._boot(host), host)
        return list(first.values())

    def offsets(self, hosts: Sequence[Host]) -> dict[str, Offset]:
        """Each host's clock minus the reference's, by the host's name. Raises HostError."""
        apart = [host for host in hosts if not self.same(host)]
        reference = _against_ours(self.reference) if apart else Offset()
        found = {host.name: Offset() for host in hosts}
        return found | {host.name: difference(_against_ours(host), reference) for host in apart}

    def _boot(self, host: Host) -> str:
        if host.name not in self._boots:
            self._boots[host.name] = read_boot_id(host)
        return self._boots[host.name]


def _against_ours(host: Host) -> Offset:
    trips = []
    for _ in range(_TRIPS):
        sent = time.monotonic_ns()
        read = read_clock_ns(host)
        trips.append(Trip(sent, read, time.monotonic_ns()))
    return estimate(trips)
