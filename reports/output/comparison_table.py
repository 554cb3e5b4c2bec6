"""A comparison (reports.comparison.compare) as text: Markdown, or columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kit.core.table import Row, TextTable
from kit.core.text import counted, markdown_text, prose
from kit.core.units import format_latency
from kit.store.labels import EMULATED, layer_name, op_name, tier_name
from kit.store.parts.comparison import ComparedRow, Comparison
from reports.comparison.comparability import differences
from reports.comparison.compare import DIFFERENCE, SHOWN, answer, interval, others, sides_words

_HEAD = ("phase", "layer", "op", "tier", "figure", "A", "B", "B/A", "interval", "")
# Of runs that are too few to be judged.
_SHORT = ("p50", "p99")


def markdown(result: Comparison) -> str:
    """One table, foreign text without any markup."""
    notes = map(markdown_text, _notes(result, " Latencies in us."))
    rows = TextTable(_HEAD, list(map(_cells, result.rows)), range(5, 9))
    lines = [f"**{markdown_text(result.conclusion)}**", "", *notes, "", ""]
    return "\n".join(lines) + rows.markdown()


def plain(result: Comparison, width: int, *, all_: bool = False) -> Iterator[str]:
    """Lines for a terminal of `width` columns: the largest difference, then rows that differ, or `all_`."""
    differ = [row for row in result.rows if row.words == DIFFERENCE]
    if differ:
        yield from prose([f"{answer(result)}."], width)
    yield from prose((result.conclusion, *_notes(result)), width)
    yield ""
    judged = any(row.interval for row in result.rows)
    shown = differ if judged else [row for row in result.rows if row.figure in _SHORT and row.ratio]
    shown = list(result.rows) if all_ else shown
    yield from TextTable(("", *_HEAD[5:]), list(_rows(shown)), range(1, 5)).lines(width)
    withheld = sum(row.withheld is not None for row in result.rows)
    withheld -= sum(row.withheld is not None for row in shown)
    if left := len(result.rows) - len(shown):
        # With those above they are the figures of the conclusion.
        others = [counted(left - withheld, "other figure")] if left > withheld else []
        others += [f"{withheld} that cannot be compared"] if withheld else []
        yield from prose([f"{' and '.join(others)}: --all lists {'it' if left == 1 else 'them'}"], width)


def place(phase: str, layer: str, op: str, tier: str) -> str:
    """Such as "write-slog, NFS server: writes to log SSD (SLOG)"."""
    word = "from" if op == "read" else "to"
    of = "" if tier == "all" else f" {word} {tier_name(tier)}"
    return f"{phase}, {layer_name(layer)}: {op_name(op)}{of}"


def _rows(rows: Iterable[ComparedRow]) -> Iterator[Row | str]:
    heading = None
    for row in rows:
        if heading != (heading := place(row.phase, row.layer, row.op, row.tier)):
            yield heading
        name = f" {row.figure}"
        if row.withheld is not None:
            yield f"{name} n/a: {row.withheld}"
        else:
            a, b = (_figure(row.figure, each or 0.0) for each in (row.a, row.b))
            ends = " to ".join(f"{end:.3f}" for end in row.interval or ())
            yield (name, a, b, "" if row.ratio is None else f"{row.ratio:.3f}", ends, _words(row))


def _figure(name: str, value: float) -> str:
    """A share in percent, or a latency in us."""
    return f"{100 * value:.3g} %" if name == "share" else format_latency(value)


def _notes(result: Comparison, unit: str = "") -> list[str]:
    a, b = result.runs["a"], result.runs["b"]
    notes = [f"{EMULATED}."] if result.emulated else []
    level = f"{100 * result.level:g} % confidence ({result.method})"
    how = f"Intervals are over runs and hold for all rows together with {level}"
    how = how if min(len(a), len(b)) > 1 else result.method.capitalize()
    notes += filter(None, [others(result)])
    notes.append(f"{sides_words(result)}. {how}.{unit}")
    # They are no second measurement: what is peculiar to them is on both sides.
    if both := [str(run) for run in a if run is not None and run in b]:
        notes.append(f"On both sides, which hides differences: {', '.join(both)}.")
    notes += result.caveats
    notes += differences(result.across)
    return [" ".join(note.split()) for note in notes]


def _cells(row: ComparedRow) -> Row:
    names = [str(getattr(row, name)) for name in _HEAD[:5]]
    words = _words(row) + (f": {row.withheld}" if row.withheld else "")
    return [*names, _number(row.a), _number(row.b), _number(row.ratio), interval(row), words]


def _words(row: ComparedRow) -> str:
    return SHOWN.get(str(row.words), str(row.words))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
