"""A block device of a host: what it is, whether anybody uses it, and how much was written to it.

Who uses it is for kit.devices to say. Sources: Documentation/block/stat.rst, NVM Express base specification
2.0 (SMART / Health Information log: data units of 1000 x 512 bytes).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from kit.core.errors import HostError, SafetyRefusal
from kit.devices.check import Checked, check, refuse_any
from kit.devices.inventory import Node
from kit.devices.reasons import CONTENT, Code, Wanted
from kit.hosts.base import Host

_SECTOR_BYTES = 512
_SECTORS_WRITTEN = 6  # the seventh number of /sys/block/NAME/stat
SMART_UNIT_BYTES = 512_000


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
    """The device at `path`, which nobody uses and which holds nothing but, perhaps, an old ZFS label.

    Raises SafetyRefusal with all reasons (kit.devices.reasons), also where it could not be found out.
    """
    checked = _check(host, path, expected_bytes, content=True)
    refuse_any(host.name, [checked], frozenset({Code.OLD_LABEL, Code.TOO_SMALL}))
    assert checked.node is not None  # it would have been refused
    return _block_device(path, checked.node)


def check_same(host: Host, device: BlockDevice) -> None:
    """That the path still leads to the same device, and nobody else uses it. Raises SafetyRefusal."""
    checked = _check(host, device.path, None, content=False)
    refuse_any(host.name, [checked], CONTENT | {Code.TOO_SMALL})
    assert checked.node is not None
    found = _block_device(device.path, checked.node)
    if (found.identity(), found.kernel_name) != (device.identity(), device.kernel_name):
        raise SafetyRefusal(
            f"{device.path} on {host.name} is not touched: it was {device.identity()}, it is now "
            f"{found.identity()}",
            "devices were changed while the kit was at work; begin again",
        )


def _check(host: Host, path: str, expected_bytes: int | None, content: bool) -> Checked:
    """The caller's path and size are trusted to be what was meant: the testbed's devices were checked."""
    (checked,) = check(host, [Wanted(path, None, expected_bytes, emulated=True)], content=content)
    return checked


def _block_device(path: str, node: Node) -> BlockDevice:
    return BlockDevice(
        path=path,
        kernel_name=node.kernel_name,
        size_bytes=node.size_bytes,
        sector_bytes=node.sector_bytes,
        discard_bytes=node.discard_bytes,
        serial=node.serial,
        model=node.model,
        transport=node.transport,
    )


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
