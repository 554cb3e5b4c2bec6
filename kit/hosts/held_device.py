"""A device of a host as a descriptor: opened once on the host, compared, and handed to a command.

Names in /dev are links that udev moves, and a check of a name says nothing about the next use of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import SafetyRefusal
from kit.hosts.base import CommandFailed, Host

HELPER = Path(__file__).parents[1] / "remote" / "open_device.py"
PLACE = "/proc/self/fd/9"
"""The path of the device for the command."""
_ANOTHER = 4


@dataclass(frozen=True)
class HeldDevice:
    """What `path` led to when it was checked. `number`: MAJOR:MINOR.

    `sequence`: new each time a disk is connected (diskseq since Linux 5.15, else "").
    """

    path: str
    number: str
    sequence: str = ""

    @property
    def word(self) -> str:
        """Argument of the program in C, which opens it itself (kit/load/programs/force_load.c)."""
        return f"{self.number}:{self.sequence}"

    def command(self, argv: Sequence[str]) -> list[str]:
        """argv that opens it and becomes `argv`, for which it is at PLACE."""
        text = HELPER.read_text()
        return [
            "/usr/bin/python3", "-I", "-S", "-c", text, self.path, self.number, self.sequence, *argv
        ]  # fmt: skip

    def check(self, host: Host) -> None:
        """For tools that insist on a name: right before and right after them. Raises SafetyRefusal."""
        looked = host.run(self.command(["true"]), check=False)
        if looked.returncode == _ANOTHER:
            raise SafetyRefusal(
                f"on {host.name}: {looked.stderr.strip()}",
                "devices were changed during the run; check with `hsp host disks`, and start again",
            )
        if looked.returncode:
            raise CommandFailed(looked)


def kernel_name(host: Host, path: str) -> str:
    """The name in /sys/class/block of what `path` leads to now; "" if there is nothing."""
    answer = host.run(["readlink", "--canonicalize-existing", "--", path], check=False)
    return answer.stdout.strip().rpartition("/")[2]


def command_on(device: HeldDevice | None, argv: Sequence[str]) -> list[str]:
    """`argv` on a device that is held; of what is no device, as it is."""
    return device.command(argv) if device else list(argv)


def place_on(device: HeldDevice | None, place: str) -> str:
    """The path in such a command."""
    return PLACE if device else place
