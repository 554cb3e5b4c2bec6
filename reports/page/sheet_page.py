"""The page of a buyer's sheet: what to buy, a sentence a candidate, the table, and its sources."""

from __future__ import annotations

from itertools import groupby

from kit.store.sheet import Sheet
from reports.page import document
from reports.sheet.words import CHIPS, MARKS, WORDS


def render(sheet: Sheet) -> str:
    """The page as HTML that needs nothing else."""
    notes: dict[str, int] = {}
    for line in sheet.lines:
        for each in sheet.candidates:
            if note := each.values[line.key].note:
                notes.setdefault(note, len(notes) + 1)
    groups = [(name, list(lines)) for name, lines in groupby(sheet.lines, lambda line: line.group)]
    return document.render(
        "sheet.html.j2",
        document.Figures(),
        sheet=sheet,
        groups=groups,
        notes=notes,
        chips=CHIPS,
        marks=MARKS,
        words=WORDS,
        emulated=any(each.emulated for each in sheet.candidates),
    )
