"""The pool under test and its dataset, on the server.

The pool carries the run id in a user property; it is imported nowhere by itself
(cachefile=none) and destroyed only if both its GUID and its run id are the ones recorded.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from kit.config.workload import Setting
from kit.core.errors import HostError, SafetyRefusal
from kit.core.units import parse_size_bytes
from kit.hosts.base import Host

_DESTROY_ATTEMPTS = 15
# What udev adds to the link of a disk for the partition that ZFS makes of a whole disk.
WHOLE_DISK_PART = "-part1"
RUN_PROPERTY = "hsp:run"
_HELPER = Path(__file__).parents[1] / "remote" / "create_dataset.py"
_LABEL_ID = re.compile(r"^\s+id: (\d+)$", re.MULTILINE)
_LABEL_LOG = re.compile(r"^\s+is_log: 1$", re.MULTILINE)


@dataclass(frozen=True)
class PoolSpec:
    """What to build. Device paths by role; `data_layout` is stripe or a vdev type."""

    name: str
    run_id: str
    data_layout: str
    data: tuple[str, ...]
    log: tuple[str, ...]
    cache: tuple[str, ...]
    properties: dict[str, Setting]
    mount_root: str


@dataclass(frozen=True)
class Pool:
    """A pool that exists. `guid` is what it is recognised by."""

    name: str
    guid: int
    run_id: str


def create_arguments(spec: PoolSpec) -> list[str]:
    """argv of `zpool create`. Never with -f: what looks used is refused."""
    argv = ["zpool", "create", "-o", "cachefile=none"]
    for name, value in spec.properties.items():
        argv += ["-o", f"{name}={setting(value)}"]
    argv += [
        "-O",
        f"{RUN_PROPERTY}={spec.run_id}",
        "-O",
        "canmount=off",
        "-O",
        f"mountpoint={spec.mount_root}",
    ]
    argv += [spec.name]
    argv += [spec.data_layout] if spec.data_layout != "stripe" else []
    argv += spec.data
    argv += ["log", *spec.log] if spec.log else []
    argv += ["cache", *spec.cache] if spec.cache else []
    return argv


def setting(value: Setting) -> str:
    """As zfs and zpool write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def create_pool(server: Host, spec: PoolSpec) -> Pool:
    """Raises HostError (CommandFailed) with what zpool said."""
    server.run(create_arguments(spec))
    return find_pool(server, spec.name, spec.run_id)


def find_pool(server: Host, name: str, run_id: str) -> Pool:
    """The pool with our name, if it carries our run id. Raises SafetyRefusal if it does not."""
    # Not as JSON: there, OpenZFS 2.3 has 2^63 - 1 for every GUID above it, which is half of them.
    guid = server.run(["zpool", "get", "-H", "-p", "-o", "value", "guid", name]).stdout.strip()
    found = server.run(["zfs", "get", "-H", "-p", "-o", "value", RUN_PROPERTY, name]).stdout.strip()
    if found != run_id:
        raise SafetyRefusal(
            f"the pool {name} on {server.name} carries the run id '{found}', not '{run_id}'",
            "it is not this run's pool; it was left alone",
        )
    return Pool(name, int(guid), run_id)


def destroy_pool(server: Host, pool: Pool) -> None:
    """Destroy it if GUID and run id are ours. Raises SafetyRefusal otherwise."""
    found = find_pool(server, pool.name, pool.run_id)
    if found.guid != pool.guid:
        raise SafetyRefusal(
            f"the pool {pool.name} on {server.name} has GUID {found.guid}, not {pool.guid}",
            "it is not this run's pool; it was left alone",
        )
    # udev and nfsd may hold a file or device a moment longer.
    for _ in range(_DESTROY_ATTEMPTS - 1):
        if server.run(["zpool", "destroy", pool.name], check=False).returncode == 0:
            return
        server.run(["sleep", "1"])
    server.run(["zpool", "destroy", pool.name])


