"""A trend as text: for a terminal, as Markdown, as CSV, and as JUnit XML."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from kit.core.table import Row, TextTable
from kit.core.text import markdown_text, prose
from kit.store.labels import EMULATED, verdict_name
from reports.output.comparison_table import place
from reports.output.junit import add_outcome, case, document
from reports.trend.analyse import Trend
from reports.trend.sentences import headline, method, places, remarks, row_of, sentences, statement
from reports.trend.slower_limit import Gate, failed, left_open

_HEAD = ("phase", "layer", "op", "tier", "figure", "first", "last", "now/past", "told")
_CSV_HEAD = "run started_utc label phase layer op tier figure unit value low high used change_before".split()
_NAMES = {"ios_per_s": "I/O/s", "bytes_per_s": "MB/s"}


def plain(trend: Trend, width: int, *, all_: bool = False) -> Iterator[str]:
    """Lines for a terminal of `width` columns. `all_`: with the method."""
    yield from prose(filter(None, (trend.title, headline(trend), _lab(trend))), width)
    for each in places(trend):
        yield from prose([f"{each.title}:"], width)
        yield from prose(each.moves, width, "- ")
    yield from prose(remarks(trend), width, "- ")
    yield ""
    yield from TextTable(("", "", ""), list(_runs(trend))).lines(width)
    yield ""
    told = {row_of(line)[3] for line in trend.lines}
    common = told if len(told) == 1 and len(trend.lines) > 1 else set[str]()
    yield from prose((f"Of each figure: {words}." for words in common), width)
    rows: list[Row | str] = []
    for of, lines in itertools.groupby(trend.lines, lambda line: line.key[:4]):
        rows.append(place(*of))
        for line in lines:
            *cells, words = row_of(line)
            # What all lines say is said once.
            name = f" {_NAMES.get(line.key[4], line.key[4])}"
            rows.append((name, *cells, "" if words in common else words))
    yield from TextTable(("", *_HEAD[5:8], "changes"), rows, range(1, 4)).lines(width)
    if trend.checks:
        yield ""
        yield "Checks that failed:"
        yield from prose((f"{each.name}: {each.words}. {each.text}" for each in trend.checks), width, "- ")
    if all_:
        yield ""
        yield from prose([method(trend)], width)


def _lab(trend: Trend) -> str:
    return f"{EMULATED}." if trend.emulated else ""


def _runs(trend: Trend) -> Iterator[Row | str]:
    for at, (point, label) in enumerate(zip(trend.points, trend.labels, strict=True)):
        yield from (f"--- {mark}" for mark in trend.marks if mark.at == at)
        state = verdict_name(point.verdict or "not judged")
        yield (label, point.run, f"{state}{'' if point.trusted else ', not used'}")


def markdown(trend: Trend) -> str:
    """One document; foreign text has no markup."""
    lines = [markdown_text(trend.title), ""] if trend.title else []
    lines += [f"**{markdown_text(headline(trend))}**", "", _lab(trend), ""]
    lines += [*(f"- {markdown_text(text)}" for text in sentences(trend)), ""]
    figures: list[Row | str] = [(*line.key, *row_of(line)) for line in trend.lines]
    lines += [TextTable(_HEAD, figures, range(5, 8)).markdown()]
    if trend.checks:
        checks = [(each.name, each.words, each.text) for each in trend.checks]
        lines += [TextTable(("check", "history", "reason"), checks).markdown()]
    return "\n".join([*lines, markdown_text(method(trend))]) + "\n"


def table(trend: Trend) -> str:
    """CSV: a row for each figure and run; latencies in us, rates a second."""
    rows: list[Row | str] = []
    for line in trend.lines:
        changed = {change.at: change.ratio for change in line.changes or ()}
        for i, (point, label) in enumerate(zip(trend.points, trend.labels, strict=True)):
            each = line.values[i]
            if each is not None:
                values = (each.mean.value, *(each.mean.range or ("", "")), i in line.used, changed.get(i, ""))
                unit = line.key[4] if line.is_rate else "us"
                rows.append((point.run, point.started_utc, label, *line.key, unit, *values))
    return TextTable(_CSV_HEAD, rows).csv()


def junit(trend: Trend, gate: Gate | None) -> bytes:
    """A case for each figure, or for those that the gate is asked for, and for each check that ever failed.

    A figure fails where it is slower than the gate allows; it is skipped where that cannot be told. A check
    fails where it failed when it was last judged.
    """
    suite = ET.Element("testsuite", name="hsp trend")
    for line in trend.lines:
        phase, layer, op, tier, figure = line.key
        outcome = gate.at(line) if gate else None
        if gate and outcome is None:
            continue
        made = case(suite, f"trend.{phase}", f"{layer} {op}/{tier} {figure}")
        if gate and outcome == "fails":
            add_outcome(made, "failure", f"slower by more than {100 * gate.limit:g} %", [failed(line)])
        elif gate and outcome == "open":
            add_outcome(made, "skipped", left_open(trend, gate, line), [])
        elif outcome is None and line.best is None:
            add_outcome(made, "skipped", statement(line), [])
    for each in trend.checks:
        made = case(suite, "trend.checks", each.name)
        if each.failing:
            add_outcome(made, "failure", f"failed: {each.words}", [each.text])
        elif each.known:
            add_outcome(made, "skipped", f"a known failure: {each.words}", [each.text])
    return document(suite)
