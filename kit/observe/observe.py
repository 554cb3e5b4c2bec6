"""An observation: the tracer on a server that serves, for a time, with the counters around it.

Nothing of the server is changed that stays: the tracer's files lie in /run/hsp until its end, like those of a
run, and the kernel counts the time of its programs for a second now and then (kit.observe.probe_cost).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from kit import __version__
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, KitError, SafetyRefusal, error_text
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts
from kit.core.units import format_time_s, utc_now
from kit.hosts.base import Host, HostLost
from kit.hosts.identity import read_identity
from kit.hosts.wrapped import RecordedHost, Recorder
from kit.instruments import block_keys, histograms
from kit.instruments.histograms import IntervalGrid
from kit.observe import by_file_system, callers, capture, counters, probe_cost, served, tracer_use
from kit.observe import local as local_calls
from kit.observe.activity import EVERY_S, Activity
from kit.observe.asked import Asked
from kit.observe.counters import Around
from kit.observe.looking import LookingHost
from kit.observe.probe_cost import ProbeCost
from kit.observe.removal_guard import guarded
from kit.observe.served import FAILED, Served
from kit.recovery import clean, host_undos, registry, undo, work_directory
from kit.recovery.journal import Journal, Leftover
from kit.setup import manifest as manifests
from kit.setup.record import RunRecord
from kit.store import json_file, tables, under_way
from kit.store.format import FORMAT
from kit.store.labels import SYNCS
from kit.store.manifest import Clock as StoredClock
from kit.store.manifest import Manifest, Testbed
from kit.store.parts.observed import Observed, ObservedPool
from kit.store.phase import Check, Event, Extreme, Missing, Phase, Sum, problems_of
from kit.store.run_directory import RunDir
from kit.store.under_way import Place, UnderWay
from kit.trace import nfsd_tracer, support
from kit.trace.nfsd_tracer import Tracer, TracerFiles
from kit.trace.output import Class, Trace, parse_trace, place_of
from kit.trace.tier import Vdevs
from kit.zfs import openzfs_version
from kit.zfs.openzfs_version import ZfsVersion

Value = TypeVar("Value")
PHASE = "observed"
_SERVER = "server"
# The tracer prints all its counts after each; a longer observation has longer ones.
_MOST_INTERVALS = 240
_LEAST_INTERVAL_NS = 1_000_000_000
_POLL_S = 0.2


@dataclass(frozen=True)
class Looked:
    """What the tracer saw, and what the server had before or after; `changed`: what of it did, as sentences.

    `problems`, `cost`: of the tracer, in words.
    """

    trace: Trace
    around: Around[Any]
    known: Served
    changed: tuple[str, ...]
    interval_ns: int
    problems: tuple[str, ...]
    events: tuple[Event, ...]
    cost: tuple[str, ...]
    interrupted: bool = False


def observe(
    server: Host,
    clock: Clock,
    run_dir: RunDir,
    duration_ns: int,
    command: list[str],
    progress: Progress,
    journal: Journal,
    asked: Asked,
) -> list[Leftover]:
    """Observe and store; returns what could not be undone. An interrupt ends the observation early.

    `journal`: of the run, held until its report is there.

    Raises KitError, also after what was seen until then is stored.
    """
    run_id, started = run_dir.path.name, time.monotonic()
    recorder = Recorder(run_dir.raw / "commands.jsonl")
    server = LookingHost(RecordedHost(server, recorder), work_directory.path_of(run_id))
    record = RunRecord(_manifest(run_id, server, clock, command, local=asked.local))
    frames: list[pl.DataFrame] = []
    failure: KitError | None = None
    entry = registry.enter(run_id, run_dir.path)
    journal.begin(run_id, "", registry.digest(entry.token))
    try:
        journal.know_host(_SERVER, read_identity(server))
        around = _Observation(server, clock, run_dir, journal, record, progress, asked)
        looked = around.look(entry.token, duration_ns)
        phase, frames = _phase(looked, clock, split=asked.split)
        record.fill(observed=_observed(looked), phases=(phase,))
        if asked.keys:
            _store_keys(looked, run_dir, clock, asked.keys, record)
        if asked.captured:
            record.add_notes(*capture.store(looked.trace, looked.known, run_dir, clock))
        record.add_notes(*(_meanwhile(each) for each in looked.events if each.kind != "txg"))
        if looked.interrupted:
            seen, whole = (format_time_s(each / 1e9) for each in (phase.end_ns - phase.start_ns, duration_ns))
            record.add_notes(f"Ctrl-C ended the observation after {seen} of {whole}.")
    except KitError as error:
        failure = error
        record.add_problems("error", error_text(error))
    finally:
        with ignore_interrupts(progress.note), progress.step("removing the tracer"):
            left = _tear_down(journal, server, run_id)
        record.add_problems("not-undone", *(each.problem for each in left))
        record.fill(wall_s=round(time.monotonic() - started, 1), ended=True)
        empty = pl.DataFrame(schema=tables.LATENCY_SCHEMA)
        tables.write_latency(run_dir, pl.concat([empty, *frames]))
        json_file.write_json(run_dir.path / "manifest.json", record.manifest.as_json())
    recorder.close()
    if failure:
        raise failure
    return left


def _meanwhile(event: Event) -> str:
    """What else the server did, and what it costs."""
    slow = ": I/Os of its disks may take longer" if event.kind in ("scrub", "resilver") else ""
    return f"Meanwhile: {event.text}{slow}."


def _manifest(run_id: str, server: Host, clock: Clock, command: list[str], *, local: bool) -> Manifest:
    whose = "programs" if local else "clients"
    does = "programs of {} read and write on ZFS" if local else "{} serves its clients"
    return Manifest.model_validate({
        "format": FORMAT, "run": run_id, "workload": "observe",
        "title": f"What {does.format(server.name)}, and which tier answers",
        "started_utc": utc_now(), "command": tuple(command),
        "clock": StoredClock.model_validate(clock, from_attributes=True),
        "testbed": Testbed(name=server.name, server=server.name, emulated=clock.kind != "real"),
        "versions": {"hsp": __version__}, "load": f"the load of its own {whose}",
        "observed": Observed(local=local),
    })  # fmt: skip


@dataclass(frozen=True)
class _Observation:
    """An observation that is under way."""

    server: Host
    clock: Clock
    run_dir: RunDir
    journal: Journal
    record: RunRecord
    progress: Progress
    asked: Asked

    def look(self, token: str, duration_ns: int) -> Looked:
        """From the first look at the server until the tracer has ended."""
        server, run_id = self.server, self.run_dir.path.name
        with self.progress.step(f"looking at {server.name}"):
            zfs = openzfs_version.read(server)
            tracing = support_of(server, zfs, self.asked)
            self.record.add_versions(manifests.server_versions(server, zfs, tracing))
            self.record.fill(modules={"zfs": counters.parameters(server)})
            before = served.read(server).of(self.asked.datasets)
            special = any(before.special.values())
            tracing = replace(tracing, program=_program(zfs, self.asked, special=special))
        directory = work_directory.path_of(run_id)
        mounts = nfsd_tracer.will_mount(server)
        interval_ns = max(_LEAST_INTERVAL_NS, duration_ns // _MOST_INTERVALS)
        with ExitStack() as stack:
            stack.enter_context(guarded(server, directory, mounts=mounts))
            with self.journal.step("make work directory", path=directory):
                undo.register(self.journal, _SERVER, server, host_undos.WorkDirectory(path=directory))
                work_directory.create(server, run_id, token)
            with self.progress.step("starting the tracer"), self.journal.step("start the tracer"):
                action = host_undos.UndoTracer(directory=directory, mounts=mounts)
                undo.register(self.journal, _SERVER, server, action)
                made = _traced(server, directory, self.clock, interval_ns, tracing)
                tracer = stack.enter_context(made)
            return self._under(tracer, zfs, before, interval_ns, duration_ns)

    def _under(
        self, tracer: Tracer, zfs: ZfsVersion, before: Served, interval_ns: int, duration_ns: int
    ) -> Looked:
        activity = Activity(self.server, before.logs)
        server, interrupted = self.server, False
        read: Callable[[Host], Any] = local_calls.read if self.asked.local else counters.read
        cost = ProbeCost()
        outer = read(server)
        output = self.run_dir.raw / "trace-observed.json"
        tracer.begin(self.clock.to_host_ns(interval_ns), output)
        inner, used = read(server), tracer_use.read(server, tracer.place)
        self._tell_under_way(before, interval_ns, duration_ns)
        text = f"observing for {format_time_s(duration_ns / 1e9)}"
        with self.progress.step(text), self.journal.step("observe"):
            try:
                self._wait(tracer, self.clock.to_host_ns(duration_ns) / 1e9, activity, cost, output)
            except KeyboardInterrupt:
                interrupted = True
        with ignore_interrupts(self.progress.note):
            inner_after = read(server)
            problems = tracer.follow_end(output)
            around = Around((outer, read(server)), (inner, inner_after))
            used_after = tracer_use.read(server, tracer.place)
            known, changed = before.joined(served.read(server).of(self.asked.datasets, new=True))
            activity.look()
        trace = parse_trace(output.read_text(errors="replace"), observed=True, local=self.asked.local)
        at_ns = [each.at_ns for each in trace.snapshots] or [0]
        words = (tracer_use.sentence(used, used_after, (max(at_ns) - min(at_ns)) / 1e9), cost.sentence())
        events: tuple[Event, ...] = ()
        try:
            events = tuple(activity.events(zfs, self.clock, min(at_ns), max(at_ns)))
        except HostError as error:
            # They are marks alone: what was seen is kept without them.
            self.record.add_notes(f"Scrubs and syncs of txgs are not shown: {error.message}")
        all_problems = (*problems, *trace.problems)
        return Looked(
            trace, around, known, tuple(changed), interval_ns, all_problems, events, words, interrupted
        )

    def _wait(
        self, tracer: Tracer, duration_s: float, activity: Activity, cost: ProbeCost, output: Path
    ) -> None:
        """Until the time is over, the tracer has ended, or its probes cost more than they may."""
        begun, due_s, next_s = time.monotonic(), EVERY_S, probe_cost.FIRST_S
        while (passed := time.monotonic() - begun) < duration_s and tracer.running():
            self.progress.update(passed / duration_s)
            if passed > due_s:
                due_s = passed + EVERY_S
                activity.look()
            if passed > next_s:
                next_s = 2 * passed
                probe_cost.look(
                    cost, self.server, tracer.place, lambda: self._mean_ns(output), local=self.asked.local
                )
                if cost.is_over(self.asked.cost_max):
                    self.record.add_notes(cost.over(passed, self.asked.cost_max))
                    return
            time.sleep(min(_POLL_S, max(0.0, duration_s - passed)))

    def _mean_ns(self, output: Path) -> float:
        trace = parse_trace(output.read_text(errors="replace"), observed=True, local=self.asked.local)
        return probe_cost.mean_ns_of(trace)

    def _tell_under_way(self, before: Served, interval_ns: int, duration_ns: int) -> None:
        """For those who look at the observation while it goes on."""
        places = [
            Place(
                number=number,
                log_vdevs=None if vdevs.log is None else tuple(sorted(vdevs.log)),
                special_vdevs=tuple(sorted(vdevs.special)),
            )
            for number, name in before.file_systems.items()
            for vdevs in [before.vdevs(name)]
        ]
        under_way.write(self.run_dir, UnderWay(
            phase=PHASE, part=1, duration_ns=duration_ns, interval_ns=interval_ns, clock=self.clock.kind,
            dilation=self.clock.dilation, trace="trace-observed.json", log_vdevs=None, clients=(),
            places=tuple(places), local=self.asked.local,
        ))  # fmt: skip


def support_of(server: Host, zfs: ZfsVersion, asked: Asked) -> support.TracingSupport:
    """The tracer for this server. Raises HostError where its file systems could not be told apart."""
    # What --split needs besides is looked at below.
    wanted = _program(zfs, replace(asked, split=False), special=False)
    tracing = support.find_tracing(server, zfs, wanted=wanted)
    why = tracing.reason or tracing.why_no_places
    if not why and asked.split:
        why = support.why_no_split(server, zfs, tracing)
    if why := why or support.why_no_types(server):
        raise HostError(
            f"{server.name} cannot be observed: {why}",
            "`hsp host check` shows what the tracer needs; nothing was changed",
        )
    return tracing


def _program(zfs: ZfsVersion, asked: Asked, *, special: bool) -> support.Program:
    """What is asked for. `special`: a pool has special vdevs, so reads have the vdev that they are from."""
    return support.program(
        zfs, observe=not asked.local, local=asked.local, files=asked.files, special=special,
        split=asked.split, one_in=asked.keys, captured=asked.captured,
    )  # fmt: skip


@contextmanager
def _traced(
    server: Host, directory: str, clock: Clock, interval_ns: int, tracing: support.TracingSupport
) -> Iterator[Tracer]:
    place = TracerFiles(directory)
    tracer = Tracer(server, place, nfsd_tracer.start(server, place, clock, [interval_ns], tracing))
    try:
        yield tracer
    finally:
        try:
            tracer.stop()
        except HostLost:
            pass  # what is left there is in the journal


def _phase(looked: Looked, clock: Clock, *, split: bool) -> tuple[Phase, list[pl.DataFrame]]:
    """The entry of the phase, and the rows of each file system: its name stands for the host."""
    trace, known, problems = looked.trace, looked.known, [*looked.changed]
    grid = IntervalGrid(trace.begin_ns, trace.begin_ns, clock.to_host_ns(looked.interval_ns), clock)
    frames: list[pl.DataFrame] = []
    extremes: list[Extreme] = []
    sums: list[Sum] = []
    tiers: Counter[tuple[str, str]] = Counter()
    for name, places in by_file_system.names(trace, known).items():
        part, vdevs = by_file_system.only(trace, places), known.vdevs(name)
        try:
            cells = histograms.server_cells(part, grid, vdevs)
        except ValueError as error:
            problems.append(f"the tracer's counts of {name} cannot be used: {error}")
            continue
        frames.append(histograms.frame(cells, PHASE, "nfs-server", name))
        extremes += histograms.server_extremes(part, vdevs, name)
        sums += histograms.server_sums(part, vdevs, name)
        tiers.update(histograms.totals(cells))
    span_ns = max((snapshot.at_ns for snapshot in trace.snapshots), default=0) - trace.begin_ns
    last_ns = max((int(each["time_ns"].max() or 0) for each in frames if each.height), default=0)  # type: ignore[arg-type]
    if not trace.local:
        problems += counters.unfinished(looked.around, trace)[1]
    made = [*_checks(looked, tiers)]
    checks = [each.model_copy(update={"instrument": "observed"}) for each in made if isinstance(each, Check)]
    what = "reads, writes and fsyncs of files of ZFS" if trace.local else "requests to ZFS over NFS"
    return Phase(
        name=PHASE, title=f"All {what}", tiers=tuple(sorted({tier for _, tier in tiers})),
        interval_ns=looked.interval_ns, client_ios=0,
        server_ios=sum(count for (op, _), count in tiers.items() if op not in SYNCS),
        lost_events=trace.lost_events, checks=tuple(checks),
        unavailable=tuple(each for each in made if isinstance(each, Missing)),
        extremes=tuple(extremes), sums=tuple(sums),
        problems=problems_of("tier-tracer", (*looked.problems, *problems)), events=looked.events,
        start_ns=0, end_ns=max(clock.from_host_ns(span_ns), last_ns + looked.interval_ns),
        split=by_file_system.split_of(trace, known, PHASE) if split else None,
        arc=counters.arc_use(looked.around, span_ns, clock),
    ), frames  # fmt: skip


def _store_keys(looked: Looked, run_dir: RunDir, clock: Clock, one_in: int, record: RunRecord) -> None:
    """Write keys.parquet."""
    trace, known = looked.trace, looked.known

    def dataset_of(key: Class) -> tuple[str, Vdevs] | None:
        name = known.file_systems.get(place_of(key))
        return (name, known.vdevs(name)) if name else None

    try:
        rows, notes = block_keys.rows(trace, one_in, "", dataset_of, trace.begin_ns, clock)
    except ValueError as error:
        record.add_problems("tier-tracer", f"the tracer's sample of blocks cannot be used: {error}")
        return
    record.add_notes(*notes)
    tables.write_keys(run_dir, rows)


def _checks(looked: Looked, tiers: Mapping[tuple[str, str], int]) -> Iterator[Check | Missing]:
    trace = looked.trace
    if trace.local:
        places = by_file_system.names(trace, looked.known)
        return local_calls.checks(looked.around, trace, places, tiers)
    return counters.checks(looked.around, trace, tiers)


def _observed(looked: Looked) -> Observed:
    trace, known = looked.trace, looked.known
    counts: Counter[int] = Counter()
    for key, bins in trace.counts.items():
        counts[place_of(key)] += sum(bins.values())
    others = sum(counts[place] for place in known.others)
    strange = sum(n for place, n in counts.items() if place != FAILED and place not in known.file_systems)
    if trace.local:
        own = local_calls.observed(trace)
    else:
        own = {"failed": counts[FAILED], "unfinished": counters.unfinished(looked.around, trace)[0]}
    return Observed(
        **own,
        callers=callers.rows(trace, known),
        operations=callers.operations(trace),
        files=callers.files(trace, known),
        cost=looked.cost,
        pools=tuple(
            ObservedPool(
                name=name,
                log_vdevs=tuple(sorted(ids)),
                special_vdevs=tuple(sorted(known.special[name])),
                space=known.space.get(name),
            )
            for name, ids in known.logs.items()
        ),
        file_systems=tuple(sorted(by_file_system.names(trace, known))),
        elsewhere=strange - others,
        others=others,
    )


def _tear_down(journal: Journal, server: Host, run_id: str) -> list[Leftover]:
    names = {_SERVER: server.name}
    left = journal.teardown(
        lambda item, kinds: undo.undo(item, {_SERVER: server}, kinds, run_id, lost=set()),
        lambda item: undo.by_hand(item, names, run_id),
    )
    if journal.settled:
        registry.leave(run_id)
    return left


def refuse_others(server: Host) -> None:
    """One tracer of the kit at a time: its marks reach all of them. Raises SafetyRefusal, HostError."""
    if runs := work_directory.left_by(server):
        raise SafetyRefusal(
            f"{server.name} is measured or observed by {', '.join(runs)}, or that run was killed there "
            f"({work_directory.ROOT})",
            clean.advice(runs[0]),
        )


def refuse_duration(duration_ns: int) -> None:
    """Raises ConfigError."""
    if duration_ns < _LEAST_INTERVAL_NS:
        raise ConfigError(
            f"--for {duration_ns / 1e9:g}s is too short", "give a second or more, such as 10min"
        )
