"""The preset `tune = "latency"` of [host]: many files of a machine, the server's or a client's.

Energy preference and governor (Documentation/admin-guide/pm/{intel_pstate,amd-pstate,cpufreq}.rst), turbo,
idle states that take long to wake from (pm/cpuidle.rst), and the scheduler of the pool's block devices.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import Command, Host
from kit.hosts.file_settings import CPU, CPUS, GOVERNOR, SCHEDULER, FileSetting, chosen, scheduler_of
from kit.hosts.held_device import kernel_name

# A request that finds a CPU in an idle state waits for this at most: a tenth of the 100 us that a small read
# over NFS takes, and where Intel's C1E is. `latency` of a state is its exit latency in us, and 1 in `disable`
# keeps its own CPU alone out of it: pm/cpuidle.rst.
SHALLOW_US = 10
_PREFERENCE = rf"{CPUS}/policy[0-9]{{1,5}}/energy_performance_preference"
_NO_TURBO, _BOOST = f"{CPU}/intel_pstate/no_turbo", f"{CPUS}/boost"
_STATE = rf"{CPU}/cpu[0-9]{{1,5}}/cpuidle/state[0-9]{{1,2}}"
PRESET_PATH = rf"^(?:{_PREFERENCE}|{GOVERNOR}|{_NO_TURBO}|{_BOOST}|{_STATE}/disable|{SCHEDULER})$"
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
    PresetFile("energy_preference", f"{CPUS}/policy0/{_READ[0]}", "performance", "default"),
    PresetFile("governor", f"{CPUS}/policy0/scaling_governor", "performance", "powersave"),
    PresetFile("turbo", _NO_TURBO, "1", "0"),
    PresetFile("c-states", f"{CPU}/cpu0/cpuidle/state2/disable", "1", "0"),
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
    """What `files_to_set` needs; schedulers of these devices alone. Raises HostError."""
    names = dict.fromkeys(kernel_name(host, path) for path in device_paths)
    schedulers = [path for name in names if re.fullmatch(SCHEDULER, path := scheduler_of(name))]
    return contents(host, [CPU, *schedulers], *(f"--include={name}" for name in (*_READ, "scheduler")))


def files_to_set(found: Mapping[str, str], without: Collection[str] = ()) -> list[PresetFile]:
    """The files that tune = "latency" is about, in the order in which they are set. Raises HostError.

    `found`: path -> content; `without`: names of settings that the workload has itself. The energy preference
    is first, as with the governor `performance` the kernel takes no other (intel_pstate.rst, amd-pstate.rst).
    """

    def like(pattern: str) -> list[str]:
        return sorted(path for path in found if re.fullmatch(pattern, path))

    turbo = [("turbo", path, off) for path, off in ((_NO_TURBO, "1"), (_BOOST, "0")) if path in found]
    wanted = [
        *(("energy_preference", path, "performance") for path in like(_PREFERENCE)),
        *(("governor", path, "performance") for path in like(GOVERNOR)),
        *turbo[:1],
        *(("c-states", path, "1") for path in _deep_states(found, like(f"{_STATE}/latency"))),
        *(("scheduler", path, "none") for path in like(SCHEDULER)),
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
