"""File of devices to emulate (`hsp lab up --here`), and the states that are kept in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kit.config.device_model import to_spec
from kit.config.testbed_devices import (
    NO_BUSES,
    Bus,
    Buses,
    EmulatedDevice,
    Name,
    device_problems,
    resolve_devices,
)
from kit.config.toml import Problems, Table, load
from kit.core.errors import ConfigError, HostError
from kit.core.files import write_atomically
from kit.core.own_file import read_beside
from kit.emulation.served import (
    TRANSFER_DEADLINE_S,
    ServedBus,
    ServedDevice,
    ServedDevices,
    state_limit_bytes,
)


class Emulation(Table):
    """The devices that `hsp lab up --here` serves."""

    bus: dict[Name, Bus] = Field(default_factory=dict)
    device: Annotated[tuple[EmulatedDevice, ...], Field(min_length=1, max_length=32)]

    def _problems(self) -> Problems:
        return device_problems(self.device, self.bus)


def read_emulation(path: Path) -> Emulation:
    """Read a file of devices, with their models. Raises ConfigError with file, line and key."""
    emulation = load(path, Emulation)
    return emulation.model_copy(update={"device": resolve_devices(emulation.device, path)})


def served_devices(devices: Sequence[EmulatedDevice], buses: Buses = NO_BUSES) -> list[ServedDevice]:
    """Names, sizes, specs and buses for the ublk server."""
    specs = []
    for seed, device in enumerate(devices, 1):
        assert device.emulated is not None, "resolve_devices comes first"
        bus = buses[device.bus] if device.bus is not None else None
        served_bus = ServedBus(str(device.bus), bus.per_s, bus.command) if bus else None
        specs.append(ServedDevice(device.name, device.size, to_spec(device.emulated, seed), served_bus))
    return specs


def load_states(served: ServedDevices, devices: Sequence[EmulatedDevice]) -> None:
    """Load kept content and state into the devices. Raises ConfigError, HostError."""
    for device in devices:
        if device.keep is None or not os.path.lexists(device.keep):
            continue
        copy, kept = served.state_path(device.name), Path(device.keep)
        try:
            # The owner of the directory can put any file there.
            content = read_beside(kept, kept.parent, state_limit_bytes(device.size))
            served.host.put(content, copy, deadline_s=TRANSFER_DEADLINE_S)
            served.tell(device.name, "load", copy)
        except OSError as error:
            raise ConfigError(
                f"{device.keep}: cannot be read: {error.strerror}",
                "check its permissions; without the file the device starts new",
            ) from error
        except HostError as error:
            raise ConfigError(
                f"{device.keep}: is not a state of the device '{device.name}': {error.message}",
                "it is the state of a different device; move the file away to start with a new device",
            ) from error
        finally:
            served.host.run(["rm", "-f", copy])


def keep_states(served: ServedDevices, devices: Sequence[EmulatedDevice]) -> None:
    """Save content and state of the devices with a `keep` file. They must not be in use. Raises HostError."""
    for device in devices:
        if device.keep is not None:
            write_atomically(Path(device.keep), served.saved_state(device.name, device.size))
