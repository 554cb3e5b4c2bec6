"""JSON files of a run directory: written whole, read with a limit of size. All numbers are finite."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.core.own_file import read_own

_MAX_BYTES = 64 << 20
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
DAMAGED = "the run directory is damaged: copy it again, or leave the run out"


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """A JSON file of a run. Raises ConfigError if it is missing, huge, damaged, not finite or not own."""
    try:
        return parse_json(read_own(path, _MAX_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", "is this a run directory? give results/<workload>/<run>"
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise ConfigError(f"{path}: not a readable JSON file ({error})", DAMAGED) from error


def parse_json(text: str) -> Any:
    """The value of untrusted JSON. Raises ValueError, RecursionError."""
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark, which JSON must not have")
    value = _DECODER.decode(text)
    return _without_halves(value) if _HALF.search(text) else value


def _without_halves(value: Any) -> Any:
    """`value` with "?" for each half of a surrogate pair: JSON can escape one, text cannot hold it."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value


# Made once: json.loads would make one for each text, which takes as long as to read a line of a journal.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_float)
