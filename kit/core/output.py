"""What commands print: data on stdout, words for people on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError, HostError, KitError
from kit.core.files import write_atomically, writing
from kit.core.text import safe_text


def emit_json(value: Any) -> None:
    """Data, and nothing else, on stdout. Raises HostError."""
    emit((json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def emit(content: bytes) -> None:
    """Bytes on stdout. Raises HostError where they cannot all be written; a reader that left is no error."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still in the buffer would fail once more, and aloud, when Python ends.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise HostError(
            f"standard output cannot be written: {error.strerror}", "free some space, or send it elsewhere"
        ) from error


def say(text: str) -> None:
    """Words for a person."""
    sys.stderr.write(_safe_lines(text) + "\n")
    sys.stderr.flush()


def say_error(error: KitError) -> None:
    """What was found, and what to do."""
    say(f"hsp: error: {error.message}")
    if error.hint:
        say(f"  what to do: {error.hint}")


def check_target(path: Path | None) -> None:
    """That a file can be put there, before minutes of work. Raises ConfigError."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{path}: a directory", "give the name of a file")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{path}: no such directory", "make it first, or choose another place")


def write_target(path: Path, content: bytes) -> None:
    """Put `content` there, whole or not at all; devices, pipes and links are written through.

    Raises HostError.
    """
    with writing(path):
        # A file put in the place of /dev/null or /dev/stdout would be there for every program of the host.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(content)
        else:
            write_atomically(path, content)


def _safe_lines(text: str) -> str:
    return "\n".join(safe_text(line) for line in text.splitlines())
