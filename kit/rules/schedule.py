"""Faults and events at set times of a phase that cannot be made, or cannot be judged, are refused. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import get_args

from kit.config.tables.fault_table import (
    ALL,
    AWAY,
    EMULATED,
    OF_A_DEVICE,
    ExpectedEvent,
    Fault,
    Scheduled,
    during,
)
from kit.config.tables.phase_table import Phase
from kit.config.tables.precondition_table import Role
from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.config.toml import nearest
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.core.units import format_duration_ns
from kit.zfs.layout import SPECIAL_ROLES

_ROLES = get_args(Role)
# Whose content is nowhere else.
_HOLDING = ("data", *SPECIAL_ROLES)
# Devices of one vdev that may be away without a loss.
_SPARE = {"stripe": 0, "raidz1": 1, "raidz2": 2, "raidz3": 3}
# A band needs so many intervals before the first fault (reports.features.faults.judge).
LEAST_BEFORE = 30


def device_of(word: str, testbed: Testbed, *, first: bool = False) -> Device | None:
    """The device of that name, or the only one of that role; with `first` the first one of the role."""
    by_role = [each for each in testbed.device if each.role == word]
    if word in _ROLES and (len(by_role) == 1 or (first and by_role)):
        return by_role[0]
    return next((each for each in testbed.device if each.name == word), None)


def problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    """`testbed`: with the devices that the run uses."""
    for table, number, each in workload.scheduled:
        found = [*_of_phase(each, workload.phase_of(each))]
        if isinstance(each, Fault):
            found += _of_fault(each, workload, testbed)
        else:
            found += _of_event(each, workload, testbed)
        for key, text in found:
            yield (table, number, key), text
    for number, phase in enumerate(workload.phase):
        if phase.during:
            yield from _of_during(number, phase, workload, testbed)
        yield from _of_timing(number, phase, workload)
        yield from _of_imports(number, phase, workload)
        yield from _together(phase, workload, testbed)


def _of_phase(each: Scheduled, phase: Phase) -> Iterator[tuple[str, str]]:
    end_ns = each.at + (each.for_ or 0)
    if each.at >= phase.duration:
        yield (
            "at",
            f"{format_duration_ns(each.at)} is after the end of phase '{phase.name}', which lasts "
            f"{format_duration_ns(phase.duration)}: make at smaller, or the duration longer",
        )
    elif end_ns > phase.duration:
        yield (
            "for",
            f"it would end {format_duration_ns(end_ns)} after the begin of phase '{phase.name}', which lasts "
            f"{format_duration_ns(phase.duration)}: make for or at smaller, or the duration longer",
        )


def _of_command(fault: Fault, testbed: Testbed) -> Iterator[tuple[str, str]]:
    command, names = testbed.command_named(fault.command), [each.name for each in testbed.command]
    if command is None:
        text = f"the testbed '{testbed.name}' has no [[command]] '{fault.command}'"
        yield "command", f"{text}, {nearest(fault.command, names, 'it has') if names else 'add it there'}"
    elif fault.for_ and not command.undo:
        yield "for", f"what ends '{fault.command}' after `for`? add undo to it in the testbed, or remove for"


def _of_fault(fault: Fault, workload: Workload, testbed: Testbed) -> Iterator[tuple[str, str]]:
    if fault.what == "command":
        yield from _of_command(fault, testbed)
        return
    if testbed.is_appliance:
        yield (
            "what",
            f'"{fault.what}": the server is host = "none", without login: only what = "command" can be '
            "done there, by a command that the first client runs",
        )
        return
    if fault.what in EMULATED and not testbed.is_lab:
        yield (
            "what",
            f'"{fault.what}" is for emulated devices, and the server is {testbed.server.host}: write '
            '"offline", "nfsd-restart" or "command" instead',
        )
        return
    if fault.what not in OF_A_DEVICE or fault.device == ALL:
        return
    device = device_of(fault.device, testbed)
    if device is None:
        yield "device", _unknown(fault.device, testbed)
        return
    if fault.what in EMULATED and device.emulated is None:
        yield (
            "device",
            f"'{device.name}' is a null_blk device, which has no faults: give it a preset, or write "
            'what = "offline"',
        )
    if fault.what == "error" and fault.sectors and sum(fault.sectors) * 512 > device.size:
        yield "sectors", f"'{device.name}' has {device.size // 512} sectors: name those that it has"
    if fault.what in AWAY and device.role in _HOLDING and not _spare(workload, testbed):
        yield (
            "what",
            f"\"{fault.what}\": without '{device.name}' the pool is lost, pool.data = "
            f'"{workload.pool.data}" with {len(testbed.devices("data"))} data devices has no copy: write '
            'data = "mirror" or a raidz, or what = "stall"',
        )
    number = workload.phase.index(workload.phase_of(fault))
    removed = [each.remove for each in workload.phase[: number + 1]]
    if device.role in removed:
        yield "device", f"'{device.name}' is not in the pool any more: a phase has remove = \"{device.role}\""


def _of_event(event: ExpectedEvent, workload: Workload, testbed: Testbed) -> Iterator[tuple[str, str]]:
    if testbed.is_appliance:
        yield (
            "what",
            f'"{event.what}" needs a server that can be logged into; this is host = "none": remove it',
        )
        return
    if event.what != "resilver":
        return
    device = device_of(event.device or "data", testbed, first=True)
    if device is None:
        yield "device", _unknown(event.device, testbed)
    elif device.role != "data":
        yield "device", f"'{device.name}' has the role {device.role}: data devices are resilvered"
    elif not _spare(workload, testbed):
        yield (
            "what",
            f'"resilver" takes \'{device.name}\' offline for a time, and pool.data = "{workload.pool.data}" '
            f'with {len(testbed.devices("data"))} data devices has no copy of it: write data = "mirror" or a '
            "raidz",
        )


def _of_during(number: int, phase: Phase, workload: Workload, testbed: Testbed) -> KeyProblems:
    key = ("phase", number, "during")
    if len(set(phase.during)) < len(phase.during):
        yield key, "each event once: more of one kind are [[event]] tables, each with its time"
    told = set()
    for event in during(phase):
        for _, text in (*_of_phase(event, phase), *_of_event(event, workload, testbed)):
            if text not in told:
                told.add(text)
                yield key, text


def _unknown(word: str, testbed: Testbed) -> str:
    several = [each.name for each in testbed.device if each.role == word]
    if several:
        return f"which of {', '.join(several)}? name the device: the role {word} has {len(several)} of them"
    names = [each.name for each in testbed.device]
    return f"the testbed '{testbed.name}' has no device '{word}', {nearest(word, names, 'devices')}"


def _spare(workload: Workload, testbed: Testbed) -> int:
    """How many data devices may be away at a time; of special and dedup vdevs as many."""
    layout = workload.pool
    if layout.data == "mirror":
        return len(testbed.devices("data")) // layout.groups - 1
    return _SPARE[layout.data]


def _of_imports(number: int, phase: Phase, workload: Workload) -> KeyProblems:
    """While the pool is away nothing else can be done to it, and what the phase samples begins anew."""
    scheduled = workload.schedule(phase)
    imports = [each for each in scheduled if each.what == "export-import"]
    if not imports:
        return
    key = ("phase", number, "duration")
    if len(scheduled) > 1:
        others = [each.text for each in scheduled if each is not imports[0]]
        text = f"beside an export and import nothing else is done, and there are {', '.join(others)}"
        yield key, f"phase '{phase.name}': {text}: give each a phase of its own"
    at_ns = imports[0].at
    if at_ns < phase.interval or at_ns + phase.interval > phase.duration:
        text = f"the export and import at {format_duration_ns(at_ns)} needs an interval before and after it"
        yield key, f"phase '{phase.name}': {text} ({format_duration_ns(phase.interval)} each): move it"
    if phase.keys:
        text = (
            "file systems have other numbers after an import, so blocks of the sample would not be the same"
        )
        yield ("phase", number, "keys"), f"phase '{phase.name}': {text}: remove keys, or the event"


def _of_timing(number: int, phase: Phase, workload: Workload) -> KeyProblems:
    """Whether each fault can be told from the next, and from what was before."""
    faults = [
        (index, each)
        for index, each in enumerate(workload.fault)
        if each.phase in ("", phase.name) and each.at < phase.duration
    ]
    faults.sort(key=lambda each: each[1].at)
    # What goes on meanwhile needs no band.
    banded = [(index, each) for index, each in faults if each.expect != "degraded"]
    for index, first in banded[:1]:
        if (free := _quiet_before(first, phase, workload)) < LEAST_BEFORE:
            yield (
                ("fault", index, "at"),
                f"{format_duration_ns(first.at)}: recovery is judged against the band of before, which needs "
                f"{LEAST_BEFORE} whole intervals ({format_duration_ns(phase.interval)} each) without a fault "
                f"or event; phase '{phase.name}' has {free} until then, without the first, in which load "
                "begins: make at larger, or the interval shorter",
            )
    for (index, each), (_, later) in itertools.pairwise(faults):
        until_ns = each.at + (each.for_ or 0) + (each.recover_within or 0)
        if later.at < until_ns:
            key = "recover_within" if each.recover_within else "for" if each.for_ else "at"
            yield (
                ("fault", index, key),
                f"the next fault of phase '{phase.name}' begins at {format_duration_ns(later.at)}, before "
                f"this one must be over ({format_duration_ns(until_ns)}): they cannot be told apart",
            )


def _quiet_before(fault: Fault, phase: Phase, workload: Workload) -> int:
    """Whole intervals before it that a band can be of. An event without `for` takes at least one."""
    spans = [
        (each.at // phase.interval, (each.at + (each.for_ or 0)) // phase.interval)
        for each in workload.schedule(phase)
        if isinstance(each, ExpectedEvent)
    ]
    free, upto, end = 0, 1, fault.at // phase.interval
    for begin, last in [*sorted(spans), (end, end)]:
        free += max(0, min(begin, end) - upto)
        upto = max(upto, last + 1)
    return free


def _together(phase: Phase, workload: Workload, testbed: Testbed) -> KeyProblems:
    """Two devices of a role that are away at a time are more than the pool can lose."""
    if testbed.is_appliance:
        return
    away = []
    for table, index, each in workload.scheduled:
        if each.phase not in ("", phase.name):
            continue
        is_away = each.what in AWAY or each.what == "resilver"
        device = device_of(each.device or "data", testbed, first=table == "event") if is_away else None
        if device and device.role in _HOLDING:
            end_ns = each.at + each.for_ if each.for_ else phase.duration
            away.append((each.at, end_ns, (table, index, "at"), device.name, device.role))
    away.sort()
    for index, (at, _, key, name, role) in enumerate(away):
        others = {
            other
            for begin, end, _, other, of_role in away[:index]
            if begin <= at < end and other != name and of_role == role
        }
        if others and len(others) >= _spare(workload, testbed):
            yield (
                key,
                f"'{name}' would be away while {' and '.join(sorted(others))} is: the pool can lose "
                f"{_spare(workload, testbed)}: move one of them",
            )
