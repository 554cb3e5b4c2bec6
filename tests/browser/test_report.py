"""The report in a real browser: Plotly draws it, it asks for nothing and runs no foreign text."""

import itertools
import re

import numpy as np
import polars as pl
import pytest

from kit.core.bins import bin_edges, bin_index
from tests.browser.page import (
    ATTACK,
    HERO,
    LINES,
    READ,
    at,
    figure,
    opened_wholly,
    plot,
    report_of,
    until,
)
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
# Ranges of latency in seconds: around each tier of the demo.
TIERS = [(128e-6, 260e-6), (2e-3, 10e-3), (0.0, 10e-6)]
FIGURES = "[...document.querySelectorAll('.plot')]"


def test_every_map_is_a_heat_map_of_plotly(opened, tmp_path):
    frame = synthetic.realistic()
    page = opened(synthetic.manifest(frame, 60), frame)
    kinds = dict(page.evaluate(f"{FIGURES}.map(p => [p.ariaLabel, p.data.map(t => t.type)])"))
    assert len(kinds) == 15
    assert {title for title, types in kinds.items() if "heatmap" not in types} == {
        f"512 B {phase}: percentiles over time" for phase in ("read", "write-slog", "write-pool")
    }
    assert kinds[READ].count("heatmap") == 3 and kinds[HERO].count("heatmap") == 5
    assert page.evaluate(f"{FIGURES}.flatMap(p => p.layout.images ?? [])") == []
    assert (tmp_path / "run" / "report.html").stat().st_size <= 1_100_000
    assert page.evaluate("document.querySelector('figure').getBoundingClientRect().bottom") <= 900


def test_numbers_with_units_on_the_axis_at_every_zoom(opened):
    page = opened(synthetic.manifest())
    titles = (HERO, READ, f"{READ}: disk", f"{READ}: clients")
    for title, (low, high) in itertools.product(titles, TIERS):
        if page.evaluate(f"{plot(title)}._fullLayout.yaxis.type") == "log":
            low, high = np.log10([max(low, 1e-8), high])
        page.evaluate(f"Plotly.relayout({plot(title)}, {{'yaxis.range': [{low}, {high}]}})")
        ticks = page.evaluate(f"[...{plot(title)}.querySelectorAll('.ytick text')].map(t => t.textContent)")
        with_unit = [tick for tick in ticks if re.fullmatch(r"[\d.]+\s?(n|µ|m)?s|0\s?s?", tick)]
        assert len(with_unit) >= 2, (title, ticks)
        wrong = [tick for tick in ticks if tick and not re.fullmatch(r"0|[\d.]+\s?[nµm]?s", tick)]
        assert wrong == [], title


def test_a_logarithmic_axis_has_labels_at_1_2_and_5_alone(opened):
    page = opened(synthetic.manifest())
    opened_wholly(page)
    for title in (HERO, READ, f"{READ}: clients"):
        ticks = page.evaluate(f"[...{plot(title)}.querySelectorAll('.ytick text')].map(t => t.textContent)")
        wrong = [each for each in ticks if not re.fullmatch(r"[125]0{0,2}[nµm]?s", each)]
        assert len(ticks) >= 2 and wrong == [], (title, ticks)


def test_the_buttons_of_plotly_lie_on_no_legend(opened):
    page = opened(synthetic.manifest(synthetic.realistic(), 60), synthetic.realistic())
    for title in (READ, "512 B write-slog"):
        page.mouse.move(*at(page, title, 30, 150e-6))
        hit = page.evaluate(f"""[...{plot(title)}.querySelectorAll('.legendtoggle')].map(item => {{
            const {{x, y, width, height}} = item.getBoundingClientRect();
            return Boolean(document.elementFromPoint(x + width / 2, y + height / 2)?.closest('.legend'));
        }})""")
        assert len(hit) >= 4 and all(hit)
        figure(page, title).locator(".legendtoggle").last.click()
        until(page, f"{plot(title)}._fullData.find(t => t.name === 'p99').visible === 'legendonly'")
    # In the first figure, too, where the menu of files is.
    page.mouse.move(*at(page, HERO, 30, 150e-6))
    boxes = [figure(page, HERO).locator(part).bounding_box() for part in (".modebar", "details.save")]
    assert boxes[0]["y"] > boxes[1]["y"] + boxes[1]["height"]


def test_drawn_counts_are_the_stored_ones(opened):
    frame = synthetic.realistic(30)
    page = opened(synthetic.manifest(frame, 30), frame)
    maps = f"{plot(READ)}._fullData.filter(t => t.type === 'heatmap')"
    sums = page.evaluate(
        f"{maps}.map(t => [t.name, t.customdata.flatMap(r => [...r]).reduce((a, b) => a + b)])"
    )
    stored = frame.filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    assert [count for _, count in sums] == [
        stored.filter(pl.col("tier") == tier)["count"].sum() for tier in ("dram", "l2arc", "disk")
    ]
    assert [name for name, _ in sums] == ["DRAM (ARC)", "SSD cache (L2ARC)", "disk"]


