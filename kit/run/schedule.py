"""Faults and events at set times of a phase: done by a program on the server, recorded on its clock."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kit.config.tables.fault_table import STOPS_NFSD, ExpectedEvent, Fault
from kit.config.tables.phase_table import Phase
from kit.core.errors import HostError, KitError
from kit.core.text import json_lines, safe_text
from kit.hosts.base import Host, HostLost, Process
from kit.hosts.identity import read_identity
from kit.instruments import mount_stats
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.mount_stats import MountStats
from kit.instruments.server_activity import Expected
from kit.nfs import server_threads
from kit.plan import schedule_steps
from kit.plan.schedule_steps import TimedAction
from kit.recovery import undo
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.store.parts.schedule import DataCheck, Schedule, ScheduledAction, VdevErrors
from kit.store.phase import Event, InjectedFault
from kit.store.phase import Phase as StoredPhase
from kit.zfs import pool_errors
from kit.zfs.pool_errors import PoolErrors

_DEADLINE_S = 300.0
_POLL_S = 0.05
# Scans that actions bring about.
_SCANS = {
    "scrub": ("SCRUB",), "command": ("SCRUB", "RESILVER"),
    **dict.fromkeys(("resilver", "fail", "offline", "error", "power-loss"), ("RESILVER",)),
}  # fmt: skip
_OF_READS = ("ARC-MISSES", "L2ARC-HITS", "ARC-HITS")
_ERROR = 300
Row = dict[str, Any]


def expected(actions: Sequence[TimedAction], made: Sequence[Scheduler]) -> Expected:
    """What the workload's actions make of the server's other activity. `made`: the phase's scheduler."""
    return Expected(
        scans=frozenset(scan for each in actions for scan in _SCANS.get(each.scheduled.what, ())),
        trims=any(each.scheduled.what == "trim" for each in actions),
        apart=lambda: sum(each.apart_ios for each in made),
    )


def excused(actions: Sequence[TimedAction], *, replays: bool = False) -> dict[str, str]:
    """By id of a check of ARC and ZIL why the workload's actions, or its replay, leave nothing to judge."""
    made: dict[str, str] = {}
    if replays:
        text = "captured requests have several sizes: one may be for several records, or for a part of one"
        made |= dict.fromkeys(_OF_READS, text)
    if any(isinstance(each.scheduled, Fault) for each in actions):
        made |= dict.fromkeys(("L2ARC-ERRORS", "ZIL-ERRORS"), "the workload asks for faults in this phase")
    if any(each.scheduled.what == "send" for each in actions):
        made |= dict.fromkeys(_OF_READS, "the workload asks for a send, which reads through the ARC")
    return made


@dataclass
class _Program:
    """The program on one host, for the actions with these numbers."""

    host: Host
    argv: list[str]
    output: Path
    process: Process | None = None
    rows: list[Row] = field(default_factory=list)

    def start(self) -> None:
        # Of a run that was interrupted and goes on.
        self.output.unlink(missing_ok=True)
        self.process = self.host.start(self.argv, self.output, schedule_steps.PROGRAM.read_bytes())
        end = time.monotonic() + _DEADLINE_S
        while not self._read():
            if not self.process.running() or time.monotonic() > end:
                if self._read():
                    return
                raise HostError(
                    f"what is scheduled cannot begin: {self.process.stop(_DEADLINE_S).describe()}"
                )
            time.sleep(_POLL_S)

    def _read(self) -> list[Row]:
        self.rows = _rows(self.output) or self.rows
        return self.rows

    def end(self) -> None:
        """What goes on is undone by the program."""
        assert self.process
        if self.process.running() and self._read():
            # By a command: what comes through the channel alone may not wake an idle guest.
            own = ["env"] if self.argv[0] == "env" else []
            self.host.run([*own, "kill", "-s", "TERM", str(int(self.rows[0]["pid"]))], check=False)
        self.process.wait(_DEADLINE_S)
        self._read()

    def abandon(self) -> None:
        if self.process:
            with suppress(KitError):
                self.process.stop(_DEADLINE_S, "TERM")


