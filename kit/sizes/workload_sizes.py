"""The sizes of a workload's tiers on a testbed, and which would answer too little. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.config.workload import Workload
from kit.core.units import parse_size_bytes
from kit.sizes.tier_sizes import (
    MOST_RECORD_BYTES,
    NEWEST,
    SMALL_BLOCKS_PART,
    SPECIAL_RESERVE_PERCENT,
    Sizes,
    Tiers,
    l2arc_room,
    special_metadata,
    special_room,
    structures,
    tiers,
)
from kit.zfs.datasets import record_bytes
from kit.zfs.layout import VdevLayout, special_vdevs
from kit.zfs.properties import exact

READ_TIERS = ("dram", "l2arc", "special", "disk")
# Of the working set: what answers less cannot be measured.
_LEAST_SHARE = 0.04
# What the ARC has, and what the L2ARC has, are known to a tenth each: the L2ARC adds their difference.
_LEAST_L2ARC = 0.2
# As a workload may write them.
_ASHIFTS = tuple(str(number) for number in range(9, 17))


def tiers_asked(workload: Workload) -> frozenset[str]:
    """The tiers of reads that any phase asks for."""
    return frozenset(tier for phase in workload.phase for tier in phase.tiers) & frozenset(READ_TIERS)


def with_sizes(workload: Workload, set_bytes: int, **of_pool: int | None) -> Workload:
    """`workload` with that working set, and with sizes of its pool (cache_size, special_size)."""
    working_set = workload.file_set.model_copy(update={"size": set_bytes})
    pool = workload.pool.model_copy(update=of_pool)
    return workload.model_copy(update={"working_set": working_set, "pool": pool})


def tunable_bytes(workload: Workload, name: str) -> int:
    """A tunable that is a size; 0 if the workload does not set it."""
    value = workload.tunables.get(name, 0)
    return parse_size_bytes(value) if isinstance(value, str) else int(value)


def feed_bytes(workload: Workload) -> tuple[int, int]:
    """l2arc_write_max and l2arc_write_boost: the workload's, or the defaults."""
    default = structures(NEWEST).l2arc_write
    names = ("l2arc_write_max", "l2arc_write_boost")
    return tuple(tunable_bytes(workload, name) or default for name in names)  # type: ignore[return-value]


def cache_room(workload: Workload, testbed: Testbed) -> int:
    """What the parts of the cache devices that the workload uses keep, in bytes."""
    write_max, boost = feed_bytes(workload)
    part = workload.pool.cache_size
    parts = [min(device.size, part or device.size) for device in testbed.devices("cache")]
    if testbed.is_appliance:
        # Nobody knows its devices: as if they were as the workload wants them.
        parts = [part or 0]
    return sum(l2arc_room(part, write_max, boost) for part in parts)


def layout_of(workload: Workload, testbed: Testbed) -> VdevLayout:
    """Of the pool. A wrong recordsize or ashift counts as the default; the plan refuses it elsewhere."""
    pool, ashift = workload.pool, str(workload.pool.properties.get("ashift", ""))
    try:
        record = record_bytes(workload.dataset.properties)
    except ValueError:
        record = 128 << 10
    # Without ashift the devices decide: their sectors have at least 512 bytes.
    sector = 1 << int(ashift) if ashift in _ASHIFTS else 512
    return VdevLayout(pool.data, len(testbed.devices("data")), pool.groups, record, sector)


def data_room(workload: Workload, testbed: Testbed) -> int:
    """Data for which the data devices have room, in bytes, as if each were as large as the smallest."""
    least = min((device.size for device in testbed.devices("data")), default=0)
    return layout_of(workload, testbed).usable_bytes(least)


def pool_bytes(workload: Workload, testbed: Testbed) -> int:
    """As `zpool list` has it: of mirrors without copies, of raidz with parity."""
    data = testbed.devices("data")
    copies = len(data) // workload.pool.groups if workload.pool.data == "mirror" else 1
    return min((device.size for device in data), default=0) * len(data) // max(1, copies)


def special_takes_data(workload: Workload, testbed: Testbed) -> bool:
    """Whether records are small blocks, which lie on special vdevs as long as these have room."""
    name = "special_small_blocks"
    try:
        small_bytes = int(exact(name, workload.dataset.properties.get(name, 0)))
    except ValueError:
        small_bytes = 0  # the check of properties refuses it, with file and line
    has_vdevs = bool(devices_of_special(workload, testbed))
    return has_vdevs and layout_of(workload, testbed).record <= small_bytes


