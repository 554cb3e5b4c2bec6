"""Phases on bare devices: what cannot be, and the phases that a run measures, one for each device. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kit.config.fio_job import FioJob
from kit.config.tables.expectation import Expectation
from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.toml import Place, nearest, placed_refusal
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.precondition import selection
from kit.rules import (
    array_phases,
    expectations,
    fio_options,
    force,
    measurable,
    operations,
    power,
    settings,
)


def used(workload: Workload, testbed: Testbed) -> Testbed:
    """The testbed of a run: the devices that a phase goes to, and no client, as fio runs on the server."""
    names = {device.name for phase in workload.phase for device in testbed.devices_of(phase)}
    devices = tuple(device for device in testbed.device if device.name in names)
    return testbed.model_copy(update={"device": devices, "client": ()})


def check(workload: Workload, source: WorkloadSource, testbed: Testbed, jobs: Mapping[str, FioJob]) -> None:
    """`testbed`: see `used`; `jobs` by Phase.load. Raises ConfigError with file and line, SafetyRefusal."""
    keys = [*_phase_problems(workload, testbed), *_expectation_problems(workload)]
    if not keys:
        keys = [
            *measurable.log_problems(workload, testbed.clock),
            *selection.problems(workload.precondition, testbed),
            *settings.problems(workload, testbed),
            *expectations.problems(workload, jobs),
            *force.problems(workload, testbed),
            *power.problems(workload, testbed),
        ]
    if keys:
        raise placed_refusal(source.placed(keys))
    expectations.check_limits(workload, source)
    problems: list[tuple[Place, str]] = []
    for name, job in sorted(jobs.items()):
        sizes = [size for phase in workload.phase if phase.load == name for size in _sizes_of(phase, testbed)]
        problems += fio_options.problems(job, min(sizes), "the size of the device")
        problems += fio_options.device_problems(job, min(sizes))
        problems += measurable.size_problems(job)
        problems += operations.size_problems(job)
    if problems:
        raise placed_refusal(list(dict.fromkeys(problems)))
    selection.check_budget(workload.precondition, testbed, source.place_of(("precondition", "budget")))


def _sizes_of(phase: Phase, testbed: Testbed) -> list[int]:
    """Bytes of what its fio go to."""
    sizes = [device.size for device in testbed.devices_of(phase)]
    return [array_phases.bytes_of(phase.array, sizes)] if phase.array else sizes


def _phase_problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    for number, phase in enumerate(workload.phase):
        if testbed.is_appliance:
            yield (
                ("phase", number, "target"),
                f"\"{phase.target}\": the server of the testbed '{testbed.name}' is an appliance "
                '(host = "none"), so nothing can run on its devices',
            )
            continue
        of_role = [device for device in testbed.device if device.role == phase.role]
        names = [device.name for device in of_role]
        if not names and not phase.devices:
            yield (
                ("phase", number, "target"),
                f"the testbed '{testbed.name}' has no {phase.role} device: add one to it, or choose "
                "another role",
            )
        for name in phase.devices:
            if name not in names:
                yield (
                    ("phase", number, "devices"),
                    f"the testbed '{testbed.name}' has no {phase.role} device '{name}', "
                    f"{nearest(name, names, 'it has')}",
                )
        if phase.array and names and set(phase.devices) <= set(names):
            devices = [each for each in of_role if not phase.devices or each.name in phase.devices]
            for key, text in array_phases.problems(phase, devices, testbed):
                yield ("phase", number, *key), text
        if phase.each == "together" and phase.log == "every-io" and len(testbed.devices_of(phase)) > 1:
            yield (
                ("phase", number, "log"),
                '"every-io" with several devices together: write log = "histograms", or each = "in turn"',
            )


def _expectation_problems(workload: Workload) -> KeyProblems:
    for number, expectation in enumerate(workload.expect):
        if expectation.layer != "device":
            yield (
                ("expect", number, "layer"),
                f'phase \'{expectation.phase}\' goes to devices: write layer = "device" and tier = "all"',
            )


def expanded(
    workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]
) -> tuple[Workload, dict[str, FioJob]]:
    """With a phase for each device of those that take them in turn, and its expectations for each.

    Each phase names its devices. With the jobs of the phases, by Phase.load.
    """
    loads: dict[str, FioJob] = {}
    phases: list[Phase] = []
    names: dict[str, list[str]] = {}
    for phase in workload.phase:
        devices = tuple(device.name for device in testbed.devices_of(phase))
        if phase.each == "together" or phase.array or len(devices) == 1:
            made = [phase.model_copy(update={"devices": devices})]
        else:
            made = [_of_one(phase, name) for name in devices]
        names[phase.name] = [each.name for each in made]
        phases += made
        loads |= {each.load: jobs[phase.load] for each in made}
    expect = tuple(
        _expected(expectation, name, names)
        for expectation in workload.expect
        for name in names[expectation.phase]
    )
    return workload.model_copy(update={"phase": tuple(phases), "expect": expect}), loads


def _of_one(phase: Phase, device: str) -> Phase:
    update = {"name": f"{phase.name}-{device}", "title": f"{phase.title}: {device}", "devices": (device,)}
    return phase.model_copy(update=update)


def _expected(expectation: Expectation, name: str, names: Mapping[str, list[str]]) -> Expectation:
    """Of one device; a ratio is to the same device in the other phase, where that has it alone."""
    update: dict[str, object] = {"phase": name}
    to = expectation.ratio_to
    if to is not None and to.phase is not None:
        device = name.removeprefix(f"{expectation.phase}-")
        of_device = f"{to.phase}-{device}"
        known = names[to.phase]
        update["ratio_to"] = to.model_copy(update={"phase": of_device if of_device in known else known[0]})
    return expectation.model_copy(update=update)


def counted_together(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` where the I/Os of several devices together are counted, if it leaves that to the plan."""
    return workload.with_phases(
        phase.model_copy(update={"log": "histograms"})
        if phase.log == "auto" and phase.each == "together" and len(testbed.devices_of(phase)) > 1
        else phase
        for phase in workload.phase
    )
