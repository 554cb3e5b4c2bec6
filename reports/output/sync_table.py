"""Forced writes as the table of pg_test_fsync, on a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kit.core.table import Row, TextTable
from kit.core.text import commas, prose, safe_text
from kit.core.units import three_digits
from reports.series.sync_methods import SyncCell, SyncRow, SyncTable

_FIGURES = ("ops/s", "µs/op", "p50", "p99")


def sync_lines(table: SyncTable, width: int) -> Iterator[str]:
    """A row that is not durable has its figures in brackets, and says why below."""
    several = len(table.configurations) > 1
    head = [""]
    for number, name in enumerate(map(safe_text, table.configurations)):
        letter = f"{chr(ord('A') + number)}: " * several
        head += [f"{letter}{name}\n{_FIGURES[0]}", *_FIGURES[1:]]
    head += ["time B/A", "published"] if several else []
    rows: list[Row | str] = []
    notes: dict[str, list[str]] = {}
    for phase, of_phase in itertools.groupby(table.rows, lambda row: row.phase):
        rows.append(f"{phase}:")
        for row in of_phase:
            rows.append([f"  {row.label}", *_cells(row), *(_ratios(row) if several else ())])
            for text in row.notes:
                notes.setdefault(text, []).append(f"{phase} {row.label}")
    yield from TextTable(head, rows, range(1, len(head))).lines(width, "  ")
    yield from prose((f"{', '.join(labels)}: {note}" for note, labels in notes.items()), width, "  ")


def _cells(row: SyncRow) -> Iterator[str]:
    for cell in row.cells:
        figures = _shown(cell) if cell else ("n/a" if row.missing else "-", "", "", "")
        yield from (f"({each})" if cell and cell.struck and each else each for each in figures)


def _shown(cell: SyncCell) -> tuple[str, ...]:
    percentiles = ("-" if us is None else three_digits(us) for us in (cell.p50_us, cell.p99_us))
    return commas(cell.ops_per_s), three_digits(cell.mean_us), *percentiles


def _ratios(row: SyncRow) -> tuple[str, str]:
    one, other = ("" if each is None else f"{each:.2f}" for each in (row.ratio, row.published_ratio))
    return one, other
