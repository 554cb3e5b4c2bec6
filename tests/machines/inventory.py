"""What kit/remote/probe_devices.py prints of a machine's disks: who uses them, and what is on them."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from tests.machines.world import DISK_BYTES, Disk, Machine

ARRAY = "md127"
TYPES = {"1": "6a898cc3-1dd2-11b2-99a6-080020736631", "9": "6a945a3b-1dd2-11b2-99a6-080020736631"}
"""Of the partitions of `zpool create`, by number."""
_QUEUE = {
    "rotational": "0", "logical_block_size": "512", "physical_block_size": "4096",
    "write_cache": "write back", "discard_max_bytes": "0", "scheduler": "[none]", "nr_requests": "64",
    "max_sectors_kb": "128", "fua": "0",
}  # fmt: skip
_PLAIN = {
    "ro": "0", "removable": "0", "diskseq": None, "hidden": "0", "nsid": None, "partition": None,
    "parent": None, "holders": [], "slaves": [], "queue": _QUEUE, "controller": None, "firmware": None,
    "driver": "sd", "dm": [None, None], "md": None, "loop": None,
}  # fmt: skip


def number_of(machine: Machine, disk: Disk, part: str = "") -> str:
    """MAJOR:MINOR."""
    return f"8:{16 * [*machine.disks.values()].index(disk) + int(part or 0)}"


def zdb_text(machine: Machine, path: str) -> str:
    """Of `zdb -l`; "" without a label."""
    label = machine.label(path)
    if label is None:
        return ""
    name, guid, role = label
    if role == "cache":
        return f"LABEL 0\n    state: 4\n    guid: 7\nL2ARC header\n    pool_guid: {guid}\n"
    state = 0 if any(pool.guid == guid for pool in machine.pools.values()) else 2
    text = f"    name: '{name}'\n    state: {state}\n    pool_guid: {guid}\n    labels = 0 1 2 3\n"
    return f"LABEL 0\n{text}"


def facts(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request. Contents of the disks that it names, or of all."""
    asked = request["paths"]
    examined = {path: disk for path, disk in machine.disks.items() if asked is None or path in asked}
    links = {
        f"{path}-part{part}" if part else path: f"/dev/{disk.kernel_name}{part}"
        for path, disk in machine.disks.items() for part in ("", *disk.parts)
    }  # fmt: skip
    opened = [
        [disk.kernel_name, str(pid), each.argv[0]]
        for disk in examined.values() for pid, each in machine.processes.items()
        if pid != request["claimer"] and f"/dev/{disk.kernel_name}" in each.holds
    ]  # fmt: skip
    tools = {"lsblk": _tool("lsblk", json.dumps({"blockdevices": _identities(machine)}))}
    if request["content"]:
        tools |= _contents(machine, examined)
    contents = {disk.kernel_name: _content(machine, path, disk, request) for path, disk in examined.items()}
    return {
        "format": 1, "devices": _devices(machine), "links": {path: path for path in asked or ()} | links,
        "mounts": [["1", "mnt:[1]", "1 1 0:20 / / rw - tmpfs tmpfs rw"]], "unread": [], "open": opened,
        "unread_files": [], "own": "mnt:[1]", "swaps": "Filename Type Size Used Priority", "tools": tools,
        "disks": contents,
    }  # fmt: skip


def _tool(name: str, out: str) -> dict[str, Any]:
    return {"argv": [name], "code": 0, "out": out, "err": ""}


def _parts(machine: Machine) -> list[tuple[str, Disk, str, int]]:
    """Path of the disk, itself, number of the partition ("": the whole disk), and size in bytes."""
    return [
        (path, disk, part, size_bytes)
        for path, disk in machine.disks.items() for part, size_bytes in {"": DISK_BYTES, **disk.parts}.items()
    ]  # fmt: skip


def _identities(machine: Machine) -> list[dict[str, Any]]:
    return [
        {
            "kname": f"{disk.kernel_name}{part}", "type": "part" if part else "disk", "size": size_bytes,
            "serial": None if part else disk.serial, "model": None if part else "M", "wwn": None,
            "tran": None if part else "sata", "fstype": None,
            "parttype": TYPES[part] if part and disk.table else None,
        }
        for _, disk, part, size_bytes in _parts(machine)
    ]  # fmt: skip


def _devices(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, disk, part, size_bytes in _parts(machine):
        found[f"{disk.kernel_name}{part}"] = _PLAIN | {
            "dev": number_of(machine, disk, part), "sectors": str(size_bytes // 512),
            "diskseq": str(machine.boot), "partition": part or None,
            "parent": disk.kernel_name if part else None,
            "holders": [ARRAY] if not part and machine.array and path in machine.array[2] else [],
        }  # fmt: skip
    if machine.array:
        members = [machine.disks[path].kernel_name for path in machine.array[2]]
        found[ARRAY] = _PLAIN | {"dev": "9:127", "sectors": "2048", "slaves": members, "md": "raid1"}
    return found


def _contents(machine: Machine, examined: dict[str, Disk]) -> dict[str, Any]:
    """Of the tools that look at all disks at once."""
    imported = {name: pool for name, pool in machine.pools.items() if pool.imported}
    guids = "".join(f"{name}\t{pool.guid}\n" for name, pool in imported.items())
    members = "".join(
        f"{name}\t-\n" + "".join(f"\t{_node_of(machine, path)}\t-\n" for path in pool.devices)
        for name, pool in imported.items()
    )
    importable = "".join(
        f"   pool: {name}\n     id: {pool.guid}\n  state: ONLINE\n config:\n\n"
        + "".join(f"\t  {PurePosixPath(path).name}  ONLINE\n" for path in pool.devices)
        for name, pool in machine.pools.items() if not pool.imported
    )  # fmt: skip
    signatures = [
        {"device": device, "type": kind, "offset": offset, "label": None}
        for disk in examined.values() for device, kind, offset in disk.signatures
    ]  # fmt: skip
    wipefs = json.dumps({"signatures": signatures}) if signatures else ""
    texts = {"guids": guids, "imported": members, "importable": importable, "wipefs": wipefs}
    return {name: _tool(name, text) for name, text in texts.items()}


def _node_of(machine: Machine, path: str) -> str:
    """What `zpool list -P -L` prints. A pool gives a whole disk two partitions."""
    disk, part = machine.disk(path) or (None, "")
    assert disk is not None
    return f"/dev/{disk.kernel_name}{part or '1'}"


def _content(machine: Machine, path: str, disk: Disk, request: dict[str, Any]) -> dict[str, Any]:
    busy = machine.in_use(path, request["claimer"])
    content: dict[str, Any] = {"alone": "Device or resource busy" if busy else ""}
    if request["content"]:
        texts = {part: zdb_text(machine, f"{path}-part{part}") if part else "" for part in ("", *disk.parts)}
        content["zdb"] = {
            f"{disk.kernel_name}{part}": _tool("zdb", text) if text else None for part, text in texts.items()
        }
    return content
