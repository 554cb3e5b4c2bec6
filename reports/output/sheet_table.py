"""The buyer's sheet as text for a terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kit.store.sheet import Sheet
from reports.sheet.words import WORDS, marked

_NARROW = 24


def plain(sheet: Sheet, width: int) -> Iterator[str]:
    """Advice, a sentence a candidate, then a block a line: the need, and a row a candidate."""
    yield from textwrap.wrap(sheet.advice, width)
    for each in sheet.candidates:
        yield ""
        yield from textwrap.wrap(f"{each.name}: {each.sentence}", width, subsequent_indent="  ")
        for reason in each.reasons:
            yield from textwrap.wrap(reason, width, initial_indent="  ", subsequent_indent="  ")
    names = max(_NARROW // 2, *(len(each.name) for each in sheet.candidates))
    group = ""
    for line in sheet.lines:
        if line.group != group:
            group = line.group
            yield from ("", group)
        yield f"  {line.label}{f' (needed: {line.need})' if line.need else ''}"
        for each in sheet.candidates:
            yield f"    {each.name[:names]:<{names}}  {marked(line, each)}"
    for note in sheet.notes:
        yield ""
        yield from textwrap.wrap(note, width)


def markdown(sheet: Sheet) -> str:
    """The same as a page: notes of values below the table, by number."""
    notes: list[str] = []
    parts = [f"# {_cell(sheet.advice)}", ""]
    if sheet.need.title:
        parts += [_cell(sheet.need.title), ""]
    for each in sheet.candidates:
        parts.append(f"- **{_cell(each.name)}**: {_cell(' '.join((each.sentence, *each.reasons)))}")
    heads = ["", "needed", *(_cell(each.name) for each in sheet.candidates)]
    parts += ["", _row(heads), _row(["---"] * len(heads))]
    for line in sheet.lines:
        cells = [_cell(line.label), _cell(line.need)]
        for each in sheet.candidates:
            note = each.values[line.key].note
            if note and note not in notes:
                notes.append(note)
            number = f" [{notes.index(note) + 1}]" if note else ""
            cells.append(_cell(marked(line, each)) + number)
        parts.append(_row(cells))
    parts += ["", *(f"{number}. {_cell(note)}" for number, note in enumerate(notes, 1))]
    parts += ["", *(f"- {_cell(name)}: {_cell(what)}." for name, what in WORDS)]
    parts += ["", *(f"- {_cell(note)}" for note in sheet.notes), f"- hsp {_cell(sheet.kit)}"]
    return "\n".join(parts) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Text that Markdown cannot take for its own signs."""
    return "".join(f"\\{char}" if char in r"\`*_[]<>|#" else char for char in text)
