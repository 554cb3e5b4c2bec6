"""Sizes that a workload leaves to the plan ("auto"): chosen for the tiers that its phases ask for. Pure.

The ARC is as small as OpenZFS allows, or has a quarter of a given working set. The L2ARC keeps twice as
much as the ARC, because what the ARC has is in the L2ARC too. The working set is larger than the L2ARC by as
much as the ARC has: so DRAM, L2ARC and disks each answer about a third.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kit.config.testbed import Testbed
from kit.config.workload import LEAST_CACHE_BYTES, Workload
from kit.core.units import AUTO, format_size_bytes
from kit.plan import tier_sizes
from kit.plan.tier_sizes import MIB, Sizes, device_bytes_for
from kit.plan.workload_sizes import feed_bytes, sizes_of, tiers_asked

_STEP_BYTES = 8 * MIB
# For writes alone, and for reads that only disks answer: larger than what a disk buffers.
_WRITES_BYTES, _DISK_BYTES = 16 * MIB, 64 * MIB
# Sizes depend on each other: a few rounds settle them.
_ROUNDS = 8
# L2ARC alone: four times what the ARC has, so that DRAM answers a quarter at most.
_L2ARC_ALONE = 4


def resolve(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` with sizes in place of "auto", and without a warm-up that no phase needs."""
    if not tiers_asked(workload):
        workload = workload.model_copy(update={"warmup": None})
    arc_is_auto = workload.tunables.get("zfs_arc_max") == "auto"
    set_is_auto, cache_is_auto = workload.working_set.size == AUTO, workload.pool.cache_size == AUTO
    asked = tiers_asked(workload)
    set_bytes = 2 * tier_sizes.LEAST_ARC_BYTES if set_is_auto else workload.working_set.size
    cache_bytes = LEAST_CACHE_BYTES if cache_is_auto else workload.pool.cache_size
    current = _with(workload, set_bytes, cache_bytes, tier_sizes.LEAST_ARC_BYTES if arc_is_auto else None)
    if arc_is_auto and not set_is_auto and asked:
        current = _with(current, set_bytes, cache_bytes, _arc_for(current, testbed))
    for _ in range(_ROUNDS):
        sizes = sizes_of(current, testbed)
        if cache_is_auto:
            cache_bytes = _cache_bytes(current, testbed, sizes, None if set_is_auto else set_bytes)
            current = _with(current, set_bytes, cache_bytes)
            sizes = sizes_of(current, testbed)
        if set_is_auto:
            set_bytes = min(_set_bytes(sizes, asked), _most_set_bytes(current, testbed))
            current = _with(current, set_bytes, cache_bytes)
    return _with_warmup(current, testbed)


def left_to_plan(workload: Workload) -> Workload:
    """`workload` with "auto" for the working set and the cache devices, and for an ARC that is not set."""
    pool = workload.pool.model_copy(update={"cache_size": AUTO})
    working_set = workload.working_set.model_copy(update={"size": AUTO})
    return workload.model_copy(update={"pool": pool, "working_set": working_set})


def _with(workload: Workload, set_bytes: int, cache_bytes: int | None, arc: int | None = None) -> Workload:
    update: dict[str, Any] = {
        "working_set": workload.working_set.model_copy(update={"size": set_bytes}),
        "pool": workload.pool.model_copy(update={"cache_size": cache_bytes}),
    }
    if arc is not None:
        update["tunables"] = {**workload.tunables, "zfs_arc_max": format_size_bytes(arc)}
    return workload.model_copy(update=update)


def _arc_for(workload: Workload, testbed: Testbed) -> int:
    """The smallest ARC that has a quarter of the working set; all of it if no phase asks for another tier."""
    sizes = sizes_of(workload, testbed)
    asked = tiers_asked(workload)
    if sizes is None or "dram" not in asked:
        return tier_sizes.LEAST_ARC_BYTES
    needed = sizes.working_set if asked == {"dram"} else sizes.working_set // 4
    step = tier_sizes.LEAST_ARC_BYTES // _STEP_BYTES
    low = high = step
    while high < 1 << 32 and tier_sizes.content(replace(sizes, arc=high * _STEP_BYTES)).data < needed:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = tier_sizes.content(replace(sizes, arc=middle * _STEP_BYTES)).data >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high * _STEP_BYTES


def _cache_bytes(
    workload: Workload, testbed: Testbed, sizes: Sizes | None, set_bytes: int | None
) -> int | None:
    """The part of each cache device that is used."""
    devices, asked = testbed.devices("cache"), tiers_asked(workload)
    if sizes is None or "l2arc" not in asked or not (devices or testbed.is_appliance):
        return LEAST_CACHE_BYTES
    dram = tier_sizes.content(sizes).data
    metadata = tier_sizes.l2arc_metadata(sizes)
    if set_bytes is not None:
        data = (set_bytes + dram) // 2 if "disk" in asked else set_bytes
    else:
        data = (2 if "disk" in asked else _L2ARC_ALONE) * dram
    count = max(1, len(devices))
    part = device_bytes_for((data + metadata) // count, *feed_bytes(workload))
    least = min((device.size for device in devices), default=part + _STEP_BYTES)
    return max(LEAST_CACHE_BYTES, min(_rounded_up(part), least // MIB * MIB))


def _set_bytes(sizes: Sizes | None, asked: frozenset[str]) -> int:
    if not asked:
        return _WRITES_BYTES
    if sizes is None or not sizes.arc_data:
        return _DISK_BYTES
    dram = tier_sizes.content(sizes).data
    if asked == {"dram"}:
        return max(_STEP_BYTES, sizes.arc * 3 // 8 // _STEP_BYTES * _STEP_BYTES)
    if "disk" in asked:
        return _rounded(max(2 * dram, sizes.l2arc) + dram)
    # All of it is in the L2ARC, and some room remains.
    return _rounded((sizes.l2arc - tier_sizes.l2arc_metadata(sizes)) * 0.9)


def _most_set_bytes(workload: Workload, testbed: Testbed) -> int:
    """It must fit into the data devices twice."""
    devices = testbed.devices("data")
    if not devices:
        return 1 << 62
    least = min(device.size for device in devices)
    room = least * len(devices) if workload.pool.data == "stripe" else least
    return max(_STEP_BYTES, room // 2 // _STEP_BYTES * _STEP_BYTES)


def _with_warmup(workload: Workload, testbed: Testbed) -> Workload:
    """Read first: enough that nothing of the fill is in the ARC. In the L2ARC: more than the ARC has."""
    warmup, sizes, asked = workload.warmup, sizes_of(workload, testbed), tiers_asked(workload)
    if warmup is None:
        return workload
    read_first = l2arc_min = 0
    if sizes and "l2arc" in asked:
        dram, held = tier_sizes.content(sizes).data, tier_sizes.tiers(sizes)
        is_all = "disk" not in asked
        read_first = sizes.working_set if is_all else min(sizes.working_set, _rounded(dram * 1.5))
        l2arc_min = (dram + sizes.l2arc) // 2 if held.disk else sizes.working_set * 3 // 4
        l2arc_min = l2arc_min // _STEP_BYTES * _STEP_BYTES
    update = {
        name: value
        for name, value in (("read_first", read_first), ("l2arc_min", l2arc_min))
        if getattr(warmup, name) == AUTO
    }
    return workload.model_copy(update={"warmup": warmup.model_copy(update=update)})


def _rounded(size_bytes: float) -> int:
    return max(1, round(size_bytes / _STEP_BYTES)) * _STEP_BYTES


def _rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES
