"""What commands print: data on stdout, words for people on stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kit.errors import ConfigError, KitError
from kit.store import write_atomically
from kit.testbed import safe_text
from reports.junit import junit


def emit_json(value: Any) -> None:
    """Data, and nothing else, on stdout."""
    sys.stdout.write(json.dumps(value, indent=1, allow_nan=False) + "\n")
    sys.stdout.flush()


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
    """Put `content` there, whole or not at all. Raises ConfigError."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}", "choose another place") from error


def write_junit(path: Path | None, summary: Any) -> None:
    """The summary as a JUnit file, if one is wanted. Raises ConfigError."""
    if path:
        write_target(path, junit(summary))


def _safe_lines(text: str) -> str:
    return "\n".join(safe_text(line) for line in text.splitlines())
