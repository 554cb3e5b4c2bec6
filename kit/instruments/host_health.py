"""The machines of a run around a phase: whether one was too hot, had its clock set, or slept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments import clock_steps
from kit.instruments import thermal_throttling as throttling
from kit.instruments.base import Instrument, Measured, Report
from kit.instruments.clock_steps import WallClock
from kit.instruments.thermal_throttling import Throttling
from kit.store.phase import Check, Event, Missing

Seen = TypeVar("Seen")
Changed = TypeVar("Changed")


@dataclass(frozen=True)
class Machine:
    """One machine at one moment; in place of what it cannot tell is why, in words."""

    throttling: Throttling | str
    wall: WallClock | str


@dataclass(frozen=True)
class Change:
    """One machine over a phase; as in Machine."""

    host: str
    throttling: throttling.Change | str
    wall: clock_steps.Change | str
    hottest_mdegc: tuple[int | None, int | None]


class HostHealth(Instrument):
    """Each kernel of the run once: its CPUs' heat, its wall clock, whether it slept."""

    def __init__(self, machines: Sequence[Host]) -> None:
        self._machines = machines

    def begin(self) -> None:
        self._before = read(self._machines)

    def end(self) -> None:
        self._after = read(self._machines)

    def report(self, measured: Measured) -> Report:
        return report(changes(self._before, self._after), measured)


def read(hosts: Sequence[Host]) -> dict[str, Machine]:
    """Each host now, by its name. One that does not answer does not end the run here."""
    return {host.name: _look(host) for host in hosts}


def _look(host: Host) -> Machine:
    try:
        heat = _heat(host)
    except HostError as error:
        # Its clock would be waited for just as long.
        return Machine(f"not available: {error.message}", f"not available: {error.message}")
    try:
        return Machine(heat, clock_steps.read(host))
    except HostError as error:
        return Machine(heat, f"not available: {error.message}")


def _heat(host: Host) -> Throttling | str:
    try:
        return throttling.read(host)
    except ValueError as error:
        return f"not available: {error}"


def changes(before: Mapping[str, Machine], after: Mapping[str, Machine]) -> list[Change]:
    """Machine by machine, in the order of `before`. Pure."""
    found = []
    for host, was in before.items():
        now = after[host]
        heat = _between(throttling.change, was.throttling, now.throttling)
        wall = _between(clock_steps.change, was.wall, now.wall)
        found.append(Change(host, heat, wall, (_hottest(was.throttling), _hottest(now.throttling))))
    return found


def _between(change: Callable[[Seen, Seen], Changed], before: Seen | str, after: Seen | str) -> Changed | str:
    if isinstance(before, str):
        return before
    if isinstance(after, str):
        return after
    try:
        return change(before, after)
    except ValueError as error:
        return str(error)


def _hottest(found: Throttling | str) -> int | None:
    return None if isinstance(found, str) else found.hottest_mdegc


def checks(found: Change, duration_ns: int) -> Iterator[Check | Missing]:
    """`duration_ns`: of the load, on the hosts' clock. Pure."""
    if isinstance(found.throttling, str):
        yield Missing(
            name=f"CPU of {found.host} held back by heat", source=throttling.SOURCE, why=found.throttling
        )
    else:
        yield from throttling.checks(found.throttling, found.host, duration_ns)
    if isinstance(found.wall, str):
        yield Missing(
            name=f"wall clock of {found.host} set forward", source=clock_steps.SOURCE, why=found.wall
        )
    else:
        yield clock_steps.check(found.wall, found.host)


def marks(found: Change) -> Iterator[tuple[str, str]]:
    """Kind and text of what happened some time in the phase; when exactly, nobody knows. Pure."""
    if not isinstance(found.throttling, str) and (text := throttling.words(found.throttling, found.host)):
        yield "throttling", text
    if isinstance(found.wall, str):
        return
    if found.wall.step_ns:
        yield "clock-step", f"wall clock of {found.host} set by {found.wall.step_ns / 1e9:+.6f} s"
    if found.wall.slept_ns:
        yield "suspend", f"{found.host} slept for {found.wall.slept_ns / 1e9:.3f} s"


def _as_json(found: Change) -> dict[str, Any]:
    heat = None if isinstance(found.throttling, str) else found.throttling
    wall = None if isinstance(found.wall, str) else found.wall
    return {
        "host": found.host,
        "throttled": heat.events if heat else None,
        "throttled_ms": heat.time_ms if heat else None,
        "hottest_mdegc": list(found.hottest_mdegc),
        "clock_step_ns": wall.step_ns if wall else None,
        "slept_ns": wall.slept_ns if wall else None,
    }


def report(observed: Sequence[Change], measured: Measured) -> Report:
    """What all machines of a phase show. Pure."""
    happened = [mark for change in observed for mark in marks(change)]
    return Report(
        [check for change in observed for check in checks(change, measured.duration_ns)],
        [
            Event(time_ns=measured.start_ns, end_ns=measured.end_ns, kind=kind, text=text)
            for kind, text in happened
        ],
        # Monotonic clocks stand still meanwhile, and those of the other hosts do not.
        [f"{text} during the phase" for kind, text in happened if kind == "suspend"],
        {"machines": [_as_json(change) for change in observed]},
    )
