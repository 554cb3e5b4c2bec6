"""The pool under test, on the server.

The pool has the run id in a user property. It is not imported automatically (cachefile=none), and it is
destroyed only if its GUID and its run id are the recorded ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kit.config.toml import Setting
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import Command, Host
from kit.zfs.layout import SPECIAL_ROLES, data_vdevs, special_vdevs

_DESTROY_ATTEMPTS = 15
# What udev adds to the link of a disk for the partition that ZFS makes of a whole disk.
WHOLE_DISK_PART = "-part1"
RUN_PROPERTY = "hsp:run"
_LABEL_ID = re.compile(r"^\s+id: (\d+)$", re.MULTILINE)
_LABEL_STATE = re.compile(r"^ {4}state: (\d+)$", re.MULTILINE)
_LABEL_POOL = re.compile(r"^\s*name: '", re.MULTILINE)
_POOL_GUID = re.compile(r"^ {4}pool_guid: (\d+)$", re.MULTILINE)
# POOL_STATE_DESTROYED and POOL_STATE_L2CACHE of include/sys/fs/zfs.h.
_DESTROYED_STATE, _CACHE_STATE = "2", "4"


@dataclass(frozen=True)
class PoolSpec:
    """A pool to create. Device paths by role; `data_layout` is stripe or a vdev type.

    `groups`: data vdevs of that type; `log_layout`: stripe, or mirror: one of all log devices. `special` and
    `dedup`: in vdevs as redundant as those of data.
    """

    name: str
    run_id: str
    data_layout: str
    data: tuple[str, ...]
    log: tuple[str, ...]
    cache: tuple[str, ...]
    properties: dict[str, Setting]
    mount_root: str
    groups: int = 1
    log_layout: str = "stripe"
    special: tuple[str, ...] = ()
    dedup: tuple[str, ...] = ()

    @property
    def data_vdevs(self) -> list[tuple[str, ...]]:
        """The devices of each data vdev."""
        return data_vdevs(self.data_layout, self.data, self.groups)

    @property
    def devices(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.data, *self.log, *self.special, *self.dedup, *self.cache)


@dataclass(frozen=True)
class CreatedPool:
    """An existing pool, identified by `guid`."""

    name: str
    guid: int
    run_id: str


def create_command(spec: PoolSpec) -> Command:
    """`zpool create`. Never with -f, which would overwrite devices in use."""
    argv = ["zpool", "create", "-o", "cachefile=none"]
    for name, value in spec.properties.items():
        argv += ["-o", f"{name}={setting(value)}"]
    for root_property in (f"{RUN_PROPERTY}={spec.run_id}", "canmount=off", f"mountpoint={spec.mount_root}"):
        argv += ["-O", root_property]
    argv += [spec.name]
    for devices in spec.data_vdevs:
        argv += [*_vdev_type(spec.data_layout), *devices]
    argv += ["log", *_vdev_type(spec.log_layout), *spec.log] if spec.log else []
    for name, of_class in zip(SPECIAL_ROLES, (spec.special, spec.dedup), strict=True):
        argv += [name] if of_class else []
        for devices in special_vdevs(spec.data_layout, len(spec.data), spec.groups, of_class):
            argv += [*(["mirror"] if len(devices) > 1 else []), *devices]
    argv += ["cache", *spec.cache] if spec.cache else []
    return Command(tuple(argv))


def _vdev_type(layout: str) -> list[str]:
    """The word before the devices of a vdev; none before those of a stripe."""
    return [layout] if layout != "stripe" else []


def removal_names(spec: PoolSpec, role: str) -> tuple[str, ...]:
    """Arguments of `zpool remove` for the devices of `role`, log or cache.

    That is their paths, but a mirror can only be removed whole, by its name (zpool-remove(8)). Its number is
    its place among the top-level vdevs: `zpool create` makes them in the order of its arguments, data first,
    and cache devices are none (OpenZFS cmd/zpool/zpool_vdev.c, construct_spec).
    """
    if role == "log" and spec.log_layout == "mirror":
        return (f"mirror-{len(spec.data_vdevs)}",)
    return spec.log if role == "log" else spec.cache


def setting(value: Setting) -> str:
    """The value as zfs and zpool print it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def find_pool(server: Host, name: str, run_id: str) -> CreatedPool:
    """The pool of that name. Raises SafetyRefusal if its run id is not `run_id`."""
    # Not as JSON: OpenZFS 2.3 writes 2^63 - 1 there for every larger GUID.
    guid = server.run(["zpool", "get", "-H", "-p", "-o", "value", "guid", name]).stdout.strip()
    observed = server.run(["zfs", "get", "-H", "-p", "-o", "value", RUN_PROPERTY, name]).stdout.strip()
    # zfs prints "-" for a property that was never set: it names no run.
    if observed != run_id or observed in ("", "-"):
        raise SafetyRefusal(
            f"the pool {name} on {server.name} carries the run id '{observed}', not '{run_id}'",
            "it is not this run's pool; it was left alone",
        )
    return CreatedPool(name, int(guid), run_id)


