"""How much of a working set has to be on a device, so that its own DRAM answers few of the reads. Pure.

A device that answers from its DRAM is measured as DRAM. Where reads are random over a set of four times the
DRAM, it answers a quarter of them at most.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kit.config.testbed import Testbed
from kit.config.testbed_devices import DRAM_MULTIPLE, Device
from kit.core.units import format_iec, parse_size_bytes

# More than the probe of a run asks for (kit.setup.device_dram): records are not spread evenly.
_SPARE = 1.05
# Assumed of models that are not in the table: today's disks have 64 to 512 MiB, SSDs about 1 MiB a GB; small
# (virtual) devices not more than a 64th of their size.
_DISK_BYTES, _SSD_BYTES, _MOST_PART = 256 << 20, 1 << 30, 64
_TABLE = Path(__file__).with_suffix(".toml")
_BY_ID = re.compile(r"/dev/disk/by-id/(?P<bus>ata|scsi|nvme|usb)-(SATA_|ATA_)?(?P<model>.+)")


@cache
def _models() -> Mapping[str, int]:
    table = tomllib.loads(_TABLE.read_text())["models"]
    return {name: parse_size_bytes(size) for name, size in table.items()}


def dram_bytes(device: Device) -> int:
    """Its DRAM: as the testbed or its model says, or assumed of a real device."""
    if not device.is_real or device.dram is not None:
        return device.read_cache
    name = _BY_ID.fullmatch(device.path or "")
    model = name["model"] if name else ""
    known = next((size for begin, size in _models().items() if model.startswith(begin)), None)
    if known is not None:
        return known
    return min(
        _SSD_BYTES if _may_be_ssd(device, name) else _DISK_BYTES, device.size // _MOST_PART >> 20 << 20
    )


def why(device: Device) -> str:
    """Where `dram_bytes` is from."""
    if not device.is_real or device.dram is not None:
        return "of the testbed"
    name = _BY_ID.fullmatch(device.path or "")
    is_known = name and any(name["model"].startswith(begin) for begin in _models())
    return "of its data sheet" if is_known else "assumed"


def reason(testbed: Testbed) -> str:
    """Which devices have how much, for people; "" if none has."""
    by_size: dict[tuple[int, str], list[str]] = {}
    for device in testbed.device:
        if device.role != "log" and dram_bytes(device):
            by_size.setdefault((dram_bytes(device), why(device)), []).append(device.name)
    parts = [
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} {format_iec(size)}"
        f"{'' if len(names) == 1 else ' each'} ({whence})"
        for (size, whence), names in by_size.items()
    ]
    return ", ".join(parts)


def needed_bytes(device: Device) -> int:
    """Of a working set, on this device."""
    return int(DRAM_MULTIPLE * _SPARE * dram_bytes(device))


def _may_be_ssd(device: Device, name: re.Match[str] | None) -> bool:
    bus, model = (name["bus"], name["model"]) if name else ("", "")
    return device.role != "data" or bus == "nvme" or "SSD" in model.upper()
