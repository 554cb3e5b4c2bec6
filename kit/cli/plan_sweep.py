"""`hsp plan` of a workload that sweeps: cells, builds, bytes, endurance and time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.core.text import counted
from kit.core.units import format_decimal_bytes
from kit.lab import run_time
from kit.plan.estimate import filled, preconditioned, seconds, written
from kit.plan.plan import Plan
from kit.plan.sweep import Build, SweepPlan
from kit.plan.sweep_build import name_of
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.session.agreement import commands


def sweep_json(planned: SweepPlan) -> dict[str, Any]:
    """The plan for programs (docs/formats.md)."""
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
                "seconds": expected_s(build.plan),
            }
            for build in planned.builds
        ],
        "testbed_commands": commands.of_all(each.plan for each in planned.builds),
        "files": files_of(planned.builds[0].plan),
        "skipped": [
            {"name": name_of(each.at), "phase": each.phase, "reason": each.reason} for each in planned.skipped
        ],
        "endurance": endurance_shares(planned),
        "seconds": sum(expected_s(build.plan) for build in planned.builds),
        "aged_anew_seconds": sum(expected_s(build.plan) for build in planned.builds) + _ageing_s(planned),
        "quick": planned.quick,
        "only": planned.only,
    }


def sweep_lines(planned: SweepPlan) -> Iterator[str]:
    """The plan for people."""
    first = planned.builds[0].plan
    kind = " (quick: the cells that the workload declares for it)" if planned.quick else ""
    title = planned.sweep.source.document.get("title", first.workload.name)
    yield f"sweep {planned.digest[:16]}: {title}, on the testbed {first.testbed.name}{kind}"
    yield ""
    for name, axis in planned.sweep.axes.items():
        phases = f", in {', '.join(axis.phases)}" if axis.phases else ""
        needs = {"phase": "a phase a value", "build": "a pool a value", "nothing": "phases of the workload"}
        yield f"  {name}: {', '.join(axis.keys)} = {', '.join(axis.values)} ({needs[axis.kind]}{phases})"
    yield ""
    measured, cells = counted(len(planned.cells), "measurement"), counted(_cell_count(planned), "cell")
    yield f"{measured} of {cells}, {counted(len(planned.builds), 'build')}:"
    for build in planned.builds:
        yield f"  {build.name}: {_seconds(expected_s(build.plan))}"
        for name in _of_no_cell(build):
            yield f"    {name:41} no cell, measured once"
        for cell in build.cells:
            again = " (once more: has anything drifted?)" if cell.again else ""
            yield f"    {cell.in_run:41} {cell.name}{again}"
    for skipped in planned.skipped:
        yield f"  skipped: {skipped.phase} {name_of(skipped.at)}: {skipped.reason}"
    yield ""
    yield from commands.words(commands.of_all(each.plan for each in planned.builds))
    yield from kept_lines(first)
    sizes = written_bytes(planned)
    if sizes:
        yield "written before anything is measured, by all builds:"
    for device, size_bytes in sizes.items():
        share = endurance_shares(planned).get(device)
        rated = f", {share:.3%} of its rated endurance" if share is not None else ""
        yield f"  {device:14} {format_decimal_bytes(size_bytes)}{rated}"
    if sizes:
        yield ""
    total_s = sum(expected_s(build.plan) for build in planned.builds)
    pace = run_time.pace_words() if first.testbed.is_lab else ""
    where = "on this machine" if first.testbed.is_lab else "without starting and stopping"
    ageing_s = _ageing_s(planned)
    anew = f"; {_seconds(total_s + ageing_s)} if its SSDs are aged anew" if ageing_s else ""
    yield f"time {where}: about {_seconds(total_s)}{anew}{pace}"
    yield "`hsp plan WORKLOAD --build NAME` shows the commands of one of them"


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


def _cell_count(planned: SweepPlan) -> int:
    return len({(cell.name, cell.phase) for cell in planned.cells})


def expected_s(plan: Plan) -> float:
    """What a build takes; its SSDs are aged already."""
    expected = run_time.expected_s(plan, aged=True)
    return seconds(plan)[0] if expected is None else expected


def _ageing_s(planned: SweepPlan) -> float:
    """What ageing the lab's SSDs adds, each of them once."""
    of_devices: dict[str, float] = {}
    for build in planned.builds:
        of_devices |= run_time.ageing_s(build.plan)
    return sum(of_devices.values())


def written_bytes(planned: SweepPlan) -> dict[str, int]:
    """By device or role: the fills of all builds; each device is preconditioned once."""
    total: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for build in planned.builds:
        new = [entry for entry in preconditioned(build.plan) if (entry.device, entry.text) not in seen]
        seen |= {(entry.device, entry.text) for entry in new}
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


def _seconds(duration_s: float) -> str:
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
