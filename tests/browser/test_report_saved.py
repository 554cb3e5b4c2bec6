"""What a figure is saved as stands alone; what is printed does."""

import csv
import io
import re

import polars as pl
import pytest

from tests.browser.page import HERO, LINES, READ, figure, opened_wholly, plot, saved, saved_rows, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FORMULA = "=cmd|' /C calc'!A0"
DISK = f"{READ}: disk"
# Title, run, verdict, tiers with their published ranges, version, and whose hardware it was.
STAMP = ["20261121T053000Z-ab12cd", "verdict: valid", "Emulated lab, not your hardware", "hsp 0.1.0",
         "SSD cache (L2ARC) p50 142", "128 to 260 µs"]  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_svg_is_vectors_and_stands_alone(opened, theme):
    page = opened(synthetic.manifest(), color_scheme=theme)
    opened_wholly(page)
    for title in (HERO, READ, DISK, LINES, f"{READ}: clients"):
        name, content = saved(page, title, "SVG")
        text = content.decode()
        words = re.sub(r"<[^>]+>", " ", text)
        assert content.startswith(b"<svg") and name.endswith(".svg") and "<image" not in text
        assert [word for word in [title, *STAMP] if word not in words] == []
        # Cells are polygons in the colours of the page.
        assert text.count("<path") > 20
        assert ("rgb(20, 24, 29)" in text) == (theme == "dark")


def test_png_is_a_picture_with_room_for_its_stamp(opened):
    page = opened(synthetic.manifest())
    name, content = saved(page, READ, "PNG")
    assert (
        content.startswith(b"\x89PNG")
        and name == "20261121t053000z-ab12cd-512-b-read.png"
        and len(content) > 20_000
    )
    width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
    shown = page.evaluate(f"{plot(READ)}.clientHeight")
    assert width >= 1800 and height > 2 * (shown + 60)


def test_csv_has_a_stamp_and_the_counts_of_what_is_selected(opened):
    frame = synthetic.realistic()
    page = opened(synthetic.manifest(frame, 60), frame)
    mine = frame.filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    assert sum(int(r["count"]) for r in saved_rows(page, READ)) == mine["count"].sum()
    page.evaluate("location.hash = '#read:10-20'")
    until(page, f"{plot(READ)}.layout.shapes.some(s => s.x0 === 10)")
    name, content = saved(page, DISK, "CSV")
    head = [row for row in content.decode("utf-8-sig").splitlines() if row.startswith("#")]
    assert name == "20261121t053000z-ab12cd-512-b-read-disk-10-20-s.csv" and head[0].endswith(
        "selected 10 to 20 s"
    )
    assert [word for word in [DISK, *STAMP[:4], *STAMP[5:]] if word not in " ".join(head)] == []
    rows = saved_rows(page, DISK)
    inside = mine.filter(
        pl.col("time_ns").is_between(10 * synthetic.SECOND, 20 * synthetic.SECOND, closed="left")
    )
    assert sum(int(r["count"]) for r in rows) == inside.filter(pl.col("tier") == "disk")["count"].sum()
    assert {r["tier"] for r in rows} == {"disk"} and {float(r["from_s"]) for r in rows} == set(range(10, 20))
    assert {"tier", "p50_us", "share_inside"} <= set(saved_rows(page, HERO)[0])


def test_percentile_lines_are_saved_as_they_are_drawn(opened):
    page = opened(synthetic.manifest())
    opened_wholly(page)
    rows = [r for r in saved_rows(page, LINES) if r["line"] == "disk p50"]
    drawn = page.evaluate(f"(t => [t.x, t.y])({plot(LINES)}.data.find(t => t.name === 'disk p50'))")
    assert [float(r["time_s"]) for r in rows] == drawn[0]
    assert [float(r["latency_us"]) for r in rows] == pytest.approx([y * 1e6 for y in drawn[1]], rel=1e-4)


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
    assert [c for c in cells if c.lstrip("\ufeff ")[:1] in tuple("=+-@")] == []


def test_print_is_light_a_few_pages_and_the_first_is_complete(opened):
    page = opened(synthetic.manifest(), color_scheme="dark")
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
    assert 3 < len(pages) <= 10
    # A4 without its margins, in CSS pixels.
    page.set_viewport_size({"width": 1039, "height": 710})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(500)
    assert set(page.evaluate("[...document.querySelectorAll('.plot')].map(p => p._fullLayout.width)")) == {
        980
    }
    assert page.evaluate(f"{plot(HERO)}._fullLayout.paper_bgcolor") == "#fff"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert figure(page, HERO).bounding_box()["y"] + figure(page, HERO).bounding_box()["height"] <= 710
    tops = [page.locator(part).bounding_box()["y"] for part in (".headline", "#verdict")]
    assert max(tops) < figure(page, HERO).bounding_box()["y"]
    assert not page.locator(".controls").first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, f"{plot(LINES)}._fullLayout.paper_bgcolor === '#14181d'")
    assert page.evaluate(f"{plot(READ)}._fullLayout.width") != 980


def test_what_is_opened_is_printed(opened):
    page = opened(synthetic.manifest())
    before = len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
    opened_wholly(page)
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) > before
