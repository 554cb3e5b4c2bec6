"""The testbed: on what is measured. Frozen values read from a TOML file."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kit.config.address import HostAddress, parse_address
from kit.config.device_model import DeviceModel, Ssd, resolve
from kit.config.toml import load
from kit.core.clock import Clock, ClockKind
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import DurationNs, SizeBytes, format_duration_ns

LAB_TESTBED = Path(__file__).parents[1] / "lab" / "testbed.toml"
"""What `hsp demo` uses."""

Role = Literal["data", "log", "cache"]
# A name becomes a file name below /dev and a configfs directory.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]

# ZFS refuses smaller devices (SPA_MINDEVSIZE, include/sys/fs/zfs.h).
MIN_DEVICE_BYTES = 64 << 20


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# Where udev puts links to devices, and what it writes in them (udev(7): other characters become \\xHH).
_DEVICE_PATH = re.compile(r"/dev(/(?!\.\.?(/|$))[A-Za-z0-9#+.:=@_\\-]{1,200}){1,8}")
_EXPORT = re.compile(r"(?P<host>[^/]{1,255}):(?P<path>(/(?!\.\.?(/|$))[A-Za-z0-9._@+-]{1,200}){1,20})")
_SERIAL = re.compile(r"(?! )[\x20-\x7e]{1,128}(?<! )")


def _matches(text: str, pattern: re.Pattern[str], expected: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"expected {expected}, found '{safe_text(text)[:100]}'")
    return text


DevicePath = Annotated[
    str, AfterValidator(lambda text: _matches(text, _DEVICE_PATH, "a path such as /dev/disk/by-id/ata-X_123"))
]
Serial = Annotated[
    str, AfterValidator(lambda text: _matches(text, _SERIAL, "a serial number, in printable ASCII"))
]


def _address_of_a_host(text: str) -> str:
    parse_address(text)
    return text


HostText = Annotated[str, AfterValidator(_address_of_a_host)]


def _ip_address(text: str) -> str:
    ipaddress.ip_address(text)
    return text


IpText = Annotated[str, AfterValidator(_ip_address)]


class _Host(_Table):
    """`host`: where commands run; `address`: its IP address as the other side of NFS sees it."""

    host: HostText
    address: IpText | None = None

    @property
    def at(self) -> HostAddress:
        return parse_address(self.host)


class Server(_Host):
    """Where the pool and the NFS server are.

    `host = "none"`: an appliance that nobody can log into; its `export` is used as it is.
    `trace = "none"`: never ask the kernel which tier answered.
    """

    export: str | None = None
    trace: Literal["auto", "none"] = "auto"

    @field_validator("export")
    @classmethod
    def _is_an_export(cls, text: str | None) -> str | None:
        if text is not None:
            found = _EXPORT.fullmatch(text)
            if not found:
                raise ValueError(f"'{safe_text(text)}' is no export; write it as nas:/pool/export")
            if not found["host"].startswith("["):
                parse_address(f"ssh://{found['host']}")
        return text

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.at.kind == "none" and self.export is None:
            raise ValueError(
                'host = "none" is an appliance: name what it exports, as in export = "nas:/pool/x"'
            )
        if self.at.kind != "none" and self.export is not None:
            raise ValueError('export is of host = "none"; elsewhere the kit makes pool and export itself')
        return self


class Client(_Host):
    """Where load comes from; in the lab each client is a network namespace of its own."""

    @field_validator("host")
    @classmethod
    def _does_something(cls, host: str) -> str:
        if host == "none":
            raise ValueError("a client has to run commands: none is for the server of an appliance")
        return host


class Lab(_Table):
    """The guest. `dilation`: how many times faster its CPU shall look; virtual clock only."""

    clock: ClockKind = "virtual"
    dilation: Annotated[int, Field(ge=1, le=64)] = 1
    memory: SizeBytes = 4 << 30


def _resolve_preset(name: str, changes: dict[str, Any]) -> None:
    """Raises ValueError for an unknown preset, and for changes that are none of it."""
    try:
        resolve(name, None, changes)
    except ConfigError as error:
        raise ValueError(error.message.removeprefix("set.")) from None


class EmulatedDevice(_Table):
    """An emulated device: one of the kit's models (`preset`), of a `file`, or written here (`emulated`).

    `set` changes single parameters of it. `keep` is a file that holds content and state from one
    time to the next; without it the device is a new one each time.
    """

    name: Name
    size: SizeBytes
    preset: str | None = None
    file: str | None = None
    emulated: DeviceModel | None = None
    set: dict[str, str | int | float | bool] = {}
    keep: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [key for key in ("preset", "file", "emulated") if getattr(self, key) is not None]
        if len(given) != 1 and self._needs_model():
            found = " and ".join(given) or "none"
            raise ValueError(f"'{self.name}' needs one of preset, file and emulated; found {found}")
        if self.emulated is not None and self.set:
            raise ValueError(f"'{self.name}': set changes a preset or a file; write the values into emulated")
        _check_size(self.size, whole_mib=self._is_made())
        return self

    # As validators of single keys, so that a mistake has its line; a file is read later, when it is
    # known where it lies.
    @field_validator("preset")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None:
            _resolve_preset(name, {})
        return name

    @field_validator("set")
    @classmethod
    def _fits_the_preset(cls, changes: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if changes and info.data.get("preset") is not None:
            _resolve_preset(info.data["preset"], changes)
        return changes

    def _needs_model(self) -> bool:
        return True

    def _is_made(self) -> bool:
        """Whether the kit makes it, and so decides its size."""
        return True

    @property
    def title(self) -> str:
        """What it is, in words."""
        return self.emulated.title if self.emulated else ""


class Device(EmulatedDevice):
    """A device of the pool.

    A real one has `path`, `serial` and `size` (exact), and is refused if they do not fit together. In the
    lab it is emulated. Instead of a model it may be a null_blk of the guest's kernel
    (`model = "null_blk"`), whose `latency` is constant: nothing of it ages.
    """

    role: Role
    model: Literal["null_blk"] | None = None
    latency: DurationNs | None = None
    # How much may be written to it in its life, as its data sheet has it (TBW).
    endurance: Annotated[SizeBytes, Field(gt=0)] | None = None
    path: DevicePath | None = None
    serial: Serial | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.is_real:
            return self._real()
        if self.serial is not None:
            raise ValueError(f"'{self.name}': serial is of a real device, which has a path as well")
        if self.model is None:
            if self.latency is not None:
                raise ValueError(f"'{self.name}': latency is of model = \"null_blk\", which is constant")
            return self
        if self.latency is None:
            raise ValueError(f"'{self.name}': a null_blk needs its latency")
        for key in ("preset", "file", "emulated", "keep"):
            if getattr(self, key) is not None:
                raise ValueError(f"'{self.name}': model = \"null_blk\" has no {key}")
        if self.set:
            raise ValueError(f"'{self.name}': model = \"null_blk\" has no set")
        return self

    def _real(self) -> Self:
        if self.serial is None:
            raise ValueError(
                f"'{self.name}' needs the serial number of the device at {self.path}; "
                "`hsp devices --testbed FILE` shows it"
            )
        for key in ("model", "latency", "preset", "file", "emulated", "keep"):
            if getattr(self, key) is not None:
                raise ValueError(f"'{self.name}' has a path, so it is a real device: it has no {key}")
        if self.set:
            raise ValueError(f"'{self.name}' has a path, so it is a real device: it has no set")
        return self

    @property
    def is_real(self) -> bool:
        return self.path is not None

    def _needs_model(self) -> bool:
        return self.model is None and not self.is_real

    def _is_made(self) -> bool:
        return not self.is_real

    @property
    def title(self) -> str:
        if self.is_real:
            return f"serial {self.serial}"
        if self.model is None:
            return super().title
        return f"null_blk, constant {format_duration_ns(self.latency or 0)}"


def _check_size(size_bytes: int, whole_mib: bool) -> None:
    if size_bytes < MIN_DEVICE_BYTES or (whole_mib and size_bytes % (1 << 20)):
        whole = ", and it must be whole MiB" if whole_mib else ""
        raise ValueError(f"size is {size_bytes} bytes: ZFS needs at least 64MiB{whole}")


E = TypeVar("E", bound=EmulatedDevice)


def resolve_devices(devices: tuple[E, ...], path: Path) -> tuple[E, ...]:
    """The devices with their models in them, presets and files read. Raises ConfigError.

    `path` is the file that names them; what it names lies beside it.
    """
    return tuple(_resolved(device, path) for device in devices)


def _resolved(device: E, path: Path) -> E:
    changes: dict[str, object] = {}
    if device.keep is not None:
        changes["keep"] = os.fspath((path.parent / device.keep).absolute())
    if device.preset is not None or device.file is not None:
        try:
            changes["emulated"] = resolve(device.preset, device.file, device.set, path.parent)
        except ConfigError as error:
            raise ConfigError(f"{path}: device '{device.name}': {error.message}", error.hint) from None
    return device.model_copy(update=changes)


class Testbed(_Table):
    """Server, clients, devices by role, and for the built-in lab its clock."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: Name = "lab"
    # Read in place of the user's and the system's SSH configuration; lies beside the testbed.
    ssh_config: Annotated[str, Field(min_length=1)] | None = None
    server: Server
    client: Annotated[tuple[Client, ...], Field(min_length=1, max_length=16)]
    lab: Lab = Lab()
    device: tuple[Device, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [device.name for device in self.device]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two devices are called '{name}'")
        _check_hosts(self)
        if self.is_lab:
            _check_lab(self)
        elif self.lab != Lab():
            raise ValueError('the table [lab] is for server.host = "lab"')
        return self

    @property
    def is_lab(self) -> bool:
        return self.server.at.kind == "lab"

    @property
    def is_appliance(self) -> bool:
        return self.server.at.kind == "none"

    def devices(self, role: Role) -> tuple[Device, ...]:
        return tuple(device for device in self.device if device.role == role)

    @property
    def clock(self) -> Clock:
        return Clock(self.lab.clock, self.lab.dilation) if self.is_lab else Clock("real")


def _check_hosts(testbed: Testbed) -> None:
    """All in the lab or none, and devices where a pool is to be built."""
    in_lab = [client.at.kind == "lab" for client in testbed.client]
    if any(found != testbed.is_lab for found in in_lab):
        raise ValueError("server and clients are all in the lab, or none of them is")
    if testbed.is_appliance:
        if testbed.device:
            raise ValueError('server.host = "none" has no devices that the kit could know: remove [[device]]')
        return
    for device in testbed.device:
        if device.is_real == testbed.is_lab:
            should = "is made by the lab, so it has no path" if testbed.is_lab else "needs path and serial"
            raise ValueError(f"'{device.name}' {should}")
    hosts = [client.host for client in testbed.client]
    for host in hosts:
        if not testbed.is_lab and hosts.count(host) > 1:
            raise ValueError(
                f"the client {host} is named twice; more load on one client is numjobs in the fio job"
            )


def _check_lab(testbed: Testbed) -> None:
    if testbed.lab.clock == "real" and testbed.lab.dilation != 1:
        raise ValueError('lab.dilation needs lab.clock = "virtual": real time cannot be slowed')
    stored = sum(device.size for device in testbed.device)
    if stored > testbed.lab.memory // 2:
        raise ValueError(
            f"the devices hold {stored >> 20} MiB, more than half of the guest's "
            f"{testbed.lab.memory >> 20} MiB of memory they are kept in"
        )


def ages(device: Device) -> bool:
    """Whether its latency depends on what was written to it before: flash does, what is constant does not."""
    model = device.emulated
    if model is None:
        return device.model != "null_blk"
    return model.ssd is not None or (
        model.controller is not None and isinstance(model.controller.device, Ssd)
    )


def read_testbed(path: Path) -> Testbed:
    """Raises ConfigError with file, line and key."""
    testbed = load(path, Testbed)
    changes: dict[str, object] = {"device": resolve_devices(testbed.device, path)}
    if testbed.ssh_config is not None:
        config = (path.parent / testbed.ssh_config).absolute()
        if not config.is_file():
            raise ConfigError(
                f"{path}: ssh_config: there is no file {config}",
                "names are looked up from the testbed's own directory",
            )
        changes["ssh_config"] = os.fspath(config)
    return testbed.model_copy(update=changes)


def client_key(number: int) -> str:
    """What a journal calls the client of that number, from 0."""
    return f"client{number}"
