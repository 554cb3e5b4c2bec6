"""Module parameters of OpenZFS: set for a run, checked, and restored afterwards.

Workloads give times as durations of the experiment; they are converted to the host's clock,
because a timer of the software under test runs in the experiment's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.config.toml import Setting
from kit.config.toml_lines import KeyPath, KeyProblems
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.units import parse_duration_ns, parse_size_bytes
from kit.hosts.base import Command, Host
from kit.zfs import parameters

_ARCSTATS = "/proc/spl/kstat/zfs/arcstats"

# Limits that OpenZFS computes while the parameter is 0, and the kstat of the value in effect. A value out
# of range is silently ignored, and writing 0 changes nothing: the limit keeps its last value (zfs(4),
# and arc_tuning_update in module/zfs/arc.c).
EFFECTS = {"zfs_arc_max": "c_max", "zfs_arc_min": "c_min"}

# Parameters that are times, with the module's unit in ns (zfs(4)).
TIME_TUNABLES_NS = {
    "zfs_txg_timeout": 1_000_000_000,
    "l2arc_feed_secs": 1_000_000_000,
    "l2arc_feed_min_ms": 1_000_000,
    "zfs_arc_min_prefetch_ms": 1_000_000,
    "zfs_arc_min_prescient_prefetch_ms": 1_000_000,
    "zfs_multihost_interval": 1_000_000,
    "zfs_delay_scale": 1,
    "zil_min_commit_timeout": 1,
}


@dataclass(frozen=True)
class PlannedTunable:
    """`written`: the workload's value. `host_value`: the value for the module, in the module's unit."""

    name: str
    written: str
    host_value: int


def tunable(name: str, value: str | int | bool, clock: Clock) -> PlannedTunable:
    """Convert a workload's value. Raises ValueError if the parameter cannot have it."""
    return PlannedTunable(name, str(value), _host_value(name, value, clock))


def problems(
    settings: Mapping[str, Setting], clock: Clock, memory: parameters.Memory | None = None
) -> KeyProblems:
    """Key and text for each setting that OpenZFS 2.1 to 2.4 do not have, or do not take.

    `memory`: of the server, where it is known.
    """
    values = {}
    for name, value in settings.items():
        if text := parameters.name_problem(name):
            yield ("tunables", name), text
            continue
        try:
            values[name] = tunable(name, value, clock).host_value
        except ValueError as error:
            yield ("tunables", name), str(error)
    yield from parameters.range_problems(values, memory)


def server_problems(
    server: Host, settings: Sequence[PlannedTunable], version: str
) -> list[tuple[KeyPath, str]]:
    """What only the server shows: parameters that its OpenZFS lacks, limits that its memory rules out.

    Raises HostError.
    """
    there = _values(server, [each.name for each in settings])
    missing: list[tuple[KeyPath, str]] = [
        (("tunables", each.name), parameters.missing_problem(each.name, version))
        for each in settings
        if each.name not in there
    ]
    if missing or not any(each.name in EFFECTS for each in settings):
        return missing
    stats = read_arcstats(server)
    memory = parameters.Memory(stats.get("memory_all_bytes", 2**63 - 1), stats.get("c_min", 0))
    return list(parameters.range_problems({each.name: each.host_value for each in settings}, memory))


def _host_value(name: str, value: str | int | bool, clock: Clock) -> int:
    if isinstance(value, int):
        if name in TIME_TUNABLES_NS:
            raise ValueError(f'a time needs its unit, such as "5s"; found {value}')
        return int(value)
    unit_ns = TIME_TUNABLES_NS.get(name)
    if unit_ns:
        host_ns = clock.to_host_ns(parse_duration_ns(value))
        if host_ns % unit_ns:
            raise ValueError(f"{value} is not a whole number of the module's units on this clock")
        return host_ns // unit_ns
    if (parameter := parameters.known().get(name)) and parameter.is_size:
        return parse_size_bytes(value)
    raise ValueError(f"only whole numbers can be set, found '{value}'")


def parameter_path(name: str) -> str:
    return f"/sys/module/zfs/parameters/{name}"


def parse_files(text: str) -> dict[str, str]:
    """Content of files by path, from the output of `grep --with-filename ""`, a line of a file each."""
    contents: dict[str, str] = {}
    for line in text.splitlines():
        path, colon, value = line.partition(":")
        if colon:
            contents[path] = f"{contents[path]}\n{value}" if path in contents else value.strip()
    return contents


