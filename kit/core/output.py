"""Output of commands: data on stdout, messages on stderr."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from kit.core.errors import ConfigError, HostError, KitError
from kit.core.files import write_atomically, writing
from kit.core.terminal import coloured, terminal_width
from kit.core.text import encoded, fitted, safe_text

_OF_THE_SYSTEM = frozenset({"/dev", "/dev/fd", "/dev/pts", "/proc/self/fd"})

# A closed terminal; a signal's handler that writes while its thread is writing; a closed file; none (`2>&-`).
_UNWRITABLE = (OSError, RuntimeError, ValueError, AttributeError)


def as_json(value: Any) -> str:
    """The text of a JSON document."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def emit_json(value: Any) -> None:
    """Write a value as JSON to stdout. Raises HostError."""
    emit(as_json(value))


def emit_text(lines: Iterable[str | tuple[str, ...]], *, whole: bool = False) -> None:
    """Write a result for people to stdout, in its encoding. Raises HostError if a disk is full.

    A tuple has cells, which tabs separate. On a terminal longer lines are wrapped, unless they stay `whole`.

    A reader, terminal or stdout that is gone is no error: the result is stored, and the exit code tells it.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:
        return
    rows = ("\t".join(map(safe_text, (row,) if isinstance(row, str) else row)) for row in lines)
    if stream.isatty() and not whole:
        width = terminal_width()
        rows = (part for row in rows for part in fitted(row, width))
    text = "".join(f"{coloured(row, stream)}\n" for row in rows)
    try:
        emit(encoded(text, getattr(stream, "encoding", None) or "utf-8"))
    except HostError as error:
        if not (isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO):
            raise


def emit(content: bytes | str) -> None:
    """Write to stdout; a reader that is gone is no error. Raises HostError if it fails otherwise."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content.encode() if isinstance(content, str) else content)
        sys.stdout.buffer.flush()
    except OSError as error:
        drop_unwritten(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return
        raise HostError(
            f"standard output cannot be written: {error.strerror}", "free some space, or redirect it"
        ) from error


def drop_unwritten(stream: TextIO) -> None:
    """Drop what cannot be written. At exit Python would try again, and its exit code would be 120."""
    try:
        stream.flush()
    except _UNWRITABLE:
        with contextlib.suppress(*_UNWRITABLE):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


class MessageStream:
    """A stream for messages. What cannot be written is lost: that must not stop a cleanup."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.encoding = getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        with contextlib.suppress(*_UNWRITABLE):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(*_UNWRITABLE):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def say(text: str) -> None:
    """Write a message to stderr; on a terminal its lines are wrapped."""
    stream, lines = MessageStream(), [safe_text(line) for line in text.splitlines()]
    if stream.isatty():
        width = terminal_width()
        lines = [part for line in lines for part in fitted(line, width)]
    stream.write("\n".join(coloured(line, stream) for line in lines) + "\n")
    stream.flush()


def say_error(error: KitError) -> None:
    """Write an error and its hint to stderr."""
    say(f"hsp: error: {error.message}" + (f"\n  what to do: {error.hint}" if error.hint else ""))


def check_target(path: Path | None) -> None:
    """Check, before minutes of work, that a file can be created there. Raises ConfigError."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{path} is a directory", "give the name of a file")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{path}: no such directory", "create it first, or choose another path")


def write_target(path: Path, content: bytes) -> None:
    """Write a file atomically; write through devices, pipes, and your own links. Raises HostError.

    Another user may own the directory: each name is looked at once, and then used as a descriptor.
    """
    with writing(path):
        # Replacing /dev/null or /dev/stdout by a file would break every program of the host.
        if str(path.parent) in _OF_THE_SYSTEM:
            path.write_bytes(content)
            return
        try:
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            write_atomically(path, content)
            return
        try:
            _write_over(path, handle, content)
        finally:
            os.close(handle)


def _write_over(path: Path, handle: int, content: bytes) -> None:
    """Write what the descriptor (O_PATH) of `path` is."""
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        write_atomically(path, content)
        return
    if stat.S_ISLNK(status.st_mode):
        if status.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "it is a link of another user, and was not followed")
        target = path.parent / os.readlink("", dir_fd=handle)
        if target.is_symlink():
            raise OSError(errno.ELOOP, f"it is a link to a link, {target}; name the file itself")
        write_target(target, content)
        return
    with open(f"/proc/self/fd/{handle}", "wb", buffering=0) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
