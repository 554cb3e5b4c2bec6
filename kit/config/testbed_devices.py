"""The devices of a testbed: real ones, and models of the lab."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from kit.config import named_files
from kit.config.device_model import BytesPerS, DeviceModel, Ns, OverridesRefused, Ssd, resolve
from kit.config.tables.precondition_table import Role
from kit.config.toml import (
    STORED_IF_ANY,
    STORED_IF_SET,
    Problems,
    Table,
    dotted,
    name_problems,
    read_text,
    refusal,
)
from kit.config.toml_lines import KeyLines, KeyPath
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import DurationNs, SizeBytes, format_duration_ns

# A device's name is used as a file name below /dev and as a configfs directory.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]

# ZFS refuses smaller devices (SPA_MINDEVSIZE, include/sys/fs/zfs.h).
MIN_DEVICE_BYTES = 64 << 20
# A device answers part of the reads of a set that is not so many times as large as its own DRAM.
DRAM_MULTIPLE = 4

# Links to devices; udev(7) writes other characters as \\xHH.
_DEVICE_PATH = re.compile(r"/dev/disk/by-id/(?!\.\.?$)[A-Za-z0-9#+.:=@_\\-]{1,200}")
_PRICE = re.compile(r"(?!0+(\.0+)? )[0-9]{1,9}(\.[0-9]{1,2})? [A-Z]{3}")
_SERIAL = re.compile(r"(?! )[\x20-\x7e]{1,128}(?<! )")


def _matches(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"expected {expected}, found '{safe_text(text)[:100]}'")
        return text

    return AfterValidator(check)


_A_LINK = (
    "a link such as /dev/disk/by-id/ata-X_123 (`hsp host disks --testbed FILE` shows it; other names may be "
    "another disk after the next boot)"
)
DevicePath = Annotated[str, _matches(_DEVICE_PATH, _A_LINK)]
Serial = Annotated[str, _matches(_SERIAL, "a serial number, in printable ASCII")]
Price = Annotated[str, _matches(_PRICE, 'an amount and a currency, such as "816.90 EUR"')]


class Bus(Table):
    """A bus that emulated devices share (kit/emulation/models/bus.h).

    One transfer at a time has `per_s`, in either direction. `command`: time of each request besides its data.
    """

    per_s: BytesPerS
    command: Ns = 0


Buses = Mapping[str, Bus]
NO_BUSES: Buses = MappingProxyType({})


_Value = str | int | float | bool


class EmulatedDevice(Table):
    """An emulated device: its model is one of the kit's (`preset`), in a `file`, or inline (`emulated`).

    `set` changes single parameters of the model. `keep` is a file for content and state between
    uses; without it the device is new each time.
    """

    name: Name
    size: SizeBytes
    preset: str | None = None
    file: str | None = None
    emulated: DeviceModel | None = None
    set: dict[str, _Value | dict[str, _Value]] = Field(default_factory=dict)
    keep: str | None = None
    # Of the table [bus.NAME].
    bus: Annotated[Name | None, STORED_IF_SET] = None

    def _problems(self) -> Problems:
        given = [key for key in ("preset", "file", "emulated") if getattr(self, key) is not None]
        if len(given) != 1 and self._needs_model():
            text = " and ".join(given) or "none"
            key: KeyPath = tuple(given[1:2])
            yield key, f"'{self.name}' needs one of preset, file and emulated; found {text}"
        if self.emulated is not None and self.set:
            text = f"'{self.name}': set changes a preset or a file; write the values into emulated"
            yield "set", text
        if self.size < MIN_DEVICE_BYTES or (not self.is_real and self.size % (1 << 20)):
            whole = "" if self.is_real else ", and it must be whole MiB"
            yield "size", f"{self.size} bytes: ZFS needs at least 64MiB{whole}"

    # A validator of single keys, so that a mistake has its line. A file is read later, when its
    # directory is known.
    @field_validator("preset", "set")
    @classmethod
    def _check_preset(cls, value: Any, info: ValidationInfo) -> Any:
        preset, changes = (info.data.get("preset"), value) if info.field_name == "set" else (value, {})
        if preset is not None:
            try:
                resolve(preset, None, changes)
            except OverridesRefused as error:
                problems = [f"{dotted(key)}: {text}" if key else text for key, text in error.problems]
                raise ValueError("\n".join(problems)) from None
            except ConfigError as error:
                raise ValueError(error.message) from None
        return value

    @property
    def is_real(self) -> bool:
        """Or the kit makes it, and so decides its size."""
        return False

    def _needs_model(self) -> bool:
        return True

    @property
    def title(self) -> str:
        """Title of its model, for people; "" before `resolve_devices`."""
        return self.emulated.title if self.emulated else ""


class Device(EmulatedDevice):
    """A device of the pool.

    A real device has `path`, `serial` and `size` (exact); all three must match. In the lab a device is
    emulated, or a null_blk of the guest's kernel (`model = "null_blk"`) with a constant `latency` that
    does not age.
    """

    role: Role
    # Not used, unless an axis of a sweep takes it (`use.ROLE`).
    idle: bool = False
    model: Literal["null_blk"] | None = None
    latency: DurationNs | None = None
    # Rated endurance from the data sheet: bytes that may be written in its life (TBW).
    endurance: Annotated[SizeBytes, Field(gt=0)] | None = None
    # What one costs.
    price: Annotated[Price | None, STORED_IF_SET] = None
    # Of a real device: its own DRAM, from the data sheet; 0 if that holds no data that was read.
    dram: SizeBytes | None = None
    # Of an emulated device: its DRAM is as unknown as that of a real one without `dram`.
    probe_dram: Annotated[bool, STORED_IF_ANY] = False
    path: DevicePath | None = None
    serial: Serial | None = None

    def _problems(self) -> Problems:
        """The keys of a real device, of a null_blk and of a model exclude each other."""
        yield from super()._problems()
        keys: tuple[str, ...] = ("preset", "file", "emulated", "keep", "set", "bus")
        if self.probe_dram and (self.is_real or self.model is not None):
            text = "is for a device with a model; of a real device leave dram out, and a run looks for it"
            yield "probe_dram", f"'{self.name}': {text}"
        if self.is_real:
            if self.serial is None:
                yield (
                    "serial",
                    f"'{self.name}' needs the serial number of the device at {self.path}; "
                    "`hsp host disks --testbed FILE` shows it",
                )
            keys, kind = ("model", "latency", *keys), " has a path, so it is a real device: it"
        elif self.serial is not None:
            text = f"'{self.name}': serial is for a real device, which needs a path too"
            yield "serial", text
            return
        elif self.model is not None:
            if self.latency is None:
                yield "latency", f"'{self.name}': a null_blk needs its latency"
            kind = ': model = "null_blk"'
        else:
            keys, kind = ("latency",), ': a device without model = "null_blk"'
        if not self.is_real:
            keys = ("dram", *keys)
        for key in keys:
            if getattr(self, key) not in (None, {}):
                yield key, f"'{self.name}'{kind} has no {key}; remove it"

    @property
    def is_real(self) -> bool:
        return self.path is not None

    @property
    def read_cache(self) -> int:
        """Bytes of its own DRAM that answer reads again; 0: none, or not known."""
        return self.dram or (self.emulated.read_cache if self.emulated and not self.probe_dram else 0)

    @property
    def has_unknown_dram(self) -> bool:
        """Whether a run has to look for it (kit.setup.device_dram)."""
        return self.probe_dram or (self.is_real and self.dram is None)

    def _needs_model(self) -> bool:
        return self.model is None and not self.is_real

    @property
    def title(self) -> str:
        if self.is_real:
            return f"serial {self.serial}"
        if self.model is None:
            return super().title
        return f"null_blk, constant {format_duration_ns(self.latency or 0)}"


def device_problems(devices: Sequence[EmulatedDevice], buses: Buses) -> Problems:
    """Two devices of one name, a device on a bus that has no table, and a bus without devices."""
    yield from name_problems("device", [device.name for device in devices])
    for number, device in enumerate(devices):
        if device.bus is not None and device.bus not in buses:
            known = f"there is {', '.join(buses)}" if buses else "there is no table [bus.NAME]"
            text = f"'{device.name}' is on '{device.bus}', and {known}: add [bus.{device.bus}] with its per_s"
            yield ("device", number, "bus"), text
    for name in buses:
        if all(device.bus != name for device in devices):
            yield ("bus", name), f'no device has bus = "{name}": add it, or remove the table'


E = TypeVar("E", bound=EmulatedDevice)


def resolve_devices(devices: tuple[E, ...], path: Path) -> tuple[E, ...]:
    """Read the presets and files of the devices into their `emulated`. Raises ConfigError.

    File names in the devices are relative to the directory of `path`, the file that lists them.
    """
    resolved = []
    for number, device in enumerate(devices):
        changes: dict[str, object] = {}
        if device.keep is not None:
            try:
                kept = named_files.beside("testbed.device.[].keep", path, device.keep)
            except ValueError as error:
                raise _unresolved(path, number, "keep", ConfigError(str(error))) from None
            changes["keep"] = os.fspath(kept.absolute())
        if device.preset is not None or device.file is not None:
            try:
                changes["emulated"] = resolve(device.preset, device.file, device.set, path)
            except ConfigError as error:
                key = "preset" if device.file is None else "file"
                raise _unresolved(path, number, key, error) from None
        resolved.append(device.model_copy(update=changes))
    return tuple(resolved)


def _unresolved(path: Path, number: int, key: str, error: ConfigError) -> ConfigError:
    """The refusal of a device's file, or of what its `set` changes."""
    place: KeyPath = ("device", number, "set" if isinstance(error, OverridesRefused) else key)
    texts = [((), text) for text in error.message.splitlines()]
    problems = error.problems if isinstance(error, OverridesRefused) else texts
    line = KeyLines(read_text(path)).line_of(place)
    return refusal(path, [(line, f"{dotted((*place, *inner))}: {text}") for inner, text in problems])


def ages(device: Device) -> bool:
    """Whether its latency depends on earlier writes: real devices and flash models do."""
    model = device.emulated
    if model is None:
        return device.model != "null_blk"
    return model.ssd is not None or (
        model.controller is not None and isinstance(model.controller.device, Ssd)
    )
