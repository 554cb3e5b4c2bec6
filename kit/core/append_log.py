"""A file of this machine that only grows, by whole lines, also when its disk is full."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class LineFile:
    """Made if it is not there; what a crash left of a last line is cut off first. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.ftruncate(self._fd, whole)

    def append(self, line: str, *, sync: bool = False) -> None:
        """Write `line` and its end; with `sync` it is on the disk when this returns.

        Raises OSError with the path; the file is then what it was before.
        """
        before = os.fstat(self._fd).st_size
        rest = memoryview(f"{line}\n".encode())
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error

    def close(self) -> None:
        """Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
