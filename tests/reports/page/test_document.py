"""What every page of runs in the lab says in the same words, also on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import reports
from kit.store.labels import EMULATED
from kit.store.latency import Latency
from reports.analysis.summary import summarise
from reports.comparison.compare import compare
from reports.output import comparison_table, series_table, trend_table
from reports.page import comparison_page, filters, trend_page
from reports.trend.analyse import trend_of
from tests.reports import synthetic, synthetic_series
from tests.reports.trend.points import point

CHIP = f'<span class="lab">{EMULATED}</span>'
Said = tuple[str, str]


def of_comparison(folder: Path, emulated: bool) -> Said:
    frame, manifest = synthetic.latency(), synthetic.parsed(synthetic.manifest())
    found = compare(*[[summarise(Latency.of(frame), manifest, with_bands=False)]] * 2)
    result, side = found.model_copy(update={"emulated": emulated}), [(manifest, frame)]
    return comparison_page.render(result, side, side), lines(comparison_table.plain(result, 100))


def of_trend(folder: Path, emulated: bool) -> Said:
    trend = trend_of([point(1, emulated=emulated), point(2)])
    return trend_page.render(trend), lines(trend_table.plain(trend, 100))


def of_series(folder: Path, emulated: bool) -> Said:
    path = synthetic_series.series(folder, emulated=emulated)
    series = reports.analyse_series(path, ended=True)
    return (path / "report.html").read_text(), lines(series_table.series_lines(series, 100))


def lines(made: Iterator[str]) -> str:
    return " ".join(" ".join(made).split())


@pytest.mark.parametrize("made", [of_comparison, of_trend, of_series])
@pytest.mark.parametrize("emulated", [True, False])
def test_runs_of_the_lab_are_called_so_on_page_and_terminal(
    made: Callable[[Path, bool], Said], emulated: bool, tmp_path: Path
) -> None:
    page, text = made(tmp_path, emulated)
    assert (page.count(CHIP), text.count(EMULATED)) == ((1, 1) if emulated else (0, 0))


@pytest.mark.parametrize(
    "text", ['"; } body { x: y } a { content: "', "</style><b>", "\\22 ", "\n@import url(x)", "p99 5 ms"]
)
def test_text_in_css_cannot_end_its_string(text: str) -> None:
    assert not set(filters.css(text)) & set('"<>{}\n/@')
    # A browser takes one space after a number for its end: the space that follows stays.
    assert filters.css("a \N{MIDDLE DOT} b") == "a \\0000b7  b"
