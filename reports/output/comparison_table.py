"""A comparison (reports.analysis.compare) as text: Markdown, or columns for a terminal."""

from __future__ import annotations

import re
from typing import Any

from kit.core.text import safe_text
from kit.store.stored import Json

_HEAD = ("phase", "layer", "op", "tier", "figure", "A", "B", "B/A", "interval", "")
# What Markdown or the HTML in it could act on.
_ACTIVE = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$-])")


def markdown(result: Json) -> str:
    """One table, foreign text without any markup."""
    rows = [[_escaped(cell) for cell in row] for row in _cells(result)]
    lines = [f"**{_escaped(result['conclusion'])}**", "", *map(_escaped, _notes(result)), ""]
    lines += [_line(_HEAD), _line(["---"] * 5 + ["---:"] * 4 + ["---"]), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def plain(result: Json) -> str:
    """The same in columns."""
    rows = [list(_HEAD), *_cells(result)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([result["conclusion"], *_notes(result), "", *lines])


def _notes(result: Json) -> list[str]:
    runs = result["runs"]
    notes = [
        f"A: {_counted(runs['a'])}, B: {_counted(runs['b'])}. Intervals are over runs and hold for all rows "
        f"together with {100 * result['level']:g} % confidence ({result['method']}). Latencies in us.",
    ]
    # They are no second measurement: what is peculiar to them is on both sides.
    if both := [str(run) for run in runs["a"] if run is not None and run in runs["b"]]:
        notes.append(f"On both sides, which hides differences: {', '.join(both)}.")
    notes += result.get("caveats") or []
    for key, (x, y) in (result.get("across") or {}).items():
        notes.append(f"Across {key}: A has {x}, B has {y}.")
    return [" ".join(note.split()) for note in notes]


def _counted(runs: list[Any]) -> str:
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def _cells(result: Json) -> list[list[str]]:
    made = []
    for row in result["rows"]:
        words = row["words"] if row["withheld"] is None else f"withheld ({row['withheld']})"
        span = row["interval"]
        shown = "" if span is None else f"{_number(span[0])} to {_number(span[1])}"
        name = [str(row[k]) for k in ("phase", "layer", "op", "tier", "figure")]
        made.append([*name, _number(row["a"]), _number(row["b"]), _number(row["ratio"]), shown, words])
    return made


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """`text` without markup for Markdown or HTML."""
    return _ACTIVE.sub(r"\\\1", safe_text(text))
