"""A device's own counts of power losses: what proves that its power was really gone.

    unsafe_shutdowns    NVMe SMART log: power lost without a shutdown notification before it
    plp_start_count     Datacenter NVMe SSD Specification (OCP), log page C0h: starts of the protection
    smart_174, _192     SATA: unexpected power losses, and power-off retracts, as most vendors have them

SAS drives have none: their start-stop count grows in order, too.
Orderly removal, such as through /sys/bus/pci/slots/N/power, tells an NVMe drive before: none of them grows.
"""

from __future__ import annotations

from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import Host
from kit.instruments.drives import logs, reading

OWN = "count"
_SMART_IDS = {174: "smart_174", 192: "smart_192"}


def read(host: Host, path: str) -> dict[str, int]:
    """Counts of the device at `path`, by name; none where no tool or log has one. Raises HostError."""
    wanted = {"device": ("smart", "ocp", "smartctl")}
    found = reading.read(host, {"device": path}, wanted, {})["device"].get("logs")
    texts = found if isinstance(found, dict) else {}
    smart, ocp, smartctl = (str(texts.get(name, "")) for name in ("smart", "ocp", "smartctl"))
    return parse_nvme(smart) | parse_ocp(ocp) or parse_smartctl(smartctl)


def parse_nvme(text: str) -> dict[str, int]:
    """Of `nvme smart-log -o json`. Pure."""
    return logs.counts({"unsafe_shutdowns": logs.as_object(text).get("unsafe_shutdowns")})


def parse_ocp(text: str) -> dict[str, int]:
    """Of `nvme ocp smart-add-log -o json`, whose keys have changed their case. Pure."""
    log = {name.casefold().replace("_", " "): value for name, value in logs.as_object(text).items()}
    return logs.counts({"plp_start_count": log.get("plp start count")})


def parse_smartctl(text: str) -> dict[str, int]:
    """Of `smartctl --json --attributes`, of NVMe or SATA. Pure."""
    return logs.of_smartctl(text, {"unsafe_shutdowns"}, _SMART_IDS)


def parse_own(text: str) -> dict[str, int]:
    """Of the user's own command `count`. Pure. Raises HostError if it is not one whole number."""
    counts = logs.counts({OWN: text.strip()})
    if not counts:
        raise HostError(
            f"`count` of [power] in the testbed printed '{safe_text(text.strip())[:80]}'",
            "it prints one whole number: how often the device has lost its power",
        )
    return counts
