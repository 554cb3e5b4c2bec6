"""The cache directory: images/DIGEST/, modules/DIGEST.tar, and a lock file beside each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import platformdirs

from kit.core.errors import HostError
from kit.core.progress import Progress

_LOCK_DEADLINE_S = 3600.0


def cache_dir() -> Path:
    return Path(platformdirs.user_cache_dir("hsp"))


def lock_of(directory: Path, digest: str) -> filelock.BaseFileLock:
    """The lock to hold while the entry `digest` of `directory` is created or removed."""
    return filelock.FileLock(directory / f".{digest}.lock")


@contextmanager
def locked(directory: Path, digest: str, holder: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of an entry. `holder`: what to call the process that may hold it already.

    Raises HostError after an hour of waiting, or if files cannot be created there.
    """
    lock = lock_of(directory, digest)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            with progress.step(f"waiting for {holder}"):
                lock.acquire(timeout=_LOCK_DEADLINE_S)
        yield
    except filelock.Timeout:  # an OSError too, so it comes first
        raise HostError(
            f"{holder} has held {directory}/.{digest}.lock for more than {_LOCK_DEADLINE_S:g} s",
            "is it still running?",
        ) from None
    except OSError as error:
        raise cannot_use(directory, error) from error
    finally:
        lock.release()


def cannot_use(path: Path, error: OSError) -> HostError:
    """An error of the cache directory, with what to do."""
    return HostError(
        f"{error.filename or path}: {error.strerror or error}",
        "the cache directory must be writable and have space; XDG_CACHE_HOME chooses another",
    )
