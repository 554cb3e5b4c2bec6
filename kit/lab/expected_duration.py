"""How long a run takes in the lab on this machine: a model of its cost, and a pace learned from its runs.

    ~/.local/state/hsp/pace.json  {"format": 1, "pace": 1.07}

The guest's CPU is emulated: a run takes what its instructions and its idle time cost this machine, not what
its clock shows. Costs are those of a two-core machine with nothing beside the run. A machine of another kind
takes a multiple of them, its pace. A run beside other work says nothing of it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kit.config.fio_job import FioJob, parse_fio_bytes
from kit.config.tables.capacity_table import OpenJob
from kit.config.tables.phase_table import Phase
from kit.config.testbed_devices import Device
from kit.core.errors import KitError
from kit.core.files import state_dir, write_atomically
from kit.core.units import format_factor
from kit.lab.device_time import ModelledLoad, array_pace, pace
from kit.plan.plan import Plan
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.sizes.workload_sizes import READ_TIERS, planned_tiers
from kit.zfs.datasets import record_bytes

# Boot, checks, pool, export, tracer, teardown, report.
_FIXED_S, _TRACER_S = 12.0, 4.5
# I/Os of a search for a rate, over all looks.
_SEARCHED_PER_S = 500
# Loading the aged state of a device.
_AGED_S = 1.5
# Of an I/O: fio, NFS, nfsd and ZFS, and each byte through them.
_READ_S, _WRITE_S, _BYTE_S = 1.3e-3, 2.2e-3, 15e-9
# Instructions of the guest in a second of this machine; one takes 1 ns of the guest's clock.
_INSTRUCTIONS_S = 1.5e8
# Of a second of the guest's clock in which it only waits for devices.
_IDLE_S = 0.076
# Of a power loss: writes, the loss, the import of the pool, and all records read.
_POWER_LOSS_S = 4.5
# Without pool, export and tracer.
_DEVICE_FIXED_S = 4.0
# Of a phase on devices, by the guest's own count of CPU time (cpu of the manifest): each fio; of a common
# start, python for each device, and how long all wait for it. Of 1, 2 and 7 devices: hsp run write-cache,
# addresses, stripes.
_FIO_BUSY_S, _COMMON_START_BUSY_S, _COMMON_START_IDLE_S = 0.22, 0.48, 40.0
# What such a second costs, a request to a device (the guest sleeps and wakes), and a second in which it
# waits: least squares over the 69 phases of these three runs, of whose CPU time 17 % is not explained;
# divided by this machine's pace, 1.13.
_DEVICE_INSTRUCTIONS_S, _DEVICE_REQUEST_S, _DEVICE_IDLE_S = 2.4e8, 0.3e-3, 0.017
# What that leaves over of the same phases: the commands before and after each fio. mdadm, as it makes an
# array and removes it.
_FIO_S, _ARRAY_S = 0.4, 1.0
# Of the fill and of preconditioning.
_FILLED_RECORD_S, _FILLED_BYTE_S = 1.58e-4, 0.115e-6
_AGED_IO_S, _AGED_BYTE_S = 1.0e-3, 0.02e-6
# And for each device: starts of fio, its purge, and keeping its state. Between the main job, whose two take
# 22.9 s (docs/benchmarks.md), and hsp run stripes, whose seven took 155 s.
_AGED_DEVICE_S = 8.0
# What a client waits for one I/O, in the experiment's time: of the lab's own devices.
_WAIT_NS: Mapping[str, int] = {
    "dram": 35_000,
    "l2arc": 215_000,
    "special": 215_000,
    "disk": 5_600_000,
    "slog": 190_000,
    "pool": 8_600_000,
}
_FILE = "pace.json"
# What lies outside was no whole run, or the clock was set.
_LEAST, _MOST = 0.1, 20.0
# Processes that want a CPU, beyond the number of CPUs, while the lab runs alone: its guest and its devices.
_LOAD_ALONE = 1.5
# Time in which a process waited for a CPU (pressure stall information, Linux 4.20 or later), and the share of
# a run that is too much: the lab alone has a CPU for its guest and one for the rest.
_PRESSURE = Path("/proc/pressure/cpu")
_MOST_WAITED = 0.5


def expected_s(plan: Plan, *, aged: bool) -> float | None:
    """From the lab's start to the report; None where it does not count instructions.

    `aged`: the states of the SSDs that the workload ages are stored.
    """
    if not plan.testbed.is_lab or plan.testbed.clock.kind != "virtual":
        return None
    return _modelled_s(plan, aged=aged) * (read_pace() or 1.0)


def ageing_s(plan: Plan) -> dict[str, float]:
    """By device, what ageing it anew adds to `expected_s`; none where the lab does not count instructions."""
    if not plan.testbed.is_lab or plan.testbed.clock.kind != "virtual":
        return {}
    devices = selected_devices(plan.workload.precondition, plan.testbed)
    return {device.name: (_ageing_s(plan, device) - _AGED_S) * (read_pace() or 1.0) for device in devices}


def read_pace() -> float | None:
    """Seconds that a run takes for each that the model has; None before the first run."""
    try:
        pace = json.loads((state_dir() / _FILE).read_bytes())["pace"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(pace) if isinstance(pace, (int, float)) and _LEAST <= pace <= _MOST else None


def pace_words() -> str:
    """What an expected time rests on, to stand behind it."""
    pace = read_pace()
    if pace is None:
        return " (this machine's pace is not known yet)"
    return f", from the last runs here: {format_factor(pace, 2)} what two idle cores take"


def waited_s() -> float:
    """Seconds since the machine's start in which a process waited for a CPU; NaN where no kernel says it."""
    try:
        found = re.match(r"some .*total=([0-9]{1,18})$", _PRESSURE.read_text(), re.MULTILINE)
    except OSError:
        return math.nan
    return int(found[1]) / 1e6 if found else math.nan


