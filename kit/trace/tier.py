"""The tier of a request, from the bits that the trace program set on the request's thread.

The header of nfsd.bt defines the bits. The slowest source that a request needed decides.
"""

from __future__ import annotations

ZIL_COMMIT = 64
LOG_WRITE = 128
DMU_SYNC = 256
_DIRECT = 8
_METADATA = 16 | 32

# The first bits that are set decide.
_READ_TIERS = ((_DIRECT, "direct"), (_METADATA, "indirect"), (1, "disk"), (2, "l2arc"), (4, "shared"))
_WRITE_TIERS = (
    *_READ_TIERS[:2],
    (DMU_SYNC, "pool"),
    (LOG_WRITE, "pool"),
    (ZIL_COMMIT, "shared"),  # written with the log block of another thread
    *_READ_TIERS[2:],
)


def tier_of(op: str, seen: int, vdev: int, log_vdevs: frozenset[int] | None) -> str:
    """The tier of one class of requests.

    `vdev`: id of the top-level vdev of the log block (if LOG_WRITE is set);
    `log_vdevs`: ids of the pool's log vdevs; None with sync=disabled, where a commit returns at once
    (OpenZFS, zil_commit) and no log is written.
    """
    if log_vdevs is None:
        seen &= ~ZIL_COMMIT
    for bits, tier in _READ_TIERS if op == "read" else _WRITE_TIERS:
        if seen & bits:
            return "slog" if bits == LOG_WRITE and vdev in (log_vdevs or ()) else tier
    return "dram"
