"""Soaks and impacts that could not be watched or compared are refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kit.config.fio_job import FioJob
from kit.config.testbed import Testbed
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload

Problems = Iterator[tuple[KeyPath, str]]


def problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> Problems:
    """`jobs` by Phase.load."""
    for number, phase in enumerate(workload.phase):
        if phase.soak is not None:
            for name, text in _limits(workload, testbed, number):
                yield ("phase", number, "soak", name), text
    yield from _impacts(workload, jobs)


def _limits(workload: Workload, testbed: Testbed, number: int) -> Iterator[tuple[str, str]]:
    soak = workload.phase[number].soak
    assert soak is not None
    given = [
        name
        for name in ("written_max", "endurance_max", "temperature_max")
        if getattr(soak, name) is not None
    ]
    if testbed.is_appliance:
        for name in given:
            yield name, 'server.host = "none": the devices of an appliance cannot be read; remove it'
        return
    if soak.temperature_max is not None and testbed.is_lab:
        yield "temperature_max", "devices of the lab have no temperature: remove it"
    rated = [device.name for device in testbed.device if device.endurance is not None]
    if soak.endurance_max is not None and not rated:
        text = 'no device of the testbed has its rated endurance: add endurance = "300TB", or use written_max'
        yield "endurance_max", text


def _impacts(workload: Workload, jobs: Mapping[str, FioJob]) -> Problems:
    phases = {phase.name: phase for phase in workload.phase}
    for number, impact in enumerate(workload.impact):
        if not phases.keys() >= {impact.alone, impact.beside}:
            # A part of the workload: its phases on devices, or those with a pool.
            continue
        alone, beside = phases[impact.alone], phases[impact.beside]
        if alone.target != beside.target:
            yield (
                ("impact", number, "beside"),
                f'"{beside.name}" goes to {beside.target} and "{alone.name}" to {alone.target}: '
                "name two phases with one target",
            )
        for key, phase in (("alone", alone), ("beside", beside)):
            if impact.op not in jobs[phase.load].operations:
                yield (
                    ("impact", number, key),
                    f'the load of "{phase.name}" makes no {impact.op}s: name another phase, or another op',
                )
