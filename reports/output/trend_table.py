"""A trend as text: for a terminal, as Markdown, as CSV, and as JUnit XML."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from kit.core.text import safe_text
from reports.analysis.tier_names import tier_name
from reports.output.comparison_table import escaped
from reports.output.export import csv_text
from reports.output.junit import add_outcome, case, document
from reports.output.result_table import PROSE_WIDTH, wrapped
from reports.trend.analyse import Trend
from reports.trend.sentences import (
    LAYERS,
    change_sentence,
    headline,
    method,
    places,
    remarks,
    row_of,
    sentences,
    statement,
)

_HEAD = ("phase", "layer", "op", "tier", "figure", "first", "last", "last/first", "change points")
_NAMES = {"ios_per_s": "I/O/s", "bytes_per_s": "MB/s"}


def plain(trend: Trend, width: int) -> Iterator[str]:
    """Lines for a terminal of `width` columns."""
    prose = min(width, PROSE_WIDTH)
    if trend.title:
        yield from wrapped(safe_text(trend.title), prose)
    yield from wrapped(safe_text(headline(trend)), prose)
    for place in places(trend):
        yield from wrapped(safe_text(f"{place.title}:"), prose)
        for text in place.moves:
            yield from wrapped(safe_text(text), prose, "- ")
    for text in remarks(trend):
        yield from wrapped(safe_text(text), prose, "- ")
    yield ""
    yield from _runs(trend, width)
    yield ""
    group = None
    for line in trend.lines:
        phase, layer, op, tier, figure = line.key
        of = "" if tier == "all" else f" {tier_name(tier)}"
        if group != (group := f"{phase}, {LAYERS.get(layer, layer)}: {op}{of}"):
            yield from wrapped(safe_text(group), width)
        first, last, ratio, words = row_of(line)
        text = f"{_NAMES.get(figure, figure)}: {first} to {last}, {ratio}; {words}"
        yield from wrapped(text, width, "  ")
    if trend.checks:
        yield ""
        yield "Checks that failed:"
        for each in trend.checks:
            yield from wrapped(safe_text(f"{each.name}: {each.words}. {each.text}"), prose, "- ")
    yield ""
    yield from wrapped(method(trend), prose)


def _runs(trend: Trend, width: int) -> Iterator[str]:
    for at, (point, label) in enumerate(zip(trend.points, trend.labels, strict=True)):
        for mark in trend.marks:
            if mark.at == at:
                yield from wrapped(safe_text(f"--- {mark}"), width)
        text = f"{label}  {point.run}  {point.verdict or 'not judged'}{'' if point.trusted else ', not used'}"
        yield from wrapped(safe_text(text), width)


def markdown(trend: Trend) -> str:
    """One document; foreign text has no markup."""
    lines = [escaped(trend.title), ""] if trend.title else []
    lines += [f"**{escaped(headline(trend))}**", "", *(f"- {escaped(text)}" for text in sentences(trend)), ""]
    lines += [_line(_HEAD), _line(["---"] * 5 + ["---:"] * 3 + ["---"])]
    lines += [_line([escaped(text) for text in (*line.key, *row_of(line))]) for line in trend.lines]
    if trend.checks:
        lines += ["", _line(("check", "history", "reason")), _line(["---"] * 3)]
        lines += [_line([escaped(t) for t in (each.name, each.words, each.text)]) for each in trend.checks]
    return "\n".join([*lines, "", escaped(method(trend))]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(trend: Trend) -> str:
    """CSV: a row for each figure and run; latencies in us, rates a second."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("run", "started_utc", "label", "phase", "layer", "op", "tier", "figure", "value", "low", "high",
         "used", "change_before")
    )  # fmt: skip
    for line in trend.lines:
        changed = {change.at: change.ratio for change in line.changes or ()}
        for i, (point, label) in enumerate(zip(trend.points, trend.labels, strict=True)):
            each = line.values[i]
            if each is not None:
                low, high = each.mean.range or ("", "")
                texts = map(csv_text, (point.run, point.started_utc, label, *line.key))
                writer.writerow((*texts, each.mean.value, low, high, i in line.used, changed.get(i, "")))
    return text.getvalue()


def junit(trend: Trend, limit: float | None) -> bytes:
    """A case for each figure and for each check that ever failed.

    A figure fails where a change point made it slower by more than `limit`, and it is not back; it is skipped
    where the runs are too few. A check fails where it failed when it was last judged.
    """
    suite = ET.Element("testsuite", name="hsp trend")
    worse = trend.worse_than(limit) if limit is not None else []
    for line in trend.lines:
        phase, layer, op, tier, figure = line.key
        made = case(suite, f"trend.{phase}", f"{layer} {op}/{tier} {figure}")
        texts = [change_sentence(trend, each, change) for each, change in worse if each is line]
        if texts:
            add_outcome(made, "failure", f"slower by more than {100 * (limit or 0):g} %", texts)
        elif line.changes is None:
            add_outcome(made, "skipped", statement(line), [])
    for each in trend.checks:
        made = case(suite, "trend.checks", each.name)
        if each.failing:
            add_outcome(made, "failure", f"failed: {each.words}", [each.text])
        elif each.known:
            add_outcome(made, "skipped", f"a known failure: {each.words}", [each.text])
    return document(suite)
