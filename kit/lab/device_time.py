"""What a phase on devices or an array costs in the lab: how many I/Os, and the guest's CPU for each. Pure.

A rough model from the parameters of the emulated devices, for kit.lab.expected_duration. Nothing is measured
by it. What the guest's CPU does is in instructions, of 1 ns of its clock each: the same on every machine.
"""

from __future__ import annotations

import math
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
# Blocks of a die that are never empty at once and count as spare: HSP_RESERVED_BLOCKS of
# kit/emulation/models/ftl.h without LOW_BLOCKS of nand.c, which are kept empty.
_RESERVED_BLOCKS = 1
# Instructions of the guest, by its own count of CPU time (cpu of the manifest).
# An I/O: those of 4 and 8 KiB of hsp run write-cache. A byte: 128 KiB of hsp run addresses. Content that fio
# makes for each write: 128 KiB to 1 MiB of write-cache. A page that an SSD programs: hsp run stripes.
_IO_NS, _BYTE_NS, _CONTENT_BYTE_NS, _PROGRAM_NS = 45_000, 0.15, 1.8, 4_500


@dataclass(frozen=True)
class ModelledLoad:
    """A job on devices. `cached`: their volatile write caches are on. `dilation`: of the guest's clock."""

    job: FioJob
    cached: bool = True
    dilation: int = 1

    @property
    def writes(self) -> bool:
        """Nothing else: of a mix most are reads, as in those of the kit's workloads."""
        return self.job.operations == {"write"}

    @property
    def block(self) -> int:
        """Bytes of an I/O."""
        return self.job.block_bytes or 0


@dataclass(frozen=True)
class ModelledPace:
    """I/Os a second of the experiment; for each the guest's instructions, and requests to devices."""

    ios_per_s: float
    io_ns: float
    requests: int = 1


def pace(device: Device, load: ModelledLoad) -> ModelledPace:
    """Of one load on a device."""
    transfer_ns = _byte_ns(device, load) * load.block
    return _closed_loop(_wait_ns(device, load), transfer_ns, _cpu_ns(device, load, load.block), 1, load)


def array_pace(layout: ArrayLayout, members: Sequence[Device], load: ModelledLoad) -> ModelledPace:
    """Of one load on an array: it waits for the slowest of its members, and each has a part of the bytes."""
    share, used = _share(layout, len(members), load)
    wait_ns = max(_wait_ns(device, load) for device in members)
    transfer_ns = max(_byte_ns(device, load) for device in members) * share
    cpu_ns = sum(_cpu_ns(device, load, share) for device in members[:used])
    return _closed_loop(wait_ns, transfer_ns, cpu_ns, used, load)


def _closed_loop(
    wait_ns: float, transfer_ns: float, cpu_ns: float, requests: int, load: ModelledLoad
) -> ModelledPace:
    """Waits of outstanding I/Os overlap; the device's bytes and the guest's CPU are shared."""
    busy_ns = cpu_ns / load.dilation
    per_io_ns = max((wait_ns + transfer_ns + busy_ns) / load.job.outstanding, transfer_ns, busy_ns)
    return ModelledPace(1e9 / per_io_ns, cpu_ns, requests)


def _share(layout: ArrayLayout, members: int, load: ModelledLoad) -> tuple[float, int]:
    """Bytes of an I/O that one member has, at least those of a chunk; and how many members have some."""
    if layout.level == "raid1":
        return load.block, members if load.writes else 1
    holding = {"raid0": members, "raid10": members / 2, "raid5": members - 1}[layout.level]
    share = max(load.block / holding, min(load.block, layout.chunk))
    parts = math.ceil(load.block / share)
    if load.writes:
        parts += {"raid0": 0, "raid10": parts, "raid5": 1}[layout.level]
    return share, min(members, parts)


def _behind(model: DeviceModel | None) -> Disk | Ssd | Controller | None:
    """What takes the writes: a controller that keeps them in its own memory stands for itself."""
    if model and model.controller and model.controller.cache != "battery":
        return model.controller.device
    return model.table if model else None


