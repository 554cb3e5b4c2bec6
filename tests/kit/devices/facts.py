"""Output of probe_devices.py: recorded in a guest, or made for one unused device."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kit.devices.inventory import Inventory
from kit.devices.probe import parse as parse_text
from kit.devices.refusal_reasons import Code, DeviceSpec, reasons

DATA = Path(__file__).parents[1] / "data" / "devices"


@functools.cache
def _recorded(name: str) -> str:
    return gzip.decompress((DATA / f"{name}.json.gz").read_bytes()).decode()


def recorded(name: str = "used") -> Any:
    """Of the rig: "used" (mounts, swap, LVM, md, dm...) or "pools"."""
    return json.loads(_recorded(name))


def one_device(path: str, name: str, size_bytes: int, serial: str = "", **changes: Any) -> Any:
    """A host with one device. `changes`: of sysfs, or `label` (of zdb), `signature`, `alone`."""
    label, signature = changes.pop("label", None), changes.pop("signature", None)
    alone = changes.pop("alone", "")
    lsblk = {
        "name": name, "kname": name, "type": "disk", "size": size_bytes, "serial": serial, "model": "SSD  ",
        "wwn": None, "tran": "sata", "ro": False, "log-sec": 512, "disc-max": 2147450880, "fstype": None,
        "parttype": None,
    }  # fmt: skip
    signatures = [{"device": name, "type": signature, "offset": "0x0", "label": None}] if signature else []
    entry = {
        "dev": "8:0", "sectors": str(size_bytes // 512), "ro": "0", "removable": "0", "diskseq": "1",
        "hidden": "0", "partition": None, "parent": None, "holders": [], "slaves": [], "controller": None,
        "dm": [None, None], "md": None, "loop": None,
        "queue": {
            "rotational": "0", "logical_block_size": "512", "physical_block_size": "512",
            "write_cache": "write back", "discard_max_bytes": "2147450880",
        },
    } | changes  # fmt: skip
    return {
        "format": 1,
        "devices": {name: entry},
        "links": {path: f"/dev/{name}"},
        "mounts": [["1", "mnt:[1]", "22 1 254:0 / / rw - ext4 /dev/vda rw"]],
        "unread": [],
        "open": [],
        "unread_files": [],
        "own": "mnt:[1]",
        "swaps": "Filename",
        "tools": {
            "lsblk": _output(json.dumps({"blockdevices": [lsblk]})),
            "guids": _output(""),
            "imported": _output(""),
            "wipefs": _output(json.dumps({"signatures": signatures})),
        },
        "disks": {name: {"alone": alone, "zdb": {name: label and _output(label)}, "wipefs": None}},
    }


def _output(text: str) -> dict[str, Any]:
    return {"argv": ["tool"], "code": 0, "out": text, "err": ""}


# --- The disks of the recorded guest ---

BY_ID = "/dev/disk/by-id/"
SIZE = 128 << 20
# Of the disks of "used", and of those that tests/lab/test_interlocks.py uses in the same way.
REASONS_OF_USES = {
    "vd0": {Code.HOLDER, Code.BUSY, Code.SIGNATURE},
    "vd1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
    "vd2": {Code.SWAP, Code.BUSY, Code.SIGNATURE},
    "vd3": {Code.LVM, Code.BUSY},
    "vd4": {Code.MD, Code.BUSY},
    "vd5": {Code.CRYPT, Code.BUSY},
    "sd0": {Code.MULTIPATH},
    "sd1": {Code.SIGNATURE},
    "sd2": {Code.READ_ONLY},
    "ns1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
    "ns2": {Code.SIBLING},
}
DISKS = list(REASONS_OF_USES)


def parse(host: str, facts: Any) -> Inventory:
    return parse_text(host, json.dumps(facts))


def spec_of(disk: str, **changes: Any) -> DeviceSpec:
    kind, number = disk[:2], disk[2:]
    link = {
        "vd": f"virtio-HSPVD{number}",
        "sd": f"scsi-0QEMU_QEMU_HARDDISK_HSPSD{number}",
        "ns": f"nvme-QEMU_NVMe_Ctrl_HSPNVME0_{number}",
    }[kind]
    serial = "HSPNVME0" if kind == "ns" else f"HSP{disk.upper()}"
    return DeviceSpec(**{"path": BY_ID + link, "serial": serial, "size_bytes": SIZE, **changes})


def codes(inventory: Inventory, spec: DeviceSpec, others: Sequence[DeviceSpec] = ()) -> set[Code]:
    return {reason.code for reason in reasons(inventory, spec, others)}
