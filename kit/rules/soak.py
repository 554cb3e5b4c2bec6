"""Soaks and impacts that could not be watched or compared are refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kit.config.fio_job import FioJob
from kit.config.testbed import Testbed
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload

# Sides whose mean places differ by less are in turn: those of alone, beside, beside, alone differ by 0, of
# alone, beside, alone, beside by 1: of these a drift of the machine is left.
_APART = 1.0


def problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> KeyProblems:
    """`jobs` by Phase.load."""
    for number, phase in enumerate(workload.phase):
        if phase.soak is not None:
            for name, text in _limits(workload, testbed, number):
                yield ("phase", number, "soak", name), text
    yield from _impacts(workload, jobs)


def _limits(workload: Workload, testbed: Testbed, number: int) -> Iterator[tuple[str, str]]:
    soak = workload.phase[number].soak
    assert soak is not None
    if testbed.is_appliance:
        for name in soak.limits:
            yield name, 'server.host = "none": the devices of an appliance cannot be read; remove it'
        return
    if soak.temperature_max is not None and testbed.is_lab:
        yield "temperature_max", "devices of the lab have no temperature: remove it"
    rated = [device.name for device in testbed.device if device.endurance is not None]
    if soak.endurance_max is not None and not rated:
        text = 'no device of the testbed has its rated endurance: add endurance = "300TB", or use written_max'
        yield "endurance_max", text


def _impacts(workload: Workload, jobs: Mapping[str, FioJob]) -> KeyProblems:
    places = {phase.name: number for number, phase in enumerate(workload.phase)}
    for number, impact in enumerate(workload.impact):
        names = [name for side in impact.sides for name in side]
        if not places.keys() >= set(names):
            # A part of the workload: its phases on devices, or those with a pool.
            continue
        first = workload.phase[places[names[0]]]
        for key, side in zip(("alone", "beside"), impact.sides, strict=True):
            for phase in (workload.phase[places[name]] for name in side):
                if phase.target != first.target:
                    yield (
                        ("impact", number, key),
                        f'"{phase.name}" goes to {phase.target} and "{first.name}" to {first.target}: '
                        "name phases with one target",
                    )
                if impact.op not in jobs[phase.load].operations:
                    text = f"makes no {impact.op}s: name another phase, or another op"
                    yield ("impact", number, key), f'the load of "{phase.name}" {text}'
        order = sorted(names, key=places.__getitem__)
        alone, beside = (sum(map(order.index, side)) / len(side) for side in impact.sides)
        if min(map(len, impact.sides)) > 1 and abs(alone - beside) >= _APART:
            yield (
                ("impact", number, "beside"),
                "the phases of one side come earlier on average, so a drift of the machine looks like an "
                "impact: order them alone, beside, beside, alone",
            )
