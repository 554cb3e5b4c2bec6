"""One stage of preconditioning: write, prove the written bytes, measure latencies.

The budget is checked before each stage.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kit.config.tables.precondition_table import Precondition
from kit.core.clock import Clock
from kit.core.errors import HostError, MeasurementUnknown
from kit.core.progress import Progress
from kit.core.units import format_iec
from kit.devices.block_device import BlockDevice, DeviceWrites, check_same, read_written
from kit.devices.check import Guard
from kit.hosts.base import LARGE_LIMIT_BYTES, Host, Process, stopped_on_error
from kit.hosts.clock_offset import read_clock_ns
from kit.load import block_device, fio
from kit.load.block_device import DeviceLoad
from kit.load.fio_latency_log import parse_latency_log
from kit.precondition import budget, checkpoint, latency_curve
from kit.precondition.checkpoint import INCOMPRESSIBLE, State
from kit.precondition.purge import purge
from kit.precondition.stage_loads import Stage, block_of, measured_load, probe_loads, stage_loads

# Real time: interval of polling a load, and how long its counter may stand still.
_POLL_S = 2.0
_FIRST_POLLS_S = 0.1
_STALL_S = 600.0
_MEASURE_DEADLINE_S = 3600.0
_IO_DEADLINE_S = 0.1
_STOP_DEADLINE_S = 120.0
# The counter may be slightly above the intended bytes; much more comes from another writer.
_OVER_SHARE, _OVER_BYTES = 0.01, 1 << 20
# data_units_written counts whole units and is updated only from time to time.
_SMART_SLACK_BYTES = 64 << 20


@dataclass(frozen=True)
class Target:
    """A device of the testbed. `endurance_bytes`: its rated endurance, if known."""

    name: str
    role: str
    path: str
    size_bytes: int | None = None
    endurance_bytes: int | None = None

    @property
    def tracked_op(self) -> str:
        """The op that must be steady: reads of a cache device, writes of the others."""
        return "read" if self.role == "cache" else "write"


class Stop(Exception):
    """Preconditioning stops early, with this reason, and keeps its results."""


@dataclass
class Work:
    """One device being preconditioned. `smart`: whether its SMART log is read too.

    `guard`: None for emulated devices, which no other program can use.
    """

    host: Host
    target: Target
    device: BlockDevice
    settings: Precondition
    clock: Clock
    work_dir: str
    state: State
    state_path: Path
    progress: Progress
    smart: bool
    guard: Guard | None = None

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def active_bytes(self) -> int:
        """Bytes at the beginning of the device that are written at all."""
        return self.settings.active_bytes(self.device.size_bytes)

    def check_unchanged(self) -> None:
        """Before each stage, that may come hours after the last one. Raises SafetyRefusal."""
        if self.guard:
            self.guard.before_writing([self.target.path], content=False)
        else:
            check_same(self.host, self.device)

    def argv(self, load: DeviceLoad, output: str, log: str = "", runtime_us: int = 0) -> list[str]:
        """The command of a load, on the device that was checked, whatever its name leads to now."""
        return replace(load, device=self.device.held).argv(output, log, runtime_us)

    def counter(self) -> DeviceWrites:
        """The device's write counters."""
        return read_written(self.host, self.device, self.smart)

    def now_ns(self) -> int:
        """The host's monotonic clock in experiment time."""
        return self.clock.from_host_ns(read_clock_ns(self.host))

    def account(self, before: DeviceWrites, start_ns: int) -> DeviceWrites:
        """Add the bytes and the time since `before` and `start_ns` to the state; returns the counters now."""
        now, state = self.counter(), self.state
        written_bytes = now.kernel_bytes - before.kernel_bytes
        state.counter_bytes = now.kernel_bytes
        state.written_bytes += written_bytes
        state.spent_bytes += written_bytes
        state.spent_ns += self.now_ns() - start_ns
        return now


def probe(work: Work) -> None:
    """Measure the write rates and estimate the time. Raises SafetyRefusal beyond the budget."""
    capacity, settings, state = work.device.size_bytes, work.settings, work.state
    before, start_ns = work.counter(), work.now_ns()
    with work.progress.step(f"{work.name}: measuring its write rate"):
        rates = [_rate(work, load) for load in probe_loads(work.device.path, capacity, settings)]
    sequential, random = rates[0], rates[1] if settings.rounds else None
    work.account(before, start_ns)
    state.written_bytes = 0
    needed = budget.effort(settings, capacity)
    estimate = budget.estimate(needed, sequential, random)
    budget.refuse_beyond_time(work.name, estimate, settings)
    endurance = work.target.endurance_bytes
    wear = f", {needed.max_bytes / endurance:.2%} of its rated endurance at most" if endurance else ""
    work.progress.note(
        f"{work.name}: {format_iec(needed.min_bytes)} to {format_iec(needed.max_bytes)} to write, at least "
        f"{estimate.least_ns / 1e9:.3g} s at {sequential / 1e6:.3g} MB/s{wear}"
    )
    state.estimate = {"min_bytes": needed.min_bytes, "max_bytes": needed.max_bytes, **asdict(estimate)}


