"""What `hsp size` prints on a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.table import Row, TextTable
from kit.core.text import markdown_text, prose
from reports.size.curve import Sizing
from reports.size.words import HEAD, groups, headline, notes


def plain(sizing: Sizing, more: Sequence[str], width: int) -> Iterator[str]:
    """Headline, a table of sizes, and notes; `more`: further ones."""
    yield from prose([headline(sizing)], width)
    yield ""
    yield from _table(sizing).lines(width)
    yield ""
    yield from prose([*notes(sizing), *more], width, "- ")


def markdown(sizing: Sizing, more: Sequence[str]) -> str:
    """The same as a document."""
    lines = [f"**{markdown_text(headline(sizing))}**", "", _table(sizing).markdown()]
    return "\n".join([*lines, *(f"- {markdown_text(each)}" for each in (*notes(sizing), *more))]) + "\n"


def _table(sizing: Sizing) -> TextTable:
    rows: list[Row | str] = []
    for title, of in groups(sizing):
        rows += [title, *((f" {cells[0]}", *cells[1:]) for cells in of)]
    return TextTable(HEAD, rows)
