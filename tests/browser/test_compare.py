"""The page of a comparison in a real browser."""

import csv

import polars as pl
import pytest

from kit.store.latency import Latency
from reports.analysis import summary
from reports.comparison.compare import compare
from reports.page import comparison_page
from tests.browser.page import ATTACK, until, violations
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def sides():
    """Two runs of A and three of B, with hostile names: (manifest, latency) of each."""
    made = []
    for seeds in ((1, 2), (3, 4, 5)):
        runs = []
        for seed in seeds:
            frame = synthetic.realistic(20, 60, seed)
            manifest = synthetic.manifest(frame, 20)
            manifest["run"] = f"{seed}{ATTACK}"
            runs.append((synthetic.parsed(manifest), frame))
        made.append(runs)
    return made


def written(sides, path):
    """The page of a comparison of these runs."""
    summaries = [
        [summary.summarise(Latency.of(f), manifest, with_bands=False) for manifest, f in side]
        for side in sides
    ]
    result = compare(*summaries).model_copy(update={"across": {ATTACK: (ATTACK, "b")}})
    path.write_text(comparison_page.render(result, *sides), "utf-8")
    return path


@pytest.fixture(scope="module")
def path(sides, tmp_path_factory):
    """A comparison of all runs."""
    return written(sides, tmp_path_factory.mktemp("compare") / "page.html")


@pytest.mark.parametrize("width", [360, 1280])
def test_three_maps_a_phase_and_nothing_foreign(show, path, width):
    page = show(path, width)
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    maps = "p => p.data.filter(t => t.type === 'heatmap').length"
    assert page.evaluate(f"[...document.querySelectorAll('.plot')].map({maps})") == [3] * 6
    assert path.stat().st_size <= 1_100_000
    assert page.evaluate("window.hit") is None
    assert "no difference shown" in page.inner_text(".headline")


def test_a_layer_that_only_one_side_has_leaves_a_panel_empty(show, sides, tmp_path):
    clients = [(manifest, f.filter(pl.col("layer") == "client")) for manifest, f in sides[1]]
    page = show(written((sides[0], clients), tmp_path / "page.html"))
    names = page.evaluate(
        "document.querySelector('.plot').data.filter(t => t.type === 'heatmap').map(t => t.name)"
    )
    assert names == ["A", "B less A"]


def test_values_are_ios_per_run_and_their_difference(show, path, sides):
    page = show(path)
    maps = page.evaluate("""() => [...document.querySelectorAll(".plot")].map(plot =>
        [plot.ariaLabel, plot._fullData.filter(t => t.type === "heatmap")
            .map(t => t.customdata.flatMap(r => [...r]).reduce((sum, n) => sum + (n || 0), 0))])""")
    assert len(maps) == 6
    for title, (a, b, difference) in maps:
        phase, layer = title.split(": ")
        key = {"NFS server": "nfs-server", "clients": "client"}[layer]
        of = pl.col("phase").eq(phase.removeprefix("512 B ")) & pl.col("layer").eq(key)
        expected = [sum(f.filter(of)["count"].sum() for _, f in side) / len(side) for side in sides]
        assert [a, b] == pytest.approx(expected) and difference == pytest.approx(b - a, abs=1e-6)
    scales = page.evaluate(
        """[...document.querySelectorAll(".plot")].map(p =>
            p._fullData.filter(t => t.type === "heatmap").map(t => [t.zmin, t.zmax]))"""
    )
    for a, b, difference in scales:
        # One scale for both sides, one around zero for the difference.
        assert a == b and a[0] < a[1] and difference[0] == -difference[1] < 0


COLOURS = """() => {
  const layout = document.querySelector(".plot")._fullLayout, body = getComputedStyle(document.body);
  return [body.backgroundColor, body.color, layout.paper_bgcolor, layout.font.color];
}"""


def test_dark_where_the_system_is_dark_and_white_on_paper(show, path):
    page = show(path, color_scheme="dark")
    dark = ["rgb(13, 16, 20)", "rgb(228, 232, 236)", "#14181d", "#e4e8ec"]
    assert page.evaluate(COLOURS) == dark
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    until(page, "document.querySelector('.plot')._fullLayout.paper_bgcolor === '#fff'")
    assert page.evaluate(COLOURS) == ["rgb(255, 255, 255)", "rgb(34, 38, 43)", "#fff", "#22262b"]
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, "document.querySelector('.plot')._fullLayout.paper_bgcolor === '#14181d'")
    assert page.evaluate(COLOURS) == dark


def test_all_figures_are_saved_as_csv(show, path):
    page = show(path)
    page.locator("details.fold summary").first.click()
    with page.expect_download() as download:
        page.get_by_role("link", name="as CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text("utf-8").splitlines()))
    assert download.value.suggested_filename == "compare.csv"
    assert {(row["figure"], row["unit"]) for row in rows} >= {("p50", "us"), ("share", "1")}
    p50 = next(row for row in rows if (row["tier"], row["figure"]) == ("l2arc", "p50"))
    assert 140 < float(p50["a"]) < 170 and float(p50["ratio"]) == pytest.approx(
        float(p50["b"]) / float(p50["a"]), rel=0.01
    )
