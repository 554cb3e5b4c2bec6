"""The terminal of this process: its width, whether it shows colours, and how quiet hsp is (-q, --color)."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any, Literal

Color = Literal["auto", "always", "never"]

# By the first word of a line: what is well, what is wrong, and what is open.
_STYLES = (
    (re.compile(r"(?:VALID|ok|A and B agree)\b"), "32"),
    (re.compile(r"(?:FAILED|DAMAGED|NOT READABLE|fail|hsp: error:)(?!\w)"), "1;31"),
    (re.compile(r"(?:UNKNOWN|OPEN|warn|known)\b"), "33"),
    (re.compile(r"(?:note|n/a)\b"), "2"),
)
_NO_VALUES = ("", "dumb")


class Terminal:
    """What options of the command line say of it."""

    color: Color = "auto"
    quiet = False

    def colours(self, stream: Any) -> bool:
        """Whether text on `stream` has colours. NO_COLOR: https://no-color.org."""
        if self.color != "auto":
            return self.color == "always"
        shows = stream is not None and stream.isatty() and os.environ.get("TERM", "") not in _NO_VALUES
        return shows and not os.environ.get("NO_COLOR")


TERMINAL = Terminal()


def terminal_width() -> int:
    """Columns of the terminal; 80 where stdout is none."""
    return shutil.get_terminal_size().columns


def coloured(line: str, stream: Any) -> str:
    """`line` with its first words in the colour of their meaning, if `stream` shows colours.

    A verdict may be the second column of its line.
    """
    if not TERMINAL.colours(stream):
        return line
    for pattern, style in _STYLES:
        if match := pattern.match(line):
            return f"\x1b[{style}m{match[0]}\x1b[0m{line[match.end() :]}"
    return line
