"""A device's own counts of power losses: what proves that its power was really gone.

    unsafe_shutdowns    NVMe SMART log: power lost without a shutdown notification before it
    plp_start_count     Datacenter NVMe SSD Specification (OCP), log page C0h: starts of the protection
    smart_174, _192     SATA: unexpected power losses, and power-off retracts, as most vendors have them

SAS drives have none: their start-stop count grows in order, too.
Orderly removal, such as through /sys/bus/pci/slots/N/power, tells an NVMe drive before: none of them grows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import Host

OWN = "count"
_SMART_IDS = (174, 192)
_IF_THERE = 'command -v "$1" >/dev/null && exec "$@"'
_DEADLINE_S = 60.0
_MOST = 1 << 62


def read(host: Host, path: str) -> dict[str, int]:
    """Counts of the device at `path`, by name; none where no tool or log has one. Raises HostError."""
    kernel_name = host.run(["readlink", "-e", "--", path], check=False).stdout.strip().rpartition("/")[2]
    if kernel_name.startswith("nvme"):
        smart = _run(host, ["nvme", "smart-log", path, "--output-format=json"])
        ocp = _run(host, ["nvme", "ocp", "smart-add-log", path, "--output-format=json"])
        if found := parse_nvme(smart) | parse_ocp(ocp):
            return found
    # It reads NVMe as well, where nvme-cli is missing.
    return parse_smartctl(_run(host, ["smartctl", "--json", "--attributes", path]))


def _run(host: Host, argv: list[str]) -> str:
    # smartctl's exit code is a set of bits, of which some say something of the disk.
    return host.run(["sh", "-c", _IF_THERE, "sh", *argv], check=False, deadline_s=_DEADLINE_S).stdout


def parse_nvme(text: str) -> dict[str, int]:
    """Of `nvme smart-log -o json`. Pure."""
    return _counts({"unsafe_shutdowns": _object(text).get("unsafe_shutdowns")})


def parse_ocp(text: str) -> dict[str, int]:
    """Of `nvme ocp smart-add-log -o json`, whose keys have changed their case. Pure."""
    log = {name.casefold().replace("_", " "): value for name, value in _object(text).items()}
    return _counts({"plp_start_count": log.get("plp start count")})


def parse_smartctl(text: str) -> dict[str, int]:
    """Of `smartctl --json --attributes`, of NVMe or SATA. Pure."""
    log = _object(text)
    health = log.get("nvme_smart_health_information_log")
    if isinstance(health, dict):
        return _counts({"unsafe_shutdowns": health.get("unsafe_shutdowns")})
    table = log.get("ata_smart_attributes")
    rows = table.get("table") if isinstance(table, dict) else None
    found: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("id") in _SMART_IDS and isinstance(row.get("raw"), dict):
            found[f"smart_{row['id']}"] = row["raw"].get("value")
    return _counts(found)


def parse_own(text: str) -> dict[str, int]:
    """Of the user's own command `count`. Pure. Raises HostError if it is not one whole number."""
    counts = _counts({OWN: text.strip()})
    if not counts:
        raise HostError(
            f"`count` of [power] in the testbed printed '{safe_text(text.strip())[:80]}'",
            "it prints one whole number: how often the device has lost its power",
        )
    return counts


def _counts(found: Mapping[str, Any]) -> dict[str, int]:
    """Those that are counts; nvme-cli writes very large numbers as text."""
    counts = {}
    for name, value in found.items():
        try:
            count = -1 if isinstance(value, (bool, float)) else int(value)
        except (ValueError, TypeError):
            continue
        if 0 <= count < _MOST:
            counts[name] = count
    return counts


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
