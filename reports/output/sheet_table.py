"""The buyer's sheet as text for a terminal, and as Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kit.core.table import Row, Table
from kit.core.text import markdown_text, prose
from kit.store.sheet import Sheet
from reports.sheet.words import WORDS, marked


def plain(sheet: Sheet, width: int) -> Iterator[str]:
    """Advice, a sentence a candidate, then a block a line: the need, and a row a candidate."""
    yield from prose([sheet.advice], width)
    for each in sheet.candidates:
        yield ""
        yield from prose([f"{each.name}: {each.sentence}"], width)
        yield from prose(each.reasons, width, "  ")
    rows: list[Row | str] = []
    for group, lines in itertools.groupby(sheet.lines, lambda line: line.group):
        rows += ["", group]
        for line in lines:
            rows.append(f"  {line.label}{f' (needed: {line.need})' if line.need else ''}")
            rows += [(f"    {each.name}", marked(line, each)) for each in sheet.candidates]
    yield from Table(("", ""), rows).lines(width)
    for note in sheet.notes:
        yield ""
        yield from prose([note], width)


def markdown(sheet: Sheet) -> str:
    """The same as a page: notes of values below the table, by number."""
    notes: list[str] = []
    parts = [f"# {markdown_text(sheet.advice)}", ""]
    if sheet.need.title:
        parts += [markdown_text(sheet.need.title), ""]
    for each in sheet.candidates:
        said = markdown_text(" ".join((each.sentence, *each.reasons)))
        parts.append(f"- **{markdown_text(each.name)}**: {said}")
    rows: list[Row | str] = []
    for line in sheet.lines:
        cells = [line.label, line.need]
        for each in sheet.candidates:
            note = each.values[line.key].note
            if note and note not in notes:
                notes.append(note)
            cells.append(marked(line, each) + (f" [{notes.index(note) + 1}]" if note else ""))
        rows.append(cells)
    parts += ["", Table(["", "needed", *(each.name for each in sheet.candidates)], rows).markdown()]
    parts += [*(f"{number}. {markdown_text(note)}" for number, note in enumerate(notes, 1))]
    parts += ["", *(f"- {markdown_text(name)}: {markdown_text(what)}." for name, what in WORDS)]
    parts += ["", *(f"- {markdown_text(note)}" for note in sheet.notes), f"- hsp {markdown_text(sheet.kit)}"]
    return "\n".join(parts) + "\n"