def _rate(work: Work, load: DeviceLoad) -> float:
    """Run a load; returns its rate in bytes per second (experiment time)."""
    output = f"{work.work_dir}/probe.json"
    work.host.run(work.argv(load, output), deadline_s=_MEASURE_DEADLINE_S)
    moved = block_device.parse_moved(work.host.get(output).decode(errors="replace"))
    return moved.written_bytes * 1e9 / max(work.clock.from_host_ns(moved.host_ns), 1)


def do_stage(work: Work, stage: Stage) -> None:
    """Run one stage with its measurement, and save the state. Raises Stop (end of the budget), KitError."""
    work.check_unchanged()
    loads = stage_loads(stage, work.device.path, work.device.size_bytes, work.settings)
    intended = sum(load.io_bytes for load in loads)
    _check_budget(work, stage, intended + work.settings.ios * work.settings.block)
    before, start_ns = work.counter(), work.now_ns()
    with work.progress.step(f"{work.name}: {stage}{of_how_many(work, stage)}"):
        try:
            entry, points = _write_and_measure(work, stage, loads, before, start_ns)
        except Stop:
            work.account(before, start_ns)
            raise
    spent_ns = work.state.spent_ns
    end = work.account(before, start_ns)
    entry["seconds"] = round((work.state.spent_ns - spent_ns) / 1e9, 3)
    work.state.stages.append(entry)
    work.state.points += points
    work.state.save(work.state_path)
    if end.smart_warning:
        raise Stop(f"after {stage} SMART has the critical warning {end.smart_warning:#x} (nvme smart-log)")


def _write_and_measure(
    work: Work, stage: Stage, loads: list[DeviceLoad], before: DeviceWrites, start_ns: int
) -> tuple[dict[str, Any], list[latency_curve.CurvePoint]]:
    active = span = work.active_bytes
    is_purge = stage.kind == "purge"
    points = []
    if is_purge:
        with work.guard.lent(work.target.path) if work.guard else contextlib.nullcontext():
            work.state.purge = asdict(purge(work.host, work.device, work.settings.purge))
        # Writes of the empty device; the load below then writes the span that is read afterwards.
        points.append(_measure(work, stage, "write", before, active))
        span = budget.span_bytes(active)
    loaded = work.counter() if is_purge else before
    moved = [_run_load(work, load, start_ns) for load in loads]
    fio_bytes = sum(m.written_bytes for m in moved)
    entry = _proof(work, stage, sum(load.io_bytes for load in loads), fio_bytes, loaded, work.counter())
    entry["load_seconds"] = round(work.clock.from_host_ns(sum(m.host_ns for m in moved)) / 1e9, 3)
    if stage.kind == "fill":
        entry["compressed_share"] = _check_content(work, stage)
    if not is_purge:
        points.append(_measure(work, stage, "write", before, active))
    points.append(_measure(work, stage, "read", before, span))
    return entry, points


def of_how_many(work: Work, stage: Stage) -> str:
    """ " of N" for the number of stages of this kind; "" for a purge."""
    if stage.kind == "fill":
        return f" of {work.settings.passes}"
    return f" of at most {work.settings.rounds}" if stage.kind == "round" else ""


def _check_budget(work: Work, stage: Stage, stage_bytes: int) -> None:
    allowed = work.settings.budget.bytes_for(work.target.endurance_bytes)
    if allowed is not None and work.state.spent_bytes + stage_bytes > allowed:
        raise Stop(
            f"{format_iec(work.state.spent_bytes)} are written, {stage} would write "
            f"{format_iec(stage_bytes)} more; the budget allows {format_iec(allowed)}"
        )
    time_ns = work.settings.budget.time
    if time_ns is not None and work.state.spent_ns >= time_ns:
        raise Stop(f"the budget of {time_ns / 1e9:.3g} s was spent before {stage}")


