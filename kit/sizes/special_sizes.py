"""The working set and the special vdevs of a workload whose reads special vdevs answer. Pure.

Special vdevs have small blocks until three quarters of them are used; the others lie on the data vdevs. So
either the size of the set follows from the part of the special devices that is used (pool.special_size), or
the part from the set. Where special vdevs and disks are asked for, each has half of the set.
"""

from __future__ import annotations

from kit.config.testbed import Testbed
from kit.config.workload import LEAST_CACHE_BYTES, Workload
from kit.core.units import AUTO
from kit.sizes import device_memory, tier_sizes
from kit.sizes.tier_sizes import MIB
from kit.sizes.workload_sizes import (
    data_room,
    devices_of_special,
    sizes_of,
    small_blocks_part,
    special_parts,
    special_stored_part,
    special_takes_data,
    tiers_asked,
    with_sizes,
)

_STEP_BYTES = 8 * MIB
# Of the room, what a set has that shall lie there wholly: what is rewritten is there twice for a while.
_WHOLE = 0.8


def resolved(workload: Workload, testbed: Testbed, is_left: bool) -> Workload:
    """`workload`, whose other sizes are known. `is_left`: the set's may be changed."""
    if not special_takes_data(workload, testbed):
        part = workload.pool.special_size
        part = _equal_part(workload, testbed) if part == AUTO else part
        return with_sizes(workload, workload.file_set.size, special_size=part)
    asked = tiers_asked(workload)
    vdevs = devices_of_special(workload, testbed) if "special" in asked else []
    # Each device of a mirror has all that the vdev has.
    needed = sum(max(map(device_memory.needed_bytes, each)) for each in vdevs)
    halves = 2 if {"special", "disk"} <= asked else 1
    size_bytes, largest = workload.file_set.size, data_room(workload, testbed) // 2
    if is_left:
        size_bytes = min(max(size_bytes, halves * needed), largest)
    part = workload.pool.special_size
    if part == AUTO:
        part = _part_bytes(with_sizes(workload, size_bytes, special_size=None), testbed, halves)
    sizes = sizes_of(with_sizes(workload, size_bytes, special_size=part), testbed)
    if is_left and sizes and "special" in asked:
        most = int(sizes.special * (2 if halves == 2 else _WHOLE))
        # The part that is used may be a given one, or all that there is.
        size_bytes = min(max(size_bytes, most), largest) if halves == 2 else min(size_bytes, most)
    if is_left:
        size_bytes = max(_STEP_BYTES, size_bytes // _STEP_BYTES * _STEP_BYTES)
    return with_sizes(workload, size_bytes, special_size=part)


def _part_bytes(workload: Workload, testbed: Testbed, halves: int) -> int:
    """Of each special device, so that they have the set, or half of it."""
    sizes, parts = sizes_of(workload, testbed), special_parts(workload, testbed)
    metadata = tier_sizes.special_metadata(sizes) if sizes else 0
    data = workload.file_set.size / 2 if halves == 2 else workload.file_set.size / _WHOLE
    each = tier_sizes.special_device_bytes(
        int(data / len(parts)), special_stored_part(workload, testbed), metadata, small_blocks_part(workload)
    )
    return max(LEAST_CACHE_BYTES, min(-(-each // MIB) * MIB, min(parts) // MIB * MIB))


def _equal_part(workload: Workload, testbed: Testbed) -> int | None:
    """Without data there, whole devices are used; of unequal ones as much as the smallest has."""
    vdevs = [[device.size for device in vdev] for vdev in devices_of_special(workload, testbed)]
    if all(max(sizes) == min(sizes) for sizes in vdevs):
        return None
    return min(map(min, vdevs)) // MIB * MIB
