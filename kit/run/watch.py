"""Waiting for the end of a load: its deadline, what it shows, and the space for what arrives."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kit.core.errors import HostError, KitError
from kit.core.progress import Progress
from kit.core.units import commas, format_duration_s
from kit.hosts.base import Host
from kit.instruments.base import Instrument
from kit.load.fio_windows import OPS
from kit.load.launch import PhaseLoad
from kit.load.phase_load import Worker
from kit.setup.bench import Bench
from kit.trace.nfsd_tracer import tail

# A lab's clock is another one: any machine that can run the lab at all is done with a short load by then,
# and takes no more than so many times as long as the load.
_VIRTUAL_DEADLINE_S, _VIRTUAL_SLOWNESS = 900.0, 10
# How long after its time fio may go on. One that waits for an appliance that does not answer is stopped;
# a server that can be logged into may be an emulated one, whose clock is slow.
_LATE_S, _LATE_APPLIANCE_S = 900.0, 120.0
_POLL_S = 0.1
# How often what arrives is looked at and written to the disk; a server is asked less often.
_LOOK_S, _ASK_S = 5.0, 60.0
# Of an interval of a client and of the tracer, at most; what one phase writes beside them.
_COUNTS_BYTES, TRACE_BYTES, _REST_BYTES = 16 << 10, 12 << 10, 32 << 20
# With less than this the load ends: what was measured must still be stored.
FLOOR_BYTES, FLOOR_THERE_BYTES = 64 << 20, 8 << 20


@dataclass(frozen=True)
class LoadEnd:
    """What ended a load. `early`: the problem that it is not whole; a phase that goes on loses it again."""

    by: Literal["itself", "user", "instrument", "no-room", "failed"]
    early: str = ""


def limit_s(bench: Bench, duration_ns: int) -> float:
    """How long a load may take, in seconds of this machine."""
    if bench.site.clock.kind == "virtual":
        return max(_VIRTUAL_DEADLINE_S, _VIRTUAL_SLOWNESS * bench.site.clock.to_host_ns(duration_ns) / 1e9)
    return duration_ns / 1e9 + (_LATE_S if bench.site.server else _LATE_APPLIANCE_S)


def check_room(bench: Bench, workers: Sequence[Worker], duration_ns: int, interval_ns: int) -> None:
    """Before a load that is counted: that what it will write has room. Raises HostError."""
    intervals = duration_ns // interval_ns
    traced = bench.storage is not None and bench.storage.tracing.kind == "full"
    here = intervals * (len(workers) * _COUNTS_BYTES + traced * TRACE_BYTES) + _REST_BYTES + FLOOR_BYTES
    _need("this machine", str(bench.run_dir.raw), shutil.disk_usage(bench.run_dir.raw).free, here)
    if bench.storage is not None and traced:
        needed = intervals * TRACE_BYTES + FLOOR_THERE_BYTES
        _need(
            bench.storage.server.name,
            bench.work_dir,
            free_bytes(bench.storage.server, bench.work_dir),
            needed,
        )
    for host in dict.fromkeys(worker.host for worker in workers):
        # Its last document and its job file alone: counts go through a pipe.
        there = free_bytes(host, bench.work_dir)
        _need(host.name, bench.work_dir, there, FLOOR_THERE_BYTES)


def _need(host: str, path: str, free: int | None, needed: int) -> None:
    if free is not None and free < needed:
        raise HostError(
            f"{host}: {path} has {free >> 20} MiB free; this phase may write {needed >> 20} MiB there",
            "free some space, make the interval longer or the phase shorter; here, choose another "
            "place with --results",
        )


def free_bytes(host: Host, path: str) -> int | None:
    """What an ordinary user may still write there; None if that cannot be asked. Raises HostLost."""
    result = host.run(["env", "stat", "-f", "-c", "%a %S", path], check=False)
    words = result.stdout.split()
    return int(words[0]) * int(words[1]) if len(words) == 2 and all(map(str.isdecimal, words)) else None


class _Watch:
    """What is looked at while a load is counted. `problem`: why it must end."""

    def __init__(self, bench: Bench, load: PhaseLoad, duration_ns: int, progress: Progress | None) -> None:
        self._bench, self._load, self._duration_ns, self._progress = bench, load, duration_ns, progress
        self._begun_ns: dict[Path, int] = {}
        self._next_s = time.monotonic() + _LOOK_S
        self._ask_s = time.monotonic() + _ASK_S

    def problem(self) -> str:
        """Look, if it is time to; "" if all is well."""
        if time.monotonic() < self._next_s:
            return ""
        self._next_s = time.monotonic() + _LOOK_S
        self._show()
        for path in self._load.outputs:
            with suppress(OSError), path.open("rb") as file:
                os.fsync(file.fileno())
        free = shutil.disk_usage(self._bench.run_dir.raw).free
        if free < FLOOR_BYTES:
            return self._full("this machine", str(self._bench.run_dir.raw), free, FLOOR_BYTES)
        return self._problem_there() if time.monotonic() >= self._ask_s else ""

    def _problem_there(self) -> str:
        self._ask_s = time.monotonic() + _ASK_S
        storage = self._bench.storage
        if storage is not None and storage.tracing.kind == "full":
            there = None
            with suppress(KitError):
                there = free_bytes(storage.server, self._bench.work_dir)
            if there is not None and there < FLOOR_THERE_BYTES:
                return self._full(storage.server.name, self._bench.work_dir, there, FLOOR_THERE_BYTES)
        return ""

    def _full(self, host: str, path: str, free: int, floor: int) -> str:
        return (
            f"the load was stopped early: {path} on {host} has {free >> 20} MiB free, and what is measured "
            f"needs {floor >> 20} MiB to be stored; all intervals until then are kept"
        )

    def _show(self) -> None:
        """I/Os a second of the last readings, and the time left."""
        if self._progress is None:
            return
        rate, done_ns = 0.0, 0
        for path in self._load.outputs:
            try:
                row = _last_row(path)
                begun_ns = self._begun_ns.get(path) or self._begun_ns.setdefault(path, _first_ns(path))
                ios = sum(sum(row[op]["bins"].values()) for op in OPS if op in row)
                took_ns = max(self._bench.site.clock.from_host_ns(row["to_ns"] - row["from_ns"]), 1)
                rate += ios * 1e9 / took_ns
                done_ns = max(done_ns, self._bench.site.clock.from_host_ns(row["to_ns"] - begun_ns))
            except (OSError, ValueError, KeyError, IndexError, TypeError):
                continue
        left_s = max(self._duration_ns - done_ns, 0) // 10**9
        self._progress.detail(f"{commas(rate)} I/O a second, {format_duration_s(left_s)} left")
        self._progress.update(done_ns / self._duration_ns)


def _last_row(path: Path) -> dict[str, Any]:
    """The last whole line."""
    return dict(json.loads(tail(path, 1 << 20).split(b"\n")[-2]))


def _first_ns(path: Path) -> int:
    with path.open("rb") as file:
        return int(json.loads(file.readline())["from_ns"])


def wait(
    bench: Bench,
    load: PhaseLoad,
    duration_ns: int,
    around: Sequence[Instrument],
    progress: Progress | None = None,
) -> LoadEnd:
    """Until the load ends, or must. What went wrong is a problem of the load."""
    limit = limit_s(bench, duration_ns)
    end = time.monotonic() + limit
    watch = _Watch(bench, load, duration_ns, progress) if load.outputs else None
    while load.running():
        if time.monotonic() > end:
            hosts = ", ".join(host.name for host in bench.site.hosts.values())
            load.failed = True
            load.problems.append(
                f"the load on {hosts} did not end within {limit:g} s and was stopped: does the server answer?"
            )
            return LoadEnd("failed")
        if not all(instrument.running() for instrument in around):
            return LoadEnd("failed")  # its end says so; without it the load is worth nothing
        if watch and (problem := watch.problem()):
            load.failed = True
            return LoadEnd("no-room", problem)
        if any(instrument.stop() for instrument in around):
            return LoadEnd("instrument")
        time.sleep(_POLL_S)
    return LoadEnd("itself")
