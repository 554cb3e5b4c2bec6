"""Logs of drives, as nvme-cli and smartctl print them in JSON. Pure; what is no count is left out.

Sources: NVM Express Base Specification, SMART / Health Information (02h); Datacenter NVMe SSD Specification
(OCP), latency monitor (C3h); nvme-print-json.c and ocp-print-json.c of nvme-cli; nvmeprint.cpp and
ataprint.cpp of smartmontools. The counters of thermal management have the same names in nvme-cli 1 and 2.
smartctl prints them since 2026-05 (smartmontools#583), and only if one of them is not 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kit.core.text import json_value

TRANSITIONS = ("thm_temp1_trans_count", "thm_temp2_trans_count")
THROTTLED_S = ("thm_temp1_total_time", "thm_temp2_total_time")
THERMAL = (*TRANSITIONS, *THROTTLED_S)
_NVME = (*THERMAL, "warning_temp_time", "critical_comp_time", "media_errors")
# The names of smartctl that differ, and ours.
_SMARTCTL = {
    "thermal_mgmt_temperature_1_transition_count": "thm_temp1_trans_count",
    "thermal_mgmt_temperature_2_transition_count": "thm_temp2_trans_count",
    "thermal_mgmt_temperature_1_total_time": "thm_temp1_total_time",
    "thermal_mgmt_temperature_2_total_time": "thm_temp2_total_time",
}
# Attributes that have one meaning at all makers (smartmontools, drivedb.h, DEFAULT).
_ATTRIBUTES = {5: "reallocated", 197: "pending", 199: "crc_errors"}
_MOST = 1 << 62


def of_nvme(text: str, identity: str = "") -> dict[str, int]:
    """Of `nvme smart-log` and `nvme id-ctrl`: a drive without thermal management always prints 0."""
    found = counts({name: as_object(text).get(name) for name in _NVME})
    has_none = counts({"hctma": as_object(identity).get("hctma")}).get("hctma", 1) & 1 == 0
    if has_none and not any(found.get(name) for name in THERMAL):
        found = {name: value for name, value in found.items() if name not in THERMAL}
    return found


def of_smartctl(
    text: str, nvme: Collection[str] = _NVME, attributes: Mapping[int, str] = _ATTRIBUTES
) -> dict[str, int]:
    """Of `smartctl --json --attributes`: those of `nvme`, or `attributes` of SATA by their ids."""
    log = as_object(text)
    health = log.get("nvme_smart_health_information_log")
    if isinstance(health, dict):
        ours = {_SMARTCTL.get(str(name), str(name)): value for name, value in health.items()}
        return counts({name: value for name, value in ours.items() if name in nvme})
    table = log.get("ata_smart_attributes")
    rows = table.get("table") if isinstance(table, dict) else None
    found: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("id"), int) and isinstance(row.get("raw"), dict):
            if name := attributes.get(row["id"]):
                found[name] = row["raw"].get("value")
    return counts(found)


def sata_speeds(text: str) -> dict[str, str]:
    """`speed` of the link and `drive_max`, such as "6.0 Gb/s", of `smartctl --json --info`."""
    speeds = as_object(text).get("interface_speed")
    found = {}
    for name, key in (("speed", "current"), ("drive_max", "max")):
        each = speeds.get(key) if isinstance(speeds, dict) else None
        if isinstance(each, dict) and isinstance(each.get("string"), str):
            found[name] = each["string"][:40]
    return found


def slow_commands(text: str) -> dict[str, int]:
    """Of `nvme ocp latency-monitor-log`: commands slower than its threshold A, since its timer began anew.

    The four buckets are of different latencies, so that each command is in one.
    """
    log = as_object(text)
    if not any(name.startswith("Active Bucket Counter") for name in log):
        return {}
    buckets = [log.get(f"Active Bucket Counter: Bucket {number}") for number in range(4)]
    found = [counts(bucket) for bucket in buckets if isinstance(bucket, dict)]
    threshold = counts({"ms": log.get("Active Threshold A")})
    minutes = counts({"minutes": log.get("Active Bucket Timer")})
    return {"slow_commands": sum(sum(each.values()) for each in found), **threshold, **minutes}


def counts(found: Mapping[str, Any]) -> dict[str, int]:
    """Those that are counts; nvme-cli writes very large numbers as text."""
    made = {}
    for name, value in found.items():
        try:
            count = -1 if isinstance(value, (bool, float)) else int(value)
        except (ValueError, TypeError):
            continue
        if 0 <= count < _MOST:
            made[name] = count
    return made


def as_object(text: str) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    try:
        value = json_value(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
