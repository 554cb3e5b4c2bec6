"""Replacement of a directory of the cache: it is complete or absent, also after a kill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, mode: int = 0o700) -> Iterator[Path]:
    """An empty directory that replaces `path` at the end of the block, unless that fails. Raises OSError.

    The caller holds the lock of `path`, so no other build of it is running; the directories of killed builds
    are removed first.
    """
    for stale in path.parent.glob(f".build-{path.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = path.with_name(f".build-{path.name}-{os.getpid()}")
    work.mkdir(mode=mode)
    try:
        yield work
        shutil.rmtree(path, ignore_errors=True)
        work.rename(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
