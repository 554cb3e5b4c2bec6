"""Forced writes as the table of pg_test_fsync, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.text import safe_text
from kit.core.units import three_digits
from reports.series.sync_methods import SyncCell, SyncRow, SyncTable

_FIGURES = ("ops/s", "µs/op", "p50", "p99")


def sync_lines(table: SyncTable) -> Iterator[str]:
    """A row that is not durable has its figures in brackets, and says why below."""
    several = len(table.configurations) > 1
    compared = ("B/A", "published") if several else ()
    head = ["", *(figure for _ in table.configurations for figure in _FIGURES), *compared]
    lines: list[Sequence[str]] = [head]
    notes: dict[str, list[str]] = {}
    phase = ""
    for row in table.rows:
        if row.phase != phase:
            phase = row.phase
            lines.append([f"{phase}:"])
        lines.append([f"  {row.label}", *_cells(row), *(_ratios(row) if several else ())])
        for text in row.notes:
            notes.setdefault(text, []).append(f"{phase} {row.label}")
    widths = [max((len(line[n]) for line in lines if len(line) > n > 0), default=0) for n in range(len(head))]
    widths[0] = max(len(line[0]) for line in lines)
    yield "  " + safe_text(_over(table.configurations, widths))
    for line in lines:
        cells = [cell.rjust(widths[n]) if n else cell.ljust(widths[0]) for n, cell in enumerate(line)]
        yield "  " + safe_text("  ".join(cells).rstrip())
    for note, labels in notes.items():
        yield "  " + safe_text(f"{', '.join(labels)}: {note}")


def _over(configurations: Sequence[str], widths: Sequence[int]) -> str:
    """The names of the configurations, each above its figures."""
    line, number = " " * widths[0], 1
    for position, name in enumerate(configurations):
        width = sum(widths[number : number + len(_FIGURES)]) + 2 * len(_FIGURES)
        letter = f"{chr(ord('A') + position)}: " if len(configurations) > 1 else ""
        line += f"  {letter}{name}".rjust(width)
        number += len(_FIGURES)
    return line


def _cells(row: SyncRow) -> Iterator[str]:
    for cell in row.cells:
        figures = _shown(cell) if cell else ("n/a" if row.missing else "-", "", "", "")
        yield from (f"({each})" if cell and cell.struck and each else each for each in figures)


def _shown(cell: SyncCell) -> tuple[str, ...]:
    percentiles = ("-" if us is None else three_digits(us) for us in (cell.p50_us, cell.p99_us))
    return f"{cell.ops_per_s:,.0f}", three_digits(cell.mean_us), *percentiles


def _ratios(row: SyncRow) -> tuple[str, str]:
    one, other = ("" if each is None else f"{each:.2f}" for each in (row.ratio, row.published_ratio))
    return one, other