def _is_busy(waited_s: float, observed_s: float) -> bool:
    """Whether the machine did other work as well: during the run, in the last minute or the last five."""
    if waited_s > _MOST_WAITED * observed_s:
        return True
    return max(os.getloadavg()[:2]) > (os.cpu_count() or 1) + _LOAD_ALONE


def learn(plan: Plan, observed_s: float, waited_s: float, *, aged: bool) -> None:
    """Remember the pace of a run: the middle, on a logarithmic scale, of it and of those before.

    `waited_s`: of the run's `observed_s`, how long a process waited for a CPU; NaN: not known.
    """
    # A load on devices costs little of the guest: its model is too rough to learn from.
    if plan.workload.on_devices or expected_s(plan, aged=aged) is None:
        return
    if _is_busy(waited_s, observed_s):
        return
    pace = observed_s / _modelled_s(plan, aged=aged)
    if not _LEAST <= pace <= _MOST:
        return
    pace = math.sqrt(pace * (read_pace() or pace))
    content = json.dumps({"format": 1, "pace": round(pace, 3)}).encode()
    # Without it the next plan expects what this one did.
    with suppress(OSError, KitError):
        state_dir().mkdir(parents=True, exist_ok=True)
        write_atomically(state_dir() / _FILE, content)


def _modelled_s(plan: Plan, *, aged: bool) -> float:
    """From the lab's start to the report. `aged`: the states of its aged SSDs are stored."""
    workload, dilation = plan.workload, plan.testbed.clock.dilation
    tiers = planned_tiers(workload, plan.testbed)
    held = {name: tiers.of(name) for name in READ_TIERS} if tiers else {}
    total = _FIXED_S + _TRACER_S
    for device in selected_devices(workload.precondition, plan.testbed):
        total += _AGED_S if aged else _ageing_s(plan, device)
    if workload.on_devices:
        total += _DEVICE_FIXED_S - _FIXED_S - _TRACER_S
        return total + sum(_device_load_s(plan, phase) for phase in workload.phase)
    records = workload.file_set.size / record_bytes(workload.dataset.properties)
    total += records * _FILLED_RECORD_S + workload.file_set.size * _FILLED_BYTE_S
    if (warmup := workload.warmup) and tiers:
        total += _load_s(READ_TIERS, warmup.duration, plan.jobs[warmup.job], held, dilation)
        total += warmup.read_first * _FILLED_BYTE_S / 2
        total += (warmup.windows + 1) * warmup.window * dilation / 1e9 * _IDLE_S
    for phase in workload.phase:
        total += _load_s(phase.tiers, workload.expected_ns(phase), plan.jobs[phase.load], held, dilation)
    # And the control, and a clean power cycle.
    return total + (workload.power_loss.moments + 2 if workload.power_loss else 0) * _POWER_LOSS_S


