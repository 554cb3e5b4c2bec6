"""How much of a working set DRAM, L2ARC and disks will hold: a model of the ARC's memory. Pure.

A record in the ARC costs its data, a header and a share of its indirect block. A record that only the L2ARC
has costs a smaller header in DRAM. What the ARC has was fed to the L2ARC as well, so the L2ARC adds only
what it has beyond the ARC's data (docs/decisions/0025-sizes-from-a-model-of-the-arc.md).

Sources: OpenZFS include/sys/arc_impl.h, include/sys/dbuf.h, module/zfs/arc.c (arc_evict, l2arc_write_size,
l2arc_evict), module/zfs/dbuf.c, tags zfs-2.1.x to 2.4.x; sizes of structures on 64-bit Linux. Measured
constants are marked as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.units import format_iec
from kit.zfs.openzfs_version import ZfsVersion

MIB = 1 << 20
# The smallest zfs_arc_max that OpenZFS does not ignore (MIN_ARC_MAX).
LEAST_ARC_BYTES = 64 * MIB
# Default of zfs_max_recordsize (SPA_MAXBLOCKSIZE).
MOST_RECORD_BYTES = 16 * MIB
# Labels and boot area of a device (VDEV_LABEL_START_SIZE, VDEV_LABEL_END_SIZE).
LABELS_BYTES = 4 * MIB + MIB // 2
_PAGE_BYTES = 4096
# Smaller buffers are not in pages of their own (zfs_abd_scatter_min_size).
_SCATTER_BYTES = 1536
# An indirect block: 128 KiB of block pointers of 128 B; uncompressed only while a dbuf holds it.
_INDIRECT_BYTES = 128 << 10
_RECORDS_PER_INDIRECT = 1024
# Measured: an indirect block of a file of random data, compressed with LZ4.
_INDIRECT_PACKED_BYTES = 38 << 10
# Measured: the pool's own metadata (space maps, object sets, dnodes), and dnodes, bonus buffers and waste.
_POOL_METADATA_BYTES = 1_900_000
_POOL_HEADERS_BYTES = 40_000
_OTHER_BYTES = 300_000
# The dbuf cache has a 32nd of the ARC (dbuf_cache_shift).
_DBUF_CACHE_SHIFT = 5
# Measured: the part of the records that the ARC remembers without their data which the L2ARC has, by what
# limits their number: metadata (records below 4 KiB; of larger ones none), or records that were read again.
_GHOSTS_IN_L2ARC, _READ_AGAIN_IN_L2ARC = 0.4, 0.9
# Measured: random reads of the main job's warm-up. A record that is read again is in the list MFU.
_WARM_UP_READS = 450
# Of special vdevs, what is for metadata alone: default of zfs_special_class_metadata_reserve_pct.
SPECIAL_RESERVE_PERCENT = 25
SMALL_BLOCKS_PART = 1 - SPECIAL_RESERVE_PERCENT / 100
# A special vdev without room for small blocks has no size that has it.
_LEAST_PART = 0.01
# Metadata is evicted too: it does not take more than this part of the ARC.
_MOST_METADATA = 0.75


@dataclass(frozen=True)
class Structures:
    """Sizes in bytes: arc_buf_hdr_t, the same of a block in the L2ARC alone, arc_buf_t, dmu_buf_impl_t.

    `l2arc_write`: default of l2arc_write_max and of l2arc_write_boost.
    """

    header: int
    l2_header: int
    buffer: int
    dbuf: int
    l2arc_write: int


_STRUCTURES = {
    (2, 1): Structures(320, 96, 80, 376, 8 * MIB),
    (2, 2): Structures(240, 96, 32, 368, 8 * MIB),
    (2, 3): Structures(240, 96, 32, 368, 32 * MIB),
}
NEWEST = ZfsVersion(2, 4)


def structures(version: ZfsVersion) -> Structures:
    """Those of the newest known version that is not newer than `version`."""
    known = max((each for each in _STRUCTURES if each <= (version.major, version.minor)), default=(2, 1))
    return _STRUCTURES[known]


@dataclass(frozen=True)
class Sizes:
    """What the sizes of the tiers follow from, in bytes.

    `l2arc`: what all cache devices keep (`l2arc_room`). `arc_data`, `l2arc_data`: whether the ARC, and the
    L2ARC, may have data (primarycache, secondarycache). `special`: data for which special vdevs have room
    (`special_room`).
    """

    record: int
    working_set: int
    arc: int
    l2arc: int = 0
    arc_data: bool = True
    l2arc_data: bool = True
    l2arc_metadata: bool = True
    special: int = 0
    version: ZfsVersion = NEWEST


@dataclass(frozen=True)
class ArcContent:
    """The ARC after the warm-up, in bytes, by the names of arcstats (without `_size`)."""

    data: int
    metadata: int
    hdr: int
    l2_hdr: int
    dbuf: int

    @property
    def total(self) -> int:
        return self.data + self.metadata + self.hdr + self.l2_hdr + self.dbuf


@dataclass(frozen=True)
class Tiers:
    """Bytes of the working set that each tier will answer: what a faster one has is not counted again."""

    dram: int
    l2arc: int
    disk: int
    special: int = 0

    def of(self, tier: str) -> int:
        return self._by_tier[tier]

    @property
    def words(self) -> str:
        """Such as "dram 20 MiB, l2arc 22 MiB, disk 30 MiB"; special vdevs where they have data."""
        shown = ((tier, held) for tier, held in self._by_tier.items() if held or tier != "special")
        return ", ".join(f"{tier} {format_iec(held)}" for tier, held in shown)

    @property
    def _by_tier(self) -> dict[str, int]:
        return {"dram": self.dram, "l2arc": self.l2arc, "special": self.special, "disk": self.disk}


def l2arc_room(device_bytes: int, write_max: int, write_boost: int) -> int:
    """Bytes that a cache device of that size keeps when it is full.

    The feed evicts ahead of itself as much as it may write, at most a quarter of the device, and leaves up to
    as much unused at its end: on average half of it (l2arc_evict, l2arc_write_size).
    """
    room = max(0, device_bytes - LABELS_BYTES)
    return room - min(write_max + write_boost, room // 4) * 3 // 2


def device_bytes_for(room: int, write_max: int, write_boost: int) -> int:
    """The size of a cache device that keeps `room` bytes: the inverse of `l2arc_room`."""
    return room + min(write_max + write_boost, room * 2 // 5) * 3 // 2 + LABELS_BYTES


def special_room(
    vdev_bytes: Sequence[int], stored_part: float, metadata_bytes: int, part: float = SMALL_BLOCKS_PART
) -> int:
    """Data of small blocks for which special vdevs with so large devices have room.

    From `part` of it on, small blocks go to the data vdevs (OpenZFS module/zfs/spa_misc.c,
    spa_preferred_class; zfs_special_class_metadata_reserve_pct). Space is counted in whole metaslabs
    (vdev_metaslab_set_size). `stored_part`: of what is allocated, what is data; `metadata_bytes`: are there
    too.
    """
    space = sum(room - room % _metaslab_bytes(room) for room in (each - LABELS_BYTES for each in vdev_bytes))
    return max(0, int((space * part - metadata_bytes) * stored_part))


def special_device_bytes(
    data_bytes: int, stored_part: float, metadata_bytes: int, part: float = SMALL_BLOCKS_PART
) -> int:
    """The size of a special device with room for that: the inverse of `special_room`, for one vdev."""
    space = math.ceil((data_bytes / stored_part + metadata_bytes) / max(part, _LEAST_PART))
    return space + _metaslab_bytes(space) + LABELS_BYTES


def special_metadata(sizes: Sizes) -> int:
    """Bytes of metadata on special vdevs: indirect blocks of the working set twice, and the pool's own."""
    return 2 * _indirect_blocks(sizes) * _INDIRECT_PACKED_BYTES + _POOL_METADATA_BYTES


