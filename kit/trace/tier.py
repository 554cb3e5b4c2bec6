"""The tier of a request, from the bits that the trace program set on the request's thread.

The header of nfsd.bt defines the bits. The slowest source that a request needed decides.
"""

from __future__ import annotations

READ_DISK = 1
READ_L2ARC = 2
SHARED_WAIT = 4
DIRECT = 8
METADATA_DISK = 16
METADATA_L2ARC = 32
ZIL_COMMIT = 64
LOG_WRITE = 128
DMU_SYNC = 256

_METADATA = METADATA_DISK | METADATA_L2ARC


def tier_of(op: str, seen: int, vdev: int, log_vdevs: frozenset[int]) -> str:
    """The tier of one class of requests.

    `vdev`: id of the top-level vdev of the log block (if LOG_WRITE is set);
    `log_vdevs`: ids of the pool's log vdevs.
    """
    if seen & DIRECT:
        return "direct"
    if op == "read":
        return _read_tier(seen)
    if seen & _METADATA:
        return "indirect"
    if seen & DMU_SYNC:
        return "pool"
    if seen & LOG_WRITE:
        return "slog" if vdev in log_vdevs else "pool"
    if seen & ZIL_COMMIT:
        return "shared"  # written with the log block of another thread
    return _read_tier(seen)


def _read_tier(seen: int) -> str:
    if seen & _METADATA:
        return "indirect"
    if seen & READ_DISK:
        return "disk"
    if seen & READ_L2ARC:
        return "l2arc"
    if seen & SHARED_WAIT:
        return "shared"
    return "dram"