def _run_load(work: Work, load: DeviceLoad, stage_start_ns: int) -> block_device.Moved:
    """Run one load to its end or to the end of the time budget; returns fio's result."""
    limit_us, time_ns = 0, work.settings.budget.time
    if time_ns is not None:
        left_ns = time_ns - work.state.spent_ns - (work.now_ns() - stage_start_ns)
        limit_us = max(work.clock.to_host_ns(left_ns) // 1000, 1)
    output = f"{work.work_dir}/load.json"
    process = work.host.start(work.argv(load, output, runtime_us=limit_us))
    with stopped_on_error(process, _STOP_DEADLINE_S):
        _wait(work, process, load.io_bytes)
        result = process.wait(_STOP_DEADLINE_S)
    if result.returncode:
        raise HostError(
            f"writing to {work.name} failed {result.describe()}",
            "look for errors of the device in the kernel log (dmesg) there",
        )
    moved = block_device.parse_moved(work.host.get(output).decode(errors="replace"))
    if moved.written_bytes < load.io_bytes and time_ns is not None:
        raise Stop(f"the budget of {time_ns / 1e9:.3g} s was spent")
    return moved


def _wait(work: Work, process: Process, io_bytes: int) -> None:
    """Wait for the end of the load. Raises HostError if the device's counter stands still."""
    start = last = read_written(work.host, work.device).kernel_bytes
    last_change_s, pause_s = time.monotonic(), _FIRST_POLLS_S
    while process.running():
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_S)
        if not process.running():
            return
        now = read_written(work.host, work.device).kernel_bytes
        work.progress.update((now - start) / max(io_bytes, 1))
        if now != last:
            last, last_change_s = now, time.monotonic()
        elif time.monotonic() - last_change_s > _STALL_S:
            raise HostError(
                f"{work.name}: nothing was written for {_STALL_S:g} s",
                "the device or its driver hangs; see dmesg",
            )


def _measure(
    work: Work, stage: Stage, op: str, before: DeviceWrites, span_bytes: int
) -> latency_curve.CurvePoint:
    """Measure reads or sync writes at random offsets in the first `span_bytes`, one at a time."""
    settings, directory = work.settings, work.work_dir
    block = block_of(settings, op)
    load = measured_load(work.device.path, op, span_bytes, settings, len(work.state.points))
    written = work.state.written_bytes + work.counter().kernel_bytes - before.kernel_bytes
    output, log = f"{directory}/measure.json", f"{directory}/measure"
    deadline_s = _MEASURE_DEADLINE_S + settings.ios * _IO_DEADLINE_S
    work.host.run(work.argv(load, output, log), deadline_s=deadline_s)
    fio.parse_output(work.host.get(output).decode(errors="replace"))
    latencies = parse_latency_log(work.host.get(f"{log}_lat.1.log", limit_bytes=LARGE_LIMIT_BYTES)).latency_ns
    if latencies.size != settings.ios:
        raise MeasurementUnknown(
            f"{work.name}, {stage}: {latencies.size} of {settings.ios} {op}s were logged"
        )
    return latency_curve.point(str(stage), op, block, written, latencies, work.clock)


def _proof(
    work: Work, stage: Stage, intended: int, fio_bytes: int, before: DeviceWrites, after: DeviceWrites
) -> dict[str, Any]:
    """Compare the intended bytes with fio's result and the device's counters; a difference is a problem."""
    source = f"/sys/block/{work.device.kernel_name}/stat"
    proven = after.kernel_bytes - before.kernel_bytes
    most = intended + int(intended * _OVER_SHARE) + _OVER_BYTES
    if not intended <= proven <= most or fio_bytes != intended:
        work.state.problems.append(
            f"{work.name}, {stage}: {intended} bytes were to be written, fio reports {fio_bytes}, and the "
            f"device's counter ({source}, sectors written) has {proven}"
        )
    entry: dict[str, Any] = {"stage": str(stage), "intended_bytes": intended, "fio_bytes": fio_bytes}
    entry |= {"proven_bytes": proven, "counter": source}
    if before.smart_bytes is not None and after.smart_bytes is not None:
        entry["smart_bytes"] = after.smart_bytes - before.smart_bytes
        if entry["smart_bytes"] + _SMART_SLACK_BYTES < intended:
            work.state.problems.append(
                f"{work.name}, {stage}: {intended} bytes were to be written, and SMART (data_units_written) "
                f"has {entry['smart_bytes']}"
            )
    return entry


def _check_content(work: Work, stage: Stage) -> float:
    share = checkpoint.compressed_share(work.host, work.device, work.active_bytes)
    if share < INCOMPRESSIBLE:
        work.state.problems.append(
            f"{work.name}, {stage}: the device's content compresses to {share:.0%}; it should not compress"
        )
    return round(share, 4)
