"""Results of `hsp compare`: runs against runs, series against series (docs/formats.md). Latencies in us."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kit.store.stored import Count, Many, Stored

Range = tuple[float, float]
Finding = Literal["same", "differs", "open"]


class ComparedRow(Stored):
    """A figure of a phase x layer x op x tier. `withheld`: why it cannot be told; `interval`: of B/A."""

    phase: str
    layer: str
    op: str
    tier: str
    figure: str
    a: float | None
    b: float | None
    ratio: float | None
    interval: Range | None
    words: str
    withheld: str | None


class Comparison(Stored):
    """`runs`: names by side. `across`: values of A and of B; `phases`: those compared, None of whole runs.

    `emulated`: some devices were models.
    """

    format: int
    runs: dict[str, Many[str | None]]
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


class ComparedCell(Stored):
    """A figure of a cell. `interval`: of B/A over rounds; `range`: what the I/Os leave open within rounds.

    `finding`: None where a side has one round, or is `excluded`, and why.
    """

    cell: str
    at: dict[str, str]
    phase: str
    layer: str
    op: str
    tier: str
    figure: str
    unit: str
    a: float
    b: float
    ratio: float
    interval: Range | None
    range: Range | None
    finding: Finding | None
    excluded: str | None


class ComparedRatio(Stored):
    """A ratio to the base that both have; `a`, `b`: the ratios, `ratio`: B/A."""

    axis: str
    from_: str = Field(alias="from")
    to: str
    beside: dict[str, str]
    phase: str
    layer: str
    op: str
    tier: str
    figure: str
    a: float
    b: float
    ratio: float
    interval: Range | None
    range: Range | None
    finding: Finding | None


class ComparedSeries(Stored):
    """`a`, `b`: ids. `limit`: figures are the same within it, of 1. `only_a`, `only_b`: cells of one side."""

    format: int
    a: str
    b: str
    limit: float
    conclusion: Many[str]
    rows: Many[ComparedCell]
    ratios: Many[ComparedRatio]
    only_a: Many[str]
    only_b: Many[str]
    emulated: bool = False
