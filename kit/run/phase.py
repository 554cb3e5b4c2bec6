"""One phase: the tracer's marks and counters around one fio job on every client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kit.config.fio_job import FioJob
from kit.config.workload import Phase
from kit.core.errors import KitError, MeasurementUnknown
from kit.core.seed import seed_for
from kit.hosts.base import HostLost
from kit.hosts.clock_offset import Clocks, Offset, combined
from kit.instruments import arc_zil_counters, host_health, read_history, server_activity
from kit.load import fio_server
from kit.load.fio_latency_log import ClientLatencies
from kit.load.phase_load import Load, LoadSpec
from kit.recovery.journal import Journal
from kit.run import histograms
from kit.run.site import Site
from kit.store.run_directory import LATENCY_SCHEMA, RunDir
from kit.trace import nfsd_tracer
from kit.trace.output import Trace, parse_trace
from kit.trace.support import Tracing
from kit.zfs import pool
from kit.zfs.openzfs_version import ZfsVersion

# A phase is over long before this on any machine that can run the lab at all.
_LOAD_DEADLINE_S = 900.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Bench:
    """What every phase of a run needs: where, on which dataset, and with what."""

    site: Site
    run_dir: RunDir
    pool: pool.Pool
    objset: int
    log_devices: tuple[str, ...]
    mount: str
    work_dir: str
    size_bytes: int
    run_origin_ns: int
    clocks: Clocks
    zfs: ZfsVersion
    tracing: Tracing


@dataclass
class PhaseResult:
    """`entry` goes into the manifest, `latency` into latency.parquet."""

    entry: dict[str, Any]
    latency: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LATENCY_SCHEMA))
    interrupted: bool = False


@contextmanager
def traced(
    bench: Bench, phases: Sequence[Phase], journal: Journal, problems: list[str]
) -> Iterator[nfsd_tracer.Tracer | None]:
    """One tracer for all of `phases`, ended afterwards; None where the server cannot be traced.

    What is wrong with its end goes into `problems`. Raises HostError if it cannot be started.
    """
    if bench.tracing.kind != "full" or not phases:
        yield None
        return
    server, place = bench.site.server, nfsd_tracer.Place(bench.work_dir)
    intervals = [phase.interval for phase in phases]
    with journal.step("start the tracer"):
        # Its connection's end ends it, but not on this machine, nor that of a shell that went on without.
        text = f"end the tracer on {server.name}"
        journal.on_teardown("tracer", "server", text, directory=place.directory)
        process = nfsd_tracer.start(server, place, bench.site.clock, intervals, bench.tracing)
    tracer = nfsd_tracer.Tracer(server, place, process)
    try:
        yield tracer
    finally:
        try:
            problems += tracer.stop()
        except HostLost:
            pass  # the run ends with it and says so; what is left there is in the journal
        except KitError as error:
            problems.append(f"the tracer could not be ended: {error.message}")


def run_phase(
    bench: Bench, phase: Phase, job: FioJob, tracer: nfsd_tracer.Tracer | None = None
) -> PhaseResult:
    """Measure one phase. Steps: load made ready, counters, mark, load, mark, counters, analysis.

    Where the server cannot be traced (no `tracer`), its list of reads takes the tracer's place
    (kit.instruments.read_history). Without the tracer's word that the phase has begun there is no load.

    What goes wrong with the load or the instruments becomes a problem of the result, which
    makes the verdict unknown; what was measured until then is kept. A lost host raises.
    """
    result = PhaseResult(entry=_entry(phase, job))
    server = bench.site.server
    log_vdevs = pool.log_vdev_ids(server, bench.log_devices)
    was = server_activity.read(server, bench.pool.name, bench.zfs)
    load = _load(bench, phase, job)
    load.prepare()
    apart = bench.clocks.offsets([client.host for client in bench.site.clients])
    each = bench.clocks.machines(list(bench.site.hosts.values()))
    were = host_health.read(each)
    before = arc_zil_counters.read(server, bench.pool.name, bench.objset, bench.zfs)
    if tracer:
        begun = _begin(tracer, bench.site.clock.to_host_ns(phase.interval), result.entry["problems"])
    else:
        read_history.begin(server, bench.pool.name)
        begun = True
    if begun:
        result.interrupted = _drive(load, tracer)
    else:
        load.finish(False)
    trace = _end_of_trace(bench, phase, tracer, result.entry) if tracer and begun else Trace()
    after = arc_zil_counters.read(server, bench.pool.name, bench.objset, bench.zfs)
    now = server_activity.read(server, bench.pool.name, bench.zfs)
    moved = host_health.changes(were, host_health.read(each))
    change = after.since(before)
    collected = _collect(bench, load, result.entry, apart) if begun else []
    _analyse(bench, phase, result, trace, collected, log_vdevs, change)
    if not tracer:
        op = result.entry["op"]
        reads = read_history.history(server, bench.pool.name, bench.objset)
        read_history.fill(result.entry, now.calls[op] - was.calls[op], change, reads)
    _judge_surroundings(bench, result.entry, was, now, trace)
    host_health.fill(result.entry, moved, bench.site.clock.to_host_ns(phase.duration))
    return result


def _begin(tracer: nfsd_tracer.Tracer, interval_ns: int, problems: list[str]) -> bool:
    """Whether the tracer says that the phase has begun; a problem says why not."""
    try:
        tracer.begin(interval_ns)
    except HostLost:
        raise
    except KitError as error:
        problems.append(f"{error.message}: nothing of this phase was measured")
        return False
    return True


def _end_of_trace(bench: Bench, phase: Phase, tracer: nfsd_tracer.Tracer, entry: dict[str, Any]) -> Trace:
    text, problems = tracer.end()
    entry["problems"] += problems
    bench.run_dir.raw.joinpath(f"{phase.name}-trace.json").write_text(text)
    return parse_trace(text)


def _entry(phase: Phase, job: FioJob) -> dict[str, Any]:
    return {
        "name": phase.name,
        "title": phase.title,
        "op": "read" if "read" in job.operations else "write",
        "expected_tiers": list(phase.tiers),
        "job": phase.job,
        "block_bytes": job.block_bytes,
        "outstanding": job.outstanding,
        "interval_ns": phase.interval,
        "client_ios": 0,
        "server_ios": 0,
        "lost_events": 0,
        "checks": [],
        "unavailable": [],
        "events": [],
        "extremes": [],
        "clients": [],
        "problems": [],
    }


def _load(bench: Bench, phase: Phase, job: FioJob) -> Load:
    """fio on the only client, or on all of them together."""
    hosts = [client.host for client in bench.site.clients]
    spec = LoadSpec(
        name=phase.name,
        job=job,
        work_dir=bench.work_dir,
        mount=bench.mount,
        size_bytes=bench.size_bytes,
        duration_ns=phase.duration,
        clock=bench.site.clock,
        seed=seed_for(bench.site.seed, phase.name),
    )
    return fio_server.load_on(hosts, spec, bench.clocks)


def _drive(load: Load, tracer: nfsd_tracer.Tracer | None) -> bool:
    """Start fio everywhere and wait for its end. Returns whether the user interrupted it."""
    interrupted = False
    try:
        load.start()
        _wait(load, tracer, load.problems)
    except KeyboardInterrupt:
        interrupted = True
        load.problems.append("interrupted by the user: the load was stopped early")
    load.finish(interrupted)
    return interrupted


def _wait(load: Load, tracer: nfsd_tracer.Tracer | None, problems: list[str]) -> None:
    end = time.monotonic() + _LOAD_DEADLINE_S
    while load.running():
        if time.monotonic() > end:
            problems.append(f"the load did not end within {_LOAD_DEADLINE_S:g} s and was stopped")
            return
        if tracer and not tracer.running():
            return  # its end() says so; without it the load is worth nothing
        time.sleep(_POLL_S)


@dataclass(frozen=True)
class _Collected:
    """One client's I/Os on the server's time axis, and how well that is known."""

    host: str
    ios: dict[str, int]
    latencies: ClientLatencies
    offset: Offset


def _collect(bench: Bench, load: Load, entry: dict[str, Any], apart: dict[str, Offset]) -> list[_Collected]:
    """What the clients brought home. `apart`: how far their clocks were from the server's before it."""
    results = load.collect(bench.run_dir)
    entry["problems"] += load.problems
    found = []
    for result in results:
        host = result.host
        try:
            offset = combined(apart[host.name], bench.clocks.offsets([host])[host.name])
        except KitError as error:
            entry["problems"].append(f"the clock of {host.name} cannot be compared: {error.message}")
            continue
        latencies = histograms.on_axis(result.latencies, offset)
        found.append(_Collected(host.name, result.ios, latencies, offset))
    return found


