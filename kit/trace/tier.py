"""The tier of a request, from the bits that the trace program set on the request's thread.

The header of nfsd.bt defines the bits. The slowest source that a request needed decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.store.labels import NFS_METADATA

ZIL_COMMIT = 64
LOG_WRITE = 128
DMU_SYNC = 256
_DIRECT = 8
_DISK, _DISK_METADATA = 1, 16
_L2ARC, _L2ARC_METADATA = 2, 32
_SHARED = 4
# Of a read, where the program has vdev_of_read.bt: the vdev of its data, and that of its metadata above it.
_READ_VDEV_BITS = 12
_READ_VDEV = (1 << _READ_VDEV_BITS) - 1

_SOURCES = ((_DISK, "disk"), (_L2ARC, "l2arc"), (_SHARED, "shared"))


@dataclass(frozen=True)
class Vdevs:
    """Ids of the top-level vdevs of a pool that are no vdevs of ordinary data.

    `log`: None with sync=disabled, where a commit returns at once (OpenZFS, zil_commit) and no log is
    written. `special`: special and dedup vdevs.
    """

    log: frozenset[int] | None = frozenset()
    special: frozenset[int] = frozenset()


def tier_of(op: str, seen: int, vdev: int, vdevs: Vdevs) -> str:
    """The tier of one class of requests.

    `vdev`: id of the top-level vdev of the log block (if LOG_WRITE is set); of a read see _READ_VDEV.
    """
    if seen & _DIRECT:
        return "direct"
    if op in NFS_METADATA and not seen & (ZIL_COMMIT | DMU_SYNC):
        return _metadata_tier(seen, vdev, vdevs)
    return _read_tier(seen, vdev, vdevs) if op == "read" else _write_tier(seen, vdev, vdevs)


def places_of_read(seen: int, vdev: int, vdevs: Vdevs) -> tuple[str, str]:
    """Where the data of a read were, and where its metadata: disk, special or l2arc; "" if in DRAM."""
    data, metadata = vdev & _READ_VDEV in vdevs.special, vdev >> _READ_VDEV_BITS in vdevs.special
    of_data = "disk" if seen & _DISK else "l2arc" if seen & _L2ARC else ""
    of_metadata = "disk" if seen & _DISK_METADATA else "l2arc" if seen & _L2ARC_METADATA else ""
    return (
        "special" if data and seen & _DISK else of_data,
        "special" if metadata and seen & _DISK_METADATA else of_metadata,
    )


def _read_tier(seen: int, vdev: int, vdevs: Vdevs) -> str:
    """A special vdev is an SSD's place: slower than the ARC, faster than the disks."""
    data, metadata = places_of_read(seen, vdev, vdevs)
    if seen & _L2ARC_METADATA or metadata == "disk":
        return "indirect"
    if data == "disk":
        return "disk"
    return "special" if "special" in (data, metadata) else _source(seen)


def _metadata_tier(seen: int, vdev: int, vdevs: Vdevs) -> str:
    """Of an operation that is about dnodes and directories: where they were."""
    places = places_of_read(seen, vdev, vdevs)
    return next((place for place in ("disk", "l2arc", "special") if place in places), _source(seen & _SHARED))


def _write_tier(seen: int, vdev: int, vdevs: Vdevs) -> str:
    if seen & (_DISK_METADATA | _L2ARC_METADATA):
        return "indirect"
    if seen & DMU_SYNC:
        return "pool"
    if seen & LOG_WRITE:
        return "slog" if vdev in (vdevs.log or ()) else "special" if vdev in vdevs.special else "pool"
    # Written with the log block of another thread.
    if seen & ZIL_COMMIT and vdevs.log is not None:
        return "shared"
    return _source(seen)


def _source(seen: int) -> str:
    return next((tier for bits, tier in _SOURCES if seen & bits), "dram")
