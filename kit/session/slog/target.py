"""A testbed of one device, which `hsp slog` names: of a testbed, a preset, or a disk of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.config.device_model import preset_names
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.testbed_devices import Device, resolve_devices
from kit.core.errors import ConfigError, SafetyRefusal
from kit.devices.inventory import BY_ID
from kit.devices.listing import ListedDisk, list_devices
from kit.hosts.sudo import local_host

_PRESET_SIZE = "64MiB"


def with_only(name: str, testbed: Path) -> Testbed:
    """The testbed with `name` as its only device, whose role is log.

    `name`: a link below /dev/disk/by-id of this machine, a device of the testbed, or, where that is the
    lab's, a preset. Raises ConfigError, SafetyRefusal.
    """
    found = _find(name, testbed)
    as_log = {"role": "log", "idle": False}
    return found.model_copy(
        update={"device": tuple(device.model_copy(update=as_log) for device in found.device)}
    )


def _find(name: str, testbed: Path) -> Testbed:
    if name.startswith("/"):
        if testbed != LAB_TESTBED:
            raise ConfigError(
                f"{name}: with --testbed, a device is called by its name in the testbed",
                "without --testbed the path is one of this machine",
            )
        return _on_this_machine(name)
    read = read_testbed(testbed)
    if read.is_appliance:
        raise ConfigError(f"{testbed}: an appliance cannot be logged into", "test its devices elsewhere")
    known = {device.name: device for device in read.device}
    if name in known:
        return read.model_copy(update={"device": (known[name],)})
    presets = tuple(preset_names()) if testbed == LAB_TESTBED else ()
    if name in presets:
        device = Device.model_validate({"name": "log0", "role": "log", "size": _PRESET_SIZE, "preset": name})
        return read.model_copy(update={"device": resolve_devices((device,), LAB_TESTBED)})
    raise ConfigError(
        f"{'the lab' if testbed == LAB_TESTBED else testbed} has no device '{name}'",
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
