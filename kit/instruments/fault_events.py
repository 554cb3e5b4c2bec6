"""Triggered faults of emulated devices, and crashes of their server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kit.core.errors import HostError
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.store.phase import Event, InjectedFault


class FaultSource(Protocol):
    """The faults of emulated devices. Times are of the server's monotonic clock."""

    def crashes(self) -> int:
        """Crashes of the devices' server; each resets the models."""
        ...

    def faults(self) -> list[tuple[int, str]]:
        """Triggered faults: time (ns), text."""
        ...


class FaultEvents(Instrument):
    """Faults of the phase are events; a crash is a problem.

    `is_declared`: whether a fault's text is that of one that the workload asks for, which has its own event.
    Others are a problem then: checks that faults would fail are not made.
    """

    code = "fault-events"

    def __init__(self, devices: FaultSource, is_declared: Callable[[str], bool] | None = None) -> None:
        self._devices, self._is_declared = devices, is_declared

    def end(self) -> None:
        self._faults, self._crashes = self._devices.faults(), self._devices.crashes()

    @property
    def happened(self) -> bool:
        """Whether a fault was triggered until the end of the phase, or the devices' server died."""
        return bool(self._faults or self._crashes)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        is_declared = self._is_declared
        events = [
            Event(
                time_ns=measured.experiment_ns(at_ns),
                end_ns=None,
                kind="fault",
                text=f"fault: {text}",
                fault=InjectedFault(declared=False, what=text),
            )
            for at_ns, text in self._faults
            if is_declared is None or not is_declared(text)
        ]
        problems = ["the server of the emulated devices died"] if self._crashes else []
        if is_declared:
            problems += [
                f"{event.fault.what}: a fault that the workload does not declare"
                for event in measured.during(events)
                if event.fault
            ]
        return InstrumentReport(events=events, problems=problems)


def check_alive(devices: FaultSource | None) -> None:
    """Raises HostError if the devices' server has died since it was started."""
    crashes = devices.crashes() if devices else 0
    if crashes:
        raise HostError(
            f"the server of the emulated devices has died {crashes} time{'s' * (crashes != 1)} and was "
            "started again: the devices kept their data, but lost their state",
            "do not use this run's results; its log is /run/hsp-devices/socket.log in the lab",
        )
