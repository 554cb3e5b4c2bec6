"""Settings of a server that are not OpenZFS's: set for a run, read back, and restored after it.

    nfsd_threads           threads of the NFS server: /proc/fs/nfsd/threads (nfsd(7))
    scheduler              of the block devices of the pool: Documentation/block/switching-sched.rst
    governor               of all CPUs: Documentation/admin-guide/pm/cpufreq.rst
    transparent_hugepage   Documentation/admin-guide/mm/transhuge.rst

Each is the content of one or more files. Some list all values, with the chosen one in brackets.
The preset of many files (`tune`) is kit.hosts.latency_preset.

The user's own settings ([[setting]] of a testbed) are read and set by commands of the user's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kit.config.tables.setting_table import VALUE as COMMAND_VALUE
from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import DEFAULT_DEADLINE_S, Command, CommandResult, Host
from kit.hosts.held_device import kernel_name
from kit.hosts.local import MARK

_NFSD_THREADS = "/proc/fs/nfsd/threads"
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
CPU = "/sys/devices/system/cpu"
CPUS = f"{CPU}/cpufreq"
GOVERNOR = rf"{CPUS}/policy[0-9]{{1,5}}/scaling_governor"
SCHEDULER = r"/sys/block/[A-Za-z0-9][A-Za-z0-9!._-]{0,60}/queue/scheduler"
# Of every file that is written; a journal has no other.
PATH = rf"^(?:{_NFSD_THREADS}|{_HUGE_PAGES}|{GOVERNOR}|{SCHEDULER})$"
# 0 would stop nfsd.
VALUE = r"^(?:[1-9][0-9]{0,4}|[a-z][a-z_-]{0,30})$"


@dataclass(frozen=True)
class FileSetting:
    """`name`: the key of [host]; `path`: the file; `value`: what is to stand in it."""

    name: str
    path: str
    value: str


def planned(settings: Mapping[str, str], devices: tuple[str, ...]) -> Iterator[FileSetting]:
    """As `found`, before there is a server: a device's name for that of the kernel, one CPU for all."""
    for name, value in settings.items():
        for path in _paths(name, devices, [f"{CPUS}/policy0/scaling_governor"]):
            yield FileSetting(name, path, value)


def found(server: Host, settings: Mapping[str, str], device_paths: tuple[str, ...]) -> list[FileSetting]:
    """The files of each setting. Raises HostError where the server has none."""
    devices = [kernel_name(server, path) for path in device_paths] if "scheduler" in settings else []
    governors: list[str] = []
    if "governor" in settings:
        argv = ["find", CPUS, "-maxdepth", "2", "-name", "scaling_governor"]
        governors = sorted(server.run(argv, check=False).stdout.splitlines())
    listed = []
    for name, value in settings.items():
        paths = [
            path
            for path in _paths(name, tuple(dict.fromkeys(devices)), governors)
            if re.fullmatch(PATH, path)
        ]
        if not paths:
            raise HostError(
                f"on {server.name}: there is nothing to set host.{name} of",
                "take it out of the workload: this server or its kernel does not have it",
            )
        listed += [FileSetting(name, path, value) for path in paths]
    return listed


def _paths(name: str, devices: tuple[str, ...], governors: list[str]) -> list[str]:
    return {
        "nfsd_threads": [_NFSD_THREADS],
        "scheduler": [scheduler_of(device) for device in devices],
        "governor": governors,
        "transparent_hugepage": [_HUGE_PAGES],
    }[name]


def scheduler_of(device: str) -> str:
    return f"/sys/block/{device}/queue/scheduler"


def chosen(content: str) -> str:
    """The value in brackets; without brackets the whole content. The rest of a list is what is loaded."""
    found = re.search(r"\[([^]]+)\]", content)
    return found[1] if found else content


