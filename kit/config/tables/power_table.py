"""Power losses: what a workload asks for ([power_loss]), what cuts the power of a testbed ([power]), and what
restarts its server in order ([restart]).

[power]
scope = "server"
off = ["ipmitool", "-H", "bmc", "-E", "chassis", "power", "off"]
on = ["ipmitool", "-H", "bmc", "-E", "chassis", "power", "on"]

[restart]
command = ["systemctl", "reboot"]
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from kit.config.address import HostAddress
from kit.config.tables.setting_table import Argv
from kit.config.testbed_devices import Device
from kit.config.toml import Problems, Table, nearest, stored_unless
from kit.core.units import DurationNs, SizeBytes

Control = Literal["no-sync", "no-flush", "none"]
Scope = Literal["device", "server"]

_SIZES = (512, 4096, 16384)
_LONGEST_NS = 3_600_000_000_000


class PowerLoss(Table):
    """Power losses after the phases: `moments` of them, each at a random time `within` the first writes.

    `workers` threads write records with O_DSYNC; worker n writes records of `sizes[n % len(sizes)]` bytes.
    Every fourth power loss comes up to `idle` after the last write. `control` is one more power loss that
    must lose data: "no-sync" acknowledges what only memory has (of an appliance: unstable writes without a
    COMMIT), "no-flush" what only a volatile cache has.

    What came of them is kit.store.manifest.PowerLoss. Plans that do not ask for the newer keys are stored
    without them, as before the keys existed.
    """

    moments: Annotated[int, Field(ge=1, le=1000)]
    within: Annotated[DurationNs, Field(gt=0)] = 200_000_000
    seed: int = 1
    workers: Annotated[int, Field(ge=1, le=32), stored_unless(3)] = 3
    sizes: Annotated[tuple[SizeBytes, ...], Field(min_length=1, max_length=8), stored_unless(_SIZES)] = _SIZES
    idle: Annotated[DurationNs, Field(ge=0), stored_unless(1_000_000_000)] = 1_000_000_000
    control: Annotated[Control, stored_unless("no-sync")] = "no-sync"

    @field_validator("sizes")
    @classmethod
    def _check_sizes(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        for size in sizes:
            if size % 512 or not 512 <= size <= 1 << 20:
                raise ValueError(f"{size} bytes: a record is 512 bytes to 1 MiB, in multiples of 512")
        return sizes


class Power(Table):
    """What cuts the power of the server, or of devices, and brings it back: commands, without a shell.

    `host`: where they run. `devices`: names of those that lose it; without it all of the run. `count`: prints
    how often a device has lost its power; `{path}` and `{serial}` stand for its own. `gone_within`: what is
    cut must be gone then; `back_within`: and back then. `on` must do no harm where the power is on.
    """

    scope: Scope
    off: Argv
    on: Argv
    host: Literal["controller", "server"] = "controller"
    devices: tuple[str, ...] = ()
    count: Argv | None = None
    gone_within: Annotated[DurationNs, Field(gt=0, le=_LONGEST_NS)] = 60_000_000_000
    back_within: Annotated[DurationNs, Field(gt=0, le=_LONGEST_NS)] = 900_000_000_000

    def _problems(self) -> Problems:
        if self.scope == "server" and self.host == "server":
            text = 'a server without power cannot run `on`: host = "controller", the machine that runs hsp'
            yield "host", text
        if self.scope == "server" and self.devices:
            text = 'devices are of scope = "device"; with "server" all devices in it lose their power'
            yield "devices", f"{text}: remove it"


class Restart(Table):
    """That a run may restart the server, and how: `command` runs there, without a shell, as who logs in.

    The server must be there again, with its disks and its NFS server, within `back_within`.
    """

    command: Argv
    back_within: Annotated[DurationNs, Field(gt=0, le=_LONGEST_NS)] = 900_000_000_000


def restart_problems(restart: Restart | None, server: HostAddress) -> Problems:
    """Of a testbed whose server cannot be restarted by a run."""
    why = {
        "lab": "the lab's devices are in the memory of its guest, and are lost with it",
        "none": 'server.host = "none" is an appliance, which hsp cannot log into',
        "local": f"the server is {server}, this machine, and hsp would end with it",
    }
    if restart and server.kind in why:
        yield "restart", f"{why[server.kind]}: remove the table"


def power_problems(power: Power | None, server: HostAddress, devices: tuple[Device, ...]) -> Problems:
    """Of a testbed whose power cannot be cut like this."""
    if power is None:
        return
    if server.kind == "lab":
        yield "power", "the lab cuts the power of its emulated devices itself: remove the table"
    if server.kind == "none" and (power.scope != "server" or power.count):
        key = "count" if power.scope == "server" else "scope"
        text = 'server.host = "none" is an appliance: its devices are not seen, and all of it loses its power'
        what = "remove the key: its NFS write verifier is the proof" if key == "count" else 'scope = "server"'
        yield ("power", key), f"{text}: {what}"
    if power.scope == "server" and server.kind == "local":
        text = f"the server is {server}, this machine: hsp would lose its own power and could not turn it on"
        yield ("power", "scope"), f"{text}; run hsp on another machine"
    names = [device.name for device in devices]
    for number, name in enumerate(power.devices):
        if name not in names:
            text = f"the testbed has no device '{name}', {nearest(name, names, 'devices')}"
            yield ("power", "devices", number), text
