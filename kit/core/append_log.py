"""A local file that is appended to by whole lines, also when the disk is full."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from kit.core.errors import ConfigError
from kit.core.own_file import open_own

_BLOCK_BYTES = 1 << 16
_MAX_LINE_BYTES = 16 << 20


class AppendLog:
    """Opens or creates the caller's own file. An incomplete last line (from a crash) is removed.

    `exclusive`: locked until it is closed, also by a crash; raises BlockingIOError if it is locked already.
    Raises OSError, ConfigError for a file that is not the caller's own.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        self._path = path
        self._fd = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            if exclusive:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._remove_incomplete_line()
        except BaseException:
            self.close()
            raise

    def _remove_incomplete_line(self) -> None:
        size = position = os.fstat(self._fd).st_size
        while position:
            if size - position > _MAX_LINE_BYTES:
                raise ConfigError(
                    f"{self._path}: its last line has no end",
                    "it is not a file that the kit wrote; leave it out",
                )
            start = max(0, position - _BLOCK_BYTES)
            line_end = os.pread(self._fd, position - start, start).rfind(b"\n")
            position = start
            if line_end >= 0:
                position += line_end + 1
                break
        if position != size:
            os.ftruncate(self._fd, position)

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
