"""Offsets between the monotonic clocks of hosts, to put their measurements on one time axis.

A latency is the difference of two readings of one clock; an offset only moves an interval on the time
axis. The offset is estimated from round trips: the local clock is read before and after a host reads its
clock. The host's reading belongs to the middle of the two, plus or minus half of their difference.
(Cristian, "Probabilistic clock synchronization", 1989.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host

_TRIPS = 5
# "now at N nsecs" is CLOCK_MONOTONIC (kernel/time/timer_list.c); faster than starting an interpreter.
_TIMER_LIST = ["head", "-n", "3", "/proc/timer_list"]
# Begins with `env`, so it runs without sudo (kit.hosts.sudo).
_PYTHON = ["env", "python3", "-I", "-c", "import time; print('now at', time.monotonic_ns(), 'nsecs')"]


@dataclass(frozen=True)
class Offset:
    """A host's monotonic clock minus the reference's, and the maximum error, in ns."""

    ns: int = 0
    error_ns: int = 0


@dataclass(frozen=True)
class Trip:
    """One round trip: a host's clock, and the local clock before and after that reading (ns)."""

    sent_ns: int
    read_ns: int
    received_ns: int


def read_clock_ns(host: Host) -> int:
    """The host's CLOCK_MONOTONIC. Raises HostError."""
    for command in (_TIMER_LIST, _PYTHON):
        result = host.run(command, check=False)
        match = re.search(r"^now at (\d+) nsecs", result.stdout, re.MULTILINE)
        if result.returncode == 0 and match:
            return int(match[1])
    raise HostError(
        f"{host.name}: its monotonic clock cannot be read, neither from /proc/timer_list nor with python3",
        "the kit needs python3 on every host that it logs into",
    )


def read_boot_id(host: Host) -> str:
    """The kernel's boot id: new at each boot, the same for all hosts of one kernel. Raises HostError."""
    return host.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip()


def estimate(trips: Sequence[Trip]) -> Offset:
    """A host's clock minus the local clock, from the fastest round trip. Pure."""
    fastest = min(trips, key=lambda trip: trip.received_ns - trip.sent_ns)
    half_ns = (fastest.received_ns - fastest.sent_ns + 1) // 2
    return Offset(fastest.read_ns - fastest.sent_ns - half_ns, half_ns)


def difference(offset: Offset, reference: Offset) -> Offset:
    """The offset relative to `reference`; both are relative to the same third clock. Errors add up. Pure."""
    return Offset(offset.ns - reference.ns, offset.error_ns + reference.error_ns)


def combined(before: Offset, after: Offset) -> Offset:
    """The offset for the time between two estimates; their difference (drift) adds to the error. Pure."""
    middle_ns = (before.ns + after.ns) // 2
    drift_ns = abs(after.ns - before.ns)
    return Offset(middle_ns, max(before.error_ns, after.error_ns) + (drift_ns + 1) // 2)


class Clocks:
    """Offsets of hosts to a reference host. Hosts with the same kernel have the same clock."""

    def __init__(self, reference: Host) -> None:
        self.reference = reference
        self._boot_ids: dict[str, str] = {}

    def same(self, host: Host) -> bool:
        """Whether the host has the same kernel as the reference, and so the same clock."""
        return host is self.reference or self._boot_id(host) == self._boot_id(self.reference)

    def machines(self, hosts: Sequence[Host]) -> list[Host]:
        """The first host of each kernel; the others share its clock and CPUs. Raises HostError."""
        first: dict[str, Host] = {}
        for host in hosts:
            first.setdefault(self._boot_id(host), host)
        return list(first.values())

    def offsets(self, hosts: Sequence[Host]) -> dict[str, Offset]:
        """Each host's clock minus the reference's, by the host's name. Raises HostError."""
        apart = [host for host in hosts if not self.same(host)]
        reference = _offset_to_local(self.reference) if apart else Offset()
        same = {host.name: Offset() for host in hosts}
        return same | {host.name: difference(_offset_to_local(host), reference) for host in apart}

    def _boot_id(self, host: Host) -> str:
        if host.name not in self._boot_ids:
            self._boot_ids[host.name] = read_boot_id(host)
        return self._boot_ids[host.name]


def _offset_to_local(host: Host) -> Offset:
    trips = []
    for _ in range(_TRIPS):
        sent_ns = time.monotonic_ns()
        read_ns = read_clock_ns(host)
        trips.append(Trip(sent_ns, read_ns, time.monotonic_ns()))
    return estimate(trips)
