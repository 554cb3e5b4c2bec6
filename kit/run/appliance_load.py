"""One phase of an appliance: fio on every client, and what the clients' own mounts counted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from kit.config.fio_job import FioJob
from kit.config.workload import Phase
from kit.core.clock import Clock
from kit.core.seed import seed_for
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, Offset, combined
from kit.instruments import host_health, mount_stats
from kit.load import fio_server
from kit.load.phase_load import ClientResult, Load, LoadSpec
from kit.run import histograms
from kit.run.phase import PhaseResult
from kit.store.run_directory import RunDir

_POLL_S = 0.1
# fio that runs on after its time waits for a server that does not answer. The lab's clock is another.
_LATE_S = 120.0
_VIRTUAL_DEADLINE_S = 900.0


@dataclass(frozen=True)
class Bench:
    """What every phase needs. `origin_ns`: the run's begin on the first client's clock, the axis of all.

    `target` is where the export is mounted, `directory` the run's own inside it; `mounted` those
    clients whose mount counts the load's calls.
    """

    clients: tuple[Host, ...]
    origin_ns: int
    mounted: tuple[Host, ...]
    run_dir: RunDir
    target: str
    directory: str
    work_dir: str
    size_bytes: int
    clock: Clock
    clocks: Clocks
    seed: int


def load_on(hosts: Sequence[Host], bench: Bench, name: str, job: FioJob, duration_ns: int) -> Load:
    """fio on these clients, in the run's directory of the export. `name` is the phase's."""
    spec = LoadSpec(
        name=name,
        job=job,
        work_dir=bench.work_dir,
        mount=f"{bench.target}/{bench.directory}",
        size_bytes=bench.size_bytes,
        duration_ns=duration_ns,
        clock=bench.clock,
        seed=seed_for(bench.seed, name),
    )
    return fio_server.load_on(hosts, spec, bench.clocks)


def run_phase(bench: Bench, phase: Phase, job: FioJob) -> PhaseResult:
    """Measure one phase: the mounts' counters, the load on all clients, the counters again, analysis.

    What goes wrong with the load becomes a problem of the result. A lost host raises.
    """
    result = PhaseResult(entry=_entry(phase, job))
    load = load_on(bench.clients, bench, phase.name, job, phase.duration)
    load.prepare()
    apart = bench.clocks.offsets(bench.clients)
    each = bench.clocks.machines(bench.clients)
    were = host_health.read(each)
    before = {host.name: mount_stats.read(host, bench.target) for host in bench.mounted}
    result.interrupted = drive(load, bench, phase.duration)
    moved = host_health.changes(were, host_health.read(each))
    results = load.collect(bench.run_dir)
    result.entry["problems"] += load.problems
    for found in results:
        if found.host in bench.mounted:
            change = mount_stats.read(found.host, bench.target).since(before[found.host.name])
            checks = mount_stats.checks(change, found.ios, job.block_bytes, found.host.name)
            result.entry["checks"] += [check.as_json() for check in checks]
    _analyse(bench, phase, result, results, apart)
    host_health.fill(result.entry, moved, bench.clock.to_host_ns(phase.duration))
    return result


def _entry(phase: Phase, job: FioJob) -> dict[str, Any]:
    return {
        "name": phase.name,
        "title": phase.title,
        "op": "read" if "read" in job.operations else "write",
        # None of them can be told from another here.
        "expected_tiers": [],
        "job": phase.job,
        "block_bytes": job.block_bytes,
        "outstanding": job.outstanding,
        "interval_ns": phase.interval,
        "client_ios": 0,
        "server_ios": None,
        "lost_events": None,
        "checks": [],
        "unavailable": [],
        "events": [],
        "extremes": [],
        "clients": [],
        "problems": [],
    }


def drive(load: Load, bench: Bench, duration_ns: int) -> bool:
    """Start fio everywhere and wait for its end. Returns whether the user interrupted it."""
    interrupted = False
    try:
        load.start()
        _wait(load, bench, duration_ns)
    except KeyboardInterrupt:
        interrupted = True
        load.problems.append("interrupted by the user: the load was stopped early")
    load.finish(interrupted)
    return interrupted


def _wait(load: Load, bench: Bench, duration_ns: int) -> None:
    limit_s = _VIRTUAL_DEADLINE_S if bench.clock.kind == "virtual" else duration_ns / 1e9 + _LATE_S
    end = time.monotonic() + limit_s
    while load.running():
        if time.monotonic() > end:
            hosts = ", ".join(host.name for host in bench.clients)
            load.problems.append(
                f"the load on {hosts} did not end within {limit_s:g} s and was stopped: "
                "does the server answer?"
            )
            return
        time.sleep(_POLL_S)


def _analyse(
    bench: Bench,
    phase: Phase,
    result: PhaseResult,
    results: Sequence[ClientResult],
    apart: Mapping[str, Offset],
) -> None:
    """All clients on one time axis: that of the first client's clock, since the run's begin."""
    entry, clock = result.entry, bench.clock
    after = bench.clocks.offsets([found.host for found in results])
    offsets = {name: combined(apart[name], offset) for name, offset in after.items()}
    seen = {
        found.host.name: histograms.on_axis(found.latencies, offsets[found.host.name]) for found in results
    }
    starts = [int((one.end_ns - one.latency_ns).min()) for one in seen.values() if one.end_ns.size]
    first = max(bench.origin_ns, min(starts, default=bench.origin_ns))
    grid = histograms.Grid(bench.origin_ns, first, clock.to_host_ns(phase.interval), clock)
    frames = []
    for found in results:
        name = found.host.name
        entry["client_ios"] += sum(found.ios.values())
        frames.append(histograms.frame(histograms.client_cells(seen[name], grid), phase.name, "client", name))
        entry["extremes"] += histograms.client_extremes(seen[name], clock, name)
    entry["clients"] = histograms.client_rows(
        [(name, one, offsets[name]) for name, one in seen.items()], grid, bench.origin_ns
    )
    entry["problems"] += histograms.late_clients(entry["clients"], max(phase.interval, phase.duration // 10))
    entry["start_ns"] = clock.from_host_ns(first - bench.origin_ns)
    ends = [int(one.end_ns.max()) for one in seen.values() if one.end_ns.size]
    last = max((grid.start_of(end) for end in ends), default=entry["start_ns"])
    entry["end_ns"] = max(last + phase.interval, entry["start_ns"])
    if frames:
        result.latency = pl.concat(frames)
