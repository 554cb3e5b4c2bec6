"""The page of a series: a figure for each axis, thumbnails that lead to the runs, one table."""

from __future__ import annotations

import re
from pathlib import Path

import reports
from kit.core.text import NO_BREAK
from reports.figures.runs.series import figures
from tests.reports import synthetic_series as synthetic


def page(path: Path) -> str:
    reports.analyse_series(path, ended=True)
    return (path / "report.html").read_text()


def test_the_page_has_figure_thumbnails_sentence_and_table(tmp_path: Path) -> None:
    published = [
        {"to": "4k", "phase": "write-slog", "op": "write", "tier": "slog", "text": "a little slower"}
    ]
    axes = [{"name": "io-size", "keys": ["job.bs"], "kind": "build", "values": list(synthetic.SIZES),
             "published": published}]  # fmt: skip
    text = page(synthetic.series(tmp_path, axes=axes))
    assert text.count('src="data:image/png;base64,') == 3
    assert "512 to 4k: 1.50 times; published: a little slower." in text
    links = set(re.findall(r'href="\.\./([^"/]+)/report\.html', text))
    assert len(links) == 4 and all((tmp_path / "sizes" / link / "report.html").exists() for link in links)
    assert text.count("<tr><td>") == 4, "a row for each measurement"


def test_sizes_stand_at_their_number(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path))
    ((axis, phase, figure),) = figures(series)
    assert (axis.name, phase, figure.layout["xaxis"]["type"]) == ("io-size", "write-slog", "log")
    line = next(trace for trace in figure.data if trace["mode"] == "lines+markers")
    assert line["x"] == [512.0, 4096.0, 131072.0]
    assert all(reach > 0 for reach in line["error_y"]["array"])


def test_a_published_range_stands_beside_its_own_size_alone(tmp_path: Path) -> None:
    ((_, _, figure),) = figures(reports.analyse_series(synthetic.series(tmp_path)))
    assert [set(each["x"]) for each in figure.data if each["name"] == "published"] == [{512.0}]


def test_what_is_excluded_is_hollow(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path, (1, 1.5, 4, 1.3)))
    ((_, _, figure),) = figures(series)
    line = next(trace for trace in figure.data if trace["mode"] == "lines+markers")
    assert line["marker"]["symbol"] == ["circle-open"] * 3
    assert "drifted" in figure.caption


def test_foreign_text_has_no_markup(tmp_path: Path) -> None:
    text = page(synthetic.series(tmp_path, title="<script>alert(1)</script>"))
    assert "<script>alert(1)" not in text


def test_the_headline_is_the_largest_change_and_how_well_it_is_known(tmp_path: Path) -> None:
    alone, rounds = (synthetic.series(tmp_path / str(n), rounds=n) for n in (1, 2))
    pages = (page(path).replace(NO_BREAK, " ") for path in (alone, rounds))
    one, several = (re.findall(r'class="headline">(.*?)<', text)[0] for text in pages)
    begin = "p50 of synchronous writes is 600 µs at io-size 128k and 150 µs at 512: 4.00 times as long ("
    assert one.startswith(begin + "within this run: ") and several.startswith(begin + "95 %, over 2 rounds: ")
