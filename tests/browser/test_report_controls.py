"""What a figure of the report is saved as, and how it shows that nothing was recorded."""

import csv
import io

import polars as pl
import pytest

from reports.statistics.quantiles import percentile_ns
from tests.browser.page import figure, number_of, picture, saved, saved_rows
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FORMULA = "=cmd|' /C calc'!A0"
LINES = "512 B read: percentiles over time"


@pytest.mark.parametrize(("kind", "start"), [("PNG", b"\x89PNG"), ("SVG", b"<svg")])
def test_pictures_are_saved_by_a_button(opened, kind, start):
    page = opened(synthetic.manifest())
    content = saved(page, "512 B read: NFS server", kind)
    assert content.startswith(start) and len(content) > 2000


def test_percentile_lines_are_saved_as_they_are_drawn(opened):
    # 1 I/O per bin in the 5th second: too few for a p95.
    few = (pl.col("time_ns") // synthetic.SECOND == 4) & (pl.col("phase") == "read")
    frame = synthetic.latency().with_columns(
        pl.when(few).then(1).otherwise(pl.col("count") * 9).alias("count")
    )
    page = opened(synthetic.manifest(frame), frame)
    figure(page, LINES).locator("select").first.select_option("1")
    rows = saved_rows(page, LINES)
    assert [(float(r["from_s"]), float(r["to_s"])) for r in rows] == [(n, n + 1) for n in range(12)]
    assert [n for n, r in enumerate(rows) if not r["p95_us"]] == [4]
    target = number_of(page, LINES)
    drawn = page.evaluate(
        "id => document.getElementById(id).data.find(t => t.name === 'p95').y.filter((_, n) => n % 2 === 0)",
        target,
    )
    assert [float(r["p95_us"]) if r["p95_us"] else None for r in rows] == drawn
    # The page's percentiles are the summary's.
    seen = frame.filter(pl.col("phase") == "read", pl.col("layer") == "nfs-server")
    for second, value in enumerate(drawn):
        rows = seen.filter(pl.col("time_ns") // synthetic.SECOND == second)
        held = rows.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
        expected = percentile_ns(held, 0.95, (held[0][0], held[-1][1]))
        assert value == (None if expected is None else pytest.approx(expected / 1e3, rel=1e-6))


def test_a_formula_is_inert_in_every_csv(opened):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["phases"][0] |= {"name": FORMULA, "title": FORMULA}
    frame = frame.with_columns(pl.col("phase").replace("read", FORMULA))
    page = opened(manifest, frame)
    # What the buttons save; a browser lets a page save only a few files in a row.
    texts = page.evaluate("""() => {
        const texts = [];
        HTMLAnchorElement.prototype.click = () => {};
        URL.createObjectURL = blob => { texts.push(blob.text()); return "data:,"; };
        for (const button of document.querySelectorAll("button[aria-label^='Save as CSV']")) button.click();
        return Promise.all(texts);
    }""")
    assert len(texts) == 15
    cells = [c for text in texts for row in csv.reader(io.StringIO(text, newline="")) for c in row]
    assert sum("cmd" in c for c in cells) > 15
    assert [c for c in cells if c.lstrip()[:1] in tuple("=+-@")] == []


def test_nothing_recorded_is_grey_and_no_io_is_empty(opened):
    frame = synthetic.latency()
    frame = frame.filter(~pl.col("time_ns").is_between(4 * synthetic.SECOND, 6 * synthetic.SECOND))
    page = opened(synthetic.manifest(), frame)
    colours = """source => new Promise(done => {
        const image = new Image();
        image.onload = () => {
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.width, image.height];
            const context = canvas.getContext("2d", {willReadFrequently: true});
            context.drawImage(image, 0, 0);
            done([5, 8.5].map(s => [...context.getImageData(image.width * s / 12, 20, 1, 1).data]));
        };
        image.src = source;
    })"""
    gap, zero = page.evaluate(colours, picture(page))
    assert gap == [0xCF, 0xD4, 0xDA, 255] and zero[3] == 0
