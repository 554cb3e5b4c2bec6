"""The output of `zpool list -v -H -P [-p]` of one pool: its vdevs and devices, by class. Pure.

Each class but that of data has a line before its vdevs (zpool-list(8); OpenZFS cmd/zpool/zpool_main.c,
print_list_stats): the name, then blanks.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.errors import HostError
from kit.core.text import whole
from kit.store.parts.resource_use import PoolSpace
from kit.zfs.layout import SPECIAL_ROLES

# Columns: name, size, allocated, free, checkpoint, expandable, fragmentation.
_FRAGMENTATION = 6
_CLASSES = frozenset({"logs", "cache", "spare", "spares", *SPECIAL_ROLES})


def vdevs(listing: str) -> Iterator[tuple[str, str, list[str]]]:
    """Class ("" of data), name and the other columns of each vdev and device."""
    section = ""
    for line in listing.splitlines()[1:]:
        name, *values = line.strip().split("\t")
        if (word := name.split(" ", 1)[0]) in _CLASSES:
            section = word
        else:
            yield section, word, values


def devices_of(listing: str, *classes: str) -> tuple[str, ...]:
    """Paths of the devices of vdevs of these classes."""
    return tuple(name for section, name, _ in vdevs(listing) if section in classes and name.startswith("/"))


def space_of(listing: str, *classes: str) -> tuple[int, int]:
    """Bytes of space and of allocation of the vdevs of these classes, of a listing with -p.

    The size that is listed for a vdev of one device is that of the device: its space is what is allocated and
    what is free (vdev_get_stats_ex). Raises HostError if there is none.
    """
    rows = [values for section, _, values in vdevs(listing) if section in classes]
    # A device of a mirror has no allocation of its own.
    known = [
        (int(row[1]) + int(row[2]), int(row[1]))
        for row in rows
        if len(row) > 2 and (row[1] + row[2]).isdecimal()
    ]
    if not known:
        raise HostError(f"zpool list -v has no vdev of {' or '.join(classes)} with a size: {listing[:400]!r}")
    size, allocated = (sum(each) for each in zip(*known, strict=True))
    return size, allocated


def space_of_data(listing: str) -> PoolSpace:
    """Of the data vdevs, of a listing with -p. Raises HostError.

    The pool's own line has the fragmentation of these alone, and sizes with special and dedup vdevs (spa.c,
    spa_prop_get_config).
    """
    size, allocated = space_of(listing, "")
    fragmentation = listing.split("\n", 1)[0].split("\t")[_FRAGMENTATION].rstrip("%")
    return PoolSpace(
        size_bytes=size,
        allocated_bytes=allocated,
        # "-" where it is not known.
        fragmentation_percent=whole(fragmentation),
    )