class Scheduler(Instrument):
    """What is scheduled in a phase. The last to begin: it waits for the first I/O of the load."""

    code = "schedule"

    def __init__(self, bench: Bench, phase: Phase, actions: Sequence[TimedAction]) -> None:
        self._actions, self._bench = actions, bench
        host, storage = bench.site.reference, bench.storage
        self._pool = (storage.server, storage.pool.name) if storage else None
        begin = schedule_steps.begin_of_load(None if storage else bench.mount_point)
        self._programs = []
        for is_own in (False, True):
            listed = {n: each for n, each in enumerate(actions) if each.is_own == is_own}
            if listed:
                argv = schedule_steps.program_command(begin, listed, bench.site.clock, phase.duration)
                self._programs.append(_Program(host, argv, _output(bench, phase, is_own)))
        self._changes: list[MountStats] = []
        self._errors = PoolErrors({}, None, "")

    def begin(self) -> None:
        self._before = {client.name: self._mount(client) for client in self._bench.mounted}
        for program in self._programs:
            program.start()

    def _mount(self, client: Host) -> MountStats:
        return mount_stats.read(client, self._bench.mount_point)

    def end(self) -> None:
        for program in self._programs:
            program.end()
        for client in self._bench.mounted:
            self._changes.append(self._mount(client).since(self._before[client.name]))
        if self._pool:
            self._errors = pool_errors.read(*self._pool)

    def abandon(self) -> None:
        for program in self._programs:
            program.abandon()

    @property
    def apart_ios(self) -> int:
        """By so many calls the counts of clients and server may differ: some were sent again."""
        restarts = any(each.scheduled.what in {*STOPS_NFSD, "command"} for each in self._actions)
        return self.retransmissions if restarts else 0

    @property
    def retransmissions(self) -> int:
        return sum(
            max(0, sum(each.transmissions.values()) - sum(each.calls.values())) for each in self._changes
        )

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        rows = [row for program in self._programs for row in program.rows]
        begun = next((row["ns"] for row in rows if row["what"] == "load"), None)
        actions = [self._action(number, rows, measured) for number, _ in enumerate(self._actions)]
        vdevs = [
            VdevErrors(vdev=name, read=read, write=write, checksum=checksum)
            for name, (read, write, checksum) in self._errors.by_vdev.items()
        ]
        counted = bool(self._changes)
        schedule = Schedule(
            load_begun_ns=None if begun is None else measured.experiment_ns(begun),
            actions=tuple(actions),
            client_errors=sum(sum(each.errors.values()) for each in self._changes) if counted else None,
            retransmissions=self.retransmissions if counted else None,
            vdevs=tuple(vdevs),
        )
        events = [_event(each, each.begin_ns) for each in actions if each.begin_ns is not None]
        return InstrumentReport(events=events, entry={"schedule": schedule})

    def _action(self, number: int, rows: Sequence[Row], measured: MeasuredPhase) -> ScheduledAction:
        scheduled = self._actions[number].scheduled
        mine: Mapping[str, Row] = {row["what"]: row for row in rows if row.get("id") == number}
        begin, end = mine.get("begin"), mine.get("end", {})
        fault = scheduled if isinstance(scheduled, Fault) else None
        return ScheduledAction(
            kind="fault" if fault else "event",
            what=scheduled.what,
            text=scheduled.text,
            device=scheduled.device or None,
            at_ns=scheduled.at,
            for_ns=scheduled.for_,
            begin_ns=measured.experiment_ns(begin["ns"]) if begin else None,
            end_ns=measured.experiment_ns(end["ns"]) if end else None,
            times=int(end.get("times", 0)),
            error=safe_text(str(end.get("error", "")))[:_ERROR],
            was_cut=bool(end.get("cut")),
            lasted=bool(end.get("lasted")),
            expect=fault.expect if fault else None,
            recover_within_ns=fault.recover_within if fault else None,
        )


