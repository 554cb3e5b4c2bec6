"""The report in a real browser: it draws everything, asks for nothing and runs no foreign text."""

import polars as pl
import pytest

from tests.browser.page import ATTACK, changed, figure, number_of, picture, saved_rows, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_every_figure_is_drawn(opened):
    page = opened(synthetic.manifest())
    assert page.evaluate("window.drawn") == 15
    images = page.locator(".plot .imagelayer image")
    assert images.count() == 14
    for image in images.all():
        box = image.bounding_box()
        assert box and box["width"] > 100 and box["height"] > 100
        assert image.evaluate("i => i.href.baseVal").startswith("data:image/png")
    assert page.locator("#verdict").inner_text().startswith("Verdict: valid")
    titles = page.locator(".plot .gtitle").all_text_contents()
    assert len(titles) == 15 and all("Closed loop, 1 outstanding" in t for t in titles)


def test_tiers_colours_and_axis(opened):
    frame = synthetic.realistic()
    page = opened(synthetic.manifest(frame, 60), frame)
    title = "512 B read: NFS server"
    target = number_of(page, title)
    table = figure(page).locator("details.range tbody")
    assert table.locator("tr").count() == 4
    before = picture(page)
    figure(page).get_by_label("disk").focus()
    page.keyboard.press("Space")
    changed(page, title, before)
    assert table.locator("th").all_text_contents() == ["dram", "l2arc", "all shown"]
    before = picture(page)
    figure(page).get_by_label("by colour").check()
    changed(page, title, before)
    until(page, f"document.querySelectorAll('#{target} .legendtext').length === 2")
    assert page.locator(f"#{target} .legendtext").all_text_contents() == ["dram", "l2arc"]
    before = picture(page)
    figure(page).get_by_label("latency").select_option("linear")
    changed(page, title, before)
    assert page.evaluate(f"document.getElementById('{target}')._fullLayout.yaxis.type") == "linear"
    for tier in ("dram", "l2arc"):
        figure(page).get_by_label(tier).uncheck()
    until(page, f"document.getElementById('{target}').state.tiers.size === 0")
    assert table.locator("tr").count() == 0
    figure(page).get_by_label("dram").check()
    for name in ("colour-blind safe", "dark"):
        before = picture(page, "512 B read: clients")
        page.get_by_label(name).check()
        changed(page, "512 B read: clients", before)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 20)"


