"""A block device of a host: what it is, whether anybody uses it, and how much was written to it.

What cannot be determined counts as used. Sources: lsblk(8), blkid(8), zdb(8), Documentation/block/stat.rst,
NVM Express base specification 2.0 (SMART / Health Information log: data units of 1000 x 512 bytes).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from kit.errors import HostError, SafetyRefusal
from kit.hosts.base import Host

_COLUMNS = "NAME,KNAME,TYPE,SIZE,SERIAL,MODEL,RO,MOUNTPOINTS,LOG-SEC,DISC-MAX,TRAN"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_!-]*")
# Whole devices. What lsblk calls "part", "lvm", "crypt", "raid1"... is a part of, or made of, others.
_WHOLE = ("disk", "loop")
_BLKID_NOTHING = 2
_SECTOR_BYTES = 512
_SECTORS_WRITTEN = 6  # the seventh number of /sys/block/NAME/stat
SMART_UNIT_BYTES = 512_000
# Of zdb -l: POOL_STATE_DESTROYED and POOL_STATE_L2CACHE (include/sys/fs/zfs.h). Nothing of value is there.
_FREE_LABELS = {"2", "4"}
_LABEL_STATE = re.compile(r"^\s*state: (\d+)$", re.MULTILINE)
_LABEL_POOL = re.compile(r"^\s*name: '(.*)'$", re.MULTILINE)
# Only the kernel knows for certain: it gives a block device that is in use to nobody else.
_OPEN_ALONE = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR | os.O_EXCL))"


@dataclass(frozen=True)
class BlockDevice:
    """`kernel_name` is below /sys/block; sizes in bytes; `transport` as lsblk has it ("nvme", ""...)."""

    path: str
    kernel_name: str
    size_bytes: int
    sector_bytes: int
    discard_bytes: int
    serial: str
    model: str
    transport: str

    def identity(self) -> dict[str, Any]:
        """What it is recognised by."""
        return {"path": self.path, "serial": self.serial, "size_bytes": self.size_bytes}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Written:
    """Bytes written since the kernel found the device, and over its life as SMART has it (None: unknown)."""

    kernel_bytes: int
    smart_bytes: int | None = None
    smart_warning: int = 0


def find_unused(host: Host, path: str, expected_bytes: int | None = None) -> BlockDevice:
    """The device at `path`, which nobody uses and which holds nothing.

    Raises SafetyRefusal with the reason, also where it could not be found out.
    """
    answer = host.run(["lsblk", "--json", "--bytes", "--output", _COLUMNS, path], check=False)
    if answer.returncode != 0:
        raise _refused(host, path, f"lsblk does not know it ({answer.stderr.strip()[-200:]})")
    device = parse_lsblk(answer.stdout, path, host)
    if expected_bytes is not None and device.size_bytes != expected_bytes:
        raise _refused(
            host, path, f"it has {device.size_bytes} bytes, the testbed says {expected_bytes}",
            "is it the device that was meant? correct its size in the testbed",
        )  # fmt: skip
    _refuse_signatures(host, path)
    opened = host.run(["/usr/bin/python3", "-c", _OPEN_ALONE, path], check=False)
    if opened.returncode != 0:
        said = opened.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise _refused(host, path, f"it cannot be opened alone, so somebody uses it ({said[0][-200:]})")
    return device


def check_same(host: Host, device: BlockDevice) -> None:
    """That the path still leads to the same bare device. Raises SafetyRefusal."""
    answer = host.run(["lsblk", "--json", "--bytes", "--output", _COLUMNS, device.path], check=False)
    found = parse_lsblk(answer.stdout, device.path, host)
    if (found.identity(), found.kernel_name) != (device.identity(), device.kernel_name):
        raise _refused(
            host, device.path, f"it was {device.identity()}, it is now {found.identity()}",
            "devices were changed while the kit was at work; begin again",
        )  # fmt: skip


def parse_lsblk(text: str, path: str, host: Host) -> BlockDevice:
    """The device, from lsblk's JSON. Raises SafetyRefusal if it is not bare, or that cannot be told."""
    try:
        (entry,) = json.loads(text)["blockdevices"]
        name, kind = str(entry["kname"]), str(entry["type"])
        children = entry.get("children") or []
        mounts = [str(m) for m in entry["mountpoints"] if m]
        read_only = entry["ro"] not in (False, 0, "0")
        device = BlockDevice(
            path=path,
            kernel_name=name,
            size_bytes=int(entry["size"]),
            sector_bytes=int(entry["log-sec"]),
            discard_bytes=int(entry["disc-max"] or 0),
            serial=str(entry["serial"] or "").strip(),
            model=str(entry["model"] or "").strip(),
            transport=str(entry["tran"] or ""),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(host, path, f"what lsblk says of it cannot be understood ({error!r})") from error
    if not _NAME.fullmatch(name) or device.size_bytes <= 0 or device.sector_bytes < _SECTOR_BYTES:
        raise _refused(host, path, "lsblk says of it what no device can be")
    if kind not in _WHOLE:
        raise _refused(host, path, f"it is no whole device but of the kind '{kind}'", "name the whole device")
    if children:
        found = re.findall(r'"name": "([^"]*)"', json.dumps(children))
        what = ", ".join(found)[:200] or "lsblk does not say what"
        raise _refused(
            host, path, f"there is something on it: {what}",
            "it must be bare: if that is not needed, remove it with wipefs --all on each part and the device",
        )  # fmt: skip
    if mounts:
        raise _refused(host, path, f"it is in use: {', '.join(mounts)}")
    if read_only:
        raise _refused(host, path, "it is read-only")
    return device


def _refuse_signatures(host: Host, path: str) -> None:
    """Only labels of destroyed pools and of cache devices are as good as nothing."""
    # lsblk would tell what udev once found; this reads the device now.
    answer = host.run(["blkid", "--probe", "--output", "export", path], check=False)
    if answer.returncode == _BLKID_NOTHING and not answer.stdout.strip():
        return
    pairs = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    fstype = pairs.get("TYPE") or (f"{pairs['PTTYPE']} partition table" if "PTTYPE" in pairs else "")
    if answer.returncode != 0 or not fstype:
        raise _refused(host, path, f"what is on it could not be determined (blkid: {answer.returncode})")
    if fstype == "zfs_member":
        label = host.run(["zdb", "-l", path], check=False).stdout
        states = set(_LABEL_STATE.findall(label))
        if states and states <= _FREE_LABELS:
            return
        pools = ", ".join(sorted(set(_LABEL_POOL.findall(label)))) or "a pool that could not be determined"
        raise _refused(
            host, path, f"it belongs to {pools}",
            "destroy that pool, or clear its label with zpool labelclear, if it is not needed",
        )  # fmt: skip
    raise _refused(
        host, path, f"there is a signature on it: {fstype}",
        "if it is not needed: wipefs --all --backup, and run again",
    )  # fmt: skip


def read_written(host: Host, device: BlockDevice, with_smart: bool = False) -> Written:
    """The device's own counters now. Raises HostError if the kernel's cannot be read."""
    path = f"/sys/class/block/{device.kernel_name}/stat"
    text = host.run(["cat", path]).stdout
    try:
        sectors = int(text.split()[_SECTORS_WRITTEN])
    except (ValueError, IndexError):
        raise HostError(f"on {host.name}: {path} does not say how much was written: {text[:200]!r}") from None
    if not with_smart:
        return Written(sectors * _SECTOR_BYTES)
    return Written(sectors * _SECTOR_BYTES, *_read_smart(host, device))


def has_smart(host: Host, device: BlockDevice) -> bool:
    """Whether the device is NVMe, nvme-cli is there, and its SMART log can be read."""
    if not device.kernel_name.startswith("nvme"):
        return False
    return _read_smart(host, device)[0] is not None


def _read_smart(host: Host, device: BlockDevice) -> tuple[int | None, int]:
    argv = ["nvme", "smart-log", device.path, "--output-format=json"]
    answer = host.run(["sh", "-c", 'command -v "$1" >/dev/null && exec "$@"', "sh", *argv], check=False)
    if answer.returncode != 0:
        return None, 0
    return parse_smart(answer.stdout)


def parse_smart(text: str) -> tuple[int | None, int]:
    """Bytes written and the critical warning, from `nvme smart-log -o json`; (None, 0) if it is none."""
    try:
        log = json.loads(text)
        # A number too large for JSON readers comes as text.
        units, warning = int(log["data_units_written"]), log.get("critical_warning", 0)
        if isinstance(warning, dict):
            warning = warning.get("value", 0)
        return units * SMART_UNIT_BYTES, int(warning)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, 0


def _refused(host: Host, path: str, reason: str, hint: str = "") -> SafetyRefusal:
    name = PurePosixPath(path).name
    return SafetyRefusal(
        f"{path} on {host.name} is not touched: {reason}",
        hint or f"look at it with lsblk, and give the testbed another device than {name}",
    )
