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


def dram_of(device: Device) -> tuple[int, str]:
    """Bytes of its DRAM, as testbed or model say, or assumed of a real device; and where that is from."""
    if not device.is_real or device.dram is not None:
        return device.read_cache, "of the testbed"
    name = _BY_ID.fullmatch(device.path or "")
    bus, model = (name["bus"], name["model"]) if name else ("", "")
    known = next((size for begin, size in _models().items() if model.startswith(begin)), None)
    if known is not None:
        return known, "of its data sheet"
    may_be_ssd = device.role != "data" or bus == "nvme" or "SSD" in model.upper()
    assumed = _SSD_BYTES if may_be_ssd else _DISK_BYTES
    return min(assumed, device.size // _MOST_PART >> 20 << 20), "assumed"


def reason(testbed: Testbed) -> str:
    """Which devices have how much, for people; "" if none has."""
    by_size: dict[tuple[int, str], list[str]] = {}
    for device in testbed.device:
        if device.role != "log" and (found := dram_of(device))[0]:
            by_size.setdefault(found, []).append(device.name)
    parts = [
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} {format_iec(size)}"
        f"{'' if len(names) == 1 else ' each'} ({whence})"
        for (size, whence), names in by_size.items()
    ]
    return ", ".join(parts)


def needed_bytes(device: Device) -> int:
    """Of a working set, on this device."""
    return int(DRAM_MULTIPLE * _SPARE * dram_of(device)[0])
