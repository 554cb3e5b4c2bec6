"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kit.core.errors import HostError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises HostError where the file system of `path` refuses: full, read-only, or not ours."""
    try:
        yield
    except OSError as error:
        raise HostError(
            f"{path}: cannot be written: {error.strerror or error}",
            "free some space there, see whether you may write there, or choose another place",
        ) from error


def write_atomically(path: Path, content: bytes) -> None:
    """A file is there whole or not at all, also after a crash. Raises HostError."""
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
