"""A comparison (reports.comparison.compare) as text: Markdown, or columns for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kit.core.text import safe_text
from kit.core.units import format_latency
from kit.store.stored import Json
from reports.analysis.tier_names import tier_name
from reports.comparison.comparability import differences
from reports.comparison.compare import SHOWN
from reports.output.result_table import PROSE_WIDTH, wrapped

_FIGURE = " {:6} {:>8} {:>8} {:>7} {:>15}  "
# The line above and its words.
_TABLE_WIDTH = 72
_HEAD = ("phase", "layer", "op", "tier", "figure", "A", "B", "B/A", "interval", "")
# What Markdown or the HTML in it could act on.
_ACTIVE = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$-])")


def markdown(result: Json) -> str:
    """One table, foreign text without any markup."""
    rows = [[escaped(cell) for cell in row] for row in _cells(result)]
    notes = _notes(result, " Latencies in us.")
    lines = [f"**{escaped(result['conclusion'])}**", "", *map(escaped, notes), ""]
    lines += [_line(_HEAD), _line(["---"] * 5 + ["---:"] * 4 + ["---"]), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def plain(result: Json, width: int) -> Iterator[str]:
    """Lines for a terminal of `width` columns: a heading per row, a line per figure."""
    yield result["conclusion"]
    for note in _notes(result):
        yield from wrapped(note, min(width, PROSE_WIDTH))
    yield ""
    if width >= _TABLE_WIDTH:
        yield _FIGURE.format("", "A", "B", "B/A", "interval").rstrip()
    heading = None
    for row in result["rows"]:
        tier = "" if row["tier"] == "all" else f" {tier_name(row['tier'])}"
        if heading != (heading := f"{row['phase']}, {row['layer']}: {row['op']}{tier}"):
            yield from wrapped(heading, width)
        yield from _figure_lines(row, width)


def _figure_lines(row: Json, width: int) -> list[str]:
    name, ratio, span, words = (
        row["figure"],
        _number(row["ratio"]),
        _interval(row),
        SHOWN.get(str(row["words"]), str(row["words"])),
    )
    if row["withheld"] is not None:
        return wrapped(f"{name:6} n/a: {row['withheld']}", width, " ")
    a, b = (_figure(name, row[side]) for side in ("a", "b"))
    line = _FIGURE.format(name, a, b, ratio, span) + words
    if width >= max(_TABLE_WIDTH, len(line)):
        return [line]
    return wrapped(
        ", ".join(filter(None, (f"{name}: A {a}", f"B {b}", f"B/A {ratio}", span, words))), width, " "
    )


def _figure(name: str, value: float) -> str:
    """A share in percent, or a latency in us."""
    return f"{100 * value:.3g} %" if name == "share" else format_latency(value)


def _notes(result: Json, unit: str = "") -> list[str]:
    runs = result["runs"]
    notes = [
        f"A: {_counted(runs['a'])}, B: {_counted(runs['b'])}. Intervals are over runs and hold for all rows "
        f"together with {100 * result['level']:g} % confidence ({result['method']}).{unit}",
    ]
    # They are no second measurement: what is peculiar to them is on both sides.
    if both := [str(run) for run in runs["a"] if run is not None and run in runs["b"]]:
        notes.append(f"On both sides, which hides differences: {', '.join(both)}.")
    notes += result.get("caveats") or []
    notes += differences(result.get("across") or {})
    return [" ".join(note.split()) for note in notes]


def _counted(runs: list[Any]) -> str:
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def _cells(result: Json) -> list[list[str]]:
    made = []
    for row in result["rows"]:
        words = SHOWN.get(str(row["words"]), str(row["words"]))
        words += f": {row['withheld']}" if row["withheld"] else ""
        name = [str(row[k]) for k in ("phase", "layer", "op", "tier", "figure")]
        made.append(
            [*name, _number(row["a"]), _number(row["b"]), _number(row["ratio"]), _interval(row), words]
        )
    return made


def _interval(row: Json) -> str:
    return " to ".join(map(_number, row["interval"] or ()))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """`text` without markup for Markdown or HTML."""
    return _ACTIVE.sub(r"\\\1", safe_text(text))
