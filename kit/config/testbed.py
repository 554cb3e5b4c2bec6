"""The testbed: server, clients and devices of a measurement. Frozen values read from a TOML file."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator

from kit.config.address import HostAddress, parse_address
from kit.config.device_model import VersionText
from kit.config.tables.command_table import OwnCommand
from kit.config.tables.phase_table import Phase
from kit.config.tables.power_table import Power, Restart, power_problems, restart_problems
from kit.config.tables.precondition_table import Role
from kit.config.tables.setting_table import Setting
from kit.config.testbed_devices import Bus, Device, Name, device_problems, resolve_devices
from kit.config.toml import (
    STORED_IF_ANY,
    STORED_IF_SET,
    Problems,
    Table,
    load,
    name_problems,
    read_text,
    refusal,
)
from kit.config.toml_lines import KeyLines
from kit.core.clock import Clock, ClockKind
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import SizeBytes

LAB_TESTBED = Path(__file__).parents[1] / "lab" / "testbed.toml"
"""Testbed of `hsp demo`."""

TABLES_WITH_COMMANDS = ("setting", "command", "power", "restart")
_EXPORT = re.compile(r"(?P<host>[^/]{1,255}):(?P<path>(/(?!\.\.?(/|$))[A-Za-z0-9._@+-]{1,200}){1,20})")


def checked_export(text: str) -> str:
    """An appliance's export. Raises ValueError."""
    match = _EXPORT.fullmatch(text)
    if not match:
        raise ValueError(f"'{safe_text(text)}' is not an export; write it as nas:/pool/export")
    if not match["host"].startswith("["):
        parse_address(f"ssh://{match['host']}")
    return text


HostText = Annotated[str, AfterValidator(lambda text: parse_address(text) and text)]
IpText = Annotated[str, AfterValidator(lambda text: ipaddress.ip_address(text) and text)]


class _Host(Table):
    """A machine. `host`: where commands run; `address`: its IP address for NFS."""

    host: HostText
    address: IpText | None = None

    @property
    def at(self) -> HostAddress:
        """Parsed address of `host`."""
        return parse_address(self.host)


class Server(_Host):
    """The NFS server with the pool.

    `host = "none"`: an appliance without login; its `export` is used as it is.
    `trace = "none"`: do not trace in the kernel which tier answered. `version`: of an appliance or of the
    system on the server, as its maker writes it; recorded, for `hsp trend`.
    """

    export: str | None = None
    version: Annotated[VersionText | None, STORED_IF_SET] = None
    trace: Literal["auto", "none"] = "auto"

    @field_validator("export")
    @classmethod
    def _check_export(cls, text: str | None) -> str | None:
        return text if text is None else checked_export(text)

    def _problems(self) -> Problems:
        if self.at.kind == "none" and self.export is None:
            yield "export", 'host = "none" is an appliance: add its export, as in export = "nas:/pool/x"'
        if self.at.kind != "none" and self.export is not None:
            text = 'export is for host = "none"; on other servers the kit makes pool and export: remove it'
            yield "export", text


class Client(_Host):
    """A client that generates load; in the lab each client is a network namespace."""

    @field_validator("host")
    @classmethod
    def _check_login(cls, host: str) -> str:
        if host == "none":
            raise ValueError("a client has to run commands: none is for the server of an appliance")
        return host


class Lab(Table):
    """The guest. `dilation`: how many times faster its CPU appears; virtual clock only."""

    clock: ClockKind = "virtual"
    dilation: Annotated[int, Field(ge=1, le=64)] = 1
    memory: SizeBytes = 4 << 30


