"""The buyer's sheet as text for a terminal, and as Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kit.core.table import Row, TextTable
from kit.core.text import markdown_text, prose
from kit.store.sheet import Sheet
from reports.sheet.sized import SIZED
from reports.sheet.words import WORDS, marked


def plain(sheet: Sheet, width: int, *, all_: bool = False) -> Iterator[str]:
    """Advice, a sentence a candidate, then a table of what is needed; `all_`: of every line, and notes."""
    yield from prose([sheet.advice], width)
    for each in sheet.candidates:
        if each.name == sheet.choice and not all_:
            # The advice is about it.
            continue
        yield from prose([f"{each.name}: {each.sentence}"], width, "- ")
        # The table has what is met and what is not.
        yield from prose(each.reasons if all_ else (), width, "    ")
    yield ""
    rows: list[Row | str] = []
    shown = [line for line in sheet.lines if line.need or all_ or line.group == SIZED] or sheet.lines
    for group, lines in itertools.groupby(shown, lambda line: line.group):
        rows.append(group)
        rows += [
            (f" {line.label}", line.need, *(marked(line, c) for c in sheet.candidates)) for line in lines
        ]
    yield from TextTable(("", "needed", *(each.name for each in sheet.candidates)), rows).lines(width)
    if left := len(sheet.lines) - len(shown):
        yield from prose([f"{left} other lines, and where each value is from: --all"], width)
    for note in sheet.notes if all_ else ():
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
    parts += ["", TextTable(["", "needed", *(each.name for each in sheet.candidates)], rows).markdown()]
    parts += [*(f"{number}. {markdown_text(note)}" for number, note in enumerate(notes, 1))]
    parts += ["", *(f"- {markdown_text(name)}: {markdown_text(what)}." for name, what in WORDS)]
    parts += ["", *(f"- {markdown_text(note)}" for note in sheet.notes), f"- hsp {markdown_text(sheet.kit)}"]
    return "\n".join(parts) + "\n"
