"""What `hsp size` prints on a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.table import Row, TextTable
from kit.core.text import markdown_text, prose
from kit.store.printed.sizing import SizeResult
from reports.size.words import tables


def plain(result: SizeResult, width: int) -> Iterator[str]:
    """Headline, tables of sizes, and notes."""
    yield from prose([result.headline], width)
    yield ""
    for table in _tables(result):
        yield from table.lines(width)
        yield ""
    yield from prose(result.notes, width, "- ")


def markdown(result: SizeResult) -> str:
    """The same as a document."""
    lines = [f"**{markdown_text(result.headline)}**", ""]
    lines += [f"{table.markdown()}\n" for table in _tables(result)]
    return "\n".join([*lines, *(f"- {markdown_text(each)}" for each in result.notes)]) + "\n"


def _tables(result: SizeResult) -> Iterator[TextTable]:
    for head, parts in tables(result):
        rows: list[Row | str] = []
        for title, of in parts:
            rows += [title, *((f" {cells[0]}", *cells[1:]) for cells in of)]
        yield TextTable(head, rows)
