"""Lines that the tracer prints, one for a request, beside its counts. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kit.trace.support import MOST_LINES

Words = NDArray[np.uint64]

MOST_BYTES = 16 << 20
"""More than any NFS request (NFSSVC_MAXBLKSIZE)."""
# Several CPUs add to the program's count of lines at a time, and may lose some.
_SLACK = 2


@dataclass
class RequestLines:
    """Lines of a phase; begin and @seen come first.

    `printed`, `left_out`: requests with a line, and those after the most lines, by the program's own counts,
    whose keys of @counts are `counted_by`. `pattern`: of a line, with a group of hexadecimal
    digits for each column.
    """

    pattern: ClassVar[Pattern[str]]
    counted_by: ClassVar[tuple[int, int]]

    values: array[int] = field(default_factory=lambda: array("Q"), repr=False)
    printed: int = 0
    left_out: int = 0

    @property
    def lines(self) -> int:
        return len(self.values) // self.pattern.groups

    @property
    def table(self) -> Words:
        """The lines by their begin, a row each."""
        table = np.array(self.values, np.uint64).reshape(-1, self.pattern.groups)
        return table[np.argsort(table[:, 0], kind="stable")]

    def read(self, text: str, check: Callable[[int], object]) -> None:
        """Add a line, if it is one of these. Raises ValueError for an impossible one, and what `check` of its
        @seen raises.
        """
        match = self.pattern.fullmatch(text)
        if match is None:
            return
        values = [int(each, 16) for each in match.groups()]
        if values[0] >> 62:
            raise ValueError("no request")
        self.check(values)
        check(values[1])
        # What comes beyond that is lost, and a problem.
        if self.lines < _SLACK * MOST_LINES:
            self.values.extend(values)

    def read_counts(self, counts: Mapping[int, int]) -> None:
        """`counts`: by key of @counts."""
        self.printed, self.left_out = (counts[key] for key in self.counted_by)

    def check(self, values: list[int]) -> None:
        """Raises ValueError for a line that cannot be."""
        raise NotImplementedError