def _analyse(
    bench: Bench,
    phase: Phase,
    result: PhaseResult,
    trace: Trace,
    collected: list[_Collected],
    log_vdevs: frozenset[int],
    change: arc_zil_counters.Counters,
) -> None:
    """Fill in the result. A source that cannot be read is a problem; the others still count."""
    entry, clock, server = result.entry, bench.site.clock, bench.site.server
    entry["problems"] += trace.problems
    entry["lost_events"] = trace.lost_events
    frames = []
    grid = _grid(bench, phase, trace, [client.latencies for client in collected])
    for client in collected:
        entry["client_ios"] += sum(client.ios.values())
        cells = histograms.client_cells(client.latencies, grid)
        frames.append(histograms.frame(cells, phase.name, "client", client.host))
        entry["extremes"] += histograms.client_extremes(client.latencies, clock, client.host)
    entry["clients"] = histograms.client_rows(
        [(client.host, client.latencies, client.offset) for client in collected], grid, bench.run_origin_ns
    )
    entry["problems"] += histograms.late_clients(entry["clients"], max(phase.interval, phase.duration // 10))
    if bench.tracing.kind == "full":
        try:
            cells = histograms.server_cells(trace, grid, log_vdevs)
            tiers = histograms.totals(cells)
            frames.append(histograms.frame(cells, phase.name, "nfs-server", server.name))
            entry["extremes"] += histograms.server_extremes(trace, log_vdevs, server.name)
            entry["server_ios"] = sum(count for (op, _), count in tiers.items() if op != "commit")
            _keep_checks(entry, arc_zil_counters.checks(change, tiers, bench.zfs))
        except ValueError as error:
            entry["problems"].append(f"the tracer's counts cannot be used: {error}")
        except MeasurementUnknown as error:
            entry["problems"].append(error.message)
    entry["start_ns"] = clock.from_host_ns(grid.phase_origin_ns - bench.run_origin_ns)
    last = max((int(frame["time_ns"].max() or 0) for frame in frames if frame.height), default=0)  # type: ignore[arg-type]
    entry["end_ns"] = max(last + phase.interval, entry["start_ns"])
    if frames:
        result.latency = pl.concat(frames)


def _keep_checks(
    entry: dict[str, Any], found: list[arc_zil_counters.Check | arc_zil_counters.Missing]
) -> None:
    """What this OpenZFS cannot tell is listed beside what it can."""
    entry["checks"] += [check.as_json() for check in found if isinstance(check, arc_zil_counters.Check)]
    entry["unavailable"] += [
        check.as_json() for check in found if isinstance(check, arc_zil_counters.Missing)
    ]


def _judge_surroundings(
    bench: Bench,
    entry: dict[str, Any],
    was: server_activity.Conditions,
    now: server_activity.Conditions,
    trace: Trace,
) -> None:
    """What nfsd itself counted, and what else went on."""
    pool_name, op = bench.pool.name, entry["op"]
    ios, block_bytes = entry["client_ios"], entry["block_bytes"]
    _keep_checks(entry, server_activity.checks(was, now, pool_name, op, ios, block_bytes, bench.zfs))
    entry["problems"] += server_activity.problems(was, now)
    clock = bench.site.clock
    # Only those of the load: the tracer's start and end belong to no measurement.
    entry["events"] = [
        event
        for event in server_activity.events(was, now, trace.feeds_ns, bench.run_origin_ns, clock)
        if event["time_ns"] <= entry["end_ns"] and (event["end_ns"] or event["time_ns"]) >= entry["start_ns"]
    ]


def _grid(bench: Bench, phase: Phase, trace: Trace, latencies: list[ClientLatencies]) -> histograms.Grid:
    """Time zero of the phase is when the tracer was due last before the first I/O, as the clients saw it."""
    starts = [int((found.end_ns - found.latency_ns).min()) for found in latencies if found.end_ns.size]
    starts += [snapshot.at_ns for snapshot in trace.snapshots[:1]] if not starts else []
    clock = bench.site.clock
    interval_ns = clock.to_host_ns(phase.interval)
    first = min(starts, default=bench.run_origin_ns)
    origin = max(histograms.aligned(first, trace, interval_ns), bench.run_origin_ns)
    return histograms.Grid(bench.run_origin_ns, origin, interval_ns, clock)
