"""A table of text: for a terminal, as Markdown, and as CSV. Foreign text in its cells does not act."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from kit.core.text import NO_BREAK, csv_text, glued, markdown_text, safe_text, wrapped

Row = Sequence[str | float]
LEAST_WIDTH = 24
_LEAST_CUT = 12
_CONSOLE = Console(file=io.StringIO(), color_system=None, force_jupyter=False, legacy_windows=False)


@dataclass(frozen=True)
class TextTable:
    """`rows`: a tuple has the cells below `head`, a str is a title across all columns.

    `head`: may have a second line, such as the name of a group above that of its first column. `numeric`:
    columns that are aligned at the right and never wrapped. `spare`: what a narrow terminal does not show.
    `cut`: the column that is shortened before any other is wrapped, so that a row is a line.
    """

    head: Sequence[str]
    rows: Sequence[Row | str]
    numeric: Collection[int] = ()
    spare: int | None = None
    cut: int | None = None

    def lines(self, width: int, indent: str = "") -> Iterator[str]:
        """Lines of at most `width` columns, except for words that are longer.

        Empty columns are left out. If the others are too wide: narrow gaps, then without `spare`, then text
        is wrapped in its column, or else each row is a paragraph.
        """
        width = max(width, LEAST_WIDTH) - len(indent)
        rows = [row if isinstance(row, str) else [safe_text(str(cell)) for cell in row] for row in self.rows]
        columns = self._columns([self.head, *(row for row in rows if not isinstance(row, str))], width)
        titled = any(self.head[n] for n in columns)
        for row in [self.head, *rows] if titled else rows:
            if isinstance(row, str):
                lines = wrapped(row, width) or [""]
            else:
                lines = self._row(row, columns) if columns else self._paragraph(row, width)
            yield from (f"{indent}{line}".rstrip() for line in lines)

    def markdown(self) -> str:
        """Lines of Markdown; what could be markup in a cell is escaped."""
        rule = ["---:" if n in self.numeric else "---" for n in range(len(self.head))]
        head, *rows = ([markdown_text(str(cell)) for cell in row] for row in self._whole())
        return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))

    def csv(self) -> str:
        """Numbers as they are; text is no formula."""
        text = io.StringIO()
        rows = ([csv_text(cell) if isinstance(cell, str) else cell for cell in row] for row in self._whole())
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()

    def _whole(self) -> Iterator[Row]:
        """Head and rows, all with as many cells."""
        yield [name.replace("\n", " ") for name in self.head]
        yield from ([row, *[""] * (len(self.head) - 1)] if isinstance(row, str) else row for row in self.rows)

    def _columns(self, rows: Sequence[Sequence[str]], width: int) -> dict[int, tuple[int, int]]:
        """Gap before and width of each column that is shown; empty if they do not fit.

        `rows`: with the head.
        """
        used = [n for n in range(len(self.head)) if any(row[n] for row in rows[1:])]
        fewer = [n for n in used if n != self.spare]
        for numbers, wraps in ((used, False), (fewer, False), (fewer, True)):
            if columns := self._fitted(rows, width, numbers, wraps=wraps):
                return columns
        return {}

    def _fitted(
        self, rows: Sequence[Sequence[str]], width: int, numbers: Sequence[int], *, wraps: bool
    ) -> dict[int, tuple[int, int]]:
        """As `_columns`, of the columns `numbers`."""
        texts = {n: [line for row in rows for line in row[n].split("\n")] for n in numbers}
        widths = {n: max(map(cell_len, texts[n])) for n in numbers}
        least = {n: max(map(_least, texts[n])) for n in numbers if wraps and n not in self.numeric}
        least |= {n: _LEAST_CUT for n in numbers if n == self.cut}
        room = width - len(numbers) + 1
        while sum(widths.values()) > room and any(widths[n] > least[n] for n in least):
            widths[max(least, key=lambda n: widths[n] - least[n])] -= 1
        # The first gaps are wide as long as there is room.
        wide = room - sum(widths.values())
        return {n: ((at > 0) + (0 < at <= wide), widths[n]) for at, n in enumerate(numbers) if wide >= 0}

    def _row(self, cells: Sequence[str], columns: Mapping[int, tuple[int, int]]) -> list[str]:
        grid, texts = Grid.grid(), []
        deepest = max(cells[n].count("\n") for n in columns)
        for n, (gap, width) in columns.items():
            right = n in self.numeric
            lead, text = _split(cells[n])
            fits = right or cell_len(lead + text) <= width
            if n == self.cut and not fits:
                text, fits = f"{text[: width - 3]}...", True
            parts = text.replace(NO_BREAK, " ").split("\n") if fits else wrapped(text, width - len(lead))
            above = "\n" * (deepest - cells[n].count("\n"))
            texts.append(Text(above + "\n".join(" " * gap + lead + part for part in parts)))
            grid.add_column(width=gap + width, justify="right" if right else "left", overflow="fold")
        grid.add_row(*texts)
        options = _CONSOLE.options.update_width(sum(map(sum, columns.values())))
        lines = _CONSOLE.render_lines(grid, options, pad=False)
        return ["".join(segment.text for segment in line) for line in lines]

    def _paragraph(self, row: Sequence[str], width: int) -> list[str]:
        """The first cell, and the others with their names. A number stays beside its name and unit."""
        lead, first = _split(row[0])
        parts = []
        for n, cell in enumerate(row):
            if n and cell:
                named = f"{self.head[n]} {cell}".strip().replace("\n", " ")
                parts.append(named.replace(" ", NO_BREAK) if n in self.numeric else named)
        return wrapped(": ".join(filter(None, (first, ", ".join(parts)))), width, lead)


def _split(text: str) -> tuple[str, str]:
    """The indentation, and the rest."""
    rest = text.strip()
    return text[: text.index(rest)], rest


def _least(text: str) -> int:
    """The width in which a cell can be wrapped; lines after the first are indented by 2."""
    lead, rest = _split(text)
    words = glued(rest).split(" ")
    return len(lead) + max(map(cell_len, words)) + 2 * (len(words) > 1)