def _ageing_s(plan: Plan, device: Device) -> float:
    settings = plan.workload.precondition
    assert settings is not None, "its devices are selected"
    ios = (1 + settings.passes) * 2 * settings.ios
    written_bytes = budget.effort(settings, device.size).min_bytes
    return _AGED_DEVICE_S + written_bytes * _AGED_BYTE_S + ios * _AGED_IO_S


def _device_load_s(plan: Plan, phase: Phase) -> float:
    """Of a phase on devices, each with its own fio, or on an array, with one."""
    job, dilation = plan.jobs[phase.load], plan.testbed.clock.dilation
    devices = [device for device in plan.testbed.device if device.name in phase.devices]
    load = ModelledLoad(job, plan.workload.host.write_cache != "off", dilation)
    if phase.array:
        paces = [array_pace(phase.array, devices[: phase.array.members], load)]
    else:
        paces = [pace(device, load) for device in devices]
    load_s = plan.workload.expected_ns(phase) / 1e9
    busy_s = sum(each.ios_per_s * each.io_ns for each in paces) * load_s / 1e9
    requests = sum(each.ios_per_s * each.requests for each in paces) * load_s
    # All share the guest's one CPU.
    busy_s = min(busy_s, load_s * dilation)
    idle_s = load_s * dilation - busy_s
    busy_s += _FIO_BUSY_S * len(paces)
    if len(paces) > 1:
        busy_s += _COMMON_START_BUSY_S * len(paces)
        idle_s += _COMMON_START_IDLE_S
    others_s = requests * _DEVICE_REQUEST_S + _FIO_S * len(paces) + (_ARRAY_S if phase.array else 0.0)
    return others_s + busy_s * 1e9 / _DEVICE_INSTRUCTIONS_S + idle_s * _DEVICE_IDLE_S


def _load_s(
    tiers: Sequence[str], duration_ns: int, job: FioJob, held: Mapping[str, int], dilation: int
) -> float:
    """A closed loop: each outstanding I/O waits for its answer, and all share the guest's one CPU."""
    reads = "read" in job.operations
    # What no phase asks for answers all the same.
    weights = {tier: float(held.get(tier, 0)) for tier in READ_TIERS} if reads else dict.fromkeys(tiers, 1.0)
    whole = sum(weights.values()) or 1.0
    wait_ns = sum(_WAIT_NS[tier] * weight / whole for tier, weight in weights.items()) or _WAIT_NS["disk"]
    cost_s = (_READ_S if reads else _WRITE_S) + (job.block_bytes or 0) * _BYTE_S
    # The guest's CPU does not answer faster than this machine emulates it.
    busy_ns = cost_s * 1e9 * _INSTRUCTIONS_S / 1e9 / dilation
    ios = duration_ns / max(wait_ns / job.outstanding, busy_ns)
    if (most := _most_iops(job)) is not None:
        ios = min(ios, most * duration_ns / 1e9)
    busy_s = ios * cost_s
    idle_s = max(0.0, duration_ns * dilation / 1e9 - busy_s * _INSTRUCTIONS_S / 1e9)
    return busy_s + idle_s * _IDLE_S


def _most_iops(job: FioJob) -> int | None:
    """I/Os a second that `rate_iops` or `thinktime` (a rest after each, us) leave to all; None without.

    Of a search for a rate the mean of its looks, about.
    """
    if isinstance(job, OpenJob):
        return job.open.rate or _SEARCHED_PER_S
    total = 0
    for section in job.sections:
        if (rest_us := section.options.get("thinktime", "")).isdecimal() and int(rest_us):
            total += section.copies * max(1, 10**6 // int(rest_us))
            continue
        rates = [parse_fio_bytes(rate or "0") for rate in section.options.get("rate_iops", "0").split(",")]
        by_op = dict(zip(("read", "write"), rates * 2 if len(rates) == 1 else rates, strict=False))
        used = [by_op.get(op, 0) for op in section.operations]
        if not all(used):
            return None
        total += section.copies * sum(used)
    return total
