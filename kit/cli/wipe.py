"""`hsp wipe`: remove unused signatures from a device of a testbed, after they are shown and confirmed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kit.config.testbed import Device, Testbed, read_testbed
from kit.core.errors import ConfigError
from kit.core.output import say
from kit.devices.locks import Locks
from kit.devices.reasons import DeviceSpec
from kit.devices.wipe import plan_wipe, wipe
from kit.run.remote_site import open_server
from kit.session.erase_confirmation import confirm_erasing
from kit.session.place import ask


def wipe_command(
    name: Annotated[str, typer.Argument(help="Name of the device in the testbed.")],
    testbed: Annotated[Path, typer.Option("--testbed", help="The testbed with the device.")],
    erase_serial: Annotated[
        str | None,
        typer.Option("--erase-serial", metavar="SERIAL", help="Confirm that this device is erased."),
    ] = None,
) -> None:
    """Remove old signatures and labels of destroyed pools; a copy of each is kept on the server."""
    plan = read_testbed(testbed)
    device = _find(plan, name, testbed)
    expected = DeviceSpec(device.path or "", device.serial, device.size)
    with open_server(plan) as server:
        backup = f"/var/tmp/hsp-wipe-{device.name}"
        planned = plan_wipe(server, expected, backup)
        if not planned.commands:
            say(f"{device.path} has no signatures: nothing to do")
            return
        say(f"on {server.name}, {device.path}, serial {device.serial}:\n{planned.describe()}")
        alone = plan.model_copy(update={"device": (device,)})
        confirm_erasing(alone, [erase_serial] if erase_serial else [], ask if sys.stdin.isatty() else None)
        assert planned.checked.node is not None  # plan_wipe refuses a missing device
        with Locks(server, [planned.checked.node], f"wipe of {device.name}"):
            wipe(server, planned)
        say(f"{device.path} is wiped; copies of its signatures are in {backup} on {server.name}")


def _find(plan: Testbed, name: str, testbed: Path) -> Device:
    for device in plan.device:
        if device.name == name and device.is_real:
            return device
    known = ", ".join(device.name for device in plan.device if device.is_real) or "none"
    raise ConfigError(f"{testbed}: there is no real device '{name}'", f"it has: {known}")
