"""`hsp plan`: what a run would do, before it does anything."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kit.cli.options import (
    WORKLOAD,
    JsonOption,
    LabTestbedOption,
    LengthOption,
    OnlyOption,
    QuickOption,
    SetOption,
    output,
    sweep,
)
from kit.cli.plan_sweep import files_of, kept_lines, sweep_json, sweep_lines
from kit.cli.usage import refuse_unused
from kit.config.overrides import as_set
from kit.config.tables.tree_table import MetadataJob
from kit.config.testbed_devices import DRAM_MULTIPLE
from kit.core import units
from kit.core.errors import ConfigError
from kit.core.output import emit_json, emit_text
from kit.core.table import Row, TextTable
from kit.core.terminal import terminal_width
from kit.core.text import commas, counted
from kit.core.units import format_binary_bytes, format_decimal_bytes, format_iec, format_percent
from kit.doctor.checks import OF_RUN
from kit.lab import expected_duration
from kit.plan.estimate import PlannedWrites, seconds, written
from kit.plan.names import planned_names
from kit.plan.plan import Plan
from kit.plan.steps import listed
from kit.rules import operations
from kit.session.agreement import commands
from kit.session.side import Side
from kit.sizes import device_memory
from kit.sizes.tier_sizes import ArcContent, Tiers, content
from kit.sizes.workload_sizes import READ_TIERS, planned_tiers, sizes_of, tiers_asked, tunable_bytes
from kit.zfs.datasets import record_bytes


def plan_command(
    context: typer.Context,
    workload: Annotated[str, WORKLOAD],
    testbed: LabTestbedOption = None,
    commands_: Annotated[bool, output("--commands", help="Also each command, by step and host.")] = False,
    only: OnlyOption = None,
    sets: SetOption = None,
    length: LengthOption = None,
    quick: QuickOption = False,
    build: Annotated[
        str | None, sweep("--build", metavar="NAME", help="One build of a sweep, whole.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Show exactly what `hsp run` would do: phases, devices, bytes, time, commands. Touches nothing.

    Examples:
      hsp plan top-speeds
      hsp plan top-speeds --testbed nas.toml --commands
      hsp plan candidates --build base --commands
    """
    side = Side.of(workload, testbed, (*(sets or ()), *as_set(length)))
    planned = side.sweep(only or (), quick=quick)
    refuse_unused(context, {
        "JSON": json_output,
        "a workload that sweeps nothing": planned is None,
        "a plan of a sweep": planned and not build,
    })  # fmt: skip
    if planned is None:
        _show(side.plan(), json_output, commands_)
    elif build:
        plans = {each.name: each.plan for each in planned.builds}
        if build not in plans:
            raise ConfigError(f"--build: no build '{build}'", f"there are: {', '.join(plans)}")
        _show(plans[build], json_output, commands_)
    elif json_output:
        emit_json(sweep_json(planned))
    else:
        emit_text(sweep_lines(planned))


def _show(plan: Plan, json_output: bool, whole: bool) -> None:
    """One plan. `whole`: commands are not cut."""
    listed_, bytes_, times = listed(plan, planned_names(plan)), written(plan), seconds(plan)
    aged_s, anew_s = (expected_duration.expected_s(plan, aged=aged) for aged in (True, False))
    held = planned_tiers(operations.reading(plan.workload, plan.jobs), plan.testbed)
    sizes = sizes_of(plan.workload, plan.testbed) if held else None
    arc = content(sizes) if sizes else None
    if json_output:
        devices = [
            {"name": d.name, "role": d.role, "path": d.path, "serial": d.serial, "size_bytes": d.size}
            for d in plan.testbed.device
        ]
        emit_json({
            "format": 1, "digest": plan.digest, "workload": plan.workload.name, "testbed": plan.testbed.name,
            "hosts": plan.hosts, "devices": devices, "written": [entry.__dict__ for entry in bytes_],
            "seconds": {"at_least": times[0], "if_slow": times[1], "expected": aged_s, "aged_anew": anew_s},
            "testbed_commands": commands.listed(plan), "files": files_of(plan),
            "tiers": held.__dict__ if held else None, "arc": arc.__dict__ if arc else None,
            "notes": plan.notes, "commands": listed_,
        })  # fmt: skip
        return
    notes = [f"note: {note}" for note in plan.notes]
    parts = (
        _head(plan), _phases(plan, terminal_width()), commands.words(commands.listed(plan)),
        kept_lines(plan), _devices(plan), _tiers(plan, held, arc), [*notes, ""] if notes else [],
        _written(bytes_), _loaded(plan), _time(times, aged_s, anew_s),
        _commands(listed_) if whole else [f"{counted(len(listed_), 'command')}: --commands lists them"],
    )  # fmt: skip
    for part in parts[:-1]:
        emit_text(part)
    # They are copied.
    emit_text(parts[-1], whole=True)