@contextmanager
def prepared(run: Context, bench: Bench, phase: Phase) -> Iterator[Bench]:
    """The bench with what is scheduled in the phase; each undo is in the journal first. Raises KitError.

    What is still to be undone after the phase is, before anything else of the run.
    """
    if not run.plan.workload.schedule(phase):
        yield bench
        return
    key, host = ("server", run.site.server) if run.site.server else ("client0", run.site.reference)
    assert host is not None
    nfsd = schedule_steps.Nfsd()
    if any(each.what in STOPS_NFSD for each in run.plan.workload.schedule(phase)):
        threads = host.run(["cat", server_threads.THREADS]).stdout.strip()
        nfsd = schedule_steps.Nfsd(threads, tuple(server_threads.listeners(host)))
    actions = schedule_steps.actions(run.plan, run.names, phase, nfsd, read_identity(host))
    numbers = []
    for index, each in enumerate(actions):
        details = {"at_ns": each.scheduled.at, "commands": [list(one.argv) for one in each.commands]}
        with run.journal.step(f"schedule: {each.scheduled.text}", **details):
            if each.undo:
                numbers.append((index, undo.register(run.journal, key, host, each.undo)))
    yield replace(bench, schedule=tuple(actions))
    begun, clean = _rows_of(bench, phase, "begin"), _rows_of(bench, phase, "end")
    for index, number in reversed(numbers):
        # Once is enough of the user's own, which nothing else can tell from what it was.
        is_done = index not in begun or clean.get(index, {}).get("clean", False)
        if actions[index].is_own and is_done:
            run.journal.undo_now(number, lambda _: None)
        else:
            run.undo_now(number)


def _event(action: ScheduledAction, begin_ns: int) -> Event:
    text = f"declared: {action.text}"
    if action.kind == "event":
        return Event(time_ns=begin_ns, end_ns=action.end_ns, kind="expected", text=text)
    fault = InjectedFault(declared=True, what=action.text)
    return Event(time_ns=begin_ns, end_ns=action.end_ns, kind="fault", text=text, fault=fault)


def _rows_of(bench: Bench, phase: Phase, what: str) -> dict[int, Row]:
    """Lines of the programs of the phase, by the number of the action."""
    rows: list[Row] = []
    for is_own in (False, True):
        rows += _rows(_output(bench, phase, is_own))
    return {int(row["id"]): row for row in rows if row.get("what") == what and "id" in row}


def _output(bench: Bench, phase: Phase, is_own: bool) -> Path:
    return bench.run_dir.raw / f"{phase.name}-schedule{'-own' * is_own}.jsonl"


def _rows(path: Path) -> list[Row]:
    """The whole lines; none if there are none yet."""
    with suppress(FileNotFoundError, ValueError):
        return json_lines(path.read_text(errors="replace"))
    return []


def checked(bench: Bench, phase: Phase, entry: StoredPhase) -> StoredPhase:
    """The entry of a phase with faults, after a scrub has read all data of the pool back."""
    schedule = entry.schedule
    if schedule is None or bench.storage is None or not any(a.kind == "fault" for a in schedule.actions):
        return entry
    try:
        found = pool_errors.scrub(bench.storage.server, bench.storage.pool.name)
        data = DataCheck(data_errors=found.data, scan=safe_text(found.scan)[:_ERROR])
    except HostLost:
        raise
    except KitError as error:
        data = DataCheck(why=safe_text(error.message)[:_ERROR])
    return entry.model_copy(update={"schedule": schedule.model_copy(update={"data": data})})


def is_named(text: str, actions: Sequence[TimedAction]) -> bool:
    """Whether a fault that the emulated devices report is a declared one."""
    words = re.split(r"\s+", text)
    return any(
        not isinstance(each.scheduled, ExpectedEvent)
        and any(words == list(command.argv[3:]) for command in each.commands)
        for each in actions
    )