@pytest.mark.parametrize(("law", "title"), [("uniform", f"{READ}: SSD cache (L2ARC)"), ("log-uniform", READ)])
def test_an_even_input_shows_no_border_at_powers_of_two(opened, law, title):
    lo, hi = bin_edges(np.arange(bin_index(np.array([110_000]))[0], bin_index(np.array([900_000]))[0]))
    counts = np.round((hi - lo) / 40 if law == "uniform" else np.log2(hi / lo) * 4000).astype(int)
    rows = [
        (second * synthetic.SECOND, "read", "nfs-server", "lab", "read", "l2arc", int(a), int(b), int(n))
        for second in range(12)
        for a, b, n in zip(lo, hi, counts, strict=True)
    ]
    rest = synthetic.latency().filter(pl.col("phase") != "read")
    frame = pl.concat([synthetic.table(rows), rest])
    page = opened(synthetic.manifest(frame), frame)
    # The first and the last row of equal height are of the input in part.
    part = ".slice(1, -1)" if law == "uniform" else ""
    values = page.evaluate(f"""{plot(title)}._fullData.find(t => t.type === 'heatmap')
        .z{part}.flatMap(r => [...r].filter(v => !Number.isNaN(v)))""")
    assert len(values) > 200 and max(values) - min(values) < 0.03
    bars = page.evaluate(f"{plot(READ)}._fullData.find(t => t.meta?.rates).x")
    if law == "log-uniform":
        assert max(bars) / min(bars) < 1.03


def test_pointing_at_a_cell_tells_tier_time_latency_and_count(opened):
    page = opened(synthetic.manifest())
    page.mouse.move(*at(page, READ, 3.5, 141e-6))
    until(page, f"{plot(READ)}.querySelector('.hoverlayer').textContent")
    words = figure(page).locator(".hoverlayer").text_content()
    # 50 of 193 I/Os of this second; with those of DRAM 155.
    told = r"SSD cache \(L2ARC\): 50 I/O, 7\.07 ms waited" r"3 to 4 s, 139 µs to 143 µs"
    assert re.search(told + "25.9 % of the column, 80.3 % up to 143 µs", words), words


def test_nothing_recorded_is_grey_and_no_io_is_empty(opened):
    frame = synthetic.latency()
    frame = frame.filter(~pl.col("time_ns").is_between(4 * synthetic.SECOND, 6 * synthetic.SECOND))
    page = opened(synthetic.manifest(), frame)
    shapes = page.evaluate(f"{plot(READ)}.layout.shapes.filter(s => s.label)")
    assert [(s["x0"], s["x1"], s["label"]["text"]) for s in shapes] == [(4, 7, "no data")]
    empty = page.evaluate(f"{plot(READ)}._fullData[0].z.map(r => r[5])")
    assert empty and set(empty) <= {None} | {v for v in empty if v != v}


def test_what_is_above_a_linear_axis_is_a_triangle_inside_the_plot(opened):
    frame = synthetic.latency().with_columns(pl.col("count") * 9)
    slow = frame.filter((pl.col("tier") == "disk") & (pl.col("time_ns") == 3 * synthetic.SECOND)).head(1)
    edges = [
        pl.lit(edge, pl.Int64).alias(name) for name, edge in (("lo_ns", 335544320), ("hi_ns", 343932928))
    ]
    page_frame = pl.concat([frame, slow.with_columns(*edges, pl.lit(1, pl.Int64).alias("count"))])
    page = opened(synthetic.manifest(page_frame), page_frame)
    disk = f"{READ}: disk"
    rug = page.evaluate(
        f"(({{x, text}}) => [x, text])({plot(disk)}.data.find(t => t.name === 'above the axis'))"
    )
    assert rug == [[3.5], ["1 I/O, up to 344 ms"]]
    inside = page.locator(f"#{page.evaluate(plot(disk) + '.id')}")
    triangle, area = (
        inside.locator(part).first.bounding_box() for part in (".scatterlayer .point", ".nsewdrag")
    )
    assert area["y"] <= triangle["y"] and triangle["y"] + triangle["height"] <= area["y"] + area["height"]
    # A logarithmic axis has room for all.
    assert page.evaluate(f"10 ** {plot(READ)}._fullLayout.yaxis.range[1]") > 0.344


