"""Emulated devices that are being served on a host: made, told what to do, looked at, ended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.core.errors import HostError
from kit.hosts.base import CommandFailed, Host

# Below /run: gone with the guest, and nobody but root may look into it.
DIRECTORY = "/run/hsp-devices"
PROGRAM = f"{DIRECTORY}/hsp-devices"
SOCKET = f"{DIRECTORY}/socket"

_SECTOR_BYTES = 512
# A save writes the whole content; a mark looks at each sector.
_TELL_DEADLINE_S = 300.0
_IS_RUNNING = '[ -x "$1" ] && [ -S "$2" ] && exec "$1" tell "$2" status'
# Its socket goes when the devices are gone.
_AWAIT_END = 'n=0; while [ -S "$1" ]; do n=$((n+1)); [ $n -lt 1000 ] || exit 1; sleep 0.05; done'
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


@dataclass(frozen=True)
class ServedDevice:
    """What one device is made from: `spec` are the lines of kit.config.device_model."""

    name: str
    size_bytes: int
    spec: str


def description(devices: Sequence[ServedDevice], dilation: int) -> str:
    """What `hsp-devices serve` reads. Pure."""
    lines = [f"dilation {dilation}", f"socket {SOCKET}"]
    for device in devices:
        if not _NAME.fullmatch(device.name):
            raise ValueError(f"'{device.name}' is not a name of a device")
        lines.append(f"device {device.name} {device.size_bytes // _SECTOR_BYTES}")
        lines += [line for line in device.spec.splitlines() if line]
        lines.append("end")
    return "\n".join(lines) + "\n"


class Served:
    """The devices that `hsp-devices` serves on `host`. One set of them a host."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def start(self, program: Path, devices: Sequence[ServedDevice], dilation: int) -> dict[str, str]:
        """Make the devices; returns the path of each by name. Raises HostError."""
        host = self.host
        host.run(["mkdir", "-p", "-m", "0700", DIRECTORY])
        # A new file: the one of a server before this may still be executed.
        host.run(["rm", "-f", PROGRAM])
        host.put(program.read_bytes(), PROGRAM)
        host.run(["chmod", "0700", PROGRAM])
        host.put(description(devices, dilation).encode(), f"{DIRECTORY}/description")
        # It may be built into the kernel; if it is not there at all, the server says so.
        host.run(["modprobe", "ublk_drv"], check=False)
        try:
            answer = host.run([PROGRAM, "serve", f"{DIRECTORY}/description"])
        except CommandFailed as error:
            raise HostError(
                f"the emulated devices do not start on {host.name}: {error.result.stderr.strip()}",
                "ublk needs Linux 6.0 or later with CONFIG_BLK_DEV_UBLK; a kernel without it, such as Debian "
                "12's, can have null_blk devices: docs/examples/lab-null-blk.toml",
            ) from error
        return {device["name"]: device["path"] for device in json.loads(answer.stdout)}

    def is_running(self) -> bool:
        """Whether devices are being served on the host, by whomever."""
        return self.host.run(["sh", "-c", _IS_RUNNING, "sh", PROGRAM, SOCKET], check=False).returncode == 0

    def state_path(self, name: str) -> str:
        """Where the state of a device lies on the host while it is on its way."""
        return f"{DIRECTORY}/{name}.state"

    def log_text(self) -> str:
        """What the server has said."""
        return self.host.run(["cat", f"{SOCKET}.log"], check=False).stdout.strip()

    def tell(self, *words: str, after_s: float = 0) -> str:
        """One command of server/commands.c; returns the answer. Raises HostError with the refusal.

        `after_s`: how long to wait before, on the host's own clock.
        """
        argv = [PROGRAM, "tell", SOCKET, *words]
        if after_s:
            argv = ["sh", "-c", 'sleep "$1"; shift; exec "$@"', "sh", f"{after_s:.6f}", *argv]
        try:
            answer = self.host.run(argv, deadline_s=_TELL_DEADLINE_S)
        except CommandFailed as error:
            said = error.result.stderr.strip().removeprefix("hsp-devices: ")
            raise HostError(f"the devices on {self.host.name} refuse '{' '.join(words)}': {said}") from error
        return answer.stdout.strip()

    def status(self) -> list[dict[str, Any]]:
        """name, path, bytes, own_cost_ns (host clock), crashes; of each device."""
        found = json.loads(self.tell("status"))
        assert isinstance(found, list)
        return found

    def counters(self, name: str) -> dict[str, int]:
        """What the model of one device has counted since it was made."""
        found = json.loads(self.tell(name, "counters"))
        assert isinstance(found, dict)
        return found

    def crashes(self) -> int:
        """How often the server died and was started again: the models began anew each time."""
        return max(int(device["crashes"]) for device in self.status())

    def faults(self) -> list[tuple[int, str]]:
        """Faults that were triggered: monotonic time of the host (ns), what."""
        return [(int(fault["at_ns"]), str(fault["what"])) for fault in json.loads(self.tell("faults"))]

    def mark(self) -> int:
        """Remember what a power loss of all devices now would leave; returns the host's monotonic ns."""
        return int(self.tell("all", "mark"))

    def restore(self) -> None:
        """Make the devices what the power loss at the mark left. They must not be in use."""
        self.tell("all", "return")

    def stop(self) -> None:
        """End the devices; they must not be in use."""
        self.tell("stop")
        self.host.run(["sh", "-c", _AWAIT_END, "sh", SOCKET], deadline_s=_TELL_DEADLINE_S)