def read_tunables(server: Host, names: list[str]) -> dict[str, str]:
    """Current values. Raises HostError if this OpenZFS has no such parameter."""
    values = _values(server, names)
    missing = [name for name in names if name not in values]
    if missing:
        raise HostError(
            f"on {server.name}: OpenZFS has no module parameter {', '.join(missing)}",
            "is the zfs module loaded, and of a version that has it?",
        )
    return values


def _values(server: Host, names: list[str]) -> dict[str, str]:
    """Current values of those that this OpenZFS has. Raises HostError."""
    if not names:
        return {}
    result = server.run(["grep", "--with-filename", "", *map(parameter_path, names)], check=False)
    return {path.rpartition("/")[2]: value for path, value in parse_files(result.stdout).items()}


def read_effects(server: Host, names: list[str]) -> dict[str, str]:
    """Values in effect of the parameters that have a kstat. Raises HostError."""
    kstats = {EFFECTS[name]: name for name in names if name in EFFECTS}
    if not kstats:
        return {}
    values = {kstats[name]: str(value) for name, value in read_arcstats(server).items() if name in kstats}
    if len(values) < len(kstats):
        raise HostError(f"on {server.name}: {_ARCSTATS} has no {' and '.join(sorted(kstats))}")
    return values


def read_arcstats(server: Host) -> dict[str, int]:
    """The numbers of arcstats. Raises HostError."""
    lines = [line.split() for line in server.run(["cat", _ARCSTATS]).stdout.splitlines()]
    return {each[0]: int(each[2]) for each in lines if len(each) == 3 and each[2].isdecimal()}


def in_order(tunables: tuple[PlannedTunable, ...], effects: dict[str, str]) -> list[PlannedTunable]:
    """The order of writing in which zfs_arc_min is always below zfs_arc_max, so that none is ignored."""
    by_name = {tunable.name: tunable for tunable in tunables}
    arc_min, arc_max = by_name.get("zfs_arc_min"), by_name.get("zfs_arc_max")
    if not (arc_min and arc_max):
        return list(tunables)
    is_low = arc_min.host_value <= int(effects["zfs_arc_max"])
    first, second = (arc_min, arc_max) if is_low else (arc_max, arc_min)
    return [first, second, *(tunable for tunable in tunables if tunable.name not in EFFECTS)]


def write_tunable(server: Host, name: str, value: str, effect: str = "") -> None:
    """Set one parameter, and check its value and the value in effect. Raises HostError if they differ.

    `effect`: the value to have in effect if `value` is 0, with which OpenZFS computes it.
    """
    if name in EFFECTS and value == "0" and effect and read_effects(server, [name])[name] != effect:
        write_tunable(server, name, effect)
    write_command(name, value).run(server)
    check_written(server, name, value)


def write_command(name: str, value: str) -> Command:
    """Set one parameter."""
    return Command(("tee", parameter_path(name)), value, f"{value}\n".encode())


def check_written(server: Host, name: str, value: str) -> None:
    """Raises HostError if the parameter has another value, or another one is in effect."""
    observed = read_tunables(server, [name])[name]
    if observed != value:
        raise HostError(
            f"on {server.name}: {name} was set to {value} but is {observed}",
            "OpenZFS refused the value; see dmesg there",
        )
    if name in EFFECTS and value != "0" and (observed := read_effects(server, [name])[name]) != value:
        raise HostError(
            f"on {server.name}: {name} was set to {value}, but in effect ({EFFECTS[name]} of arcstats) "
            f"is {observed}",
            "OpenZFS ignores a value out of its range: zfs_arc_min is at least 32MiB, and zfs_arc_max at "
            "least 64MiB, above zfs_arc_min and below the memory of the server",
        )


# Entries of the list of reads that are kept, of 150 bytes of the kernel's memory each.
HISTORY_ENTRIES = 1 << 18
# What must be set for the list to have every read, in the order of setting.
READ_HISTORY = {"zfs_read_history": str(HISTORY_ENTRIES), "zfs_read_history_hits": "1"}


def read_history_tunables(own: Iterable[PlannedTunable]) -> tuple[PlannedTunable, ...]:
    """READ_HISTORY, without what the workload sets itself."""
    names = {tunable.name for tunable in own}
    return tuple(
        PlannedTunable(name, value, int(value)) for name, value in READ_HISTORY.items() if name not in names
    )
