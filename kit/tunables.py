"""Module parameters of OpenZFS: set for a run, read back, and put back afterwards.

Times among them are written as durations of the experiment and reach the host through the
clock: a timer of the software under test belongs to the experiment's time.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.clock import Clock
from kit.errors import ConfigError, HostError
from kit.hosts.base import Host
from kit.units import parse_duration_ns, parse_size_bytes

_PARAMETERS = "/sys/module/zfs/parameters"

# Parameters that are times, with the unit the module counts in (zfs(4)).
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
    """`host_value` is what is written to the module, in the module's unit."""

    name: str
    written: str
    host_value: int


def tunable(name: str, value: str | int | bool, clock: Clock) -> Tunable:
    """From a workload's value. Raises ConfigError if it has no meaning for that parameter."""
    try:
        return Tunable(name, str(value), _host_value(name, value, clock))
    except ValueError as error:
        raise ConfigError(f"tunables: {name}: {error}") from None


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
    return f"{_PARAMETERS}/{name}"


def read_tunables(server: Host, names: list[str]) -> dict[str, str]:
    """Current values. Raises HostError if this OpenZFS has no such parameter."""
    if not names:
        return {}
    result = server.run(
        ["grep", "--with-filename", "", *(f"{_PARAMETERS}/{name}" for name in names)], check=False
    )
    found = {}
    for line in result.stdout.splitlines():
        path, _, value = line.partition(":")
        found[path.rsplit("/", 1)[1]] = value.strip()
    missing = [name for name in names if name not in found]
    if missing:
        raise HostError(
            f"on {server.name}: OpenZFS has no module parameter {', '.join(missing)}",
            "is the zfs module loaded, and of a version that has it?",
        )
    return found


def write_tunable(server: Host, name: str, value: str) -> None:
    """Set one parameter and read it back. Raises HostError if it did not take."""
    server.run(["tee", f"{_PARAMETERS}/{name}"], stdin=f"{value}\n".encode())
    found = read_tunables(server, [name])[name]
    if found != value:
        raise HostError(
            f"on {server.name}: {name} was set to {value} but is {found}",
            "OpenZFS refused the value; see dmesg there",
        )
