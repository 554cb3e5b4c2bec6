"""The cache directory: entries named by a digest, complete or absent, and a lock file beside each."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from kit.core.errors import ConfigError, HostError
from kit.core.files import cache_dir
from kit.core.own_file import check_own_directory
from kit.core.progress import Progress

_LOCK_DEADLINE_S = 3600.0


def lock_of(directory: Path, digest: str) -> filelock.BaseFileLock:
    """The lock to hold while the entry `digest` of `directory` is created or removed."""
    return filelock.FileLock(directory / f".{digest}.lock")


@contextmanager
def locked(directory: Path, digest: str, holder: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of an entry. `holder`: what to call the process that may hold it already.

    Raises HostError after an hour of waiting, if files cannot be created there, or if others can.
    """
    make_own(directory)
    lock = lock_of(directory, digest)
    try:
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


def make_own(directory: Path) -> None:
    """Make a directory of the cache. What lies there is run as the caller, who is often root, and on hosts.

    Raises HostError if it, or the cache that it is in, is another user's or writable by others.
    """
    root = cache_dir()
    above = [root] if directory.is_relative_to(root) else []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for level in (*above, directory):
            check_own_directory(level.resolve())
    except OSError as error:
        raise cannot_use(directory, error) from error
    except ConfigError as error:
        raise HostError(
            f"the cache is not used: {error.message}; what lies there would be run as you",
            "remove it, or choose a directory of your own with XDG_CACHE_HOME",
        ) from None


def cannot_use(path: Path, error: OSError) -> HostError:
    """An error of the cache directory, with what to do."""
    return HostError(
        f"{error.filename or path}: {error.strerror or error}",
        "the cache directory must be writable and have space; XDG_CACHE_HOME chooses another",
    )


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


def content_digest(values: str, files: Iterable[Path] = (), folder: Path = Path()) -> str:
    """Digest (16 hexadecimal digits) of `values`, and of path below `folder` and content of the files."""
    digest = hashlib.sha256(values.encode())
    for path in files:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def check_space(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raises HostError if the filesystem of `path` has less space than `purpose` needs, OSError."""
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise HostError(
            f"{path} has {free / 2**30:.1f} GiB free, {purpose} needs {needed_bytes >> 30} GiB",
            "free some space, or set XDG_CACHE_HOME to a directory with enough space",
        )


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
