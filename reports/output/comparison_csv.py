"""A comparison as CSV: numbers as they are, a row a figure; `unit` is that of A and B."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.table import Row, Table
from kit.store.parts.comparison import ComparedCell, ComparedRow, ComparedSeries, Comparison

_HEAD = (
    "phase",
    "layer",
    "op",
    "tier",
    "figure",
    "unit",
    "a",
    "b",
    "ratio",
    "ratio_low",
    "ratio_high",
    "finding",
)


def csv(result: Comparison | ComparedSeries) -> str:
    """Of runs, or of series: those have the cell first."""
    if isinstance(result, Comparison):
        return Table(_HEAD, [_run_row(row) for row in result.rows]).csv()
    return Table(("cell", *_HEAD), [(row.cell, *_cell_row(row)) for row in result.rows]).csv()


def _run_row(row: ComparedRow) -> Row:
    unit = "1" if row.figure == "share" else "us"
    return [*_numbers(row, unit), f"{row.words}: {row.withheld}" if row.withheld else row.words]


def _cell_row(row: ComparedCell) -> Row:
    return [*_numbers(row, row.unit), row.excluded or row.finding or "one round"]


def _numbers(row: ComparedRow | ComparedCell, unit: str) -> Iterator[str | float]:
    yield from (row.phase, row.layer, row.op, row.tier, row.figure, unit)
    for value in (row.a, row.b, row.ratio, *(row.interval or (None, None))):
        yield "" if value is None else float(f"{value:.6g}")
