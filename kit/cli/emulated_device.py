"""`hsp lab up --here FILE`: emulated devices outside the lab."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from kit.core.errors import HostError, SafetyRefusal
from kit.core.output import emit_json, say
from kit.core.units import format_binary_bytes
from kit.emulation import compilation
from kit.emulation.devices_file import Emulation, keep_states, load_states, read_emulation, served_devices
from kit.emulation.served import ServedDevices
from kit.emulation.udev_links import link_by_id, serial, unlink
from kit.hosts.local import LocalHost


def serve(file: Path, *, json_output: bool) -> None:
    """Serve the devices of the file on this machine, until Ctrl-C. Needs root, and ublk (Linux 6.0)."""
    emulation = read_emulation(file)
    _check_memory(emulation)
    if os.geteuid() != 0:
        sudo = "sudo " if shutil.which("sudo") else "as root: "
        raise HostError("only root can make block devices", f"{sudo}hsp lab up --here {file}")
    served = ServedDevices(LocalHost())
    if served.is_running():
        raise SafetyRefusal(
            "devices are already emulated on this machine", "end that `hsp lab up --here` first"
        )
    paths = served.start(compilation.server(), served_devices(emulation.device, emulation.bus), dilation=1)
    try:
        load_states(served, emulation.device)
        _link(served, paths)
        if json_output:
            emit_json(served.status())
        for device in emulation.device:
            say(f"{paths[device.name]}  {device.name}: {device.title}, {format_binary_bytes(device.size)}")
        say("serving; Ctrl-C ends it (the devices must not be in use then)")
        _wait(served)
        # Only after a successful load: the state of a new device must not overwrite one that failed to load.
        keep_states(served, emulation.device)
    finally:
        if served.is_running():
            served.stop()
        unlink(served.host)


def _link(served: ServedDevices, paths: dict[str, str]) -> None:
    """Make by-id links for testbeds; without udev the devices have only the kernel's names."""
    try:
        links = link_by_id(served.host, paths)
    except HostError as error:
        say(f"no links below /dev/disk/by-id, so a testbed cannot use the devices: {error.message}")
        return
    for name, link in links.items():
        say(f"{link}  serial {serial(name)}")


def _wait(served: ServedDevices) -> None:
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
            f"the devices hold {format_binary_bytes(needed_bytes)}, this machine has "
            f"{format_binary_bytes(available_bytes)} of memory free",
            "make the devices smaller",
        )
