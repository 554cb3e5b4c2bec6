"""`hsp devices`: list the disks of a testbed's server and whether they can be used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import JsonOption
from kit.config.testbed import read_testbed
from kit.core.output import emit_json, say
from kit.devices.listing import Listed, describe, device_block, list_devices
from kit.run.remote_site import open_server

TestbedOption = Annotated[Path, typer.Option("--testbed", help="The testbed with the server.")]


def devices(testbed: TestbedOption, json_output: JsonOption = False) -> None:
    """Show each disk of the server: how to name it, and whether it is available. Nothing is written."""
    with open_server(read_testbed(testbed)) as server:
        listed = list_devices(server)
        show(server.name, listed, json_output)


def show(server: str, listed: tuple[Listed, ...], json_output: bool) -> None:
    """Print JSON on stdout; or text on stderr, with the tables for a testbed on stdout."""
    if json_output:
        emit_json({"format": 1, "server": server, "devices": [disk.as_json() for disk in listed]})
        return
    available = [disk for disk in listed if disk.available]
    for disk in listed:
        say(describe(disk))
    say(f"\n{len(available)} of {len(listed)} disks of {server} are available")
    for disk in available:
        sys.stdout.write(device_block(disk) + "\n\n")
    sys.stdout.flush()
