"""Control of the emulated devices on a host: start, send commands, read status, stop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.core.errors import HostError
from kit.hosts.base import CommandFailed, Host

# Below /run: removed at the next boot, readable by root only.
DIRECTORY = "/run/hsp-devices"
PROGRAM = f"{DIRECTORY}/hsp-devices"
SOCKET = f"{DIRECTORY}/socket"

_SECTOR_BYTES = 512
# A save writes the whole content; a mark visits each sector.
_TELL_DEADLINE_S = 300.0
TRANSFER_DEADLINE_S = 600.0
_IS_RUNNING = '[ -x "$1" ] && [ -S "$2" ] && exec "$1" tell "$2" status'
# The server removes its socket after the devices.
_AWAIT_END = 'n=0; while [ -S "$1" ]; do n=$((n+1)); [ $n -lt 1000 ] || exit 1; sleep 0.05; done'


@dataclass(frozen=True)
class ServedBus:
    """A bus that devices share: a rate in bytes a second, and a time for each request."""

    name: str
    bytes_per_s: int
    command_ns: int


@dataclass(frozen=True)
class ServedDevice:
    """Definition of one device; `name` is checked by kit.config.testbed, `spec` is from its device_model."""

    name: str
    size_bytes: int
    spec: str
    bus: ServedBus | None = None


def description(devices: Sequence[ServedDevice], dilation: int) -> str:
    """Input file of `hsp-devices serve`. Pure."""
    lines = [f"dilation {dilation}", f"socket {SOCKET}"]
    for bus in dict.fromkeys(device.bus for device in devices if device.bus):
        lines.append(f"bus {bus.name} {bus.bytes_per_s} {bus.command_ns}")
    for device in devices:
        on_bus = f" {device.bus.name}" if device.bus else ""
        lines.append(f"device {device.name} {device.size_bytes // _SECTOR_BYTES}{on_bus}")
        lines += [line for line in device.spec.splitlines() if line]
        lines.append("end")
    return "\n".join(lines) + "\n"


def state_limit_bytes(size_bytes: int) -> int:
    """Most that the state of a device of that size has: its content, a few bytes per page, and a table."""
    return 2 * size_bytes + (64 << 20)


def tell_command(*words: str) -> list[str]:
    """argv that sends one command of server/commands.c. Pure."""
    return [PROGRAM, "tell", SOCKET, *words]


def counters_command(name: str) -> list[str]:
    """argv that prints the counters of a device's model as JSON. Pure."""
    return tell_command(name, "counters")


class ServedDevices:
    """The devices that `hsp-devices` serves on `host`; one set per host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._names: frozenset[str] = frozenset()
        self._throttling: frozenset[str] = frozenset()

    def start(self, program: Path, devices: Sequence[ServedDevice], dilation: int) -> dict[str, str]:
        """Make the devices; returns their paths by name. Raises HostError."""
        host = self.host
        host.run(["mkdir", "-p", "-m", "0700", DIRECTORY])
        # Make a new file: an earlier server may still execute the old one.
        host.run(["rm", "-f", PROGRAM])
        host.put(program.read_bytes(), PROGRAM)
        host.run(["chmod", "0700", PROGRAM])
        host.put(description(devices, dilation).encode(), f"{DIRECTORY}/description")
        # The driver may be built into the kernel; if it is missing, the server reports it.
        host.run(["modprobe", "ublk_drv"], check=False)
        try:
            answer = host.run([PROGRAM, "serve", f"{DIRECTORY}/description"])
        except CommandFailed as error:
            raise HostError(
                f"the emulated devices do not start on {host.name}: {error.result.stderr.strip()}",
                "ublk needs Linux 6.0 or later with CONFIG_BLK_DEV_UBLK; a kernel without it, such as Debian "
                "12's, can have null_blk devices: docs/examples/lab-null-blk.toml",
            ) from error
        paths = {device["name"]: device["path"] for device in json.loads(answer.stdout)}
        self._names = frozenset(paths)
        self._throttling = frozenset(each.name for each in devices if "\nthrottle_" in each.spec)
        return paths

    def is_running(self) -> bool:
        """Whether a server runs on the host, started by this process or another."""
        return self.host.run(["sh", "-c", _IS_RUNNING, "sh", PROGRAM, SOCKET], check=False).returncode == 0

    def state_path(self, name: str) -> str:
        """Path on the host for the state of a device during a transfer."""
        return f"{DIRECTORY}/{name}.state"

    def saved_state(self, name: str, size_bytes: int) -> bytes:
        """Content and state of a device of that size, which must not be in use. Raises HostError."""
        copy = self.state_path(name)
        try:
            self.tell(name, "save", copy)
            limit_bytes = state_limit_bytes(size_bytes)
            return self.host.get(copy, deadline_s=TRANSFER_DEADLINE_S, limit_bytes=limit_bytes)
        finally:
            self.host.run(["rm", "-f", copy])

    def log_text(self) -> str:
        """The server's log."""
        return self.host.run(["cat", f"{SOCKET}.log"], check=False).stdout.strip()

    def tell(self, *words: str, after_s: float = 0) -> str:
        """Send one command of server/commands.c; returns the answer. Raises HostError if it is refused.

        `after_s`: delay before the command, on the host's clock.
        """
        argv = tell_command(*words)
        if after_s:
            argv = ["sh", "-c", 'sleep "$1"; shift; exec "$@"', "sh", f"{after_s:.6f}", *argv]
        try:
            answer = self.host.run(argv, deadline_s=_TELL_DEADLINE_S)
        except CommandFailed as error:
            reason = error.result.stderr.strip().removeprefix("hsp-devices: ")
            raise HostError(
                f"the devices on {self.host.name} refuse '{' '.join(words)}': {reason}"
            ) from error
        return answer.stdout.strip()

    def status(self) -> list[dict[str, Any]]:
        """Status of each device: name, path, bytes, own_cost_ns (host clock), crashes, power_losses."""
        devices: list[dict[str, Any]] = json.loads(self.tell("status"))
        return devices

    def counters_command(self, name: str) -> list[str] | None:
        """argv that prints the counters of a device's model as JSON; None for a device that has none."""
        return counters_command(name) if name in self._names else None

    def throttle_command(self, name: str) -> list[str] | None:
        """The same, of a device whose model throttles; None for another one."""
        return counters_command(name) if name in self._throttling else None

    def counters(self, name: str) -> dict[str, int]:
        """Counters of a device's model since it was made."""
        counters: dict[str, int] = json.loads(self.tell(name, "counters"))
        return counters

    def crashes(self) -> int:
        """Number of crashes of the server; each restart begins with new models."""
        return max(int(device["crashes"]) for device in self.status())

    def power_losses(self) -> dict[str, int]:
        """How often each device has lost its power since it was made, by name."""
        return {str(device["name"]): int(device["power_losses"]) for device in self.status()}

    def faults(self) -> list[tuple[int, str]]:
        """Injected faults: monotonic time of the host (ns), command."""
        return [(int(fault["at_ns"]), str(fault["what"])) for fault in json.loads(self.tell("faults"))]

    def mark(self) -> int:
        """Mark the content that a power loss of all devices would leave; returns the host's monotonic ns."""
        return int(self.tell("all", "mark"))

    def restore(self) -> None:
        """Return all devices to the content after the power loss at the mark. They must not be in use."""
        self.tell("all", "return")

    def stop(self) -> None:
        """Remove the devices; they must not be in use."""
        self.tell("stop")
        self.host.run(["sh", "-c", _AWAIT_END, "sh", SOCKET], deadline_s=_TELL_DEADLINE_S)