def _retry_while_busy(server: Host, argv: list[str]) -> None:
    """udev and nfsd may hold a file or device a moment longer."""
    for _ in range(_DESTROY_ATTEMPTS - 1):
        if server.run(argv, check=False).returncode == 0:
            return
        server.run(["sleep", "1"])
    server.run(argv)


def remove(server: Host, name: str, run_id: str, guid: str, devices: tuple[str, ...]) -> None:
    """Destroy the run's pool: an imported one, or (after a reboot) one that exists only on its devices.

    `guid` is empty if the run ended before it was known. No error if the pool does not exist. Raises
    SafetyRefusal if the pool of that name is not this run's, HostError.
    """
    if name not in server.run(["zpool", "list", "-H", "-o", "name"]).stdout.splitlines():
        if not guid:
            return
        # Exit code 1: no pool can be imported from these devices.
        importable = server.run(["zpool", "import", *_places(devices)], check=False).stdout
        if guid not in _LABEL_ID.findall(importable):
            # The command that destroyed it may have been stopped right after that.
            _clear_labels(server, guid, devices)
            return
        import_pool(server, CreatedPool(name, int(guid), run_id), devices)
    # By the command directly before it is destroyed.
    observed = find_pool(server, name, run_id)
    if guid and observed.guid != int(guid):
        raise SafetyRefusal(
            f"the pool {observed.name} on {server.name} has GUID {observed.guid}, not {guid}",
            "it is not this run's pool; it was left alone",
        )
    _retry_while_busy(server, ["zpool", "destroy", observed.name])
    _clear_labels(server, str(observed.guid), devices)


def _clear_labels(server: Host, guid: str, devices: tuple[str, ...]) -> None:
    """Clear what the destroyed pool leaves on cache devices, also on those that it had removed, and on parts.

    A pool's end is not written to the label of a cache device, and that label does not name its pool. A part
    of a device is no partition of a table: once the part is gone, its label cannot be found.
    """
    for path in devices:
        is_part = path.endswith(WHOLE_DISK_PART)
        place = path if is_part else f"{path}{WHOLE_DISK_PART}"
        if path.startswith("/dev/disk/"):
            label = server.run(["zdb", "-l", place], check=False).stdout
            if is_cache_label(label, guid) or (is_part and is_destroyed_label(label, guid)):
                server.run(["zpool", "labelclear", place])


def is_cache_label(label: str, guid: str) -> bool:
    """Whether zdb's output is of a cache device of the pool with that GUID, by its L2ARC header."""
    return _states_and_guids(label) == ({_CACHE_STATE}, {guid}) and not _LABEL_POOL.search(label)


def is_destroyed_label(label: str, guid: str) -> bool:
    """Whether zdb's output is of a device of the pool with that GUID, which was destroyed."""
    return _states_and_guids(label) == ({_DESTROYED_STATE}, {guid})


def _states_and_guids(label: str) -> tuple[set[str], set[str]]:
    return set(_LABEL_STATE.findall(label)), set(_POOL_GUID.findall(label))


