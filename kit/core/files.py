"""Local files: written atomically, or appended to by whole lines."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kit.core.errors import HostError


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


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file: after a crash it has the old or the new content. Raises HostError."""
    with writing(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


class AppendLog:
    """A file of whole lines, also when the disk is full.

    Opens or creates the file. An incomplete last line (from a crash) is removed. Raises OSError.
    """

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
