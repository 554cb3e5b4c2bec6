"""Sizes that a workload leaves to the plan ("auto"): chosen for the tiers that its phases ask for. Pure.

The ARC is as small as OpenZFS allows, or has a quarter of a given working set. The L2ARC keeps half as much
again as the ARC, because what the ARC has is in the L2ARC too. The working set exceeds the L2ARC by as
much: DRAM answers half of the reads, L2ARC and disks a quarter each. Larger sets would take longer to fill.

Devices with much DRAM of their own get several times as much (kit.sizes.device_memory): there the set, the
cache and the ARC follow from what has to be on the devices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Set
from dataclasses import replace

from kit.config.testbed import Testbed
from kit.config.toml import Setting
from kit.config.workload import LEAST_CACHE_BYTES, Workload
from kit.core.units import AUTO, format_size_bytes
from kit.sizes import device_memory, special_sizes, tier_sizes
from kit.sizes.tier_sizes import MIB, device_bytes_for
from kit.sizes.workload_sizes import (
    data_room,
    feed_bytes,
    layout_of,
    sizes_of,
    tiers_asked,
    tunable_bytes,
    with_sizes,
)
from kit.zfs.datasets import record_bytes
from kit.zfs.layout import SPECIAL_ROLES

_STEP_BYTES = 8 * MIB
# For writes alone, and for reads that only disks answer: larger than what a disk buffers.
_WRITES_BYTES, _DISK_BYTES = 16 * MIB, 64 * MIB
# L2ARC alone: four times what the ARC has, so that DRAM answers a quarter at most.
_L2ARC_ALONE = 4
# The feed of a cache device of gigabytes keeps up with the fill and with reads in order; a small part of it.
_FEEDS, _FEED_PART = ("l2arc_write_max", "l2arc_write_boost"), 64
_LEAST_FEED_BYTES = 4 * MIB
# Of reads, where devices have DRAM: what each tier answers at least. Fewer would make a phase long.
_LEAST_PART = 8
# Of the cache devices, what the ARC has too: the L2ARC then answers more.
_CACHE_PART = 4
# What the sizes of devices without DRAM leave to L2ARC and disks at least.
_SMALL_BYTES = 23 * MIB


def resolve(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` with sizes in place of "auto", and without a warm-up that no phase needs."""
    asked = tiers_asked(workload)
    if "special" not in asked and workload.pool.special_size != AUTO:
        return _resolved(workload, testbed)
    # What special vdevs answer is behind the caches, as what disks answer is.
    behind = workload.with_phases(
        phase.model_copy(update={"tiers": tuple("disk" if t == "special" else t for t in phase.tiers)})
        for phase in workload.phase
    )
    devices = tuple(each for each in testbed.device if each.role not in SPECIAL_ROLES)
    sized = _resolved(behind, testbed.model_copy(update={"device": devices}))
    is_left = workload.file_set.size == AUTO
    return special_sizes.resolved(sized.with_phases(workload.phase), testbed, is_left)


def _resolved(workload: Workload, testbed: Testbed) -> Workload:
    """As `resolve`, but for special vdevs."""
    if not tiers_asked(workload):
        workload = workload.model_copy(update={"warmup": None})
    try:
        record_bytes(workload.dataset.properties)
        (feed_bytes(_with_feed(workload, 0)), tunable_bytes(workload, "zfs_max_recordsize"))
    except ValueError:
        # Whoever checks these values refuses them, with file and line.
        workload = _with_feed(workload, _LEAST_FEED_BYTES)
        workload = with_sizes(workload, _STEP_BYTES, cache_size=LEAST_CACHE_BYTES)
        return _with_arc(workload, tier_sizes.LEAST_ARC_BYTES)
    if large := _large(workload, testbed):
        return large
    workload, asked = _with_feed(workload, _LEAST_FEED_BYTES), tiers_asked(workload)
    set_is_auto, set_bytes = workload.file_set.size == AUTO, workload.file_set.size
    if workload.tunables.get("zfs_arc_max") == "auto":
        workload = _with_arc(workload, tier_sizes.LEAST_ARC_BYTES)
        if not set_is_auto and "dram" in asked:
            workload = _with_arc(workload, _arc_for(workload, testbed))

    def sized(set_bytes: int) -> Workload:
        current = with_sizes(workload, set_bytes)
        if workload.pool.cache_size != AUTO:
            return current
        cache_bytes = _cache_bytes(current, testbed, given=not set_is_auto)
        return with_sizes(workload, set_bytes, cache_size=cache_bytes)

    if not set_is_auto:
        return _with_warmup(sized(set_bytes), testbed)
    # More records leave less of the ARC to data: the smallest set is looked for that is as large as it asks.
    most = _most_set_bytes(workload, testbed) // _STEP_BYTES
    steps = range(1, most + 1)
    enough = bisect_left(
        steps,
        True,
        key=lambda n: n * _STEP_BYTES + _STEP_BYTES // 2 >= _set_bytes(sized(n * _STEP_BYTES), testbed),
    )
    return _with_warmup(sized(min(enough + 1, most) * _STEP_BYTES), testbed)


