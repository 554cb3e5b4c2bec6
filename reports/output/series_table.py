"""A series as lines for a terminal: verdict, a table for each axis, ratios to the base."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from operator import attrgetter

from kit.core.table import Row, TextTable
from kit.core.text import commas, prose, safe_text
from kit.core.units import format_latency
from kit.store.labels import EMULATED, op_name, tier_name, verdict_name
from kit.store.parts.comparison import ComparedRatio, ComparedSeries
from kit.store.series import CellRow, Ratio, Series, SeriesCell
from kit.store.summary import Range
from reports.output.comparison_table import place
from reports.output.sync_table import sync_lines
from reports.published import references
from reports.series.addresses import address_sentences
from reports.series.answering import answering_sentences, answers
from reports.series.batches import batches_of
from reports.series.compare import ONE_ROUND
from reports.series.sync_methods import sync_table
from reports.series.view import cell_ratio, cells_of, merged_rows, rate_of
from reports.statistics.ratios import is_too_wide

_HEAD = ("", "tier", "I/Os", "p50", "p99", "I/O/s", "times base", "verdict")
_NUMBERS = range(2, 7)
_COMPARED = ("cell", "phase", "layer", "op", "tier")
_RATIO_HEAD = ("cells", "phase", "op", "tier", "figure", "A", "B", "B/A")
_FINDINGS = {"same": "", "differs": "differs", "open": "not known that well"}
_SPANS = (
    "[Interval over rounds, all together with 97.5 % confidence], or (what the I/Os leave open within one "
    "round): how rounds differ from one another is known from --repeat alone."
)


def series_lines(series: Series, width: int) -> Iterator[str]:
    """The lines, with a table for each phase of each axis."""
    kind = f", {EMULATED}" if series.emulated else ""
    kind += ", QUICK: a part of its cells" if series.quick else ", a part of its cells" if series.only else ""
    skipped = [f"skipped: {each.phase} {each.name}: {each.reason}" for each in series.skipped]
    yield from prose([f"{verdict_name(series.verdict or 'unfinished').upper()}  {series.title}{kind}"], width)
    yield from prose([*series.reasons, *series.notes, *skipped], width, "- ")
    if forced := sync_table(series, references.forces_of_series(series.reference)):
        yield ""
        yield from sync_lines(forced, width)
    for batches in batches_of(series):
        yield ""
        yield from prose([batches.sentence], width)
    if roles := [*answers(series)]:
        yield ""
        yield from prose(roles, width)
    for axis in series.axes:
        for phase, cells in cells_of(series, axis):
            yield ""
            yield safe_text(f"{axis.name}: {phase}")
            rows = [row for cell, value in cells for row in _rows(series, cell, axis.name, value)]
            yield from TextTable(_HEAD, rows, _NUMBERS).lines(width, "  ")
        said = (*address_sentences(series, axis), *answering_sentences(series, axis))
        yield from prose(said, width, "- ")
    crossed = [cell for cell in series.cells if len(cell.at) > 1]
    if crossed:
        yield ""
        yield "crossed"
        rows = [row for cell in crossed for row in _rows(series, cell, None, f"{cell.phase} {cell.name}")]
        yield from TextTable(_HEAD, rows, _NUMBERS).lines(width, "  ")


def comparison_lines(result: ComparedSeries, width: int) -> Iterator[str]:
    """Two series, cell by cell (reports.series.compare)."""
    lab = f". {EMULATED}." if result.emulated else ""
    yield from prose([f"A: {result.a}, B: {result.b}{lab}"], width)
    yield from prose(result.conclusion, width, "- ")
    yield from prose([_SPANS], width)
    rows: list[Row | str] = []
    for (cell, phase, layer, op, tier), figures in itertools.groupby(result.rows, attrgetter(*_COMPARED)):
        rows.append(f"{cell}: {place(phase, layer, op, tier)}")
        for row in figures:
            values = (_value(row.figure, each) for each in (row.a, row.b))
            span = _span(row.ratio, row.interval, row.range, 3)
            found = row.excluded or _FINDINGS[row.finding] if row.finding else ONE_ROUND
            rows.append((f" {row.figure}", *values, span, found))
    yield from TextTable(("", "A", "B", "B/A", ""), rows, range(1, 4)).lines(width, "  ")
    differ = [row for row in result.ratios if row.finding == "differs"]
    if differ:
        yield ""
        yield "ratios to the base that differ"
        yield from TextTable(_RATIO_HEAD, list(map(_ratio_row, differ)), range(5, 8)).lines(width, "  ")
    only = {"A": ", ".join(result.only_a), "B": ", ".join(result.only_b)}
    yield from prose([f"only in {side}: {cells}" for side, cells in only.items() if cells], width, "- ")


def _value(figure: str, value: float) -> str:
    return commas(value) if figure == "ios_per_s" else format_latency(value)


def _ratio_row(row: ComparedRatio) -> tuple[str, ...]:
    beside = [f"{name}={value}" for name, value in row.beside.items()]
    cells = ", ".join([f"{row.axis}: {row.from_} to {row.to}", *beside])
    span = _span(row.ratio, row.interval, row.range, 3)
    values = (f"{each:.3f}" for each in (row.a, row.b))
    return (cells, row.phase, row.op, row.tier, row.figure, *values, span)


def _rows(series: Series, cell: SeriesCell, axis: str | None, value: str) -> Iterator[tuple[str, ...]]:
    """A line for each tier at the server; where it was not traced, what the clients saw."""
    rows = merged_rows(cell)
    rate = rate_of(cell)
    state = verdict_name(cell.verdict or "not measured") + " (known)" * cell.is_known
    state += f" ({cell.excluded})" if cell.excluded and cell.verdict != "unknown" else ""
    first = (value, commas(rate) if rate else "", state)
    ops = {row.op for row in rows}
    for row in rows:
        ratio = cell_ratio(series, cell, axis, row)
        yield (
            first[0], _tier(row, ops), commas(row.count), _latency(row.p50_us), _latency(row.p99_us),
            first[1], _ratio(ratio), first[2],
        )  # fmt: skip
        first = ("", "", "")
    if not rows:
        yield (value, "", "", "", "", "", "", state)


def _tier(row: CellRow, ops: Set[str]) -> str:
    """The tier, with the operation where a cell has several."""
    return tier_name(row.tier) + (f", {op_name(row.op)}" if len(ops) > 1 else "")


def _latency(value_us: float | None) -> str:
    return "n too small" if value_us is None else format_latency(value_us)


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else _span(ratio.ratio, ratio.interval, ratio.range, 2)


def _span(ratio: float, interval: Range | None, known: Range | None, digits: int) -> str:
    """The ratio with its interval over rounds, or else with what is open within one round."""
    left, right = "[]" if interval else "()"
    ends = interval or known
    between = f" {left}{ends[0]:.{digits}f}, {ends[1]:.{digits}f}{right}" if ends else ""
    if ends and is_too_wide(ends):
        between = " (not known)"
    return f"{ratio:.{digits}f}{between}"
