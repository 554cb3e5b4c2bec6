"""The command that reads how much devices were written, and how hot they are. Pure; `hsp plan` prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "remote" / "read_wear.py"
SOURCE = "kit/remote/read_wear.py"


def command(paths: Mapping[str, str]) -> list[str]:
    """argv of the program, which is its input; `paths` by device."""
    return ["env", "python3", "-I", "-", json.dumps(dict(paths), sort_keys=True)]
