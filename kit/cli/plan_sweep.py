"""`hsp plan` of a workload that sweeps: cells, builds, bytes, endurance and time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from kit.core.text import counted
from kit.core.units import format_decimal_bytes, format_duration_s, format_percent
from kit.lab import expected_duration
from kit.plan.estimate import RATES_BYTES, PlannedWrites, filled, preconditioned, seconds, written
from kit.plan.plan import Plan
from kit.plan.sweep.builds import Build, SweepPlan
from kit.plan.sweep.draft import name_of
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.session.agreement import commands


def sweep_json(planned: SweepPlan) -> dict[str, Any]:
    """The plan for programs (docs/formats/output.md)."""
    return {
        "format": 1,
        "digest": planned.digest,
        "workload": planned.builds[0].plan.workload.name,
        "testbed": planned.builds[0].plan.testbed.name,
        "axes": {
            name: {"keys": axis.keys, "kind": axis.kind, "values": list(axis.values), "phases": axis.phases}
            for name, axis in planned.sweep.axes.items()
        },
        "builds": [
            {
                "name": build.name,
                "digest": build.plan.digest,
                "of_no_cell": _of_no_cell(build),
                "cells": [
                    {"name": cell.name, "phase": cell.phase, "in_run": cell.in_run, "again": cell.again}
                    for cell in build.cells
                ],
                "written": [entry.__dict__ for entry in written(build.plan)],
                "seconds": least_s,
            }
            for build, (least_s, _) in zip(planned.builds, build_seconds(planned), strict=True)
        ],
        "testbed_commands": commands.of_all(each.plan for each in planned.builds),
        "files": files_of(planned.builds[0].plan),
        "skipped": [
            {"name": name_of(each.at), "phase": each.phase, "reason": each.reason} for each in planned.skipped
        ],
        "endurance": endurance_shares(planned),
        "seconds": total_seconds(planned)[0],
        "seconds_if_slow": total_seconds(planned)[1],
        "aged_anew_seconds": total_seconds(planned)[0] + _ageing_s(planned),
        "quick": planned.quick,
        "only": planned.only,
    }


def sweep_lines(planned: SweepPlan) -> Iterator[str]:
    """The plan for people."""
    first = planned.builds[0].plan
    kind = " (quick: the cells that the workload declares for it)" if planned.quick else ""
    title = planned.sweep.source.document.get("title", first.workload.name)
    yield f"sweep {planned.digest[:16]}: {title}, on the testbed {first.testbed.name}{kind}"
    yield from effort_lines(planned)
    yield ""
    for name, axis in planned.sweep.axes.items():
        phases = f", in {', '.join(axis.phases)}" if axis.phases else ""
        needs = {
            "phase": "a phase for each value", "build": "a new pool for each value",
            "nothing": "phases of the workload",
        }  # fmt: skip
        yield f"  {name}: {', '.join(axis.keys)} = {', '.join(axis.values)} ({needs[axis.kind]}{phases})"
    yield ""
    cells = {(cell.name, cell.phase) for cell in planned.cells}
    measured = f"{counted(len(planned.cells), 'measurement')} of {counted(len(cells), 'cell')}"
    yield f"{measured}, {counted(len(planned.builds), 'build')}:"
    width = max((len(cell.in_run) for cell in planned.cells), default=0)
    for build, times_s in zip(planned.builds, build_seconds(planned), strict=True):
        yield f"  {build.name}: {duration_text(*times_s)}"
        for name in _of_no_cell(build):
            yield f"    {name:{width}} no cell, measured once"
        for cell in build.cells:
            again = " (once more: has anything drifted?)" if cell.again else ""
            yield f"    {cell.in_run:{width}} {cell.name}{again}"
    for skipped in planned.skipped:
        yield f"  skipped: {skipped.phase} {name_of(skipped.at)}: {skipped.reason}"
    yield ""
    yield from commands.words(commands.of_all(each.plan for each in planned.builds))
    yield from kept_lines(first)
    yield f"`--build {shlex.quote(planned.builds[0].name)} --commands` shows the commands of one of them"


def effort_lines(planned: SweepPlan) -> Iterator[str]:
    """What it costs: the time, and the bytes that are written to each device before anything is measured."""
    is_lab = planned.builds[0].plan.testbed.is_lab
    times_s = total_seconds(planned)
    where = "on this machine" if is_lab else "without starting and stopping"
    ageing_s = _ageing_s(planned)
    why = expected_duration.pace_words() if is_lab else ""
    if times_s[1] > times_s[0]:
        why = f", as fast as devices are written (1 GB/s to 100 MB/s){why}"
    anew = f"; {duration_text(times_s[0] + ageing_s)} if its SSDs are aged anew" if ageing_s else ""
    yield f"time {where}: about {duration_text(*times_s)}{anew}{why}"
    sizes, shares = written_bytes(planned), endurance_shares(planned)
    if sizes:
        total = format_decimal_bytes(sum(sizes.values()))
        yield f"{total} are written before anything is measured, by all builds:"
    width = max(map(len, sizes), default=0)
    for device, size_bytes in sizes.items():
        rated = f", {_part(shares[device])} of its rated endurance" if device in shares else ""
        yield f"  {device:{width}} {format_decimal_bytes(size_bytes)}{rated}"


def _part(share: float) -> str:
    return format_percent(share, 3) if share >= 1e-5 else "less than 0.001 %"


def files_of(plan: Plan) -> list[dict[str, str]]:
    """Files of this machine that devices of the lab are read from, or kept in."""
    return [
        {"device": device.name, "key": key, "path": path}
        for device in plan.testbed.device
        for key in ("file", "keep")
        if (path := getattr(device, key))
    ]


def kept_lines(plan: Plan) -> list[str]:
    words = {"file": "its model is read from", "keep": "its content is read from and written to"}
    lines = [f"  {each['device']:9} {words[each['key']]} {each['path']}" for each in files_of(plan)]
    return ["files of this machine:", *lines, ""] if lines else []


def _of_no_cell(build: Build) -> list[str]:
    """Phases that are no cells: those of `also`, one for each device where they take these in turn."""
    cells = {cell.in_run for cell in build.cells}
    return [phase.name for phase in build.plan.workload.phase if phase.name not in cells]


def total_seconds(planned: SweepPlan) -> tuple[float, float]:
    """What all builds take, at most and at least as fast as estimate.RATES_BYTES."""
    least_s, most_s = zip(*build_seconds(planned), strict=True)
    return sum(least_s), sum(most_s)


def build_seconds(planned: SweepPlan) -> Iterator[tuple[float, float]]:
    """What each build takes; the lab's SSDs are aged already, others by the first build that has them."""
    for build, new in _preconditioned(planned):
        expected = expected_duration.expected_s(build.plan, aged=True)
        if expected is not None:
            yield expected, expected
            continue
        done = sum(entry.min_bytes for entry in preconditioned(build.plan) if entry not in new)
        fast_s, slow_s = seconds(build.plan)
        yield fast_s - done / max(RATES_BYTES), slow_s - done / min(RATES_BYTES)