def _phases(plan: Plan, width: int) -> Iterator[str]:
    """A row a phase: what is loaded, how long, and until how many I/Os."""
    rows: list[Row | str] = []
    for phase in plan.workload.phase:
        job, more = plan.jobs.get(phase.load), ""
        if phase.ios:
            tiers = ", ".join(phase.tiers) or "its I/Os"
            more = f"until {commas(phase.ios)} of {tiers}, {_lasts(phase.longest)} at most"
        if isinstance(job, MetadataJob):
            more = f"until {counted(job.files, 'file')} are done, the time at most"
        if phase.force and phase.force.groups:
            size_bytes = min((d.size for d in plan.testbed.device if d.name in phase.devices), default=0)
            more = f"or {counted(phase.force.groups_on(size_bytes) or 0, 'group')}"
        if plan.workload.expected_ns(phase) > phase.duration:
            more = "each look at a rate, until the highest that keeps the limit is confirmed"
        load = ", ".join(sorted(job.operations)) if job and phase.job else phase.load_text
        block = format_binary_bytes(job.block_bytes) if job and job.block_bytes else ""
        rows.append((phase.name, load, block, _lasts(phase.duration), more))
    yield from TextTable(("phase", "load", "block", "lasts", ""), rows, (2, 3)).lines(width)
    yield ""


def _lasts(duration_ns: int) -> str:
    return units.format_duration_s(duration_ns / 1e9)


def _head(plan: Plan) -> list[str]:
    title = f"plan {plan.digest[:16]}: {plan.workload.title}, on the testbed {plan.testbed.name}"
    hosts = (f"  {key:9} {host}" for key, host in plan.hosts.items())
    return [title, "", *hosts, "", f"read there first, and stored with the run: {OF_RUN}", ""]


def _devices(plan: Plan) -> list[str]:
    real = [device for device in plan.testbed.device if device.is_real]
    if not real:
        return []
    lines = [
        f"  {d.name:9} {d.role:6} serial {d.serial}, {format_decimal_bytes(d.size)}, {d.path}" for d in real
    ]
    flags = " ".join(f"--erase-serial {shlex.quote(device.serial or '')}" for device in real)
    return ["everything on these devices will be erased:", *lines, f"  confirm with {flags}", ""]


def _tiers(plan: Plan, held: Tiers | None, arc: ArcContent | None) -> list[str]:
    """What each tier holds after the warm-up; a block that is in a faster tier as well counts there."""
    if held is None or arc is None:
        return []
    workload = plan.workload
    size = workload.file_set.size
    largest = format_iec(tunable_bytes(workload, "zfs_arc_max"))
    sizes = [f"working set {format_iec(size)}", f"zfs_arc_max {largest}"]
    if plan.testbed.devices("cache"):
        used = [min(d.size, workload.pool.cache_size or d.size) for d in plan.testbed.devices("cache")]
        sizes += [f"cache {' + '.join(map(format_iec, used))}"]
    record = format_binary_bytes(record_bytes(workload.dataset.properties))
    lines = [f"of the working set, in records of {record}, will answer ({', '.join(sizes)}):"]
    shown = [tier for tier in READ_TIERS if tier != "special" or plan.testbed.devices("special")]
    lines += [
        f"  {tier:7} {format_iec(held.of(tier)):>10}  {format_percent(held.of(tier) / size):>5}"
        for tier in shown
    ]
    parts = {
        "data": arc.data,
        "metadata": arc.metadata,
        "headers": arc.hdr,
        "headers of the L2ARC": arc.l2_hdr,
    }
    listed = ", ".join(f"{name} {format_iec(size)}" for name, size in parts.items())
    lines += [f"  the ARC then has: {listed}"]
    if not plan.testbed.is_lab:
        lines += [f"  the server needs more than {largest} of memory"]
    if tiers_asked(workload) - {"dram"} and (dram := device_memory.reason(plan.testbed)):
        several = f"{DRAM_MULTIPLE} times as much of the set should be on a device, where it has room"
        lines += [f"  DRAM of the devices, which answers reads as well: {dram}; {several}"]
    return [*lines, ""]


def _written(bytes_: list[PlannedWrites]) -> list[str]:
    if not bytes_:
        return ["nothing is written before the measurement", ""]
    lines = ["written before anything is measured:"]
    for entry in bytes_:
        least, most = format_decimal_bytes(entry.min_bytes), format_decimal_bytes(entry.max_bytes)
        amount = least if least == most else f"{least} to {most}"
        lines.append(f"  {entry.device:14} {amount} ({entry.text})")
    return [*lines, ""]


def _loaded(plan: Plan) -> list[str]:
    """How much, or how long, the phases write to each bare device: at what rate, they find out."""
    sizes = {device.name: device.size for device in plan.testbed.device}
    written_ns, written_bytes = Counter[str](), Counter[str]()
    for phase in plan.workload.phase:
        job = plan.jobs[phase.load]
        for name in phase.devices if "write" in job.operations else ():
            if phase.force and (groups := phase.force.groups_on(sizes[name])):
                written_bytes[name] += groups * (job.block_bytes or 0)
            else:
                written_ns[name] += phase.duration
    lines = [f"  {name:14} for {_lasts(time_ns)}" for name, time_ns in written_ns.items()]
    lines += [f"  {name:14} {format_decimal_bytes(n)} at most" for name, n in written_bytes.items()]
    if not lines:
        return []
    return ["the phases write to the bare devices, as fast as these take it:", *lines, ""]


def _time(times: tuple[float, float], aged_s: float | None, anew_s: float | None) -> list[str]:
    """What the run takes: in the lab on this machine, else without starting and stopping."""
    if aged_s is None or anew_s is None:
        fast, slow = map(units.format_duration_s, times)
        rates = f"{fast} if devices take 1 GB/s, {slow} if they take 100 MB/s"
        return [f"time, without starting and stopping: {rates} (a run measures their speed first)", ""]
    anew = f" ({units.format_duration_s(anew_s)} if its SSDs are aged anew)" if anew_s > aged_s else ""
    about = f"{units.format_duration_s(aged_s)}{anew}{expected_duration.pace_words()}"
    return [f"time on this machine: about {about}", ""]


def _commands(commands: list[dict[str, Any]]) -> list[str]:
    """The commands by step."""
    lines = ["commands, in their order (RUN: the id of the run, ID: its last part, FSID: made of the path):"]
    step = ""
    for command in commands:
        if command["step"] != step:
            step = command["step"]
            lines.append(f"  {step}")
        lines.append(f"    {command['host']}: {_line(command['argv'], command['input'])}")
    number = counted(len(commands), "command")
    return [*lines, "", f"{number}; `hsp run` writes what it ran into raw/commands.jsonl of the run"]


def _line(argv: list[str], given: str | None) -> str:
    """A command as a line of a shell, with what it reads."""
    if given and argv[0] == "tee" and len(argv) == 2 and "\n" not in given.strip():
        return f"echo {shlex.quote(given.strip())} > {shlex.quote(argv[1])}"
    return shlex.join(argv) + (f"    # its input: {given}" if given else "")
