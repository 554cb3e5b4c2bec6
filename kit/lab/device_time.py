"""How long a phase on bare devices or an array takes in the lab: how many I/Os its devices answer. Pure.

A rough model from the parameters of the emulated devices, for kit.lab.run_time. Nothing is measured by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.config.device_model import Controller, DeviceModel, Disk, Ssd
from kit.config.fio_job import FioJob
from kit.config.tables.phase_table import ArrayLayout
from kit.config.testbed_devices import Device

# Of one I/O, without its bytes: arm and turn of a disk at a random place; null_blk, or a controller's cache.
_SEEK_NS, _OTHER_WAIT_NS, _OTHER_BYTE_NS = 5_600_000, 190_000, 4.0
# Most random parts of a latency are small: their mean, of the largest.
_SPREAD = 0.25


@dataclass(frozen=True)
class Load:
    """`cpu_ns`: of the experiment, for which an I/O keeps the guest's CPU busy. `cached`: writes may be."""

    job: FioJob
    cpu_ns: float = 0.0
    cached: bool = True

    @property
    def writes(self) -> bool:
        return "write" in self.job.operations


def ios_per_s(device: Device, load: Load) -> float:
    """How many I/Os a second one load gets answered by a device."""
    block = load.job.block_bytes or 0
    return 1e9 / _per_io_ns(_wait_ns(device, load), _byte_ns(device, load) * block, load)


def array_ios_per_s(layout: ArrayLayout, members: Sequence[Device], load: Load) -> float:
    """The same of an array: an I/O waits for the slowest of its members, and each has a part of the bytes."""
    share = _share_bytes(layout, len(members), load.job.block_bytes or 0)
    wait_ns = max(_wait_ns(device, load) for device in members)
    byte_ns = max(_byte_ns(device, load) for device in members)
    return 1e9 / _per_io_ns(wait_ns, byte_ns * share, load)


def _per_io_ns(wait_ns: float, transfer_ns: float, load: Load) -> float:
    """A closed loop. Waits of outstanding I/Os overlap; the device's bytes and the guest's CPU are shared."""
    return max((wait_ns + transfer_ns + load.cpu_ns) / load.job.outstanding, transfer_ns, load.cpu_ns)


def _share_bytes(layout: ArrayLayout, members: int, block: int) -> float:
    """Bytes of an I/O that one member has, at least those of a chunk."""
    if layout.level == "raid1":
        return block
    holding = {"raid0": members, "raid10": members / 2, "raid5": members - 1}[layout.level]
    return max(block / holding, min(block, layout.chunk))


def _behind(model: DeviceModel | None) -> Disk | Ssd | Controller | None:
    """What takes the writes: a controller that keeps them in its own memory stands for itself."""
    if model and model.controller and model.controller.cache != "battery":
        return model.controller.device
    return model.table if model else None


def _wait_ns(device: Device, load: Load) -> float:
    """Of one I/O, without its bytes."""
    table = _behind(device.emulated)
    if isinstance(table, Disk):
        if load.job.is_random:
            return _SEEK_NS
        # Without a cache the place of the next write has passed the head, and comes again after a turn.
        quick = load.cached and table.write_cache if load.writes else table.track_buffer or table.read_ahead
        return table.command + _SPREAD * table.command_spread if quick else 60e9 / table.rpm
    if not isinstance(table, Ssd):
        return _OTHER_WAIT_NS
    if load.writes:
        return table.serial + table.write_command + _SPREAD * table.write_command_spread
    flash_ns = table.read + _SPREAD * table.read_spread + 1e9 * table.page / table.channel_per_s
    return table.serial + table.command + _SPREAD * table.command_spread + flash_ns


def _byte_ns(device: Device, load: Load) -> float:
    """Of a byte, once requests follow each other."""
    table = _behind(device.emulated)
    if isinstance(table, Disk):
        return 1e9 / table.outer_per_s
    if not isinstance(table, Ssd):
        return _OTHER_BYTE_NS
    dies = table.channels * table.dies_per_channel
    if not load.writes:
        flash_ns = table.read / (dies * table.page)
    else:
        flash_ns = table.program / (dies * table.page)
        flash_ns *= _amplification(table) if load.job.is_random else 1.0
    return max(flash_ns, 1e9 / (table.channels * table.channel_per_s), 1e9 / table.link_per_s)


def _amplification(ssd: Ssd) -> float:
    """Writes to the flash for one at a random place of a full device: (1 + r) / 2r, of spare blocks r.

    Of a collector that takes the fullest block (Xiang and Kurkoski, ISIT 2012, for r below 1).
    """
    spare = max(0.01, ssd.over_provisioning_percent / 100)
    return max(1.0, (1 + spare) / (2 * spare))