def _large(workload: Workload, testbed: Testbed) -> Workload | None:
    """With sizes that follow from the DRAM of the devices; None where the others are large enough for it."""
    asked, needed = tiers_asked(workload), _on_devices(workload, testbed)
    if not testbed.devices("cache"):
        # The plan refuses a phase that asks for it, with file and line.
        asked -= {"l2arc"}
    is_left = workload.file_set.size == AUTO and workload.tunables.get("zfs_arc_max") == "auto"
    is_left = is_left and workload.pool.cache_size in (AUTO, None)
    if not is_left or max((needed[tier] for tier in asked & set(needed)), default=0) <= _SMALL_BYTES:
        return None
    most = _most_set_bytes(workload, testbed)
    dram, l2arc, disk = _parts_bytes(asked, needed, most)
    if l2arc and disk:
        # What the ARC has is in the L2ARC as well.
        room = sum(device.size for device in testbed.devices("cache"))
        dram = min(dram, room // _CACHE_PART)
    set_bytes = min(_rounded_up(dram + l2arc + disk), most)
    workload = with_sizes(workload, set_bytes, cache_size=LEAST_CACHE_BYTES)
    workload = _with_arc(workload, tier_sizes.LEAST_ARC_BYTES)
    workload = _with_l2arc(workload, testbed, dram + l2arc) if l2arc else _with_feed(workload, 0)
    sizes = sizes_of(workload, testbed)
    workload = _with_arc(workload, _arc_holding(workload, testbed, dram if sizes and sizes.arc_data else 0))
    if (sizes := sizes_of(workload, testbed)) and (short := disk - tier_sizes.tiers(sizes).disk) > 0:
        # The ARC has more, in its steps.
        set_bytes = min(_rounded_up(set_bytes + short), _most_set_bytes(workload, testbed))
        workload = with_sizes(workload, set_bytes)
    return _with_long_warmup(_with_warmup(workload, testbed))


def _parts_bytes(asked: Set[str], needed: Mapping[str, int], most: int) -> tuple[int, int, int]:
    """What DRAM, L2ARC and disks have of the set alone: at least what is needed, `most` together."""
    l2arc, disk = (needed[tier] if tier in asked else 0 for tier in ("l2arc", "disk"))
    if {"l2arc", "disk"} <= asked:
        l2arc, disk = max(l2arc, disk // (_LEAST_PART - 2)), max(disk, l2arc // (_LEAST_PART - 2))
    dram = (l2arc + disk) // (_LEAST_PART - 1) if "dram" in asked else _WRITES_BYTES
    whole = max(dram + l2arc + disk, most)
    return dram * most // whole, l2arc * most // whole, disk * most // whole


def _with_long_warmup(workload: Workload) -> Workload:
    """The whole set is read, at most as fast as the feed takes it; then the feed has time for it all."""
    warmup = workload.warmup
    if warmup is None:
        return workload
    update: dict[str, int] = {"read_first": workload.file_set.size} if warmup.read_first else {}
    seconds = 4 * (workload.pool.cache_size or 0) // feed_bytes(workload)[0]
    update["deadline"] = max(warmup.deadline, seconds * 10**9)
    return workload.model_copy(update={"warmup": warmup.model_copy(update=update)})


def _on_devices(workload: Workload, testbed: Testbed) -> dict[str, int]:
    """Bytes of the working set that the tiers must have on their devices, because of the devices' DRAM."""
    layout, caches = layout_of(workload, testbed), testbed.devices("cache")
    data = max((device_memory.needed_bytes(device) for device in testbed.devices("data")), default=0)
    share = layout.device_bytes(1 << 30) / (1 << 30)
    return {"l2arc": sum(map(device_memory.needed_bytes, caches)), "disk": int(data / share) if share else 0}


def _with_l2arc(workload: Workload, testbed: Testbed, data_bytes: int) -> Workload:
    """With cache devices that keep so much of the working set, and a feed that fills them soon."""
    devices = testbed.devices("cache")
    workload = _with_feed(workload, data_bytes // len(devices) // _FEED_PART // MIB * MIB)
    sizes = sizes_of(workload, testbed)
    assert sizes is not None, "the ARC is set"
    each = (data_bytes + tier_sizes.l2arc_metadata(sizes)) // len(devices)
    part = _rounded_up(device_bytes_for(each, *feed_bytes(workload)))
    most = min(device.size // MIB * MIB for device in devices)
    cache_bytes = max(LEAST_CACHE_BYTES, min(part, most))
    return with_sizes(workload, workload.file_set.size, cache_size=cache_bytes)


def _with_feed(workload: Workload, feed_bytes: int) -> Workload:
    """With that feed, in place of "auto"."""
    own = format_size_bytes(max(feed_bytes, _LEAST_FEED_BYTES))
    feeds: dict[str, Setting] = {name: own for name in _FEEDS if workload.tunables.get(name) == "auto"}
    return workload.model_copy(update={"tunables": {**workload.tunables, **feeds}})


def left_to_plan(workload: Workload) -> Workload:
    """`workload` with "auto" for the set, for cache and special devices, and for an ARC that is not set."""
    special = workload.pool.special_size and AUTO
    return with_sizes(workload, AUTO, cache_size=AUTO, special_size=special)


def _with_arc(workload: Workload, arc_bytes: int) -> Workload:
    tunables = {**workload.tunables, "zfs_arc_max": format_size_bytes(arc_bytes)}
    return workload.model_copy(update={"tunables": tunables})


def _arc_for(workload: Workload, testbed: Testbed) -> int:
    """The smallest ARC that has a quarter of the working set; all of it if no phase asks for another tier."""
    sizes = sizes_of(workload, testbed)
    asked = tiers_asked(workload)
    if sizes is None or "dram" not in asked:
        return tier_sizes.LEAST_ARC_BYTES
    return _arc_holding(workload, testbed, sizes.working_set // (1 if asked == {"dram"} else 4))


def _arc_holding(workload: Workload, testbed: Testbed, needed: int) -> int:
    """The smallest ARC that has so many bytes of data."""
    sizes = sizes_of(workload, testbed)
    assert sizes is not None, "the ARC is set"
    step = tier_sizes.LEAST_ARC_BYTES // _STEP_BYTES
    low = high = step
    while high < 1 << 32 and tier_sizes.content(replace(sizes, arc=high * _STEP_BYTES)).data < needed:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = tier_sizes.content(replace(sizes, arc=middle * _STEP_BYTES)).data >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high * _STEP_BYTES


def _cache_bytes(workload: Workload, testbed: Testbed, *, given: bool) -> int:
    """The part of each cache device that is used. `given`: so is the size of the working set."""
    devices, asked = testbed.devices("cache"), tiers_asked(workload)
    least = with_sizes(workload, workload.file_set.size, cache_size=LEAST_CACHE_BYTES)
    sizes = sizes_of(least, testbed)
    if sizes is None or "l2arc" not in asked or not (devices or testbed.is_appliance):
        return LEAST_CACHE_BYTES
    dram, whole = tier_sizes.content(sizes).data, sizes.working_set
    if "disk" in asked:
        data = (whole + dram) // 2 if given else 3 * dram // 2
    else:
        data = whole * 10 // 9 if given else _L2ARC_ALONE * dram
    count = max(1, len(devices))
    part = device_bytes_for((data + tier_sizes.l2arc_metadata(sizes)) // count, *feed_bytes(workload))
    most = min((device.size for device in devices), default=part + _STEP_BYTES)
    return max(LEAST_CACHE_BYTES, min(_rounded_up(part), most // MIB * MIB))


def _set_bytes(workload: Workload, testbed: Testbed) -> int:
    """How large the working set should be, if the ARC has what it has with the present one."""
    sizes, asked = sizes_of(workload, testbed), tiers_asked(workload)
    if not asked:
        return _WRITES_BYTES
    if sizes is None or not sizes.arc_data:
        return _DISK_BYTES
    if asked == {"dram"}:
        return sizes.arc * 3 // 8
    dram = tier_sizes.content(sizes).data
    if "disk" in asked:
        beyond = sizes.l2arc - tier_sizes.l2arc_metadata(sizes) - dram if "l2arc" in asked else dram
        return max(dram, sizes.l2arc) + max(dram // 2, beyond)
    # All of it is in the L2ARC, and some room remains.
    return (sizes.l2arc - tier_sizes.l2arc_metadata(sizes)) * 9 // 10


def _most_set_bytes(workload: Workload, testbed: Testbed) -> int:
    """It must fit into the data devices twice."""
    if not testbed.devices("data"):
        return 1 << 50
    return max(_STEP_BYTES, data_room(workload, testbed) // 2 // _STEP_BYTES * _STEP_BYTES)


def _with_warmup(workload: Workload, testbed: Testbed) -> Workload:
    """Read first: enough that nothing of the fill is in the ARC. In the L2ARC: more than the ARC has."""
    warmup, sizes, asked = workload.warmup, sizes_of(workload, testbed), tiers_asked(workload)
    if warmup is None:
        return workload
    read_first = l2arc_min = 0
    if sizes and "l2arc" in asked:
        dram, held = tier_sizes.content(sizes).data, tier_sizes.tiers(sizes)
        beyond_dram = max(1, round(dram * 1.75 / _STEP_BYTES)) * _STEP_BYTES
        read_first = min(sizes.working_set, beyond_dram) if "disk" in asked else sizes.working_set
        l2arc_min = (dram + sizes.l2arc) // 2 if held.disk else sizes.working_set * 3 // 4
        l2arc_min = l2arc_min // _STEP_BYTES * _STEP_BYTES
    sized = {"read_first": read_first, "l2arc_min": l2arc_min}
    update = {name: value for name, value in sized.items() if getattr(warmup, name) == AUTO}
    return workload.model_copy(update={"warmup": warmup.model_copy(update=update)})


def _rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES
