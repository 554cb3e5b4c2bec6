"""Lines of latency: at the NFS server, and of aged devices alone. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import stdev

import numpy as np

from kit.core.sample_size import sample_needed
from kit.core.text import counted
from kit.core.units import commas, format_binary_bytes, format_factor, format_latency, format_percent
from kit.store.printed.slog import BLOCK, FLUSHED
from kit.store.sheet import SheetLine, SheetValue
from reports.sheet.evidence import ENOUGH_RUNS, OPS, PERCENTILES, ServedLatency
from reports.sheet.facts import APART, NOT_KNOWN, DriveFacts, at_most, line, spread, unknown
from reports.statistics import proportion
from reports.statistics.quantiles import QUANTILES, figures_us
from reports.statistics.student import t_critical
from reports.statistics.worst_of import stripe_times

Line = tuple[SheetLine, SheetValue]
SHOWN = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
CLIENTS, ALONE = "What clients see, at the NFS server", "The drive alone"
_WHAT = {"log": "Synchronous write", "cache": "L2ARC read"}
_ANSWERED = {
    "log": "Synchronous writes that the log device answers",
    "cache": "Reads that the L2ARC answers",
}
_ALONE = {"log": "Log device, synchronous write", "cache": "L2ARC device, read"}
_INSIDE = "the limit is in this range"
_NEAR = f"of fewer than {ENOUGH_RUNS} runs, a limit within {format_percent(APART)} of it is not judged"
LIMITED = (("log", "sync_write_p99_us"), ("cache", "read_p99_us"))


def client_lines(facts: DriveFacts) -> Iterator[Line]:
    """Percentiles at the NFS server, and the share of I/Os that the candidate answers."""
    for role, key in LIMITED:
        limit = getattr(facts.need, key)
        for name in PERCENTILES:
            asked = limit if name == "p99" else None
            need = f"at most {format_latency(asked)}" if asked else ""
            label = f"{_WHAT[role]}, {SHOWN[name]}"
            yield line(CLIENTS, f"{OPS[role]}_{name}", label, need), _at_server(facts, role, name, asked)
        least = facts.need.reads_answered_min if role == "cache" else None
        need = f"at least {format_percent(least)}" if least else ""
        asked_for = line(CLIENTS, f"{OPS[role]}s_answered", _ANSWERED[role], need)
        yield asked_for, _share(facts.served[role], least)


def _at_server(facts: DriveFacts, role: str, name: str, limit: float | None) -> SheetValue:
    found = facts.served[role]
    if found is None:
        # What the drive alone takes, clients take too.
        met = _unless_longer(us_alone(facts, role, name), limit)
        why = f"no run has such a {OPS[role]} at the NFS server"
        why += "; the drive alone takes longer" if met is False else ""
        return SheetValue(text=NOT_KNOWN, met=met, note=why)
    us, known = found.us(name), found.range_us(name)
    if us is None:
        few = f"{SHOWN[name]} needs {commas(sample_needed(QUANTILES[name]))} in each run"
        return unknown(f"{found.phase}: {commas(found.count)} I/Os, {few}")
    met = None if found.doubt else at_most(us, known, limit, found.runs)
    note = _basis(found)
    if exact := spread(known, found.runs):
        note += f", {exact}"
    if found.doubt:
        note += f"; {found.doubt}"
    elif limit is not None and met is None:
        note += f"; {_NEAR if found.runs < ENOUGH_RUNS else _INSIDE}"
    if found.fresh:
        note += "; a drive was not aged: aged ones are slower"
        met = None if met else met
    if found.cpu_bound:
        note += "; a CPU may have been the limit"
        if met is False:
            # The drive breaks the limit only if it does so alone.
            device = facts.alone[role]
            met = _unless_longer(device.point.us[SHOWN[name]] if device else None, limit)
    return SheetValue(text=format_latency(us), value=us, range=known, met=met, note=note)


def _unless_longer(us_alone: float | None, limit: float | None) -> bool | None:
    """False if the drive alone takes longer than the limit; else None: clients may wait for more than it."""
    return False if us_alone is not None and at_most(us_alone, None, limit, 1) is False else None


def _share(found: ServedLatency | None, least: float | None) -> SheetValue:
    if found is None:
        return unknown("no run has any")
    whole = round(found.count / found.share) if found.share else found.count
    within = proportion.interval(found.count, max(found.count, whole))
    if found.runs >= ENOUGH_RUNS:
        # By what the runs differ in, never less than their I/Os leave open.
        reach = t_critical(0.05, found.runs - 1) * stdev(found.shares) / math.sqrt(found.runs)
        within = min(within[0], found.share - reach), max(within[1], found.share + reach)
    met = None
    if least is not None and not found.doubt:
        # The part that others answer must be small enough.
        others = (1 - within[1], 1 - within[0])
        met = at_most(1 - found.share, others, 1 - least, found.runs)
    return SheetValue(text=format_percent(found.share, 1), value=found.share, met=met, note=_basis(found))


def alone_lines(facts: DriveFacts) -> Iterator[Line]:
    """Percentiles after the last stage of preconditioning, and the slowest of several drives."""
    for role, label in _ALONE.items():
        for name in PERCENTILES:
            key = f"alone_{OPS[role]}_{name}"
            yield line(ALONE, key, f"{label}, {SHOWN[name]}"), _alone(facts, role, name)
    number = facts.need.drives
    label = f"Slowest of {number} log devices that each write has to wait for"
    yield line(ALONE, "slowest_of", label), _slowest(facts, number)


def _alone(facts: DriveFacts, role: str, name: str) -> SheetValue:
    found = facts.alone[role]
    if found is None:
        return _of_slog(facts, name) if role == "log" else unknown("no run preconditioned the device")
    point = found.point
    us = point.us[SHOWN[name]]
    note = (
        f"{point.device}: {commas(point.ios)} {point.op}s of {format_binary_bytes(point.block_bytes)} after "
        f"{point.stage}, {format_factor(point.written, 2)} its capacity written"
    )
    if us is None:
        return unknown(f"{note}: too few for {SHOWN[name]}")
    return SheetValue(text=format_latency(us), value=us, note=note)


def _of_slog(facts: DriveFacts, name: str) -> SheetValue:
    """Of `hsp slog`, rather of an aged device: writes of 4 KiB with FLUSH."""
    for test in sorted(facts.source.slog, key=lambda each: each.state.kind != "aged"):
        for forces in test.by_size(FLUSHED):
            found = forces.group
            us = figures_us(found.edges, (found.min_ns, found.max_ns))[f"{name}_us"]
            if forces.record_bytes == BLOCK and us is not None:
                state = test.state.kind if test.state.kind != "as-found" else "as found, not aged"
                note = f"hsp slog: 4 KiB, write and FLUSH, {state}"
                return SheetValue(text=format_latency(us), value=us, note=note)
    return unknown("no run preconditioned the device")


def us_alone(facts: DriveFacts, role: str, name: str) -> float | None:
    """Of the drive alone: aged by a run, else by `hsp slog`."""
    return _alone(facts, role, name).value


def _slowest(facts: DriveFacts, number: int) -> SheetValue:
    found = facts.alone["log"]
    if found is None or not found.mean_us:
        return unknown("no run preconditioned the device")
    times = stripe_times([found.latencies_us], number, 1)
    us, point = float(np.mean(times)), found.point
    return SheetValue(
        text=f"{format_latency(us)} on average, {format_factor(us / found.mean_us)} one alone",
        value=us,
        note=f"drawn from {commas(point.ios)} writes of {point.device} alone, each drive by itself",
    )


def _basis(found: ServedLatency) -> str:
    return f"{found.phase}: {commas(found.count)} I/Os in {counted(found.runs, 'run')}"
