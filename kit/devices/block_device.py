"""A block device of a host: its properties, whether it is in use, and the bytes written to it.

Sources: Documentation/block/stat.rst, NVM Express base specification
2.0 (SMART / Health Information log: data units of 1000 x 512 bytes).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import json_value
from kit.devices.check import check, refuse_any
from kit.devices.refusal_reasons import CONTENT, Code, DeviceSpec
from kit.devices.tool_output import nvme_warning
from kit.hosts.base import Host
from kit.hosts.held_device import HeldDevice

_SECTOR_BYTES = 512
_SECTORS_WRITTEN = 6  # the seventh number of /sys/block/NAME/stat
_SMART_UNIT_BYTES = 512_000
_NO_CAPACITORS = 0xFFFF
_NOT_STORED = ("device_number", "sequence")


@dataclass(frozen=True)
class BlockDevice:
    """`kernel_name` is below /sys/block; sizes in bytes; `transport` as lsblk has it ("nvme", ""...).

    `device_number`, `sequence`: as kit.devices.inventory.Node has them; they are not stored.
    """

    path: str
    kernel_name: str
    size_bytes: int
    sector_bytes: int
    discard_bytes: int
    serial: str
    model: str
    transport: str
    device_number: str = ""
    sequence: str = ""

    @property
    def held(self) -> HeldDevice | None:
        """For commands that write to it."""
        return HeldDevice(self.path, self.device_number, self.sequence) if self.device_number else None

    def identity(self) -> dict[str, Any]:
        """Values that identify it."""
        return {"path": self.path, "serial": self.serial, "size_bytes": self.size_bytes}

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in _NOT_STORED}


@dataclass(frozen=True)
class DeviceWrites:
    """Bytes written since the kernel detected the device, and over its life from SMART (None: unknown)."""

    kernel_bytes: int
    smart_bytes: int | None = None
    smart_warning: int = 0


def find_unused(
    host: Host, path: str, expected_bytes: int | None = None, claimer: int | None = None
) -> BlockDevice:
    """The device at `path`. It must be unused and empty; an old ZFS label is allowed.

    `claimer`: as in kit.devices.probe.

    Raises SafetyRefusal with all reasons (kit.devices.refusal_reasons), also if it cannot be determined.
    """
    allowed = frozenset({Code.OLD_LABEL, Code.TOO_SMALL})
    return _find(host, path, expected_bytes, allowed, content=True, claimer=claimer)


def check_same(host: Host, device: BlockDevice) -> None:
    """Check that the path still leads to the same device, and it is unused. Raises SafetyRefusal."""
    current = _find(host, device.path, None, CONTENT | {Code.TOO_SMALL}, content=False)
    if (current.identity(), current.kernel_name, current.held) != (
        device.identity(),
        device.kernel_name,
        device.held,
    ):
        raise SafetyRefusal(
            f"{device.path} on {host.name} is not touched: it was {device.identity()}, it is now "
            f"{current.identity()}",
            "devices were changed during the run; start again",
        )


def _find(
    host: Host,
    path: str,
    expected_bytes: int | None,
    allowed: frozenset[Code],
    *,
    content: bool,
    claimer: int | None = None,
) -> BlockDevice:
    """Path and size are not checked against the testbed: the caller has done that."""
    spec = DeviceSpec(path, None, expected_bytes, trusted=True)
    (checked,) = check(host, [spec], content=content, claimer=claimer)
    refuse_any(host.name, [checked], allowed)
    assert checked.node is not None  # it would have been refused
    _, *names = (field.name for field in fields(BlockDevice))
    return BlockDevice(path, **{name: getattr(checked.node, name) for name in names})


def read_written(host: Host, device: BlockDevice, with_smart: bool = False) -> DeviceWrites:
    """Read the counters of written bytes. Raises HostError if the kernel's cannot be read."""
    path = f"/sys/class/block/{device.kernel_name}/stat"
    text = host.run(["cat", path]).stdout
    try:
        sectors = int(text.split()[_SECTORS_WRITTEN])
    except (ValueError, IndexError):
        raise HostError(f"on {host.name}: {path} has no count of written sectors: {text[:200]!r}") from None
    if not with_smart:
        return DeviceWrites(sectors * _SECTOR_BYTES)
    return DeviceWrites(sectors * _SECTOR_BYTES, *_read_smart(host, device))


def has_smart(host: Host, device: BlockDevice) -> bool:
    """Whether the device is NVMe and nvme-cli can read its SMART log."""
    return device.kernel_name.startswith("nvme") and _read_smart(host, device)[0] is not None


def _read_smart(host: Host, device: BlockDevice) -> tuple[int | None, int]:
    return parse_smart(_nvme_log(host, device.path, "smart-log"))


def _nvme_log(host: Host, path: str, *log: str) -> str:
    """JSON of a log of an NVMe device; "" if nvme-cli or the device does not have it."""
    argv = ["nvme", *log, path, "--output-format=json"]
    result = host.run(["sh", "-c", 'command -v "$1" >/dev/null && exec "$@"', "sh", *argv], check=False)
    return "" if result.returncode else result.stdout


def capacitor_health(host: Host, path: str, kernel_name: str) -> int | None:
    """What the device says of the capacitors that protect its cache, in percent; None: nothing.

    From its log of the Open Compute Project (Datacenter NVMe SSD Specification 2.0, log page C0h, SMART-19).
    """
    if not kernel_name.startswith("nvme"):
        return None
    return parse_capacitor_health(_nvme_log(host, path, "ocp", "smart-add-log"))


def parse_capacitor_health(text: str) -> int | None:
    """From `nvme ocp smart-add-log -o json`; None if it is not there, or says that there are none."""
    try:
        log = {name.casefold(): value for name, value in json_value(text).items()}
        percent = int(log["capacitor health"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return percent if 0 <= percent < _NO_CAPACITORS else None


def parse_smart(text: str) -> tuple[int | None, int]:
    """Bytes written and the critical warning, from `nvme smart-log -o json`; (None, 0) if malformed."""
    try:
        log = json_value(text)
        # nvme-cli writes very large numbers as strings.
        units = int(log["data_units_written"])
        return units * _SMART_UNIT_BYTES, nvme_warning(log)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, 0
