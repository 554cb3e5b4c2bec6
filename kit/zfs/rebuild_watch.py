"""The program that watches how an L2ARC is read in again, as it is called on a server."""

from __future__ import annotations

from pathlib import Path

SOURCE = "kit/remote/watch_rebuild.py"
PROGRAM = Path(__file__).parents[1] / "remote" / "watch_rebuild.py"


def watch_argv(devices: str) -> tuple[str, ...]:
    """argv of the program, which is its input. `devices`: how many cache devices the pool has.

    As the user of the login, as it only reads.
    """
    return ("env", "python3", "-I", "-", devices)
