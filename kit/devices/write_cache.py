"""The volatile write cache of a device: whether it is on, and how it is switched.

    SATA      hdparm -W DEVICE, -W0, -W1                     ATA8-ACS, SET FEATURES 02h and 82h; hdparm(8)
    SCSI      sdparm --get=WCE, --set=WCE, --clear=WCE       SBC, caching mode page; sdparm(8)
    NVMe      nvme get-feature, set-feature                  base specification, feature 06h
    emulated  the server of the models                       kit/emulation/server/commands.c

None of them is saved: after a power cycle the device is as it was delivered. The file queue/write_cache of
sysfs is no switch: "write through" there stops the kernel's flushes, and leaves the cache on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kit.core.errors import HostError
from kit.devices.inventory import Node
from kit.hosts.base import Command, CommandResult, Host
from kit.hosts.file_settings import last_line
from kit.hosts.held_device import kernel_name

ToolName = Literal["hdparm", "sdparm", "nvme", "model"]
Value = Literal["on", "off"]

# Of the server of emulated devices (kit.emulation.served).
MODEL_COMMAND = ("/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket")
_DEADLINE_S = 300.0
_NVME = re.compile(r"(nvme[0-9]+)n[0-9]+")
_ANSWERS = {
    "hdparm": re.compile(r"^\s*write-caching\s*=\s*([01])\b", re.MULTILINE),
    # cha: whether it can be changed; drives that cannot say have no such column.
    "sdparm": re.compile(r"^WCE\s+([01])(?!.*cha: n)", re.MULTILINE),
    "nvme": re.compile(r"Current value:\s*(?:0x)?0*([01])\s*$", re.MULTILINE),
    "model": re.compile(r"^(on|off)$"),
}
_VALUES: dict[str, Value] = {"0": "off", "1": "on", "off": "off", "on": "on"}


def argv_of(tool: str, path: str, value: str = "") -> list[str]:
    """argv that switches the cache of the device at `path` to `value`; without one, that reads it.

    `path`: of an NVMe device its controller's, of an emulated one its name.
    """
    return {
        "hdparm": ["hdparm", {"": "-W", "on": "-W1", "off": "-W0"}[value], path],
        "sdparm": ["sdparm", {"": "--get=WCE", "on": "--set=WCE", "off": "--clear=WCE"}[value], path],
        # Short options changed: -v was the value, and is "verbose" since nvme-cli 2.
        "nvme": ["nvme", "set-feature" if value else "get-feature", path, "--feature-id=6"]
        + {"": [], "on": ["--value=1"], "off": ["--value=0"]}[value],
        "model": [*MODEL_COMMAND, path, "write-cache", *([value] if value else [])],
    }[tool]


@dataclass(frozen=True)
class WriteCache:
    """The cache of one device. `device`: the testbed's name; `serial`: "" for an emulated one."""

    device: str
    path: str
    tool: ToolName
    serial: str = ""
    name = "write_cache"

    def read(self, host: Host) -> Value | None:
        """Whether it is on; None: the device has none that can be switched. Raises HostError."""
        place = self._place(host)
        argv = argv_of(self.tool, place)
        answer = host.run(argv, check=False, deadline_s=_DEADLINE_S)
        if answer.returncode in (126, 127):
            raise HostError(
                f"on {host.name}: {self.tool} is not installed; it switches the write cache of {self.path}",
                "install it there, or take host.write_cache out of the workload",
            )
        found = _ANSWERS[self.tool].search(answer.stdout.strip() if self.tool == "model" else answer.stdout)
        return _VALUES[found[1]] if found else None

    def command(self, host: Host, value: str) -> Command:
        """What switches it. Raises HostError."""
        return Command(tuple(argv_of(self.tool, self._place(host), value)), deadline_s=_DEADLINE_S)

    def write(self, host: Host, value: str) -> None:
        """Switch, and read back. Raises HostError."""
        self.check_switched(host, value, self.command(host, value).run(host, check=False))

    def check_switched(self, host: Host, value: str, answer: CommandResult) -> None:
        """Read back. `answer`: that of `command`. Raises HostError."""
        if self.tool == "model" and answer.stdout.strip().isdigit():
            # The drive answers when its cache is written out.
            host.run(["sleep", f"{int(answer.stdout) / 1e9:.6f}"], deadline_s=_DEADLINE_S)
        kernel = self._tell_kernel(host)
        observed = self.read(host)
        if observed != value:
            raise HostError(
                f"on {host.name}: the write cache of {self.path} was switched {value} "
                f"but reads {observed or 'nothing'}",
                f"{self.tool} ended with {answer.returncode}: {last_line(answer)}",
            )
        if value == "on" and kernel == "write through":
            raise HostError(
                f"on {host.name}: the write cache of {self.path} is on, and the kernel takes it to be off",
                "it would not flush the device, so that a power loss lost what it calls written",
            )

    def _place(self, host: Host) -> str:
        """The tool's argument; of an NVMe device its controller."""
        if self.tool != "nvme":
            return self.device if self.tool == "model" else self.path
        name = _NVME.fullmatch(kernel_name(host, self.path))
        if not name:
            raise HostError(
                f"{self.path} on {host.name} is not an NVMe device any more", "was it pulled out?"
            )
        return f"/dev/{name[1]}"

    def _tell_kernel(self, host: Host) -> str:
        """Let the kernel read a SCSI disk again; what it takes the cache to be, "" if it does not say."""
        if self.tool == "model":
            return ""
        place = f"/sys/class/block/{kernel_name(host, self.path)}"
        if self.tool in ("hdparm", "sdparm"):
            host.run(["tee", f"{place}/device/rescan"], stdin=b"1\n", check=False)
        return host.run(["cat", "--", f"{place}/queue/write_cache"], check=False).stdout.strip()


def tool_of(node: Node) -> ToolName | None:
    """The tool for a device, by its kind; None where there is none."""
    if _NVME.fullmatch(node.kernel_name):
        return "nvme"
    if node.transport in ("sata", "ata"):
        return "hdparm"
    # Behind a HBA, disks of SATA too: the HBA or the kernel translates.
    return "sdparm" if node.kernel_name.startswith("sd") and node.transport != "usb" else None