def remove(server: Host, name: str, run_id: str, guid: str = "", devices: tuple[str, ...] = ()) -> None:
    """Destroy the run's pool wherever it is: imported, or, after a reboot, only on its devices.

    `guid` is empty if the run did not live to learn it. Not there at all is no error. Raises SafetyRefusal
    if a pool of that name is not this run's, HostError.
    """
    if name not in _imported(server):
        if not guid or guid not in _importable(server, tuple(devices)):
            return
        import_pool(server, Pool(name, int(guid), run_id), tuple(devices))
    found = find_pool(server, name, run_id)
    destroy_pool(server, Pool(name, int(guid) if guid else found.guid, run_id))


def _imported(server: Host) -> list[str]:
    return server.run(["zpool", "list", "-H", "-o", "name"]).stdout.splitlines()


def _importable(server: Host, devices: tuple[str, ...]) -> set[str]:
    """GUIDs of pools that could be imported from these devices."""
    # It ends with 1 where there is none.
    answer = server.run(["zpool", "import", *_places(devices)], check=False)
    return set(_LABEL_ID.findall(answer.stdout)) if devices else set()


def _places(devices: tuple[str, ...]) -> list[str]:
    """Where `zpool import` looks: the devices, and of whole disks the partition that ZFS made."""
    parts = [f"{path}{WHOLE_DISK_PART}" for path in devices if path.startswith("/dev/disk/")]
    return [word for path in (*devices, *parts) for word in ("-d", path)]


def export_pool(server: Host, pool: Pool) -> None:
    """Let go of the pool in order. Raises HostError if something holds it."""
    for _ in range(_DESTROY_ATTEMPTS - 1):
        if server.run(["zpool", "export", pool.name], check=False).returncode == 0:
            return
        server.run(["sleep", "1"])
    server.run(["zpool", "export", pool.name])


def import_pool(server: Host, pool: Pool, devices: tuple[str, ...]) -> None:
    """Import our pool, from these devices and by its GUID. Raises HostError, SafetyRefusal."""
    argv = ["zpool", "import", "-o", "cachefile=none", "-N", *_places(devices)]
    server.run([*argv, str(pool.guid)])
    found = find_pool(server, pool.name, pool.run_id)
    if found.guid != pool.guid:
        raise SafetyRefusal(
            f"imported GUID {found.guid} on {server.name}, not {pool.guid}",
            "another pool of that name was imported; export one of them",
        )


def remove_devices(server: Host, pool: Pool, devices: tuple[str, ...]) -> None:
    """Take log or cache devices out, and wait until they are."""
    server.run(remove_command(pool.name, devices))
    # A whole disk is in the pool as the partition that ZFS made of it.
    there = {path.removesuffix(WHOLE_DISK_PART) for path in vdev_paths(server, pool)}
    left = sorted(path for path in devices if path.removesuffix(WHOLE_DISK_PART) in there)
    if left:
        raise HostError(f"{', '.join(left)} is still part of the pool {pool.name} after its removal")


def vdev_paths(server: Host, pool: Pool) -> list[str]:
    """Full paths of the devices that the pool is made of."""
    # Not as JSON, which OpenZFS has only since 2.3; with -H this is as exact.
    rows = server.run(["zpool", "list", "-H", "-P", "-v", "-o", "name", pool.name]).stdout.splitlines()
    return [name for row in rows for name in row.split("\t") if name.startswith("/")]


def pool_properties(server: Host, pool: Pool, names: list[str]) -> dict[str, str]:
    """Properties of the pool as they are in effect. Raises HostError if one is not told."""
    return _properties(server, ["zpool", "get"], pool.name, names)


def _properties(server: Host, get: list[str], of: str, names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    answer = server.run([*get, "-H", "-p", "-o", "property,value", ",".join(names), of]).stdout
    found = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    missing = [name for name in names if name not in found]
    if missing:
        raise HostError(
            f"{server.name} does not tell {', '.join(missing)} of {of}: {answer[:200]!r}",
            "is its OpenZFS one of 2.1 to 2.4?",
        )
    return {name: found[name] for name in names}


def log_vdev_ids(server: Host, devices: tuple[str, ...]) -> frozenset[int]:
    """Ids of the top-level vdevs that are log devices, from the devices' own labels.

    Raises HostError if a label does not say.
    """
    ids = set()
    for path in devices:
        label = _label(server, path)
        found = _LABEL_ID.search(label)
        if not found or not _LABEL_LOG.search(label):
            raise HostError(f"the label of {path} on {server.name} does not say that it is a log device")
        ids.add(int(found[1]))
    return frozenset(ids)


def _label(server: Host, path: str) -> str:
    """What zdb says of a label; on a whole disk it is in the partition that ZFS makes for itself."""
    result = server.run(["zdb", "-l", path], check=False)
    if result.returncode and path.startswith("/dev/disk/"):
        result = server.run(["zdb", "-l", f"{path}{WHOLE_DISK_PART}"], check=False)
    if result.returncode:
        raise HostError(f"on {server.name}: {path} has no label that could be read: {result.describe()}")
    return result.stdout


def create_dataset(server: Host, pool: Pool, dataset: str, properties: dict[str, Setting]) -> None:
    """Create through libzfs_core, set the other properties, mount, and read everything back."""
    recordsize = record_bytes(properties)
    _with_pyzfs(server, "create", dataset, pool.run_id, str(recordsize))
    for argv in dataset_commands(dataset, properties):
        server.run(argv)
    in_effect = dataset_properties(server, dataset, list(properties))
    for name, value in properties.items():
        wanted = str(recordsize) if name == "recordsize" else setting(value)
        if in_effect[name] != wanted:
            raise HostError(
                f"{dataset}: {name} was set to {wanted} but is {in_effect[name]}",
                "this OpenZFS does not take the value as it is written in the workload",
            )


def dataset_commands(dataset: str, properties: dict[str, Setting]) -> list[list[str]]:
    """argv of what follows the creation, which sets the recordsize."""
    rest = [f"{name}={setting(value)}" for name, value in properties.items() if name != "recordsize"]
    return [
        *([["zfs", "set", *rest, dataset]] if rest else []),
        ["zfs", "set", "canmount=noauto", dataset],
        ["zfs", "mount", dataset],
    ]


def pyzfs_command(*arguments: str) -> list[str]:
    """argv of the helper that speaks to libzfs_core; its text is the input."""
    return ["/usr/bin/python3", "-", *arguments]


def remove_command(pool: str, devices: tuple[str, ...]) -> list[str]:
    """argv of taking log or cache devices out."""
    return ["zpool", "remove", "-w", pool, *devices]


def record_bytes(properties: dict[str, Setting]) -> int:
    """recordsize in bytes: a number, or a size with its unit. Raises ValueError for anything else."""
    value = properties.get("recordsize", 131072)
    size = parse_size_bytes(value) if isinstance(value, str) else int(value)
    if size < 512 or size > 16 << 20 or size & (size - 1):
        raise ValueError(f"recordsize must be a power of two from 512 to 16MiB, found {value!r}")
    return size


def dataset_properties(server: Host, dataset: str, names: list[str]) -> dict[str, str]:
    """Properties of a dataset as they are in effect. Raises HostError if one is not told."""
    return _properties(server, ["zfs", "get"], dataset, names)


def snapshot(server: Host, pool: Pool, name: str) -> None:
    """Snapshot DATASET@NAME, tagged with the run id."""
    _with_pyzfs(server, "snapshot", name, pool.run_id)


def mountpoint(server: Host, dataset: str) -> str:
    """Where the dataset is mounted on the server."""
    return server.run(["zfs", "get", "-H", "-p", "-o", "value", "mountpoint", dataset]).stdout.strip()


def _with_pyzfs(server: Host, *arguments: str) -> None:
    answer = server.run(pyzfs_command(*arguments), stdin=_HELPER.read_bytes()).stdout
    if json.loads(answer).get("exists") is not True:
        raise HostError(f"on {server.name}: libzfs_core made no {arguments[1]}")
