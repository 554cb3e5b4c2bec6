"""`hsp device`: emulated devices outside the lab, and the list of presets."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import JsonOption
from kit.config.device_model import find_preset, preset_names
from kit.core.errors import HostError, SafetyRefusal
from kit.core.output import emit_json, emit_text, say
from kit.core.units import format_size_bytes
from kit.emulation import compilation
from kit.emulation.devices_file import Emulation, keep_states, load_states, read_emulation, served_devices
from kit.emulation.served import Served
from kit.emulation.udev_links import link_by_id, serial, unlink
from kit.hosts.local import LocalHost

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def device() -> None:
    """Emulated devices: disks, SSDs and controllers."""


@app.command("emulate")
def emulate(
    file: Annotated[Path, typer.Argument(help="A TOML file of [\\[device]] tables.")],
    json_output: JsonOption = False,
) -> None:
    """Serve emulated block devices on this machine, until Ctrl-C. Needs root, and ublk (Linux 6.0)."""
    emulation = read_emulation(file)
    _check_memory(emulation)
    if os.geteuid() != 0:
        sudo = "sudo " if shutil.which("sudo") else "as root: "
        raise HostError("only root can make block devices", f"{sudo}hsp device emulate {file}")
    served = Served(LocalHost())
    if served.is_running():
        raise SafetyRefusal(
            "devices are already emulated on this machine", "end that `hsp device emulate` first"
        )
    paths = served.start(compilation.server(), served_devices(emulation.device, emulation.bus), dilation=1)
    try:
        load_states(served, emulation.device)
        _link(served, paths)
        if json_output:
            emit_json(served.status())
        for device in emulation.device:
            say(f"{paths[device.name]}  {device.name}: {device.title}, {format_size_bytes(device.size)}")
        say("serving; Ctrl-C ends it (the devices must not be in use then)")
        _wait(served)
        # Only after a successful load: the state of a new device must not overwrite one that failed to load.
        keep_states(served, emulation.device)
    finally:
        if served.is_running():
            served.stop()
        unlink(served.host)


@app.command("presets")
def presets(json_output: JsonOption = False) -> None:
    """The kit's own device models, with their sources."""
    models = {name: find_preset(name) for name in preset_names()}
    if json_output:
        emit_json({name: model.model_dump(mode="json") for name, model in models.items()})
        return
    emit_text(f"{name:20} {model.title}" for name, model in models.items())


def _link(served: Served, paths: dict[str, str]) -> None:
    """Make by-id links for testbeds; without udev the devices have only the kernel's names."""
    try:
        links = link_by_id(served.host, paths)
    except HostError as error:
        say(f"no links below /dev/disk/by-id, so a testbed cannot use the devices: {error.message}")
        return
    for name, link in links.items():
        say(f"{link}  serial {serial(name)}")


def _wait(served: Served) -> None:
    """Wait for Ctrl-C. Raises HostError if the server of the devices ends by itself."""
    try:
        while served.is_running():
            time.sleep(1.0)
    except KeyboardInterrupt:
        return
    raise HostError("the server of the devices has ended", served.log_text())


def _check_memory(emulation: Emulation) -> None:
    """Check that the devices' content fits in memory. Raises HostError."""
    needed_bytes = sum(device.size for device in emulation.device)
    available_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed_bytes > available_bytes:
        raise HostError(
            f"the devices hold {format_size_bytes(needed_bytes)}, this machine has "
            f"{format_size_bytes(available_bytes)} of memory free",
            "make the devices smaller",
        )
