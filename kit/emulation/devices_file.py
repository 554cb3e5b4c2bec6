"""Devices to emulate, as a file names them: each a preset, a file or a table of its own, with a size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kit.config.device_model import to_spec
from kit.config.testbed import EmulatedDevice, resolve_devices
from kit.config.toml import load
from kit.core.errors import ConfigError, HostError
from kit.emulation.served import Served, ServedDevice

_TRANSFER_DEADLINE_S = 600.0


class Emulation(BaseModel):
    """What `hsp device emulate` serves."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    device: Annotated[tuple[EmulatedDevice, ...], Field(min_length=1, max_length=32)]


def read_emulation(path: Path) -> Emulation:
    """Raises ConfigError with file, line and key."""
    found = load(path, Emulation)
    names = [device.name for device in found.device]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: two devices are called '{name}'", "give each a name of its own")
    return Emulation.model_construct(device=resolve_devices(found.device, path))


def served_devices(devices: Sequence[EmulatedDevice]) -> list[ServedDevice]:
    """What their server is given."""
    found = []
    for seed, device in enumerate(devices, 1):
        assert device.emulated is not None, "resolve_devices comes first"
        found.append(ServedDevice(device.name, device.size, to_spec(device.emulated, seed)))
    return found


def load_states(served: Served, devices: Sequence[EmulatedDevice]) -> None:
    """Give the devices the content and state that was kept of them. Raises ConfigError, HostError."""
    for device in devices:
        if device.keep is None or not Path(device.keep).exists():
            continue
        copy = served.state_path(device.name)
        try:
            served.host.put(Path(device.keep).read_bytes(), copy, deadline_s=_TRANSFER_DEADLINE_S)
            served.tell(device.name, "load", copy)
        except OSError as error:
            raise ConfigError(
                f"{device.keep}: cannot be read: {error.strerror}",
                "may you read it? Without it the device begins new",
            ) from error
        except HostError as error:
            raise ConfigError(
                f"{device.keep}: is not the state of the device '{device.name}': {error.message}",
                "it was kept of another device: move it away to begin with a new device",
            ) from error
        finally:
            served.host.run(["rm", "-f", copy])


def keep_states(served: Served, devices: Sequence[EmulatedDevice]) -> None:
    """Keep content and state of the devices that want it. They must not be in use. Raises HostError."""
    for device in devices:
        if device.keep is None:
            continue
        copy, target = served.state_path(device.name), Path(device.keep)
        served.tell(device.name, "save", copy)
        content = served.host.get(copy, deadline_s=_TRANSFER_DEADLINE_S)
        served.host.run(["rm", "-f", copy])
        part = target.with_name(f".{target.name}.part")
        try:
            part.write_bytes(content)
            part.replace(target)
        except OSError as error:
            raise HostError(
                f"{target}: cannot be written: {error.strerror}",
                "free some space there, or choose another place",
            ) from error
        finally:
            part.unlink(missing_ok=True)
