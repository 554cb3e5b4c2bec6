"""Faults of emulated devices that were triggered, and crashes of their server."""

from __future__ import annotations

from typing import Protocol

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.instruments.base import Instrument, Measured, Report
from kit.store.phase import Event


class FaultSource(Protocol):
    """Emulated devices, as far as faults go. Times are of the server's monotonic clock."""

    def crashes(self) -> int:
        """How often what serves them has died; the models began anew each time."""
        ...

    def faults(self) -> list[tuple[int, str]]:
        """Faults that were triggered: time (ns), what."""
        ...


class FaultEvents(Instrument):
    """Faults of the phase as events; a crash as a problem."""

    def __init__(self, devices: FaultSource) -> None:
        self._devices = devices

    def end(self) -> None:
        self._faults, self._crashes = self._devices.faults(), self._devices.crashes()

    def report(self, measured: Measured) -> Report:
        died = ["the server of the emulated devices died"] if self._crashes else []
        events = fault_events(self._faults, measured.run_origin_ns, measured.clock)
        return Report(events=events, problems=died)


def fault_events(faults: list[tuple[int, str]], origin_ns: int, clock: Clock) -> list[Event]:
    """As events of the experiment. `faults` in ns of the server's clock, `origin_ns`: when the run began."""
    return [
        Event(
            time_ns=clock.from_host_ns(max(0, at_ns - origin_ns)),
            end_ns=None,
            kind="fault",
            text=f"fault: {text}",
        )
        for at_ns, text in faults
    ]


def check_alive(devices: FaultSource | None) -> None:
    """Raises HostError if the devices' server has died since it was started."""
    crashes = devices.crashes() if devices else 0
    if crashes:
        raise HostError(
            f"the server of the emulated devices has died {crashes} time{'s' * (crashes != 1)} and was "
            "started again: the devices kept their data, but their state began anew",
            "nothing measured in this run can be trusted; its log is /run/hsp-devices/socket.log in the lab",
        )
