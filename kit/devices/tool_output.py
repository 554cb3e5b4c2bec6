"""Parsers of tools that describe disks. Pure; they raise ValueError for malformed output.

Sources: lsblk(8), wipefs(8), zdb(8), zpool-list(8), zpool-import(8), nvme-cli's and smartctl's JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kit.core.text import json_value

# POOL_STATE_* of include/sys/fs/zfs.h.
ACTIVE, EXPORTED, DESTROYED, SPARE, CACHE = range(5)
_NO_LABEL = [f"failed to unpack label {number}" for number in range(4)]
_LABEL = re.compile(r"^LABEL \d", re.MULTILINE)
_STATE = re.compile(r"^\s*state: (\d+)$", re.MULTILINE)
_POOL_NAME = re.compile(r"^ {4}name: '(.*)'$", re.MULTILINE)
_POOL_GUID = re.compile(r"^ {4}pool_guid: (\d+)$", re.MULTILINE)
_ZPOOL_IMPORT_POOL = re.compile(r"^\s*pool: (.*)\n\s*id: (\d+)\n\s*state: (\S+)", re.MULTILINE)
# Attributes of SATA SSDs in smartmontools' drivedb.h. Of the first the normalised value is what is left, in
# percent; of the others the raw value is what is used, and the normalised one the rest.
_LEFT_NAME = re.compile(
    r"Wear_Leveling_Count|SSD_Life_?Left(?:_Perc)?|Lifetime_Left|Remaining_Life(?:time_Perc)?|"
    r"(?:SSD_Remaining_Life|Life_Remaining)_Perc(?:ent)?|(?:Drive_?Life|Lifetime)_Remaining%|"
    r"(?:Sys_)?(?:Percent_(?:Lifetime|Life)|Perc_Rated_Life|PCT_Life)_Remain(?:ing)?"
)
_USED_NAME = re.compile(r"(?:Percent_(?:Lifetime|Life)|Perc_Rated_Life)_Used|Drive_?Life_Used%")


@dataclass(frozen=True)
class Identity:
    """A block device as lsblk describes it."""

    kind: str
    size_bytes: int
    serial: str
    model: str
    wwn: str
    transport: str
    udev_fstype: str
    partition_type: str


@dataclass(frozen=True)
class Signature:
    """A signature at `offset_bytes` of a block device: a file system, a partition table..."""

    kernel_name: str
    kind: str
    offset_bytes: int
    label: str


@dataclass(frozen=True)
class Label:
    """A ZFS label. Labels of spares and cache devices do not name their pool."""

    kernel_name: str
    state: int
    pool: str
    guid: str


@dataclass(frozen=True)
class ListedPool:
    """A pool and its block devices: paths of an imported pool, base names of an importable one."""

    name: str
    guid: str
    state: str
    members: frozenset[str]


@dataclass(frozen=True)
class Health:
    """Used endurance in percent (may exceed 100), degrees Celsius, SMART's warning; None: unknown."""

    wear_percent: int | None = None
    temperature_c: int | None = None
    warning: bool | None = None


def parse_lsblk(text: str) -> dict[str, Identity]:
    """By kernel name, from `lsblk --json --bytes --list`."""
    return {
        str(entry["kname"]): Identity(
            kind=str(entry["type"]),
            size_bytes=int(entry["size"]),
            serial=_text(entry["serial"]),
            model=_text(entry["model"]),
            wwn=_text(entry["wwn"]),
            transport=_text(entry["tran"]),
            udev_fstype=_text(entry["fstype"]),
            partition_type=_text(entry["parttype"]).lower(),
        )
        for entry in _object(text)["blockdevices"]
    }


def parse_wipefs(text: str) -> tuple[Signature, ...]:
    """From `wipefs --no-act --json DEVICE...`; no output means no signatures."""
    if not text.strip():
        return ()
    return tuple(
        Signature(str(entry["device"]), str(entry["type"]), int(entry["offset"], 16), _text(entry["label"]))
        for entry in _object(text)["signatures"]
    )


