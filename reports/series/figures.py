"""A figure of a cell as a logarithm, and how far it may be off by the number of its I/Os. Pure.

Logarithms, because figures are held against each other as ratios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.store.series import CellRun
from kit.store.summary import Range
from kit.store.tables import CLIENT, ISSUERS

# layer, op, tier, and "p50", "p99" or "ios_per_s".
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Figure:
    """`reach`: half of the logarithm's 95 % range, from the number of I/Os alone; None: not known."""

    log: float
    reach: float | None

    @classmethod
    def of(cls, value: float, known: Range | None) -> Figure:
        """Of a value above 0, and what holds it with 95 % confidence."""
        return cls(math.log(value), half_width(known) if known and known[0] > 0 else None)

    def minus(self, other: Figure) -> Figure:
        known = self.reach is not None and other.reach is not None
        reach = math.hypot(self.reach or 0, other.reach or 0) if known else None
        return Figure(self.log - other.log, reach)

    def times(self, factor: float) -> Figure:
        """In another unit."""
        return Figure(self.log + math.log(factor), self.reach)

    @property
    def value(self) -> float:
        return math.exp(self.log)

    @property
    def range(self) -> Range | None:
        """What holds the value with 95 % confidence, as far as the number of I/Os says."""
        return None if self.reach is None else around(self.log, self.reach)


def figures_of(run: CellRun) -> Mapping[Key, Figure]:
    """All figures of a cell in one run."""
    figures: dict[Key, Figure] = {}
    for row in run.rows:
        key = row.layer, row.op, row.tier
        for name, value, known in (
            ("p50", row.p50_us, row.p50_range_us),
            ("p99", row.p99_us, row.p99_range_us),
        ):
            if value:
                figures[(*key, name)] = Figure.of(value, known)
    layer, op = next(((row.layer, row.op) for row in run.rows if row.layer in ISSUERS), (CLIENT, ""))
    if run.ios_per_s:
        figures[layer, op, "all", "ios_per_s"] = Figure.of(run.ios_per_s, run.ios_per_s_range)
    return figures


def mean(figures: Sequence[Figure]) -> Figure:
    """The mean of logarithms. Raises ValueError without one."""
    if not figures:
        raise ValueError("no figures, no mean")
    reaches = [each.reach for each in figures if each.reach is not None]
    known = len(reaches) == len(figures)
    log = sum(each.log for each in figures) / len(figures)
    return Figure(log, math.hypot(*reaches) / len(reaches) if known else None)


def around(log: float, reach: float) -> Range:
    """From a logarithm and its half width to the values at both ends."""
    return math.exp(log - reach), math.exp(min(log + reach, 690))


def half_width(known: Range) -> float:
    """The inverse of `around`: of a range above 0, half of what its ends differ in, as a logarithm."""
    return math.log(known[1] / known[0]) / 2