class Testbed(Table):
    """Server, clients, devices by role, and the clock of the built-in lab."""

    __test__ = False  # pytest: not a test class

    name: Name = "lab"
    # Replaces the user's and the system's SSH configuration; relative to the testbed's directory.
    ssh_config: Annotated[str, Field(min_length=1)] | None = None
    server: Server
    client: Annotated[tuple[Client, ...], Field(min_length=1, max_length=16)]
    lab: Lab = Lab()
    bus: Annotated[dict[Name, Bus], STORED_IF_ANY] = Field(default_factory=dict)
    device: tuple[Device, ...] = ()
    setting: Annotated[tuple[Setting, ...], STORED_IF_ANY] = ()
    command: Annotated[tuple[OwnCommand, ...], STORED_IF_ANY] = ()
    power: Annotated[Power | None, STORED_IF_SET] = None
    restart: Annotated[Restart | None, STORED_IF_SET] = None

    def _problems(self) -> Problems:
        yield from device_problems(self.device, self.bus)
        yield from name_problems("setting", [each.name for each in self.setting])
        yield from name_problems("command", [each.name for each in self.command])
        yield from power_problems(self.power, self.server.at, self.device)
        yield from restart_problems(self.restart, self.server.at)
        yield from _host_problems(self)
        if self.is_lab:
            yield from _lab_problems(self)
        elif self.lab != Lab():
            yield "lab", 'the table [lab] is for server.host = "lab": remove it'

    @property
    def is_lab(self) -> bool:
        return self.server.at.kind == "lab"

    @property
    def is_appliance(self) -> bool:
        return self.server.at.kind == "none"

    def devices(self, role: Role) -> tuple[Device, ...]:
        return tuple(device for device in self.device if device.role == role)

    def devices_of(self, phase: Phase) -> tuple[Device, ...]:
        """Those that a phase on devices goes to, in their order here."""
        named = [each for each in self.device if not phase.devices or each.name in phase.devices]
        chosen = tuple(each for each in named if each.role == phase.role)
        return chosen[: phase.array.members] if phase.array else chosen

    def command_named(self, name: str) -> OwnCommand | None:
        return next((each for each in self.command if each.name == name), None)

    @property
    def without_idle(self) -> Self:
        """The testbed of a run: without the devices that it does not use."""
        return self.model_copy(update={"device": tuple(each for each in self.device if not each.idle)})

    @property
    def clock(self) -> Clock:
        return Clock(self.lab.clock, self.lab.dilation) if self.is_lab else Clock("real")


def _host_problems(testbed: Testbed) -> Problems:
    """All hosts must be in the lab or none, and the devices must fit the server."""
    for number, client in enumerate(testbed.client):
        if (client.at.kind == "lab") != testbed.is_lab:
            text = f"{client.host}, and the server is {testbed.server.host}: all must be in the lab, or none"
            yield ("client", number, "host"), text
    if testbed.is_appliance:
        if testbed.device:
            yield ("device", 0), 'server.host = "none": the kit cannot use its devices; remove [[device]]'
        return
    for number, device in enumerate(testbed.device):
        if device.is_real == testbed.is_lab:
            problem = "is made by the lab, so it has no path" if testbed.is_lab else "needs path and serial"
            yield ("device", number, "path"), f"'{device.name}' {problem}"
    hosts = [client.host for client in testbed.client]
    for number, host in enumerate(hosts):
        if not testbed.is_lab and host in hosts[:number]:
            text = (
                f"the client {host} is listed twice; for more load on one client use numjobs in the fio job"
            )
            yield ("client", number, "host"), text


def _lab_problems(testbed: Testbed) -> Problems:
    if testbed.lab.clock == "real" and testbed.lab.dilation != 1:
        yield ("lab", "dilation"), 'lab.dilation needs lab.clock = "virtual": real time cannot be slowed'
    if text := memory_problem(testbed.without_idle):
        yield ("lab", "memory"), text


def memory_problem(testbed: Testbed) -> str:
    """Why the lab cannot have all these devices; "" if it can."""
    mib, memory_mib = sum(device.size for device in testbed.device) >> 20, testbed.lab.memory >> 20
    text = f"the devices hold {mib} MiB, more than half of the guest's {memory_mib} MiB of memory, where they"
    return f"{text} are stored: make it larger, or them smaller" if mib > memory_mib // 2 else ""


def read_testbed(path: Path, by: Path | None = None) -> Testbed:
    """Read a testbed file. Raises ConfigError with file, line and key.

    `by`: the workload that names it. It may then be the lab alone, and name nothing but data.
    """
    testbed = load(path, Testbed, by)
    if by:
        _refuse_reach(testbed, path)
    changes: dict[str, object] = {"device": resolve_devices(testbed.device, path)}
    if testbed.ssh_config is not None:
        config = (path.parent / testbed.ssh_config).absolute()
        if not config.is_file():
            text = f"ssh_config: there is no file {config}; the name is relative to the testbed's directory"
            raise refusal(path, [(KeyLines(read_text(path)).line_of(("ssh_config",)), text)])
        changes["ssh_config"] = os.fspath(config)
    return testbed.model_copy(update=changes)


def _refuse_reach(testbed: Testbed, path: Path) -> None:
    """Raises ConfigError for a testbed that a workload must not name."""
    keys = {
        f'server.host = "{testbed.server.host}"': not testbed.is_lab,
        **{key: bool(getattr(testbed, key)) for key in ("ssh_config", *TABLES_WITH_COMMANDS)},
        "device.keep": any(device.keep for device in testbed.device),
    }
    found = [key for key, there in keys.items() if there]
    if found:
        raise ConfigError(
            f"{path}: a workload names it (lab), so it may be the lab alone, and it has {', '.join(found)}",
            f"read it; if it is what you want, name it yourself: --testbed {path}",
        )


def client_key(number: int) -> str:
    """Name of client number `number` (from 0) in the journal."""
    return f"client{number}"