def parse_zdb(kernel_name: str, returncode: int | None, text: str) -> tuple[Label, ...]:
    """From `zdb -l`: one label per state; none if none of the four places has a label."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines == _NO_LABEL:
        return ()
    if returncode != 0 and not _LABEL.search(text):
        raise ValueError("zdb could not read the labels")
    states = sorted({int(state) for state in _STATE.findall(text)})
    if not states:
        raise ValueError("a label without a state")
    pool, guid = _joined(_POOL_NAME, text), _joined(_POOL_GUID, text)
    return tuple(Label(kernel_name, state, pool, guid) for state in states)


def parse_guids(text: str) -> dict[str, str]:
    """Pools by name, from `zpool list -H -p -o name,guid`."""
    rows = (line.split("\t") for line in text.splitlines())
    return {name: str(int(guid)) for name, guid in rows}


def parse_imported(guids: dict[str, str], members: str) -> tuple[ListedPool, ...]:
    """From `zpool list -H -v -P -L`; `guids` of the pools by name."""
    devices_by_pool: dict[str, set[str]] = {name: set() for name in guids}
    pool = None
    for line in members.splitlines():
        fields = line.split("\t")
        if fields[0] in guids:
            pool = fields[0]
        elif not fields[0]:
            if pool is None or len(fields) < 2:
                raise ValueError(f"a device without a pool: {line[:200]!r}")
            devices_by_pool[pool].add(fields[1])
    # A pool always has devices: without any the output is incomplete.
    if any(not paths for paths in devices_by_pool.values()):
        raise ValueError("a pool without devices")
    return tuple(
        ListedPool(name, guids[name], "imported", frozenset(devices_by_pool[name])) for name in guids
    )


def parse_importable(text: str) -> tuple[ListedPool, ...]:
    """From `zpool import` without a pool: pools that can be imported, and those with errors."""
    pools = []
    _, *parts = _ZPOOL_IMPORT_POOL.split(text)
    for name, guid, state, rest in zip(*(parts[n::4] for n in range(4)), strict=True):
        rows = (line.split() for line in rest.partition("config:")[2].splitlines())
        pools.append(ListedPool(name, guid, state, frozenset(row[0] for row in rows if row)))
    if not pools and text.strip() and "no pools available" not in text:
        raise ValueError("unknown output of zpool import")
    return tuple(pools)


def parse_nvme_health(text: str) -> Health:
    """From `nvme smart-log --output-format=json` (temperature in kelvin)."""
    log = _object(text)
    return Health(int(log["percent_used"]), int(log["temperature"]) - 273, nvme_warning(log) != 0)


def nvme_warning(log: dict[str, Any]) -> int:
    """The bits of SMART's critical warning. Newer nvme-cli versions write an object."""
    warning = log["critical_warning"]
    return int(warning["value"] if isinstance(warning, dict) else warning)


def parse_smartctl(text: str) -> Health:
    """From `smartctl --json --all`; missing values are None."""
    log = _object(text)
    wear = _wear_percent(log)
    passed = _get(log, "smart_status", "passed")
    # SCSI disks without a thermometer report 0.
    temperature = _number(log, "temperature", "current") or None
    return Health(wear, temperature, None if not isinstance(passed, bool) else not passed)


def _wear_percent(log: dict[str, Any]) -> int | None:
    """Used endurance: what the device itself reports by its standard, else what its attributes say."""
    places = (
        ("nvme_smart_health_information_log", "percentage_used"),
        ("scsi_percentage_used_endurance_indicator",),
    )
    found = [value for keys in places if (value := _number(log, *keys)) is not None]
    for page in _get(log, "ata_device_statistics", "pages") or []:
        for row in _get(page, "table") or []:
            if _get(row, "name") == "Percentage Used Endurance Indicator" and _get(row, "flags", "valid"):
                found += [value for value in (_number(row, "value"),) if value is not None]
    if found:
        return found[0]
    attributes = _get(log, "ata_smart_attributes", "table")
    if not attributes:
        return _number(log, "endurance_used", "current_percent")
    # Without an entry in its database smartctl calls attributes by names that others gave them.
    if log.get("in_smartctl_database") is False:
        return None
    used = [_used_percent(row) for row in attributes]
    return next((value for value in used if value is not None), None)


def _used_percent(row: Any) -> int | None:
    """Used endurance by one attribute of an SSD; None if it is another, or its values are no percents."""
    name, value, raw = str(_get(row, "name")), _number(row, "value"), _number(row, "raw", "value")
    if value is None or not 0 <= value <= 100:
        return None
    if _USED_NAME.fullmatch(name):
        return raw if raw is not None and value == max(100 - raw, 0) else None
    # Of others the attribute 230 of that name is no percentage.
    if _LEFT_NAME.fullmatch(name) or (name == "Media_Wearout_Indicator" and _get(row, "id") in (None, 233)):
        # ATA has no value 0: it is one only of a device that is worn out by its raw value, too.
        return 100 - value if value or (raw or 0) >= 100 else None
    return None


def _object(text: str) -> dict[str, Any]:
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(value: Any, *keys: str) -> int | None:
    number = _get(value, *keys)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _joined(pattern: re.Pattern[str], text: str) -> str:
    return " or ".join(sorted(set(pattern.findall(text))))
