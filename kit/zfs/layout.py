"""What the layout of a pool makes of its devices: vdevs, room, and bytes on each device. Pure.

A stripe has each record once, a mirror on each of its devices. raidz divides a record into sectors, adds P
parity sectors to each row of (width - P), and takes a multiple of P + 1 sectors in all, so that no gap stays
too small for a record (OpenZFS module/zfs/vdev_raidz.c, vdev_raidz_asize). What pads takes room, and is not
written. Metadata is left out: a pool has more on its devices than what is said here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
# Of vdevs for metadata and small blocks, and for the table of deduplication.
SPECIAL_ROLES: tuple[Literal["special", "dedup"], ...] = ("special", "dedup")
# In one vdev.
LEAST_DEVICES = {"stripe": 1, "mirror": 2, "raidz1": 2, "raidz2": 3, "raidz3": 4}
_PARITY = {"raidz1": 1, "raidz2": 2, "raidz3": 3}


def data_vdevs(kind: str, devices: Sequence[T], groups: int = 1) -> list[tuple[T, ...]]:
    """The devices of each data vdev: `groups` of equal size, in order; in a stripe each device is one.

    `kind`: stripe or a vdev type. Devices that are left over belong to none; the plan refuses that.
    """
    width = 1 if kind == "stripe" else len(devices) // groups
    count = len(devices) if kind == "stripe" else groups
    return [tuple(devices[width * n : width * (n + 1)]) for n in range(count)]


def possible_groups(kind: str, devices: int) -> list[int]:
    """The numbers of vdevs into which so many data devices can be divided, ascending."""
    if kind == "stripe":
        return [1]
    return [n for n in range(1, devices + 1) if devices % n == 0 and devices // n >= LEAST_DEVICES[kind]]


def copies(kind: str, devices: int, groups: int = 1) -> int:
    """Devices of a special or dedup vdev that may lose as many as a data vdev: of more than one, a mirror.

    `zpool create` refuses any other without -f (OpenZFS cmd/zpool/zpool_vdev.c, get_replication).
    """
    return max(1, devices // groups) if kind == "mirror" else _PARITY.get(kind, 0) + 1


def special_vdevs(kind: str, data: int, groups: int, devices: Sequence[T]) -> list[tuple[T, ...]]:
    """The devices of each special vdev, or dedup vdev, beside `data` data devices of that layout.

    Devices that are left over belong to none; the plan refuses that.
    """
    width = copies(kind, data, groups)
    return [tuple(devices[at : at + width]) for at in range(0, len(devices) - width + 1, width)]


@dataclass(frozen=True)
class VdevLayout:
    """`devices` data devices in `groups` vdevs of the type `kind`. `record`, `sector` (of ashift): bytes."""

    kind: str
    devices: int
    groups: int
    record: int
    sector: int

    def usable_bytes(self, device_bytes: int) -> int:
        """Data for which there is room, if each device has `device_bytes`."""
        return self.devices * device_bytes * self.record // self._stored(padded=True)

    def written_bytes(self, data_bytes: int) -> int:
        """Written to all devices together for so much data: with copies and parity."""
        return data_bytes * self._stored(padded=False) // self.record

    def device_bytes(self, data_bytes: int) -> int:
        """Of so much data, with copies and parity, on one device."""
        return self.written_bytes(data_bytes) // max(1, self.devices)

    def _stored(self, *, padded: bool) -> int:
        """Bytes on all devices for a record."""
        width = self.devices // self.groups
        if self.kind not in _PARITY:
            return self.record * (max(1, width) if self.kind == "mirror" else 1)
        parity = _PARITY[self.kind]
        sectors = _in_whole(self.record, self.sector)
        # With too few devices, which the plan refuses, as if there were one for data.
        sectors += parity * _in_whole(sectors, max(1, width - parity))
        return (_in_whole(sectors, parity + 1) * (parity + 1) if padded else sectors) * self.sector


def _in_whole(total: int, part: int) -> int:
    """How many parts of that size hold `total`."""
    return -(-total // part)
