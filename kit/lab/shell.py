"""Interactive shell in a lab guest, on this process's terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from typing import Any


async def interact(connection: Any) -> int:
    """Connect stdin, stdout and stderr to a login shell in the guest; returns its exit code."""
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    attributes = termios.tcgetattr(terminal) if terminal is not None else None
    try:
        if terminal is not None:
            tty.setraw(terminal)
        process = await connection.create_process(
            "bash -l",
            term_type=os.environ.get("TERM", "linux") if terminal is not None else None,
            stdin=os.dup(0),
            stdout=os.dup(1),
            stderr=os.dup(2),
            encoding=None,
        )
        await asyncio.shield(process.wait_closed())
        return int(process.returncode or 0)
    finally:
        if terminal is not None and attributes is not None:
            termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)