def _metaslab_bytes(room: int) -> int:
    """Of a vdev: 16 metaslabs at least, of 16 to 512 MiB each (vdev_metaslab_set_size)."""
    return 1 << min(max((max(room, 0) // 16).bit_length(), 24), 29)


def record_cost(record: int, version: ZfsVersion = NEWEST) -> int:
    """Bytes of DRAM of a record in the ARC: data, in whole pages from 1.5 KiB, and header."""
    rounded = record if record < _SCATTER_BYTES else math.ceil(record / _PAGE_BYTES) * _PAGE_BYTES
    return rounded + structures(version).header


def content(sizes: Sizes) -> ArcContent:
    """What the ARC has after random reads of the whole working set.

    The data are what remains beside metadata and headers; these depend on the data in turn, and grow with
    them, so the data are found by bisection.
    """

    def fits(data: int) -> bool:
        return _content(sizes, data).total <= sizes.arc - _OTHER_BYTES

    low, high = 0, sizes.working_set if sizes.arc_data else 0
    if fits(high):
        return _content(sizes, high)
    while high - low > sizes.record:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _content(sizes, low)


def tiers(sizes: Sizes) -> Tiers:
    """Which part of the working set each tier answers after the warm-up."""
    dram = content(sizes).data
    cached = max(dram, min(sizes.working_set, _l2arc_data(sizes)))
    beyond = sizes.working_set - cached
    # Caches have blocks of all places alike.
    special = beyond * min(sizes.special, sizes.working_set) // max(1, sizes.working_set)
    return Tiers(dram, cached - dram, beyond - special, special)


def l2arc_metadata(sizes: Sizes) -> int:
    """Bytes of metadata of the working set in the L2ARC."""
    return _indirect_blocks(sizes) * _INDIRECT_PACKED_BYTES if sizes.l2arc_metadata else 0


def _l2arc_data(sizes: Sizes) -> int:
    """Data in the L2ARC: what its metadata leave."""
    return max(0, sizes.l2arc - l2arc_metadata(sizes)) if sizes.l2arc_data else 0


def _indirect_blocks(sizes: Sizes) -> int:
    records = math.ceil(sizes.working_set / sizes.record)
    return math.ceil(records / _RECORDS_PER_INDIRECT) if records > 1 else 0


def _content(sizes: Sizes, data: int) -> ArcContent:
    """What goes with `data` bytes of records in the ARC."""
    own, indirect = structures(sizes.version), _indirect_blocks(sizes)
    rounded = record_cost(sizes.record, sizes.version) - own.header
    # Records whose dbufs are kept hold their indirect blocks, uncompressed.
    dbufs = min(data, sizes.arc >> _DBUF_CACHE_SHIFT) // sizes.record
    held = indirect * (1 - (1 - 1 / indirect) ** dbufs) if indirect > 1 else indirect
    blocks = held * _INDIRECT_BYTES + indirect * _INDIRECT_PACKED_BYTES
    metadata = int(min(_MOST_METADATA * sizes.arc, _POOL_METADATA_BYTES + blocks))
    # What was evicted is remembered: its header stays, for half as many bytes as metadata and MFU have.
    again = data * -math.expm1(-_WARM_UP_READS * sizes.record / sizes.working_set)
    evicted = max(0, sizes.working_set - data)
    by_metadata = min(metadata / 2, evicted)
    by_reads = min(again / 2, evicted - by_metadata)
    small = _GHOSTS_IN_L2ARC if sizes.record < _PAGE_BYTES else 0
    remembered = small * by_metadata + _READ_AGAIN_IN_L2ARC * by_reads
    in_l2arc = min(sizes.working_set, _l2arc_data(sizes))
    l2_only = max(0, int(in_l2arc - data - remembered))
    headers = int(data + by_metadata + by_reads) // sizes.record * own.header
    return ArcContent(
        data=data * rounded // sizes.record,
        metadata=metadata,
        hdr=_POOL_HEADERS_BYTES + headers + dbufs * own.buffer,
        l2_hdr=l2_only // sizes.record * own.l2_header,
        dbuf=int(dbufs + held) * own.dbuf,
    )
