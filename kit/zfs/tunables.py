"""Module parameters of OpenZFS: set for a run, checked, and restored afterwards.

Workloads give times as durations of the experiment; they are converted to the host's clock,
because a timer of the software under test runs in the experiment's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError
from kit.core.units import parse_duration_ns, parse_size_bytes
from kit.hosts.base import Host

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
    "zfs_delay_max_ns": 1,
    "zil_min_commit_timeout": 1,
}

# Parameters that are bytes (zfs(4)).
SIZE_TUNABLES = frozenset(
    {
        "zfs_arc_max",
        "zfs_arc_min",
        "l2arc_write_max",
        "l2arc_write_boost",
        "zfs_dirty_data_max",
        "zfs_immediate_write_sz",
        "zil_slog_bulk",
        "zil_maxblocksize",
        "dbuf_cache_max_bytes",
    }
)


@dataclass(frozen=True)
class Tunable:
    """`written`: the workload's value. `host_value`: the value for the module, in the module's unit."""

    name: str
    written: str
    host_value: int


def tunable(name: str, value: str | int | bool, clock: Clock) -> Tunable:
    """Convert a workload's value. Raises ConfigError if the parameter cannot have it."""
    try:
        return Tunable(name, str(value), _host_value(name, value, clock))
    except ValueError as error:
        raise ConfigError(f"tunables: {name}: {error}", "a number, or a size such as 64MiB") from None


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
    if name in SIZE_TUNABLES:
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
    if not names:
        return {}
    result = server.run(["grep", "--with-filename", "", *map(parameter_path, names)], check=False)
    values = {path.rpartition("/")[2]: value for path, value in parse_files(result.stdout).items()}
    missing = [name for name in names if name not in values]
    if missing:
        raise HostError(
            f"on {server.name}: OpenZFS has no module parameter {', '.join(missing)}",
            "is the zfs module loaded, and of a version that has it?",
        )
    return values


def read_effects(server: Host, names: list[str]) -> dict[str, str]:
    """Values in effect of the parameters that have a kstat. Raises HostError."""
    kstats = {EFFECTS[name]: name for name in names if name in EFFECTS}
    if not kstats:
        return {}
    lines = [line.split() for line in server.run(["cat", _ARCSTATS]).stdout.splitlines()]
    values = {kstats[fields[0]]: fields[2] for fields in lines if len(fields) == 3 and fields[0] in kstats}
    if len(values) < len(kstats):
        raise HostError(f"on {server.name}: {_ARCSTATS} has no {' and '.join(sorted(kstats))}")
    return values


def in_order(tunables: tuple[Tunable, ...], effects: dict[str, str]) -> list[Tunable]:
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
        _write(server, name, effect)
        _check_effect(server, name, effect)
    _write(server, name, value)
    if name in EFFECTS and value != "0":
        _check_effect(server, name, value)


def _check_effect(server: Host, name: str, value: str) -> None:
    observed = read_effects(server, [name])[name]
    if observed != value:
        raise HostError(
            f"on {server.name}: {name} was set to {value}, but in effect ({EFFECTS[name]} of arcstats) "
            f"is {observed}",
            "OpenZFS ignores a value out of its range: zfs_arc_min is at least 32MiB, and zfs_arc_max at "
            "least 64MiB, above zfs_arc_min and below the memory of the server",
        )


def _write(server: Host, name: str, value: str) -> None:
    server.run(["tee", parameter_path(name)], stdin=f"{value}\n".encode())
    observed = read_tunables(server, [name])[name]
    if observed != value:
        raise HostError(
            f"on {server.name}: {name} was set to {value} but is {observed}",
            "OpenZFS refused the value; see dmesg there",
        )


# Entries of the list of reads that are kept, of 150 bytes of the kernel's memory each.
HISTORY_ENTRIES = 1 << 18
# What must be set for the list to have every read, in the order of setting.
READ_HISTORY = {"zfs_read_history": str(HISTORY_ENTRIES), "zfs_read_history_hits": "1"}


def read_history_tunables(own: Iterable[Tunable]) -> tuple[Tunable, ...]:
    """READ_HISTORY, without what the workload sets itself."""
    names = {tunable.name for tunable in own}
    return tuple(
        Tunable(name, value, int(value)) for name, value in READ_HISTORY.items() if name not in names
    )
