"""The page of a series in a real browser."""

import re

import pytest

import reports
from reports.page import series_comparison_page, series_page
from reports.series.compare import compare_series
from tests.browser.page import ATTACK, violations
from tests.reports import addresses
from tests.reports import synthetic_series as synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    series = synthetic.series(tmp_path_factory.mktemp("series"), title=ATTACK)
    reports.analyse_series(series, ended=True)
    return series / "report.html"


@pytest.mark.parametrize("width", [360, 1280])
def test_figures_and_table_fit_and_are_accessible(show, path, width):
    page = show(path, width)
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('.plot').data.some(t => t.mode === 'lines+markers')")
    assert page.evaluate("window.hit") is None


def test_units_stand_at_latencies_alone(show, path):
    """Plotly leaves out some units of a logarithmic axis; those that it gets belong nowhere else."""
    axes = "[d._fullLayout.yaxis, d._fullLayout.yaxis2]"
    labels = f"d => {axes}.map(a => a._vals.map(v => v.text).filter(Boolean))"
    latencies, rates = show(path).locator(".plot").first.evaluate(labels)
    assert len(latencies) > 3 and all(re.fullmatch(r"[0-9.]+[nµm]?s", text) for text in latencies)
    assert len(rates) > 1 and all(re.fullmatch(r"[0-9.]+k?", text) for text in rates)


def test_every_column_sorts_by_mouse_and_keyboard(show, path):
    page = show(path)
    column = "[...document.querySelectorAll('.sortable tbody tr')].map(r => Number(r.cells[5].dataset.sort))"
    head = page.locator(".sortable thead button", has_text="p50")
    head.click()
    assert page.evaluate(column) == sorted(page.evaluate(column))
    head.press("Enter")
    assert page.evaluate(column) == sorted(page.evaluate(column), reverse=True)
    assert page.locator(".sortable [aria-sort=descending]").count() == 1


def test_a_thumbnail_opens_the_report_of_its_cell(show, path):
    links = show(path).locator(".thumbs a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(links) == 3
    assert all((path.parent / link.split("#")[0]).is_file() for link in links)


@pytest.fixture(scope="module")
def along_addresses(tmp_path_factory):
    """Pages of three passes over a half filled SSD, and of two such series."""
    folder = tmp_path_factory.mktemp("addresses")
    a, b = (addresses.half_filled(rounds=3, identity=identity) for identity in ("aaaaaa", "bbbbbb"))
    (folder / "one.html").write_text(series_page.render(a, {}))
    across = {"versions.kernel": ("6.12", ATTACK)}
    two = series_comparison_page.render(compare_series(a, b), a, b, across)
    (folder / "two.html").write_text(two)
    return folder


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["one", "two"])
def test_figures_along_addresses_fit_and_are_accessible(show, along_addresses, name, width):
    page = show(along_addresses / f"{name}.html", width)
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.hit") is None
    figure = page.locator(".plot").first
    if name == "two":
        # One line of each figure, at 100 %.
        values = "d => d.data.filter(t => /p50$/.test(t.name)).map(t => t.y.map(y => y.toFixed(3)))"
        assert figure.evaluate(values) == [["1.000"] * 10] * 2
        assert "0 of 90 differ" in page.inner_text(".headline")
        return
    counts = "d => [d.layout.shapes.length, d.data.filter(t => t.mode === 'lines').length]"
    assert figure.evaluate(counts) == [2, 12]
    labels = "d => d._fullLayout.yaxis2._vals.map(v => v.text).filter(Boolean)"
    rates = figure.evaluate(labels)
    assert len(rates) > 2 and all(re.fullmatch(r"[0-9.]+[kMG]?B/s", text) for text in rates)
