r"""Paths as the kernel writes them into files of /proc: \040 for a blank.

Source: seq_path of fs/seq_file.c and qword_add of net/sunrpc/cache.c, which escape the same four characters.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\([0-7]{3})")


def escape(path: str) -> str:
    """The path as it stands in such a file."""
    return re.sub(r"[\\ \t\n]", lambda match: f"\\{ord(match[0]):03o}", path)


def rows(text: str) -> list[list[str]]:
    """The fields of each line of such a file. A path may have any other character, also what Python takes for
    a line's end or a blank."""
    lines = (line.strip(" \t") for line in text.split("\n"))
    return [re.split("[ \t]+", line) for line in lines if line]


def unescape(text: str) -> str:
    """The path of such a text."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
