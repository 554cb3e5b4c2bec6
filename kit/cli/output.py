"""What commands print: data on stdout, words for people on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from kit.errors import KitError
from kit.testbed import safe_text


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


def _safe_lines(text: str) -> str:
    return "\n".join(safe_text(line) for line in text.splitlines())
