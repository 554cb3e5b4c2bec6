"""Opens files that must be the caller's own: all that is read back from a run directory, or named by a file.

A run directory may be a stranger's, and the caller is often root. So a file is opened without following a
link and without waiting (a FIFO), and only then looked at: it and its directory must belong to the caller and
not be writable by others. A group may write only if it is the caller's primary group (umask 002).
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from pathlib import Path

from kit.core.errors import ConfigError

_COPY = "do not use it if somebody else made it; if you trust it, `cp -r` makes a copy that is yours"
_OF_A_RUN = "the kit writes none of these into a run directory: leave the run out, or copy it again"
_BESIDE = "a file may name another one beside it, not what that leads to: copy it there"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_own(path: Path, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """A descriptor of the regular file. With O_CREAT in `flags` it is made with that mode.

    Raises FileNotFoundError, other OSError, ConfigError for anything else than an own file.
    """
    directory = _open_directory(path.parent)
    try:
        handle = os.open(
            path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=directory
        )
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_a_file(path, _OF_A_RUN) from None
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(directory)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _not_a_file(path, _OF_A_RUN)
        _check_owner(path, status)
        # What is added to a file with two names is added to whatever the other one is.
        if flags & os.O_ACCMODE != os.O_RDONLY and status.st_nlink != 1:
            raise ConfigError(f"{path} has {status.st_nlink} names (hard links)", _COPY)
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_own(path: Path, max_bytes: int) -> bytes:
    """The content of an own file. Raises as `open_own`, and ConfigError for a larger one."""
    with open(open_own(path), "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise too_large(path, max_bytes)
    return content


def read_beside(path: Path, by: Path, max_bytes: int) -> bytes:
    """The content of a file that the file `by`, in the same directory, names.

    It must be a regular file, not a link, and belong to the caller, to root, or to the owner of `by`, and
    only that user may write to it. Raises FileNotFoundError, other OSError, ConfigError: before it is read.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise _not_a_file(path, _BESIDE)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_a_file(path, _BESIDE) from None
        raise
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or is_of_kernel(status):
            raise _not_a_file(path, _BESIDE)
        _check_owner(path, status, (os.geteuid(), 0, os.stat(by).st_uid))
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise too_large(path, max_bytes)
    return content


def is_of_kernel(status: os.stat_result) -> bool:
    """Whether it is a file of /proc or /sys: to read some of them waits, or takes what they say away."""
    root = os.stat("/").st_dev
    for place in ("/proc", "/sys"):
        try:
            device = os.stat(place).st_dev
        except OSError:
            continue
        if device != root and status.st_dev == device:
            return True
    return False


def too_large(path: Path, max_bytes: int) -> ConfigError:
    """The error of a file that has more than `max_bytes`."""
    return ConfigError(
        f"{path}: larger than {max_bytes >> 20} MiB", "it is not a file that the kit wrote; leave it out"
    )


def check_own_directory(path: Path) -> None:
    """Raises ConfigError for a directory that is a link, another user's, or writable by others; OSError."""
    os.close(_open_directory(path))


def own_directory(path: Path) -> None:
    """Make a directory for results, if it is not there; a link is followed.

    Raises ConfigError if it is not the caller's own: its owner could put files in the place of the caller's;
    OSError.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
    try:
        check_own_directory(path)
    except ConfigError as error:
        raise ConfigError(
            f"results are not written there: {error.message}",
            "choose a directory of your own with --results; in /tmp, a new one in it",
        ) from None


def _open_directory(path: Path) -> int:
    try:
        handle = os.open(path, _DIRECTORY)
    except NotADirectoryError:
        what = "a link" if path.is_symlink() else "not a directory"
        raise ConfigError(f"{path} is {what}", "name the directory itself") from None
    try:
        _check_owner(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_owner(path: Path, status: os.stat_result, owners: tuple[int, ...] = ()) -> None:
    caller = os.geteuid()
    if status.st_uid not in (owners or (caller,)):
        raise ConfigError(f"{path} belongs to {_user(status.st_uid)}, not to you ({_user(caller)})", _COPY)
    if status.st_mode & stat.S_IWOTH:
        raise ConfigError(f"{path} can be written by everybody", f"chmod o-w; {_COPY}")
    if status.st_mode & stat.S_IWGRP and status.st_gid != _primary_group(status.st_uid):
        raise ConfigError(f"{path} can be written by the group {status.st_gid}", f"chmod g-w; {_COPY}")


def _not_a_file(path: Path, hint: str) -> ConfigError:
    return ConfigError(f"{path}: not a file, but a link, a FIFO or a device", hint)


def _primary_group(user: int) -> int:
    """Of a user who may have no account."""
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return os.getegid()


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
