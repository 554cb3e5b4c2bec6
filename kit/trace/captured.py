"""Requests, one by one, as io_of_request.bt prints them, so that the load can be replayed. Pure.

A line has the begin (ns of the server's monotonic clock), @seen, a hash of the client's address, a hash of
file system and file, offset and bytes. No name and no address is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kit.core.text import commas
from kit.trace.request_lines import MOST_BYTES, RequestLines, Words

STABLE = 64
"""Of @seen: the request has called zil_commit."""


class Captured(RequestLines):
    """Lines of all requests: begin, @seen, client, file, offset, bytes."""

    pattern = re.compile(r"hsp-trace io" + r" ([0-9a-f]{1,16})" * 6 + r"\n")
    counted_by = 4032, 4033

    def check(self, values: list[int]) -> None:
        *_, offset, length = values
        if length > MOST_BYTES or (offset + length) >> 63:
            raise ValueError("no request")

    @property
    def lost(self) -> int:
        return max(0, self.printed - self.lines)

    def problems(self) -> Iterator[str]:
        """The lines against the program's own count."""
        if self.lines != self.printed:
            text = (
                f"{commas(abs(self.printed - self.lines))} of {commas(self.printed)} captured requests were"
            )
            yield f"{text} {'lost' if self.lost else 'not counted'}: the capture is not the whole load"


def numbered(values: Words) -> NDArray[np.int64]:
    """Small numbers in the place of hashes: in the order in which they come first."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