def test_cells_are_the_stored_counts(opened):
    frame = synthetic.realistic(30)
    page = opened(synthetic.manifest(frame, 30), frame)
    stored = frame.filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    script = """id => {
        const cells = document.getElementById(id).state.cells, found = [];
        for (const [tier, {row, count, starts}] of cells.tiers)
            for (let c = 0; c < cells.columns; c++)
                for (let n = starts[c]; n < starts[c + 1]; n++)
                    found.push([tier, c, Math.round(cells.edges_us[row[n]] * 1000), count[n]]);
        return found;
    }"""
    drawn = page.evaluate(script, number_of(page, "512 B read: NFS server"))
    expected = stored.select("tier", pl.col("time_ns") // synthetic.SECOND, "lo_ns", "count").rows()
    assert sorted(map(tuple, drawn)) == sorted(expected)


def test_a_range_recomputes_table_and_histogram(opened):
    frame = synthetic.realistic()
    page = opened(synthetic.manifest(frame, 60), frame)
    target = number_of(page, "512 B read: NFS server")
    panel = figure(page).locator("details.range")
    panel.locator("summary").focus()
    page.keyboard.press("Enter")
    for number, value in enumerate(("10", "20")):
        panel.locator("input").nth(number).fill(value)
        page.keyboard.press("Tab")
    until(page, f"document.getElementById('{target}').state.range?.join() === '10,20'")
    mine = frame.filter(
        (pl.col("phase") == "read") & (pl.col("layer") == "nfs-server")
        & pl.col("time_ns").is_between(10 * synthetic.SECOND, 20 * synthetic.SECOND, closed="left")
    )  # fmt: skip
    cells = panel.locator("tbody tr").last.locator("td").all_text_contents()
    assert int(cells[0]) == mine["count"].sum()
    until(page, f"document.getElementById('{target}').layout.shapes.length === 1")
    rate = page.evaluate(f"document.getElementById('{target}').data[0].x.reduce((a, b) => a + b)")
    assert rate == pytest.approx(mine["count"].sum() / 10)
    panel.get_by_role("button", name="Whole phase").click()
    until(page, f"document.getElementById('{target}').layout.shapes.length === 0")
    page.evaluate("id => document.getElementById(id).scrollIntoView()", target)
    script = """id => {
        const plot = document.getElementById(id), box = plot.getBoundingClientRect();
        const {xaxis2: x, yaxis: y} = plot._fullLayout, top = box.y + y._offset;
        return [box.x + x._offset + x.l2p(30.2), box.x + x._offset + x.l2p(39.8), top + 60, top + 200];
    }"""
    left, right, top, bottom = page.evaluate(script, target)
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move((left + right) / 2, bottom)
    page.mouse.move(right, bottom)
    page.mouse.up()
    until(page, f"document.getElementById('{target}').state.range !== null")
    until(page, f"document.getElementById('{target}').layout.shapes.length === 1")
    assert panel.locator("summary").inner_text().startswith("Selected: 30 to 40 s")


def test_percentiles_events_and_gaps(opened):
    frame = synthetic.realistic()
    manifest = synthetic.manifest(frame, 60)
    gap = (pl.col("time_ns") >= 20 * synthetic.SECOND) & (pl.col("time_ns") < 24 * synthetic.SECOND)
    frame = frame.filter(~(gap & (pl.col("phase") == "read")))
    manifest["phases"][0]["events"] = [
        {"time_ns": 5 * synthetic.SECOND, "end_ns": None, "kind": "txg", "text": "txg 5"},
        {"time_ns": 6 * synthetic.SECOND, "end_ns": 9 * synthetic.SECOND, "kind": ATTACK, "text": ATTACK},
    ]  # fmt: skip
    page = opened(manifest, frame)
    target = number_of(page, "512 B read: percentiles over time")
    script = """id => Object.fromEntries(document.getElementById(id).data.map(t =>
        [t.name ?? "", t.y.map((v, n) => [t.x[n], v])]))"""
    whole = page.evaluate(script, target)
    figure(page, "512 B read: percentiles over time").locator("select").first.select_option("1")
    until(page, f"document.getElementById('{target}').data.find(t => t.name === 'p50').x.length === 120")
    single = page.evaluate(script, target)
    assert any(v is not None for _, v in whole["p99"])
    assert all(v is None for _, v in single["p99"])
    assert [x for x, v in single["p50"] if v is None] == [20, 21, 21, 22, 22, 23, 23, 24]
    text = page.locator(f"#{target} .legendtext").all_text_contents()
    assert "nothing recorded" in text and "txg sync" in text and len(text) == 6
    figure(page, "512 B read: percentiles over time").get_by_label("events").uncheck()
    until(page, f"!document.getElementById('{target}').data.some(t => t.name === 'txg sync')")
    assert page.evaluate("window.hit") is None


def test_pointing_at_a_cell_tells_time_range_and_count(opened):
    frame = synthetic.latency()
    page = opened(synthetic.manifest(frame), frame)
    target = number_of(page, "512 B read: l2arc, linear")
    page.locator(f"#{target}").scroll_into_view_if_needed()
    script = """id => {
        const plot = document.getElementById(id), box = plot.getBoundingClientRect();
        const {xaxis2: x, yaxis: y} = plot._fullLayout;
        return [box.x + x._offset + x.l2p(3.5), box.y + y._offset + y.l2p(141)];
    }"""
    page.mouse.move(*page.evaluate(script, target))
    page.wait_for_selector("#tip:not([hidden])")
    assert page.locator("#tip").inner_text() == "3 to 4 s, 139.3 µs to 143.4 µs: 50 I/O, l2arc"
    page.mouse.move(2, 2)
    page.wait_for_selector("#tip", state="hidden")


def test_the_counts_of_a_figure_are_saved_and_inert(opened):
    manifest = synthetic.manifest()
    manifest["phases"][0]["title"] = '=HYPERLINK("http://x")'
    page = opened(manifest)
    rows = saved_rows(page, page.locator("figure.map .plot").first.get_attribute("aria-label"))
    assert {r["tier"] for r in rows} == {"dram", "l2arc", "disk"}
    assert sum(int(r["count"]) for r in rows) == 12 * (40 + 60 + 5 + 50 + 5 + 30 + 3)
    assert not [v for r in rows for v in r.values() if v[:1] in "=+-@\t\r"]


def test_printed_in_light_on_its_pages(opened):
    page = opened(synthetic.manifest())
    page.get_by_label("dark").check()
    assert page.pdf()[:5] == b"%PDF-"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    until(page, "[...document.querySelectorAll('.plot')].every(p => p._fullLayout.width === 980)")
    assert page.evaluate("document.querySelector('.plot')._fullLayout.paper_bgcolor") == "#ffffff"
    page.emulate_media(media="print")
    assert not page.locator(".controls").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_controls_are_named_and_show_where_the_focus_is(opened):
    page = opened(synthetic.manifest())
    nameless = """[...document.querySelectorAll("main button, main input, main select")].filter(
        c => !(c.ariaLabel || c.textContent.trim() || c.closest("label")?.textContent.trim()))"""
    assert page.evaluate(nameless) == []
    page.locator("nav a").last.focus()
    seen = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.tagName"))
        width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert width == "3px", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    assert {"INPUT", "BUTTON"} <= seen


def test_a_figure_can_be_saved_under_the_policy(opened):
    page = opened(synthetic.manifest())
    script = "Plotly.toImage(document.getElementById('figure-1'), {format: 'png'})"
    assert page.evaluate(script).startswith("data:image/png;base64,")


def test_hostile_strings_are_inert(opened):
    manifest = synthetic.manifest()
    manifest["title"] = manifest["load"] = manifest["workload"] = manifest["run"] = ATTACK
    manifest["problems"] = [ATTACK]
    manifest["command"] = [ATTACK]
    manifest["versions"] = {ATTACK: ATTACK}
    manifest["mount"] = {"options": ATTACK}
    manifest["tunables"] = [{"name": ATTACK, "before": ATTACK, "set": ATTACK}]
    manifest["testbed"]["devices"][0] |= {"name": ATTACK, "model": ATTACK, "path": ATTACK}
    for phase in manifest["phases"]:
        phase["title"] = phase["job"] = ATTACK
        phase["events"] = [{"time_ns": phase["start_ns"], "end_ns": None, "kind": ATTACK, "text": ATTACK}]
        phase["checks"][0] |= {"name": ATTACK, "source": ATTACK}
        phase["expected_tiers"] = [*phase["expected_tiers"], ATTACK]
    page = opened(manifest)
    page.locator("#figure-1").hover()
    page.get_by_label("by colour").first.check()
    assert page.evaluate("window.hit") is None
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert page.locator("body").inner_text().count("onerror") > 5


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_horizontal_overflow(opened, width):
    manifest = synthetic.manifest()
    manifest["mount"]["options"] = "rw," + "x" * 400
    manifest["problems"] = ["y" * 300]
    page = opened(manifest, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width


def test_unknown_is_written_on_the_maps(opened):
    manifest = synthetic.manifest()
    manifest["problems"] = ["the server rebooted"]
    page = opened(manifest)
    titles = page.locator(".plot .gtitle").all_text_contents()
    assert sum("verdict unknown" in t for t in titles) == len(titles) - 1 == 14


def test_no_button_sends_anything_away(opened):
    page = opened(synthetic.manifest())
    titles = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    allowed = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes",
               "Box Select"}  # fmt: skip
    assert titles and set(titles) <= allowed
    contexts = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p._context.plotlyServerURL)")
    assert set(contexts) == {""}
    # Nor does a link lead out of the page.
    assert all(
        h.startswith("#") for h in page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    )
