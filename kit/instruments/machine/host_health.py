"""Health of the machines in a phase: thermal throttling, clock steps, suspends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.machine import clock_steps
from kit.instruments.machine import thermal_throttling as throttling
from kit.instruments.machine.clock_steps import WallClock
from kit.instruments.machine.thermal_throttling import Throttling
from kit.store.phase import Check, Event, Missing

State = TypeVar("State")
Changed = TypeVar("Changed")


@dataclass(frozen=True)
class MachineHealth:
    """One machine at one moment. A value that is not available is the reason as text."""

    throttling: Throttling | str
    wall: WallClock | str


@dataclass(frozen=True)
class HealthChange:
    """One machine over a phase. A value that is not available is the reason as text."""

    host: str
    throttling: throttling.ThrottlingChange | str
    wall: clock_steps.ClockChange | str
    hottest_mdegc: tuple[int | None, int | None]


class HostHealth(Instrument):
    """Thermal throttling, clock steps and suspends of each kernel of the run."""

    code = "host-health"

    def __init__(self, machines: Sequence[Host]) -> None:
        self._machines = machines

    def begin(self) -> None:
        self._before = read(self._machines)

    def end(self) -> None:
        self._after = read(self._machines)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        return report(self._before, self._after, measured)


def read(hosts: Sequence[Host]) -> dict[str, MachineHealth]:
    """Read each host, by name. A host that does not answer does not end the run."""
    return {host.name: _read_machine(host) for host in hosts}


def _read_machine(host: Host) -> MachineHealth:
    heat: Throttling | str
    try:
        heat = throttling.read(host)
    except ValueError as error:
        heat = f"not available: {error}"
    except HostError as error:
        # To read its clock would wait as long again.
        return MachineHealth(*[f"not available: {error.message}"] * 2)
    try:
        return MachineHealth(heat, clock_steps.read(host))
    except HostError as error:
        return MachineHealth(heat, f"not available: {error.message}")


def _change(host: str, before: MachineHealth, after: MachineHealth) -> HealthChange:
    heats = (before.throttling, after.throttling)
    first_mdegc, last_mdegc = (None if isinstance(heat, str) else heat.hottest_mdegc for heat in heats)
    heat = _between(throttling.change, *heats)
    wall = _between(clock_steps.change, before.wall, after.wall)
    return HealthChange(host, heat, wall, (first_mdegc, last_mdegc))


def _between(
    change: Callable[[State, State], Changed], before: State | str, after: State | str
) -> Changed | str:
    if isinstance(before, str):
        return before
    if isinstance(after, str):
        return after
    try:
        return change(before, after)
    except ValueError as error:
        return str(error)


def checks(change: HealthChange, duration_ns: int) -> Iterator[Check | Missing]:
    """`duration_ns`: of the load, on the hosts' clock. Pure."""
    host, heat, wall = change.host, change.throttling, change.wall
    if isinstance(heat, str):
        yield _missing("THERMAL", "thermal throttling", throttling.SOURCE, host, heat)
    else:
        yield from throttling.checks(heat, host, duration_ns)
    if isinstance(wall, str):
        yield _missing("CLOCK-STEP", "wall clock step", clock_steps.SOURCE, host, wall)
    else:
        yield clock_steps.check(wall, host)


def _missing(id_: str, what: str, source: str, host: str, why: str) -> Missing:
    return Missing(id=id_, name=f"{what} of {host}", source=source, of=host, why=why)


def events(change: HealthChange) -> Iterator[tuple[str, str]]:
    """Kind and text of events at unknown times of the phase. Pure."""
    heat = change.throttling
    if not isinstance(heat, str) and (text := throttling.describe(heat, change.host)):
        yield "throttling", text
    if isinstance(change.wall, str):
        return
    if change.wall.step_ns:
        yield "clock-step", f"wall clock of {change.host} set by {change.wall.step_ns / 1e9:+.6f} s"
    if change.wall.slept_ns:
        yield "suspend", f"{change.host} slept for {change.wall.slept_ns / 1e9:.3f} s"


def _as_json(change: HealthChange) -> dict[str, Any]:
    heat = None if isinstance(change.throttling, str) else change.throttling
    wall = None if isinstance(change.wall, str) else change.wall
    return {
        "host": change.host,
        "throttled": heat.events if heat else None,
        "throttled_ms": heat.time_ms if heat else None,
        "hottest_mdegc": change.hottest_mdegc,
        "clock_step_ns": wall.step_ns if wall else None,
        "slept_ns": wall.slept_ns if wall else None,
    }


def report(
    before: Mapping[str, MachineHealth], after: Mapping[str, MachineHealth], measured: MeasuredPhase
) -> InstrumentReport:
    """Checks, events and problems of all machines, in the order of `before`. Pure."""
    changes = [_change(host, machine, after[host]) for host, machine in before.items()]
    happened = [event for change in changes for event in events(change)]
    start_ns, end_ns = measured.start_ns, measured.end_ns
    return InstrumentReport(
        [check for change in changes for check in checks(change, measured.duration_ns)],
        [Event(time_ns=start_ns, end_ns=end_ns, kind=kind, text=text) for kind, text in happened],
        # A monotonic clock stops in a suspend; those of the other hosts run on.
        [f"{text} during the phase" for kind, text in happened if kind == "suspend"],
        {"machines": tuple(_as_json(change) for change in changes)},
    )
