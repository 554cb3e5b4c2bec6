"""One phase of an appliance: fio on every client, and what the clients' own mounts counted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from kit import fio, measure, mountstats
from kit.clock import Clock
from kit.errors import KitError, MeasurementUnknown
from kit.fiojob import FioJob
from kit.hosts.base import Host, HostLost, Process
from kit.phase import PhaseResult
from kit.store import RunDir
from kit.workload import Phase

_STOP_DEADLINE_S = 60.0
_POLL_S = 0.1
# fio that runs on after its time waits for a server that does not answer. The lab's clock is another.
_LATE_S = 120.0
_VIRTUAL_DEADLINE_S = 900.0


@dataclass(frozen=True)
class Bench:
    """What every phase needs. `origins_ns`: the run's begin on each client's monotonic clock, by name.

    `target` is where the export is mounted, `directory` the run's own inside it; `mounted` those
    clients whose mount counts the load's calls.
    """

    clients: tuple[Host, ...]
    origins_ns: Mapping[str, int]
    mounted: tuple[Host, ...]
    run_dir: RunDir
    target: str
    directory: str
    work_dir: str
    size_bytes: int
    clock: Clock


class ClientLoad:
    """One client's fio, from its job file to its log. `name` is the phase's."""

    def __init__(self, bench: Bench, host: Host, name: str, job: FioJob, duration_ns: int) -> None:
        self.host, self._bench, self._name = host, bench, name
        self._files = fio.FioFiles(f"{bench.work_dir}/{host.name.replace('/', '-')}-{name}")
        host.run(["mkdir", "-p", self._files.directory])
        place = f"{bench.target}/{bench.directory}"
        values = fio.variables(place, bench.size_bytes, duration_ns, bench.clock)
        host.put(fio.job_text(job, self._files, values), self._files.job)
        self._command = fio.command(self._files)
        self._process: Process | None = None

    def start(self) -> None:
        self._process = self.host.start(self._command)

    def running(self) -> bool:
        return self._process is not None and self._process.running()

    def finish(self, interrupted: bool) -> list[str]:
        """Stop it if it still runs. Returns what went wrong, in words."""
        if self._process is None:
            return []
        try:
            if self._process.running():
                # fio ends its jobs on SIGINT and still writes its output, unless its I/O hangs.
                self._process.stop(_STOP_DEADLINE_S)
            ended = self._process.wait(_STOP_DEADLINE_S)
        except HostLost:
            raise
        except KitError as error:
            return [f"fio failed on {self.host.name}: {error.message}"]
        return [f"fio failed {ended.describe()}"] if ended.returncode and not interrupted else []

    def collect(self) -> tuple[dict[str, int], fio.ClientLatencies]:
        """Bring fio's files home, then read them. Raises KitError."""
        raw, prefix = self._bench.run_dir.raw, f"{self._name}-{self.host.name.replace('/', '-')}"
        output, log = self.host.get(self._files.output), self.host.get(self._files.latency_log)
        raw.joinpath(f"{prefix}-fio.json").write_bytes(output)
        raw.joinpath(f"{prefix}-fio_lat.log").write_bytes(log)
        ios = fio.total_ios(fio.parse_output(output.decode(errors="replace")))
        latencies = fio.parse_latency_log(log.decode(errors="replace"))
        if len(latencies.end_ns) != sum(ios.values()):
            raise MeasurementUnknown(
                f"it reports {sum(ios.values())} I/Os but logged {len(latencies.end_ns)}"
            )
        return ios, latencies


def run_phase(bench: Bench, phase: Phase, job: FioJob) -> PhaseResult:
    """Measure one phase: the mounts' counters, the load on all clients, the counters again, analysis.

    What goes wrong with the load becomes a problem of the result. A lost host raises.
    """
    result = PhaseResult(entry=_entry(phase, job))
    before = {host.name: mountstats.read(host, bench.target) for host in bench.mounted}
    loads = [ClientLoad(bench, host, phase.name, job, phase.duration) for host in bench.clients]
    result.interrupted = drive(loads, bench.clock, phase.duration, result.entry["problems"])
    collected: dict[str, tuple[dict[str, int], fio.ClientLatencies]] = {}
    for load in loads:
        try:
            collected[load.host.name] = load.collect()
        except HostLost:
            raise
        except KitError as error:
            result.entry["problems"].append(f"fio on {load.host.name}: {error.message}")
    for host in bench.mounted:
        if host.name in collected:
            change = mountstats.read(host, bench.target).since(before[host.name])
            checks = mountstats.checks(change, collected[host.name][0], job.block_bytes, host.name)
            result.entry["checks"] += [check.as_json() for check in checks]
    _analyse(bench, phase, result, collected)
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
        "events": [],
        "extremes": [],
        "problems": [],
    }


def drive(loads: list[ClientLoad], clock: Clock, duration_ns: int, problems: list[str]) -> bool:
    """Start fio everywhere and wait for its end. Returns whether the user interrupted it."""
    interrupted = False
    try:
        for load in loads:
            load.start()
        _wait(loads, clock, duration_ns, problems)
    except KeyboardInterrupt:
        interrupted = True
        problems.append("interrupted by the user: the load was stopped early")
    for load in loads:
        problems += load.finish(interrupted)
    return interrupted


def _wait(loads: list[ClientLoad], clock: Clock, duration_ns: int, problems: list[str]) -> None:
    limit_s = _VIRTUAL_DEADLINE_S if clock.kind == "virtual" else duration_ns / 1e9 + _LATE_S
    end = time.monotonic() + limit_s
    while any(load.running() for load in loads):
        if time.monotonic() > end:
            hung = ", ".join(load.host.name for load in loads if load.running())
            problems.append(
                f"the load on {hung} did not end within {limit_s:g} s and was stopped: "
                "does the server answer?"
            )
            return
        time.sleep(_POLL_S)


def _analyse(
    bench: Bench,
    phase: Phase,
    result: PhaseResult,
    collected: Mapping[str, tuple[dict[str, int], fio.ClientLatencies]],
) -> None:
    """All clients on one time axis: that of the run's begin, which was read on each of their clocks."""
    entry, clock = result.entry, bench.clock
    moved = {
        name: replace(found, end_ns=found.end_ns - bench.origins_ns[name])
        for name, (_, found) in collected.items()
    }
    starts = [int((found.end_ns - found.latency_ns).min()) for found in moved.values() if found.end_ns.size]
    first = max(0, min(starts, default=0))
    grid = measure.Grid(0, first, clock.to_host_ns(phase.interval), clock)
    frames = []
    for name, found in moved.items():
        entry["client_ios"] += sum(collected[name][0].values())
        frames.append(measure.frame(measure.client_cells(found, grid), phase.name, "client", name))
        entry["extremes"] += measure.client_extremes(found, clock, name)
    entry["start_ns"] = clock.from_host_ns(first)
    ends = [int(np.max(found.end_ns)) for found in moved.values() if found.end_ns.size]
    last = max((grid.start_of(end) for end in ends), default=entry["start_ns"])
    entry["end_ns"] = max(last + phase.interval, entry["start_ns"])
    if frames:
        result.latency = pl.concat(frames)
