"""The work of `hsp slog`: the workload of this name on one bare device after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kit.config.device_model import preset_names
from kit.config.lengths import with_sets
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.testbed_devices import Device, resolve_devices
from kit.config.workload import workload_of
from kit.config.workload_base import find_workload, read_source
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.progress import Progress
from kit.devices.inventory import BY_ID
from kit.devices.listing import ListedDisk, list_devices
from kit.hosts.sudo import local_host
from kit.plan.plan import Plan, make_plan
from kit.session.measure import MeasuredRun, measure
from kit.session.place import Request, agreed_place, confirm

State = Literal["as-found", "fresh", "aged"]
WORKLOAD = "slog"
_PRESET_SIZE = "64MiB"
# Of a phase of the workload; a disk without a write cache makes as many writes durable.
_LONGEST_S, _WRITES_A_SECOND = 120, 50
_ALONE = ("flush-idle", "read-cached")
# `ios` as in the main job, so that a log device of the lab that it has aged is taken.
_STATES: Mapping[State, tuple[str, ...]] = {
    "as-found": (),
    "fresh": ("precondition.method=purge", "precondition.ios=400"),
    "aged": ("precondition.method=fills", "precondition.fills=2", "precondition.ios=400"),
}


def find_target(name: str, testbed: Path | None) -> Testbed:
    """The testbed with `name` as its only device.

    `name`: a link below /dev/disk/by-id of this machine, a device of the testbed (default: the lab's), or a
    preset, which is then a device of the lab. Raises ConfigError, SafetyRefusal.
    """
    if name.startswith("/"):
        if testbed is not None:
            raise ConfigError(
                f"{name}: with --testbed, a device is called by its name in the testbed",
                "without --testbed the path is one of this machine",
            )
        return _on_this_machine(name)
    read = read_testbed(testbed or LAB_TESTBED)
    if read.is_appliance:
        raise ConfigError(f"{testbed}: an appliance cannot be logged into", "test its devices elsewhere")
    known = {device.name: device for device in read.device}
    if name in known:
        return read.model_copy(update={"device": (known[name],)})
    presets = () if testbed else tuple(preset_names())
    if name in presets:
        device = Device.model_validate({"name": "log0", "role": "log", "size": _PRESET_SIZE, "preset": name})
        return read.model_copy(update={"device": resolve_devices((device,), LAB_TESTBED)})
    text = f"{testbed or 'the lab'} has no device '{name}'"
    raise ConfigError(
        text,
        f"it has: {', '.join(known)}"
        + (f"; presets: {', '.join(presets)}; or give a path below /dev/disk/by-id" if presets else ""),
    )


def _on_this_machine(path: str) -> Testbed:
    listed = list_devices(local_host())
    disk = next((each for each in listed if path in each.node.links), None)
    if disk is None:
        raise ConfigError(f"{path}: this machine has no disk of that name", _links(path, listed))
    if not disk.node.serial:
        raise SafetyRefusal(
            f"{path} is not touched: it has no serial number, by which you could confirm that it is erased",
            "use another device",
        )
    return Testbed.model_validate(
        {
            "name": "here",
            "server": {"host": "local"},
            "client": ({"host": "local"},),
            "device": (
                {
                    "name": "slog0", "role": "log", "path": path, "serial": disk.node.serial,
                    "size": f"{disk.node.size_bytes}B",
                },
            ),
        }
    )  # fmt: skip


def _links(path: str, listed: Sequence[ListedDisk]) -> str:
    same = next((each.path for each in listed if path == f"/dev/{each.node.kernel_name}" and each.path), None)
    if same:
        return f"any other name may be another disk after the next boot; today it is {same}"
    links = ", ".join(each.path for each in listed if each.path and each.available)
    return f"available disks: {links}" if links else f"no disk with a link below {BY_ID} is available here"


def plan_slog(target: Testbed, testbed: Path | None, state: State, writes: int) -> Plan:
    """The plan of the workload on the device of `target`, as a log device. Raises ConfigError.

    `testbed`: its file. `state`: what is done to the device before; `writes`: of each size, fewer of large.
    """
    sets = (f"force.groups={writes}", *_longer(writes), *_STATES[state])
    source = with_sets(read_source(find_workload(WORKLOAD)), sets)
    as_log = {"role": "log", "idle": False}
    devices = tuple(device.model_copy(update=as_log) for device in target.device)
    target = target.model_copy(update={"device": devices})
    plan = make_plan(workload_of(source), target, source.path, testbed or LAB_TESTBED, source)
    # No file has a testbed of this device alone: such a run is not resumed.
    return replace(plan, sets=sets, sources=("", ""))


def _longer(writes: int) -> tuple[str, ...]:
    """More time for more writes, in as many intervals; not for the commands that write nothing."""
    longest_s = writes // _WRITES_A_SECOND
    if longest_s <= _LONGEST_S:
        return ()
    alone = (f"phase.{name}.duration=10s" for name in _ALONE)
    return f"phase.duration={longest_s}s", f"phase.interval={longest_s // 6}ms", *alone


def measure_each(plans: Sequence[Plan], request: Request, progress: Progress) -> Iterator[MeasuredRun]:
    """Measure one device after another; all are agreed to before the first is touched. Raises KitError.

    All on the devices is lost. Nothing else of their hosts is changed.
    """
    devices = [device for plan in plans for device in plan.testbed.device]
    for number, device in enumerate(devices):
        if any((device.path, device.name) == (other.path, other.name) for other in devices[:number]):
            raise ConfigError(f"{device.path or device.name} is named twice", "name each device once")
    confirm(plans, plans[0].testbed.model_copy(update={"device": tuple(devices)}), request)
    for plan in plans:
        yield measure(plan, agreed_place(plan, request, progress), request, progress)
