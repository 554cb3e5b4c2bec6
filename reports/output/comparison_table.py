"""A comparison (reports.comparison.compare) as text: Markdown, or columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.table import Row, Table
from kit.core.text import counted, markdown_text, prose
from kit.core.units import format_latency
from kit.store.parts.comparison import ComparedRow, Comparison
from reports.analysis.tier_names import tier_name
from reports.comparison.comparability import differences
from reports.comparison.compare import SHOWN

_HEAD = ("phase", "layer", "op", "tier", "figure", "A", "B", "B/A", "interval", "")


def markdown(result: Comparison) -> str:
    """One table, foreign text without any markup."""
    notes = map(markdown_text, _notes(result, " Latencies in us."))
    lines = [f"**{markdown_text(result.conclusion)}**", "", *notes, "", ""]
    return "\n".join(lines) + Table(_HEAD, list(map(_cells, result.rows)), range(5, 9)).markdown()


def plain(result: Comparison, width: int) -> Iterator[str]:
    """Lines for a terminal of `width` columns: a heading per row, a line per figure."""
    yield from prose((result.conclusion, *_notes(result)), width)
    yield ""
    yield from Table(("", *_HEAD[5:]), list(_rows(result)), range(1, 5)).lines(width)


def _rows(result: Comparison) -> Iterator[Row | str]:
    heading = None
    for row in result.rows:
        tier = "" if row.tier == "all" else f" {tier_name(row.tier)}"
        if heading != (heading := f"{row.phase}, {row.layer}: {row.op}{tier}"):
            yield heading
        name = f" {row.figure}"
        if row.withheld is not None:
            yield f"{name} n/a: {row.withheld}"
        else:
            a, b = (_figure(row.figure, each or 0.0) for each in (row.a, row.b))
            yield (name, a, b, _number(row.ratio), _interval(row), _words(row))


def _figure(name: str, value: float) -> str:
    """A share in percent, or a latency in us."""
    return f"{100 * value:.3g} %" if name == "share" else format_latency(value)


def _notes(result: Comparison, unit: str = "") -> list[str]:
    a, b = result.runs["a"], result.runs["b"]
    notes = [
        f"A: {counted(len(a), 'run')}, B: {counted(len(b), 'run')}. "
        "Intervals are over runs and hold for all rows "
        f"together with {100 * result.level:g} % confidence ({result.method}).{unit}",
    ]
    # They are no second measurement: what is peculiar to them is on both sides.
    if both := [str(run) for run in a if run is not None and run in b]:
        notes.append(f"On both sides, which hides differences: {', '.join(both)}.")
    notes += result.caveats
    notes += differences(result.across)
    return [" ".join(note.split()) for note in notes]


def _cells(row: ComparedRow) -> Row:
    names = [str(getattr(row, name)) for name in _HEAD[:5]]
    words = _words(row) + (f": {row.withheld}" if row.withheld else "")
    return [*names, _number(row.a), _number(row.b), _number(row.ratio), _interval(row), words]


def _words(row: ComparedRow) -> str:
    return SHOWN.get(str(row.words), str(row.words))


def _interval(row: ComparedRow) -> str:
    return " to ".join(map(_number, row.interval or ()))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
