"""A local file that is appended to by whole lines, also when the disk is full."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class AppendLog:
    """Opens or creates the file. An incomplete last line (from a crash) is removed. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        content = path.read_bytes()
        whole_lines_bytes = content.rfind(b"\n") + 1
        if whole_lines_bytes != len(content):
            os.ftruncate(self._fd, whole_lines_bytes)

    def append(self, line: str, *, sync: bool = False) -> None:
        """Write `line` and a line end; with `sync`, flush it to the disk before returning.

        Raises OSError with the path; the file is then unchanged.
        """
        size_before = os.fstat(self._fd).st_size
        remaining = memoryview(f"{line}\n".encode())
        try:
            while remaining:
                remaining = remaining[os.write(self._fd, remaining) :]
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size_before)
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error

    def close(self) -> None:
        """Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
