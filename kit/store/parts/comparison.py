"""Results of `hsp compare`: runs against runs, series against series (docs/compare.md). Latencies in us."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kit.store.format import Format
from kit.store.stored import Count, Many, Range, Stored

Finding = Literal["same", "differs", "open"]


class _Compared(Stored):
    phase: str
    layer: str
    op: str
    tier: str
    figure: str


class ComparedRow(_Compared):
    """A figure of a phase x layer x op x tier. `withheld`: why it cannot be told; `interval`: of B/A."""

    a: float | None
    b: float | None
    ratio: float | None
    interval: Range | None
    words: str
    withheld: str | None


class Comparison(Stored):
    """`runs`: names by side; `states`: how many of them came out how.

    `across`: values of A and of B; `phases`: those compared, None of whole runs.
    `emulated`: some devices were models.
    """

    format: Format
    runs: dict[str, Many[str | None]]
    states: dict[str, Count] = Field(default_factory=dict)
    level: float
    unit: str
    method: str
    compared: Count
    different: Count
    conclusion: str
    rows: Many[ComparedRow]
    caveats: Many[str] = ()
    across: dict[str, tuple[object, object]] = Field(default_factory=dict)
    phases: dict[str, str] | None = None
    emulated: bool = False


class _OfSeries(_Compared):
    """A figure of both series, and `ratio`, B/A.

    `interval`: over rounds; `range`: what the I/Os leave open within rounds. `finding`: None where a side has
    one round, or is excluded.
    """

    a: float
    b: float
    ratio: float
    interval: Range | None
    range: Range | None
    finding: Finding | None


class ComparedCell(_OfSeries):
    """A figure of a cell. `excluded`: why it is not judged."""

    cell: str
    at: dict[str, str]
    unit: str
    excluded: str | None


class ComparedRatio(_OfSeries):
    """A ratio to the base that both have; `a`, `b`: the ratios."""

    axis: str
    from_: str = Field(alias="from")
    to: str
    beside: dict[str, str]


class ComparedSeries(Stored):
    """`a`, `b`: ids. `limit`: figures are the same within it, of 1. `only_a`, `only_b`: cells of one side."""

    format: Format
    a: str
    b: str
    limit: float
    conclusion: Many[str]
    rows: Many[ComparedCell]
    ratios: Many[ComparedRatio]
    only_a: Many[str]
    only_b: Many[str]
    emulated: bool = False
