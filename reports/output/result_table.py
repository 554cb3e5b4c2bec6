"""The result of a run as lines for a terminal: verdict, sentence, a line per tier with its latency."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from kit.core.table import LEAST_WIDTH, Row, TextTable
from kit.core.text import NO_BREAK, commas, prose
from kit.core.units import format_factor, format_latency_range
from kit.store.labels import EMULATED, tier_name
from kit.store.summary import Row as SummaryRow
from kit.store.summary import Summary
from reports.analysis import resource_use
from reports.analysis.answer import is_told
from reports.analysis.headline import Headline, HeadlineRow, matched
from reports.features.all import FEATURES
from reports.statistics.quantiles import percentile_text

_HEAD = ("", "I/Os", "p50", "p99", "95 % of I/Os", "published", "share", "against\nthe SSD")
_WITHHELD = "n too small"
_MOST_BANDS = 8


def result_lines(
    summary: Summary, headline: Headline, width: int, findings: Sequence[str] = (), told: Collection[str] = ()
) -> Iterator[str]:
    """The lines, at most `width` characters each, except for words that are longer.

    `told`: reasons that are printed elsewhere.
    """
    width = max(width, LEAST_WIDTH)
    yield from prose([_verdict(summary, headline), headline.sentence], width)
    reasons = [each for each in _reasons(summary) if each not in told]
    # What decides stands first, and has a mark of its own.
    fine = summary.state in ("valid", "imported")
    yield from prose(_besides(headline, reasons), width, "- " if fine else "x ")
    yield from prose(_besides(headline, summary.notes), width, "- ")
    if headline.lines:
        yield ""
        rows = list(_entries(summary, headline))
        yield from TextTable(_HEAD, rows, range(1, len(_HEAD)), spare=_HEAD.index("I/Os")).lines(width)
    if any(line.inside is not None for line in headline.lines) and summary.reference:
        yield from prose([f"published: {summary.reference.title}"], width)
    yield from prose((*headline.unpublished, *_by_counters(summary)), width)
    of_features = [line for feature in FEATURES for line in feature.lines(summary)]
    yield from prose(_besides(headline, of_features), width, "- ")
    yield from prose((*resource_use.sentences(summary.use), *findings), width, "! ")


def _besides(headline: Headline, sentences: Iterable[str]) -> list[str]:
    """Those that the headline does not tell."""
    return [each for each in sentences if each not in headline.sentence]


def _by_counters(summary: Summary) -> Iterator[str]:
    """Of a server that was not traced, the tiers by its counters."""
    for phase in summary.accounting.phases:
        if shares := phase.shares:
            for tier, count in shares.counts.items():
                yield f"{phase.phase}: {commas(count)} {shares.unit} from {tier_name(tier)}, by counters"


def _verdict(summary: Summary, headline: Headline) -> str:
    """Such as "VALID  7,304 of 7,304 I/Os matched, 36/36 checks, Emulated lab, ..."."""
    parts = [matched(summary) or f"{commas(sum(line.row.count for line in headline.lines))} I/Os"]
    count = summary.tally
    parts.append(f"{count.hold}/{count.made} checks")
    if headline.emulated:
        parts.append(EMULATED)
    if summary.length:
        parts.append(f"{summary.length} length: no result to publish")
    known = " (known)" if summary.is_known else ""
    return f"{summary.state.upper()}{known}  {', '.join(parts)}"


def _reasons(summary: Summary) -> Sequence[str]:
    """Why the verdict is what it is. The first line says all of a valid run, except for these two."""
    untold = summary.power_loss or any(each.ok is None for each in summary.expect)
    shown = summary.shown_reasons[is_told(summary) :]
    return shown if summary.verdict != "valid" or untold else summary.known_notes


def _entries(summary: Summary, headline: Headline) -> Iterator[Row | str]:
    layers = {line.row.layer for line in headline.lines}
    groups = itertools.groupby(headline.lines, lambda line: (line.row.phase, line.row.layer))
    for (_, layer), grouped in groups:
        lines = list(grouped)
        yield lines[0].phase + (f", {layer}" if len(layers) > 1 else "")
        ops = {line.row.op for line in lines}
        for line in lines:
            yield _cells(line, with_op=len(ops) > 1 or line.row.tier == "all")
            yield from _bands(summary, line)


def _cells(line: HeadlineRow, with_op: bool) -> tuple[str, ...]:
    row = line.row
    name = row.op if row.tier == "all" else f"{row.op} {line.name}" if with_op else line.name
    return (
        f" {name}", commas(row.count), _percentile(row, "p50"), _percentile(row, "p99"),
        _range(row.range_us), _range(row.published.range_us) if row.published else "",
        "" if line.inside is None else f"{100 * line.inside:.0f} %",
        format_factor(line.times_of[1], 2) if line.times_of else "",
    )  # fmt: skip


def _percentile(row: SummaryRow, name: str) -> str:
    return percentile_text(row, name).replace(" to ", "\N{EN DASH}") or _WITHHELD


def _range(range_us: Sequence[float]) -> str:
    return format_latency_range(*range_us).replace(" to ", "\N{EN DASH}")


def _bands(summary: Summary, line: HeadlineRow) -> Iterator[Row | str]:
    """The bands of I/Os whose tier is not known, under their row; none where there is only one."""
    row = line.row
    if row.tier != "all":
        return
    for entry in summary.bands:
        if (entry.phase, entry.layer, entry.op) == (row.phase, row.layer, row.op):
            bands = entry.bands if len(entry.bands) > 1 and not entry.levels else ()
            for number, band in enumerate(bands[:_MOST_BANDS], start=1):
                name = f"band {number} ({100 * band.share:.0f} %)".replace(" ", NO_BREAK)
                yield (f"  {name}", commas(band.count), "", "", _range(band.range_us), "", "", "")
            if len(bands) > _MOST_BANDS:
                yield (f"  {len(bands) - _MOST_BANDS} more bands", *[""] * (len(_HEAD) - 1))