def read(server: Host, path: str) -> str:
    """The chosen value. Raises HostError."""
    content = server.run(["cat", "--", path], check=False).stdout.strip()
    value = chosen(content)
    if not re.fullmatch(VALUE, value):
        why = "is nfsd running?" if path == _NFSD_THREADS else "does this kernel have it?"
        raise HostError(
            f"on {server.name}: {path} is '{content[:60]}', not a value that can be restored", why
        )
    return value


def write_command(path: str, value: str) -> Command:
    """Set one file."""
    return Command(("tee", path), value, f"{value}\n".encode())


def write(server: Host, command: Command) -> None:
    """Execute `write_command`, and read back. Raises HostError if the kernel did not take it."""
    path, value = command.argv[1], command.input
    answer = command.run(server, check=False)
    observed = read(server, path)
    if answer.returncode or observed != value:
        content = server.run(["cat", "--", path], check=False).stdout.strip()
        raise HostError(
            f"on {server.name}: {path} was set to {value} but is {observed}",
            f"the kernel has: {content[:200]}" if content != observed else "the kernel did not take it",
        )


# --- Settings that are read and set by commands of the user's ---


@dataclass(frozen=True)
class CommandSetting:
    """`get` prints the value, the group of `pattern` in it; `set_to` sets `value`.

    Without a value it is only watched.
    """

    name: str
    get: tuple[str, ...]
    pattern: str | None = None
    set_to: tuple[str, ...] = ()
    value: str = ""

    def read(self, server: Host) -> str:
        """The value. Raises HostError."""
        answer = run_own(server, self.get)
        if answer.returncode:
            raise HostError(
                f"on {server.name}: {_words(self.get)}, which reads {self.name}, ended with "
                f"{answer.returncode}: {last_line(answer)}",
                "it is `get` of a [[setting]] of the testbed, run without a shell as the user who logs in",
            )
        text = answer.stdout.strip()
        if self.pattern is not None:
            found = list(dict.fromkeys(re.findall(self.pattern, answer.stdout, re.MULTILINE)))
            if len(found) > 1:
                raise HostError(
                    f"on {server.name}: {_words(self.get)} prints several values of {self.name}: "
                    f"{', '.join(safe_text(each)[:40] for each in found[:4])}",
                    "which of them is meant? Make `pattern` in the [[setting]] match one, or `get` print one",
                )
            text = found[0].strip() if found else ""
        if not re.fullmatch(COMMAND_VALUE, text):
            lines = answer.stdout.strip().splitlines() or [""]
            printed = f"{len(lines)} lines, first " * (len(lines) > 1) + f"'{safe_text(lines[0])[:100]}'"
            raise HostError(
                f"on {server.name}: {_words(self.get)} does not print a value of {self.name}: {printed}",
                "what is read must be set again after the run; `pattern` in the [[setting]] takes a part of "
                "what is printed",
            )
        return text


def run_own(server: Host, argv: tuple[str, ...], deadline_s: float = DEFAULT_DEADLINE_S) -> CommandResult:
    """Run a command of the user's, as the user who logs in: no sudo is put in front.

    Without the kit's mark (kit.hosts.local): what it starts, such as a machine, is not the kit's to end.
    """
    return server.run(("env", "LC_ALL=C.UTF-8", f"{MARK}=", *argv), check=False, deadline_s=deadline_s)


def set_own(server: Host, setting: CommandSetting) -> str:
    """Set it; returns what it then reads. Raises HostError."""
    answer = run_own(server, setting.set_to)
    observed = setting.read(server)
    if observed == setting.value and not answer.returncode:
        return observed
    raise HostError(
        f"on {server.name}: {setting.name} was set to {setting.value} but is {observed}",
        f"{_words(setting.set_to)} ended with {answer.returncode}: {last_line(answer)}",
    )


def last_line(answer: CommandResult) -> str:
    """What a command said at last."""
    said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
    return safe_text(said[-1])[:200] if said else "it said nothing"


def _words(argv: tuple[str, ...]) -> str:
    return f"`{safe_text(shlex.join(argv))[:200]}`"
