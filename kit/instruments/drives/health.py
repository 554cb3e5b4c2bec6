"""The drives of a run before and after each phase, and their links under load."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host, HostLost
from kit.instruments.base import Instrument, InstrumentLatency, InstrumentReport, MeasuredPhase
from kit.instruments.drives import judge, reading
from kit.instruments.drives.judge import DriveChange
from kit.instruments.drives.reading import DriveReading
from kit.instruments.histograms import IntervalGrid
from kit.store.phase import Event, Missing

LATENCY = "latency"
# Links under load: soon after its begin, then now and then. A lab's devices have none.
_FIRST_S, _PERIOD_S = 2.0, 30.0


@dataclass(eq=False)
class DriveHealth(Instrument):
    """`paths` of the server's drives by name; `models`: argv that prints the counters of a model, by name.

    `once`: what a run has asked or said before, and does not again.
    """

    code = "host-health"

    server: Host
    paths: Mapping[str, str]
    models: Mapping[str, Sequence[str]]
    once: set[str]

    def __post_init__(self) -> None:
        self._before: dict[str, DriveReading] | str = {}
        self._after: dict[str, DriveReading] | str = {}
        self._under_load: list[dict[str, DriveReading]] = []
        self._next_s = float("inf")

    def begin(self) -> None:
        # A drive without OCP's log refuses it, and may count that as an error: it is asked once a run.
        self._before = self._read({
            name: (*reading.LOGS, LATENCY) if f"{LATENCY} {name}" not in self.once else self._logs(name)
            for name in self.paths
        })  # fmt: skip
        if isinstance(self._before, dict):
            self.once |= {f"{LATENCY} {name}" for name in self.paths}
            self.once |= {f"has {LATENCY} {name}" for name, each in self._before.items() if each.slow}
            has_link = any(each.link and each.link_max for each in self._before.values())
            self._next_s = time.monotonic() + _FIRST_S if has_link else float("inf")

    def stop(self) -> bool:
        """Never; it looks at the links now and then, while they are used."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _PERIOD_S
            found = self._read({})
            self._under_load += [found] if isinstance(found, dict) else []
        return False

    def end(self) -> None:
        self._after = self._read({name: self._logs(name) for name in self.paths})

    def _logs(self, name: str) -> Sequence[str]:
        return (*reading.LOGS, LATENCY) if f"has {LATENCY} {name}" in self.once else reading.LOGS

    def _read(self, logs: Mapping[str, Sequence[str]]) -> dict[str, DriveReading] | str:
        """By name; why there is nothing. A host that does not answer here does not end the run."""
        try:
            found = reading.read(self.server, self.paths, logs, self.models if logs else {})
        except HostLost:
            raise
        except HostError as error:
            return error.message
        return {name: reading.parse(each) for name, each in found.items()}

    def _changes(self) -> list[DriveChange] | str:
        before, after = self._before, self._after
        if isinstance(before, str) or isinstance(after, str):
            return before if isinstance(before, str) else str(after)
        return [
            DriveChange(name, before[name], after[name], [each[name] for each in self._under_load])
            for name in self.paths
        ]

    def latency(self, phase: str, grid: IntervalGrid) -> InstrumentLatency:
        changes = self._changes()
        said = judge.conditions(() if isinstance(changes, str) else changes)
        notes = [text for text in said if text not in self.once]
        self.once |= {*notes}
        return InstrumentLatency(notes=notes)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        changes = self._changes()
        if isinstance(changes, str):
            missing = {judge.THROTTLED: "heat of the drives", judge.DEGRADED: "links of the drives"}
            return InstrumentReport([
                Missing(id=id_, name=name, source=reading.SOURCE, why=changes)
                for id_, name in missing.items()
            ])  # fmt: skip
        happened = [*judge.events(changes)]
        start_ns, end_ns = measured.start_ns, measured.end_ns
        return InstrumentReport(
            [*judge.checks(changes)],
            [Event(time_ns=start_ns, end_ns=end_ns, kind=kind, text=text) for kind, text in happened],
            entry={"drives": tuple(judge.report(each) for each in changes)},
        )