def _wait_ns(device: Device, load: ModelledLoad) -> float:
    """Of one I/O, without its bytes."""
    table = _behind(device.emulated)
    if isinstance(table, Disk):
        return _disk_wait_ns(table, load)
    if not isinstance(table, Ssd):
        return _OTHER_WAIT_NS
    if load.writes:
        wait_ns = table.serial + table.write_command + _SPREAD * table.write_command_spread
        # Without a cache until it is in the flash.
        flash_ns = 1e9 * table.page / table.channel_per_s + table.program
        return wait_ns if _keeps_writes(table, load) else wait_ns + flash_ns
    flash_ns = table.read + _SPREAD * table.read_spread + 1e9 * table.page / table.channel_per_s
    return table.serial + table.command + _SPREAD * table.command_spread + flash_ns


def _disk_wait_ns(disk: Disk, load: ModelledLoad) -> float:
    if load.job.is_random:
        return _SEEK_NS
    # Else the place of the next one has passed the head, and comes again after a turn.
    is_next_there = load.job.outstanding > 1
    quick = load.cached and disk.write_cache if load.writes else disk.track_buffer or disk.read_ahead
    return disk.command + _SPREAD * disk.command_spread if quick or is_next_there else 60e9 / disk.rpm


def _byte_ns(device: Device, load: ModelledLoad) -> float:
    """Of a byte, once requests follow each other."""
    table = _behind(device.emulated)
    if isinstance(table, Disk):
        # A cache is written a track at a time, and the next track has passed the head.
        turns = 2 if load.writes and load.cached and table.write_cache else 1
        return turns * 1e9 / table.outer_per_s
    if not isinstance(table, Ssd):
        return _OTHER_BYTE_NS
    dies = table.channels * table.dies_per_channel
    flash_ns = table.read if not load.writes else table.program * _amplification(table, device.size, load)
    flash_ns, channel_ns = flash_ns / (dies * table.page), 1e9 / (table.channels * table.channel_per_s)
    if load.writes and not _keeps_writes(table, load):
        # Nothing is written ahead: one after the other.
        return flash_ns + channel_ns + 1e9 / table.link_per_s
    return max(flash_ns, channel_ns, 1e9 / table.link_per_s)


def _keeps_writes(ssd: Ssd, load: ModelledLoad) -> bool:
    """Whether a write is done when it is in the SSD's buffer."""
    return ssd.power_loss_protection or (load.cached and ssd.write_cache == "on")


def _amplification(ssd: Ssd, size_bytes: int, load: ModelledLoad) -> float:
    """Writes to the flash for one at a random place of a full device: (1 + r) / 2r, of spare blocks r.

    Of a collector that takes the emptiest block (Xiang and Kurkoski, ISIT 2012, for r below 1). The blocks of
    a die are whole, so a small device has more to spare.
    """
    if not load.job.is_random:
        return 1.0
    die_pages = size_bytes / (ssd.channels * ssd.dies_per_channel * ssd.page)
    blocks = math.ceil(die_pages * (1 + ssd.over_provisioning_percent / 100) / ssd.pages_per_block)
    spare = (blocks + _RESERVED_BLOCKS) * ssd.pages_per_block / die_pages - 1
    return max(1.0, (1 + spare) / (2 * spare))


def _cpu_ns(device: Device, load: ModelledLoad, size_bytes: float) -> float:
    """Instructions of the guest for a request of a device: fio, the block layer, ublk, and the model."""
    total = _IO_NS + size_bytes * _BYTE_NS
    if not load.writes:
        return total
    if any("refill_buffers" in section.options for section in load.job.sections):
        total += size_bytes * _CONTENT_BYTE_NS
    table = _behind(device.emulated)
    if isinstance(table, Ssd):
        total += size_bytes / table.page * _amplification(table, device.size, load) * _PROGRAM_NS
    return total
