"""Reads a file of a run while it grows: whole lines only, a bounded part of it at a time."""

from __future__ import annotations

import os
from pathlib import Path

from kit.core.errors import ConfigError
from kit.core.own_file import open_own

# A line of the tracer has some 100 bytes for each of the entries of a map (kit.trace.support, MAP_KEYS).
MOST_LINE_BYTES = 8 << 20
_READ_BYTES = 4 << 20


class GrowingFile:
    """`next_lines` has what was added since the call before. A last line without its end waits for it."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._begun, self._number = path, 0, b"", 0

    def next_lines(self) -> list[tuple[int, str]]:
        """At most 4 MiB, each line with its number from 1; none while there is no file.

        Raises ConfigError for a file that is not the caller's own, has become shorter or has too long a line;
        OSError.
        """
        try:
            handle = open_own(self._path)
        except FileNotFoundError:
            return []
        with open(handle, "rb") as file:
            if os.fstat(handle).st_size < self._offset:
                raise ConfigError(
                    f"{self._path} is shorter than it was", "is another run written into the directory?"
                )
            file.seek(self._offset)
            added = file.read(_READ_BYTES)
        self._offset += len(added)
        *lines, self._begun = (self._begun + added).split(b"\n")
        if len(self._begun) > MOST_LINE_BYTES:
            raise ConfigError(
                f"{self._path}: a line has more than {MOST_LINE_BYTES >> 20} MiB",
                "it is not a file that the kit wrote; leave it out",
            )
        first, self._number = self._number + 1, self._number + len(lines)
        return [(number, line.decode("utf-8", "replace")) for number, line in enumerate(lines, first)]
