"""Local files: written atomically, or appended to by whole lines."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from kit.core.errors import ConfigError, HostError
from kit.core.own_file import open_own

_BLOCK_BYTES = 1 << 16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINE_BYTES = 16 << 20


def cache_dir() -> Path:
    """The directory of all that the kit can make again."""
    return Path(platformdirs.user_cache_dir("hsp"))


def state_dir() -> Path:
    """The directory of what the kit has to remember of its runs on this machine."""
    return Path(platformdirs.user_state_dir("hsp"))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError while `path` is written (disk full, read-only, no permission) into HostError."""
    try:
        yield
    except OSError as error:
        raise HostError(
            f"{path}: cannot be written: {error.strerror or error}",
            "free some space there, check the permissions, or choose another path",
        ) from error


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file: after a crash it has the old or the new content. Raises HostError.

    The directory may be another user's: nothing that was opened is named again, but to rename it.
    """
    temporary = f".{path.name[:200]}-{secrets.token_hex(4)}"
    with writing(path):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            handle = os.open(temporary, _NEW_FILE, 0o600, dir_fd=directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    os.fchmod(file.fileno(), mode)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                raise
        finally:
            os.close(directory)


class AppendLog:
    """Opens or creates the caller's own file. An incomplete last line (from a crash) is removed.

    `exclusive`: locked until it is closed, also by a crash; raises BlockingIOError if it is locked already.
    No other user can open it then: who can read a file can lock it, too, and would keep its owner out.
    Raises OSError, ConfigError for a file that is not the caller's own.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        self._path = path
        mode = 0o600 if exclusive else 0o644
        self._fd = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
        try:
            if exclusive:
                # A copy of the file may be open to others.
                os.fchmod(self._fd, mode)
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