def devices_of_special(workload: Workload, testbed: Testbed) -> list[tuple[Device, ...]]:
    """Those of each special vdev."""
    devices, pool = testbed.devices("special"), workload.pool
    return special_vdevs(pool.data, len(testbed.devices("data")), pool.groups, devices)


def special_parts(workload: Workload, testbed: Testbed) -> list[int]:
    """The size of each special vdev, in bytes, as if each of its devices were as large as the smallest."""
    pool, vdevs = workload.pool, devices_of_special(workload, testbed)
    smallest = [min(device.size for device in each) for each in vdevs]
    return [min(pool.special_size or each, each) for each in smallest]


def special_stored_part(workload: Workload, testbed: Testbed) -> float:
    """Of what a special vdev allocates for a record, the part that is data."""
    layout = layout_of(workload, testbed)
    return layout.record / (-(-layout.record // layout.sector) * layout.sector)


def special_part_of_set(workload: Workload, testbed: Testbed) -> tuple[float, float]:
    """The part (0 to 1) of the working set on special vdevs, and bytes that each byte takes there."""
    if not special_takes_data(workload, testbed):
        return 0.0, 1.0
    sizes = sizes_of(workload, testbed)
    room = sizes.special if sizes else sum(special_parts(workload, testbed)) * small_blocks_part(workload)
    devices = max(map(len, devices_of_special(workload, testbed)))
    return min(1.0, room / workload.file_set.size), devices / special_stored_part(workload, testbed)


def small_blocks_part(workload: Workload) -> float:
    """Of the space of special vdevs, what small blocks may have, 0 to 1."""
    percent = workload.tunables.get("zfs_special_class_metadata_reserve_pct", SPECIAL_RESERVE_PERCENT)
    return 1 - min(max(int(percent), 0), 100) / 100 if str(percent).isdecimal() else SMALL_BLOCKS_PART


def sizes_of(workload: Workload, testbed: Testbed) -> Sizes | None:
    """None if the size of the ARC is not known: zfs_arc_max is not set."""
    arc = tunable_bytes(workload, "zfs_arc_max")
    if not arc:
        return None
    # It evicts from zfs_max_recordsize above its size, down to it (arc_is_overflowing).
    arc += (tunable_bytes(workload, "zfs_max_recordsize") or MOST_RECORD_BYTES) // 2
    properties = workload.dataset.properties
    # Of data that the ARC may not have, nothing is fed to the L2ARC.
    arc_data = properties.get("primarycache", "all") == "all"
    secondary = properties.get("secondarycache", "all")
    sizes = Sizes(
        record=record_bytes(properties),
        working_set=workload.file_set.size,
        arc=arc,
        l2arc=cache_room(workload, testbed) if secondary != "none" else 0,
        arc_data=arc_data,
        l2arc_data=arc_data and secondary == "all",
        l2arc_metadata=properties.get("primarycache", "all") != "none",
    )
    if not special_takes_data(workload, testbed):
        return sizes
    vdevs, stored = special_parts(workload, testbed), special_stored_part(workload, testbed)
    room = special_room(vdevs, stored, special_metadata(sizes), small_blocks_part(workload))
    return replace(sizes, special=room)


def planned_tiers(workload: Workload, testbed: Testbed) -> Tiers | None:
    """What each tier will answer of the working set, where the model can tell and a phase asks for one."""
    if testbed.is_appliance or not tiers_asked(workload):
        return None
    sizes = sizes_of(workload, testbed)
    return tiers(sizes) if sizes else None


def short_tiers(workload: Workload, sizes: Sizes) -> Iterator[tuple[str, str, Tiers]]:
    """Phase, tier and what there is, for each tier that a phase asks for and that would answer too little."""
    for phase in workload.phase:
        if phase.remove == "cache":
            sizes = replace(sizes, l2arc=0)
        held = tiers(sizes)
        least = _LEAST_SHARE * sum(map(held.of, READ_TIERS))
        limits = dict.fromkeys(READ_TIERS, least) | {"l2arc": max(least, _LEAST_L2ARC * held.dram)}
        for tier, limit in limits.items():
            if tier in phase.tiers and held.of(tier) < limit:
                yield phase.name, tier, held