def _places(devices: tuple[str, ...]) -> list[str]:
    """Arguments of `zpool import`: the devices, and the partition that ZFS creates on a whole disk."""
    parts = [f"{path}{WHOLE_DISK_PART}" for path in devices if path.startswith("/dev/disk/")]
    return [word for path in (*devices, *parts) for word in ("-d", path)]


def export_pool(server: Host, pool: CreatedPool) -> None:
    """Export the pool. Raises HostError if it stays busy."""
    _retry_while_busy(server, ["zpool", "export", pool.name])


def import_argv(pool: str, devices: tuple[str, ...]) -> list[str]:
    """Of `zpool import` without mounts. `pool`: its GUID or name."""
    return ["zpool", "import", "-o", "cachefile=none", "-N", *_places(devices), pool]


def import_pool(server: Host, pool: CreatedPool, devices: tuple[str, ...]) -> None:
    """Import the pool by its GUID from these devices. Raises HostError, SafetyRefusal."""
    server.run(import_argv(str(pool.guid), devices))
    observed = find_pool(server, pool.name, pool.run_id)
    if observed.guid != pool.guid:
        raise SafetyRefusal(
            f"imported GUID {observed.guid} on {server.name}, not {pool.guid}",
            "another pool of that name was imported; export one of them",
        )


def check_removed(server: Host, pool: CreatedPool, devices: tuple[str, ...]) -> None:
    """Raises HostError if one of the devices is part of the pool still."""
    # For a whole disk the pool lists the partition that ZFS created on it.
    there = {path.removesuffix(WHOLE_DISK_PART) for path in vdev_paths(server, pool)}
    left = sorted(path for path in devices if path.removesuffix(WHOLE_DISK_PART) in there)
    if left:
        raise HostError(f"{', '.join(left)} is still part of the pool {pool.name} after its removal")


def vdev_paths(server: Host, pool: CreatedPool) -> list[str]:
    """Full paths of the pool's devices."""
    # OpenZFS before 2.3 has no JSON; the output of -H is exact, too.
    rows = server.run(["zpool", "list", "-H", "-P", "-v", "-o", "name", pool.name]).stdout.splitlines()
    return [name for row in rows for name in row.split("\t") if name.startswith("/")]


def properties_of(
    server: Host, tool: Literal["zpool", "zfs"], pool_or_dataset: str, names: Sequence[str]
) -> dict[str, str]:
    """Values of properties in effect. Raises HostError if one is missing."""
    if not names:
        return {}
    argv = [tool, "get", "-H", "-p", "-o", "property,value", ",".join(names), pool_or_dataset]
    output = server.run(argv).stdout
    values = dict(line.split("\t", 1) for line in output.splitlines() if "\t" in line)
    missing = [name for name in names if name not in values]
    if missing:
        raise HostError(
            f"{server.name} does not report {', '.join(missing)} of {pool_or_dataset}: {output[:200]!r}",
            "is its OpenZFS one of 2.1 to 2.4?",
        )
    return {name: values[name] for name in names}


def label_of(server: Host, path: str) -> str:
    """zdb's output for a label; on a whole disk the label is in the partition that ZFS creates."""
    result = server.run(["zdb", "-l", path], check=False)
    if result.returncode and path.startswith("/dev/disk/"):
        result = server.run(["zdb", "-l", f"{path}{WHOLE_DISK_PART}"], check=False)
    if result.returncode:
        raise HostError(f"on {server.name}: the ZFS label of {path} cannot be read: {result.describe()}")
    return result.stdout


def add_cache_command(pool: str, devices: tuple[str, ...]) -> Command:
    """Cache devices, which are empty then: of what was on them before, nothing is rebuilt (zpool-add(8))."""
    return Command(("zpool", "add", pool, "cache", *devices))


def remove_command(pool: str, names: tuple[str, ...]) -> Command:
    """Remove log or cache devices, and wait for the end; `names` as of removal_names."""
    return Command(("zpool", "remove", "-w", pool, *names))