def _preconditioned(planned: SweepPlan) -> Iterator[tuple[Build, list[PlannedWrites]]]:
    """Each build with what it preconditions: each device once in a sweep, in each way."""
    seen: list[PlannedWrites] = []
    for build in planned.builds:
        new = [entry for entry in preconditioned(build.plan) if entry not in seen]
        seen += new
        yield build, new


def _ageing_s(planned: SweepPlan) -> float:
    """What ageing the lab's SSDs adds, each of them once."""
    of_devices: dict[str, float] = {}
    for build in planned.builds:
        of_devices |= expected_duration.ageing_s(build.plan)
    return sum(of_devices.values())


def written_bytes(planned: SweepPlan) -> dict[str, int]:
    """By device or role: the fills of all builds; each device is preconditioned once."""
    total: dict[str, int] = {}
    for build, new in _preconditioned(planned):
        for entry in (*new, *filled(build.plan)):
            total[entry.device] = total.get(entry.device, 0) + entry.min_bytes
    return total


def endurance_shares(planned: SweepPlan) -> dict[str, float]:
    """Of each device that is preconditioned and whose endurance is known: the part that this takes."""
    plans = [build.plan for build in planned.builds]
    return {
        device.name: budget.effort(settings, device.size).min_bytes / device.endurance
        for plan in plans
        if (settings := plan.workload.precondition) is not None
        for device in selected_devices(settings, plan.testbed)
        if device.endurance
    }


def duration_text(least_s: float, most_s: float = 0.0) -> str:
    """A duration, or the two ends of a range."""
    text = format_duration_s(round(least_s))
    return f"{text} to {duration_text(most_s)}" if round(most_s) > round(least_s) else text