def test_events_and_faults(opened):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["events"] = [{"time_ns": n * synthetic.SECOND // 2, "end_ns": None, "kind": "fault",
                           "text": f"data0 stalls {n}"} for n in range(20)]  # fmt: skip
    manifest["events"].append({"time_ns": 104 * synthetic.SECOND, "end_ns": 106 * synthetic.SECOND,
                               "kind": "power-loss", "text": "log0"})  # fmt: skip
    manifest["phases"][0]["events"] = [{"time_ns": 0, "end_ns": None, "kind": "l2arc-feed", "text": ""}]
    page = opened(manifest, frame)
    script = ".data.filter(t => t.mode === 'lines' && t.text).map(t => [t.name, t])"
    first = dict(page.evaluate(plot(READ) + script))
    assert set(first) == {"fault", "L2ARC feed"}
    assert first["fault"]["text"][0] == "0.000 s: data0 stalls 0"
    # As long as the axis, though they are many.
    assert max(first["fault"]["y"][:2]) / min(first["fault"]["y"][:2]) > 100
    second = dict(page.evaluate(plot("512 B write-slog") + script))
    assert set(second) == {"power-loss"} and second["power-loss"]["text"][0] == "4.000 to 6.000 s: log0"


def test_keys_reach_everything_in_few_stops(opened):
    page = opened(synthetic.manifest())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.querySelector(document.activeElement.getAttribute('href')) !== null")
    seen = []
    while len(seen) < 80 and page.evaluate("document.activeElement !== document.body"):
        width, tag = page.evaluate(
            "[getComputedStyle(document.activeElement).outlineWidth, document.activeElement.tagName]"
        )
        assert width == "3px", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        seen.append(tag)
        page.keyboard.press("Tab")
    assert len(seen) < 80 and {"A", "INPUT", "SUMMARY", "DIV"} <= set(seen)
    nameless = """[...document.querySelectorAll("main button, main input")].filter(
        c => !(c.ariaLabel || c.textContent.trim() || c.closest("label")?.textContent.trim()))"""
    assert page.evaluate(f"{nameless}.length") == 0


def test_hostile_strings_are_inert(opened):
    manifest = synthetic.manifest()
    manifest["title"] = manifest["load"] = manifest["workload"] = manifest["run"] = ATTACK
    manifest["problems"] = synthetic.problems(ATTACK)
    manifest["command"] = [ATTACK]
    manifest["versions"] = {ATTACK: ATTACK}
    manifest["mount"] = {"options": ATTACK}
    manifest["tunables"] = [{"name": ATTACK, "before": ATTACK, "set": ATTACK}]
    manifest["testbed"]["devices"][0] |= {"name": ATTACK, "model": ATTACK, "path": ATTACK}
    for phase in manifest["phases"]:
        phase["title"] = phase["job"] = ATTACK
        phase["events"] = [{"time_ns": phase["start_ns"], "end_ns": None, "kind": ATTACK, "text": ATTACK}]
        phase["checks"][0] |= {"name": ATTACK, "source": ATTACK}
    page = opened(manifest)
    opened_wholly(page)
    page.locator("#figure-1").hover()
    assert page.evaluate("window.hit") is None
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.locator("img:not([src^='data:image/'])").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert page.locator("body").inner_text().count("onerror") > 5


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_screen(opened, width):
    manifest = synthetic.manifest()
    manifest["mount"]["options"] = "rw," + "x" * 400
    manifest["problems"] = synthetic.problems("y" * 300)
    page = opened(manifest, width=width)
    opened_wholly(page)
    assert page.evaluate("[document.documentElement, document.body].map(e => e.scrollWidth)") <= [width] * 2
    wide = f"{FIGURES}.filter(p => p.querySelector('.main-svg').getBoundingClientRect().right > {width})"
    assert page.evaluate(f"{wide}.length") == 0


def test_no_button_sends_anything_away(opened):
    page = opened(synthetic.manifest())
    titles = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    allowed = {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Box Select"}
    assert titles and set(titles) <= allowed
    assert set(page.evaluate(f"{FIGURES}.map(p => p._context.plotlyServerURL)")) == {""}
    # Nor does a link lead out of the page.
    links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)


def test_without_scripts_the_first_screen_is_pictures_and_all_tables_stay(browser, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report_of(tmp_path, synthetic.manifest()).as_uri())
    text = page.locator("body").inner_text()
    assert "JavaScript is off" in text and "Drawing" not in text
    pictures, words = page.locator(".hero img"), page.locator(".cards li")
    assert (pictures.count(), words.count()) == (3, 5)
    assert pictures.first.is_visible() and words.first.is_visible()
    assert page.locator("table tbody tr").count() > 5 and LINES.split(":")[0] in page.inner_text("body")
    context.close()
