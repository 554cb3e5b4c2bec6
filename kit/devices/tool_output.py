"""What the tools of a host say about its disks, as values. Pure; ValueError where it cannot be understood.

Sources: lsblk(8), wipefs(8), zdb(8), zpool-list(8), zpool-import(8), nvme-cli's and smartctl's JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

# POOL_STATE_* of include/sys/fs/zfs.h.
ACTIVE, EXPORTED, DESTROYED, SPARE, CACHE = range(5)
_NO_LABEL = [f"failed to unpack label {number}" for number in range(4)]
_LABEL = re.compile(r"^LABEL \d", re.MULTILINE)
_STATE = re.compile(r"^\s*state: (\d+)$", re.MULTILINE)
_POOL_NAME = re.compile(r"^ {4}name: '(.*)'$", re.MULTILINE)
_POOL_GUID = re.compile(r"^ {4}pool_guid: (\d+)$", re.MULTILINE)
_ZPOOL_IMPORT_POOL = re.compile(r"^\s*pool: (.*)\n\s*id: (\d+)\n\s*state: (\S+)", re.MULTILINE)
_KELVIN = 273


@dataclass(frozen=True)
class Identity:
    """What lsblk says of one block device; sizes in bytes."""

    kind: str
    size_bytes: int
    serial: str
    model: str
    wwn: str
    transport: str
    sector_bytes: int
    discard_bytes: int
    udev_fstype: str


@dataclass(frozen=True)
class Signature:
    """Something recognisable at `offset_bytes` of a block device: a file system, a partition table..."""

    kernel_name: str
    kind: str
    offset_bytes: int
    label: str


@dataclass(frozen=True)
class Label:
    """A ZFS label. Those of spares and of cache devices do not say which pool they belong to."""

    kernel_name: str
    state: int
    pool: str
    guid: str


@dataclass(frozen=True)
class Pool:
    """A pool and the block devices it names: paths of an imported one, base names of an importable one."""

    name: str
    guid: str
    state: str
    members: frozenset[str]


@dataclass(frozen=True)
class Health:
    """Used endurance in percent (may be over 100), degrees Celsius, SMART's warning; None: not told."""

    wear_percent: int | None = None
    temperature_c: int | None = None
    warning: bool | None = None


def parse_lsblk(text: str) -> dict[str, Identity]:
    """By kernel name, from `lsblk --json --bytes --list`."""
    found = {}
    for entry in _object(text)["blockdevices"]:
        found[str(entry["kname"])] = Identity(
            kind=str(entry["type"]),
            size_bytes=int(entry["size"]),
            serial=_word(entry["serial"]),
            model=_word(entry["model"]),
            wwn=_word(entry["wwn"]),
            transport=_word(entry["tran"]),
            sector_bytes=int(entry["log-sec"]),
            discard_bytes=int(entry["disc-max"] or 0),
            udev_fstype=_word(entry["fstype"]),
        )
    return found


def parse_wipefs(text: str) -> tuple[Signature, ...]:
    """From `wipefs --no-act --json DEVICE...`; it says nothing at all where there is nothing."""
    if not text.strip():
        return ()
    return tuple(
        Signature(str(entry["device"]), str(entry["type"]), int(entry["offset"], 16), _word(entry["label"]))
        for entry in _object(text)["signatures"]
    )


def parse_zdb(kernel_name: str, returncode: int | None, text: str) -> tuple[Label, ...]:
    """From `zdb -l`: one label a state that is found; none if all four places hold no label."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines == _NO_LABEL:
        return ()
    if returncode != 0 and not _LABEL.search(text):
        raise ValueError("zdb could not read the labels")
    states = sorted({int(state) for state in _STATE.findall(text)})
    if not states:
        raise ValueError("a label without a state")
    pool, guid = _one(_POOL_NAME, text), _one(_POOL_GUID, text)
    return tuple(Label(kernel_name, state, pool, guid) for state in states)


def parse_guids(text: str) -> dict[str, str]:
    """Pools by name, from `zpool list -H -p -o name,guid`."""
    found = {}
    for line in text.splitlines():
        name, guid = line.split("\t")
        found[name] = str(int(guid))
    return found


def parse_imported(guids: dict[str, str], members: str) -> tuple[Pool, ...]:
    """From `zpool list -H -v -P -L`; `guids` of the pools by name."""
    found: dict[str, set[str]] = {name: set() for name in guids}
    pool = None
    for line in members.splitlines():
        words = line.split("\t")
        if words[0] in guids:
            pool = words[0]
        elif not words[0]:
            if pool is None or len(words) < 2:
                raise ValueError(f"a device of no pool: {line[:200]!r}")
            found[pool].add(words[1])
    # What cannot be seen must not look like nothing.
    if any(not devices for devices in found.values()):
        raise ValueError("a pool without devices")
    return tuple(Pool(name, guids[name], "imported", frozenset(found[name])) for name in guids)


def parse_importable(text: str) -> tuple[Pool, ...]:
    """From `zpool import` without a pool: what could be imported, or should but cannot."""
    found = []
    starts = list(_ZPOOL_IMPORT_POOL.finditer(text))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        config = text[start.end() : end].partition("config:")[2]
        words = frozenset(line.split()[0] for line in config.splitlines() if line.split())
        found.append(Pool(start[1], start[2], start[3], words))
    if not found and text.strip() and "no pools available" not in text:
        raise ValueError("zpool import says what is not known")
    return tuple(found)


def parse_nvme_health(text: str) -> Health:
    """From `nvme smart-log --output-format=json` (temperature in kelvin)."""
    log = _object(text)
    warning = log["critical_warning"]
    if isinstance(warning, dict):
        warning = warning["value"]
    return Health(int(log["percent_used"]), int(log["temperature"]) - _KELVIN, int(warning) != 0)


def parse_smartctl(text: str) -> Health:
    """From `smartctl --json --all`; what it does not tell is None."""
    log = _object(text)
    wear = _number(log, "scsi_percentage_used_endurance_indicator")
    for page in _at(log, "ata_device_statistics", "pages") or []:
        for row in _at(page, "table") or []:
            if _at(row, "name") == "Percentage Used Endurance Indicator" and _at(row, "flags", "valid"):
                wear = _number(row, "value")
    passed = _at(log, "smart_status", "passed")
    # SCSI disks that have no thermometer say 0.
    temperature = _number(log, "temperature", "current") or None
    return Health(wear, temperature, None if not isinstance(passed, bool) else not passed)


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(value: Any, *keys: str) -> int | None:
    found = _at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _word(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _one(pattern: re.Pattern[str], text: str) -> str:
    found = sorted(set(pattern.findall(text)))
    return " or ".join(found)
