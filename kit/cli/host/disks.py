"""`hsp host disks` and `hsp host wipe`: the disks of a server, and removing unused signatures from one."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import typer

from kit.cli.options import (
    AllOption,
    DeviceArgument,
    EraseSerialOption,
    JsonOption,
    ResultsOption,
    TestbedOption,
)
from kit.cli.usage import refuse_unused
from kit.config.testbed import Testbed, read_testbed
from kit.config.testbed_devices import Device
from kit.core.errors import ConfigError
from kit.core.output import emit, emit_json, emit_text, say
from kit.core.progress import Progress
from kit.devices.listing import describe, device_block, list_devices, proposed_roles
from kit.devices.locks import Locks
from kit.devices.refusal_reasons import DeviceSpec
from kit.devices.wipe import plan_wipe, wipe
from kit.session.agreement.erasing import confirm_erasing
from kit.session.place import ask
from kit.setup.remote_site import open_server


def disks(
    context: typer.Context, testbed: TestbedOption, all_: AllOption = False, json_output: JsonOption = False
) -> None:
    """Show each disk of the server: how to name it, and whether it is available. Nothing is written.

    Examples:
      hsp host disks --testbed nas.toml
      hsp host disks --testbed nas.toml >> nas.toml    tables of the available disks
    """
    refuse_unused(context, {"JSON": json_output})
    plan, progress = read_testbed(testbed), Progress()
    with ExitStack() as stack:
        with progress.step("logging in to the server"):
            server = stack.enter_context(open_server(plan))
        with progress.step(f"examining the disks of {server.name}, and who uses them"):
            listed = list_devices(server)
    if json_output:
        emit_json({"format": 1, "server": server.name, "devices": [disk.as_json() for disk in listed]})
        return
    available = [disk for disk in listed if disk.available]
    for disk in listed:
        say(describe(disk, all_=all_))
    say(f"\n{len(available)} of {len(listed)} disks of {server.name} are available")
    # On stdout: they are pasted into a testbed.
    roles = proposed_roles(available)
    emit("".join(device_block(disk, "", *roles[disk.node.kernel_name]) + "\n\n" for disk in available))


def wipe_command(
    name: DeviceArgument,
    testbed: TestbedOption,
    erase_serial: EraseSerialOption = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Remove old signatures and labels of destroyed pools; copies are kept in the results directory.

    Examples:
      hsp host wipe log0 --testbed nas.toml
      hsp host wipe log0 --testbed nas.toml --erase-serial S5H9NS0N123456
    """
    plan = read_testbed(testbed)
    device = _find(plan, name, testbed)
    expected = DeviceSpec(device.path or "", device.serial, device.size)
    with open_server(plan) as server:
        planned = plan_wipe(server, expected)
        if not planned.commands:
            emit_text([f"{device.path} has no signatures: nothing to do"])
            return
        say(f"on {server.name}, {device.path}, serial {device.serial}:\n{planned.describe()}")
        alone = plan.model_copy(update={"device": (device,)})
        confirm_erasing(alone, erase_serial or (), ask if sys.stdin.isatty() else None)
        assert planned.checked.node is not None  # plan_wipe refuses a missing device
        with Locks(server, [planned.checked.node], f"wipe of {device.name}"):
            folder = wipe(server, planned, results)
        emit_text([f"{device.path} is wiped; copies of what was removed are in {folder}"])


def _find(plan: Testbed, name: str, testbed: Path) -> Device:
    real = {device.name: device for device in plan.device if device.is_real}
    if name not in real:
        known = f"it has: {', '.join(real)}" if real else "none of its devices has a path and a serial number"
        raise ConfigError(f"{testbed}: there is no real device '{name}'", known)
    return real[name]
