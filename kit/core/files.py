"""Atomic writing of local files."""

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


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file: after a crash it has the old or the new content. Raises HostError."""
    with writing(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
