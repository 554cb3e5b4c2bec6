"""Settings of a server that are not OpenZFS's: set for a run, read back, and restored after it.

    nfsd_threads           threads of the NFS server: /proc/fs/nfsd/threads (nfsd(7))
    scheduler              of the block devices of the pool: Documentation/block/switching-sched.rst
    governor               of all CPUs: Documentation/admin-guide/pm/cpufreq.rst
    transparent_hugepage   Documentation/admin-guide/mm/transhuge.rst

Each is the content of one or more files. Some list all values, with the chosen one in brackets. A preset
(`tune`) is many files of a machine, the server's or a client's.

The user's own settings ([[setting]] of a testbed) are read and set by commands of the user's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kit.config.tables.setting_table import VALUE as COMMAND_VALUE
from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import DEFAULT_DEADLINE_S, Command, CommandResult, Host
from kit.hosts.held_device import kernel_name
from kit.hosts.local import MARK

_NFSD_THREADS = "/proc/fs/nfsd/threads"
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_CPU = "/sys/devices/system/cpu"
_CPUS = f"{_CPU}/cpufreq"
_GOVERNOR = rf"{_CPUS}/policy[0-9]{{1,5}}/scaling_governor"
_SCHEDULER = r"/sys/block/[A-Za-z0-9][A-Za-z0-9!._-]{0,60}/queue/scheduler"
# Of every file that is written; a journal has no other.
PATH = rf"^(?:{_NFSD_THREADS}|{_HUGE_PAGES}|{_GOVERNOR}|{_SCHEDULER})$"
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
        for path in _paths(name, devices, [f"{_CPUS}/policy0/scaling_governor"]):
            yield FileSetting(name, path, value)


def found(server: Host, settings: Mapping[str, str], device_paths: tuple[str, ...]) -> list[FileSetting]:
    """The files of each setting. Raises HostError where the server has none."""
    devices = [kernel_name(server, path) for path in device_paths] if "scheduler" in settings else []
    governors: list[str] = []
    if "governor" in settings:
        argv = ["find", _CPUS, "-maxdepth", "2", "-name", "scaling_governor"]
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
        "scheduler": [_scheduler(device) for device in devices],
        "governor": governors,
        "transparent_hugepage": [_HUGE_PAGES],
    }[name]


def _scheduler(device: str) -> str:
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


# --- A preset: many files of a machine ---

# A request that finds a CPU in an idle state waits for this at most: a tenth of the 100 us that a small read
# over NFS takes, and where Intel's C1E is. `latency` of a state is its exit latency in us, and 1 in `disable`
# keeps its own CPU alone out of it: Documentation/admin-guide/pm/cpuidle.rst.
SHALLOW_US = 10
_PREFERENCE = rf"{_CPUS}/policy[0-9]{{1,5}}/energy_performance_preference"
_NO_TURBO, _BOOST = f"{_CPU}/intel_pstate/no_turbo", f"{_CPUS}/boost"
_STATE = rf"{_CPU}/cpu[0-9]{{1,5}}/cpuidle/state[0-9]{{1,2}}"
PRESET_PATH = rf"^(?:{_PREFERENCE}|{_GOVERNOR}|{_NO_TURBO}|{_BOOST}|{_STATE}/disable|{_SCHEDULER})$"
PRESET_VALUE = r"^(?:[0-9]{1,3}|[a-z][a-z_-]{0,30})$"
# In one command, whose words have to fit into 128 KiB.
MOST_FILES = 500
_READ = ("energy_performance_preference", "scaling_governor", "no_turbo", "boost", "latency", "disable")
_LACKING = {
    "governor": "frequency governor (cpufreq)",
    "turbo": "switch for turbo",
    "c-states": f"idle state that takes more than {SHALLOW_US} us to wake from",
}


@dataclass(frozen=True)
class PresetFile(FileSetting):
    """`before`: what is in it."""

    before: str

    @property
    def of_all(self) -> str:
        """The path, with a star for the number of its CPU."""
        return re.sub(r"/(cpu|policy)[0-9]+/", r"/\1*/", self.path)


PLANNED_PRESET = (
    PresetFile("energy_preference", f"{_CPUS}/policy0/{_READ[0]}", "performance", "default"),
    PresetFile("governor", f"{_CPUS}/policy0/scaling_governor", "performance", "powersave"),
    PresetFile("turbo", _NO_TURBO, "1", "0"),
    PresetFile("c-states", f"{_CPU}/cpu0/cpuidle/state2/disable", "1", "0"),
)
"""One file of each kind, before there is a host."""


def contents(host: Host, paths: Collection[str], *options: str) -> dict[str, str]:
    """Path -> content, by grep, of files of a line that everybody may read. Raises HostError."""
    if not paths:
        return {}  # grep would read all that is below the working directory
    argv = ("env", "grep", "--recursive", "--no-messages", "--with-filename", *options, "", *paths)
    lines = (line.partition(":") for line in host.run(argv, check=False).stdout.splitlines())
    return {path: chosen(text.strip()) for path, colon, text in lines if colon}


def read_preset(host: Host, device_paths: tuple[str, ...]) -> dict[str, str]:
    """What `latency_preset` needs; schedulers of these devices alone. Raises HostError."""
    names = dict.fromkeys(kernel_name(host, path) for path in device_paths)
    schedulers = [path for name in names if re.fullmatch(_SCHEDULER, path := _scheduler(name))]
    return contents(host, [_CPU, *schedulers], *(f"--include={name}" for name in (*_READ, "scheduler")))


def latency_preset(found: Mapping[str, str], without: Collection[str] = ()) -> list[PresetFile]:
    """The files that tune = "latency" is about, in the order in which they are set. Raises HostError.

    `found`: path -> content; `without`: names of settings that the workload has itself. The energy preference
    is first, as with the governor `performance` the kernel takes no other (intel_pstate.rst, amd-pstate.rst).
    """

    def like(pattern: str) -> list[str]:
        return sorted(path for path in found if re.fullmatch(pattern, path))

    turbo = [("turbo", path, off) for path, off in ((_NO_TURBO, "1"), (_BOOST, "0")) if path in found]
    wanted = [
        *(("energy_preference", path, "performance") for path in like(_PREFERENCE)),
        *(("governor", path, "performance") for path in like(_GOVERNOR)),
        *turbo[:1],
        *(("c-states", path, "1") for path in _deep_states(found, like(f"{_STATE}/latency"))),
        *(("scheduler", path, "none") for path in like(_SCHEDULER)),
    ]
    files = [PresetFile(*each, found[each[1]]) for each in wanted if each[0] not in without]
    for each in files:
        if not re.fullmatch(PRESET_VALUE, each.before):
            raise _unclear(each.path, each.before)
    return files


def _deep_states(found: Mapping[str, str], latencies: list[str]) -> Iterator[str]:
    """`disable` of each state that takes long to wake from; each CPU keeps one state that is no busy loop."""
    of_cpu: dict[str, list[tuple[int, str]]] = {}
    for path in latencies:
        if not re.fullmatch("[0-9]{1,9}", found[path]):
            raise _unclear(path, found[path])
        switch = f"{path.rpartition('/')[0]}/disable"
        if switch in found:
            of_cpu.setdefault(path.partition("/cpuidle/")[0], []).append((int(found[path]), switch))
    # State by state, so that files with one value are in one command.
    for states in of_cpu.values():
        kept_us = max(SHALLOW_US, min((us for us, _ in states if us), default=0))
        yield from (switch for us, switch in states if us > kept_us)


def _unclear(path: str, content: str) -> HostError:
    return HostError(
        f"{path} is '{safe_text(content)[:60]}', so it is not known what to set it back to",
        "take tune out of the workload's [host]",
    )


def lacking(files: Sequence[PresetFile], without: Collection[str] = ()) -> str:
    """What of the preset a host does not have, in words; "" if nothing."""
    there = {each.name for each in files} | set(without)
    return ", ".join(f"no {text}" for name, text in _LACKING.items() if name not in there)


def write_preset(values: Mapping[str, str]) -> Iterator[Command]:
    """`values` by path; one command for each value."""
    for value in dict.fromkeys(values.values()):
        paths = [path for path, each in values.items() if each == value]
        yield Command(("tee", *paths), value, f"{value}\n".encode())


def check_preset(host: Host, values: Mapping[str, str]) -> None:
    """Raises HostError if a file does not have its value."""
    found = contents(host, values)
    if wrong := [path for path in values if found.get(path) != values[path]]:
        path, observed = wrong[0], safe_text(found.get(wrong[0], "gone"))[:60]
        raise HostError(
            f"on {host.name}: {path} was set to {values[path]} but is {observed}"
            + (f", and {len(wrong) - 1} more files are not as they were set" if wrong[1:] else ""),
            "the kernel or its driver did not take it: take tune out of the workload's [host]",
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
