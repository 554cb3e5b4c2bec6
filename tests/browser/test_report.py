"""The report in a real browser: it draws everything, asks for nothing and runs no foreign text."""

import shutil

import polars as pl
import pytest

import reports

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
ATTACK = (
    "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
    "<a href='javascript:hit=1'>{{7*7}}"
)
READY = "window.drawn === document.querySelectorAll('script[type=\"application/json\"]').length"


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium")
    if not found:
        pytest.fail("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


def until(page, script):
    """Wait for `script` to be true. Playwright's own way to wait needs eval, which the page refuses."""
    for _ in range(900):
        if page.evaluate(script):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {script}")


@pytest.fixture
def opened(browser, synthetic, tmp_path):
    """Opens the report of a manifest; at the end of the test nothing may have gone wrong in it."""
    contexts, wrong = [], []

    def show(manifest, frame=None, width=1280):
        run = synthetic.write(tmp_path / "run", manifest, synthetic.latency() if frame is None else frame)
        reports.analyse(run)
        address = reports.draw(run).as_uri()
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(f"console: {m.type}: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on("request", lambda r: wrong.append(f"request: {r.url}") if r.url != address else None)
        page.goto(address)
        until(page, READY)
        return page

    yield show
    for context in contexts:
        context.close()
    # The browser paints heat maps as images that are part of the page.
    assert [w for w in wrong if not w.startswith(("request: data:", "request: blob:"))] == []


def shown(page, figure):
    """The names of the traces of a figure that are visible."""
    script = "id => document.getElementById(id).data.filter(t => t.visible !== false).map(t => t.name)"
    return page.evaluate(script, figure)


def test_every_figure_is_drawn(opened, synthetic):
    page = opened(synthetic.manifest())
    assert page.evaluate("window.drawn") == 12
    assert page.locator(".plot .main-svg").count() >= 12
    images = page.locator(".plot .hm image")
    assert images.count() == 11
    for image in images.all():
        box = image.bounding_box()
        assert box and box["width"] > 100 and box["height"] > 3
        assert image.evaluate("i => i.href.baseVal").startswith("data:image/png")
    assert page.locator("#verdict").inner_text().startswith("Verdict: valid")


def test_tier_switch(opened, synthetic):
    page = opened(synthetic.manifest())
    assert shown(page, "figure-1") == ["all tiers", "all tiers"]
    before = page.locator("#figure-1 .hm image").evaluate("i => i.href.baseVal")
    page.locator("#figure-1 .updatemenu-button", has_text="disk").click()
    until(page, "document.getElementById('figure-1').data[0].visible === false")
    assert shown(page, "figure-1") == ["disk", "disk"]
    assert page.locator("#figure-1 .hm image").evaluate("i => i.href.baseVal") != before
    page.locator("#figure-1 .updatemenu-button", has_text="all tiers").click()
    until(page, "document.getElementById('figure-1').data[0].visible === true")
    assert shown(page, "figure-1") == ["all tiers", "all tiers"]


def test_tiers_by_colour(opened, synthetic):
    frame = synthetic.realistic()
    page = opened(synthetic.manifest(frame, 60), frame)
    figure = page.locator("#figure-1")
    assert figure.locator(".legend").count() == 0
    figure.locator(".updatemenu-button", has_text="tiers by colour").click()
    until(page, "document.querySelectorAll('#figure-1 .hm image').length === 3")
    assert shown(page, "figure-1") == ["dram", "dram", "l2arc", "l2arc", "disk", "disk"]
    assert figure.locator(".legendtext").all_text_contents() == ["dram", "l2arc", "disk"]
    assert figure.locator(".colorbar").count() == 0
    pictures = {i.evaluate("i => i.href.baseVal") for i in figure.locator(".hm image").all()}
    assert len(pictures) == 3
    figure.locator(".updatemenu-button", has_text="all tiers").click()
    until(page, "document.querySelectorAll('#figure-1 .hm image').length === 1")
    assert figure.locator(".legend").count() == 0 and figure.locator(".colorbar").count() == 1


def test_cells_are_the_stored_counts(opened, synthetic):
    frame = synthetic.latency()
    page = opened(synthetic.manifest(frame), frame)
    stored = frame.filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    script = """() => {
        const heat = document.getElementById("figure-1").data[1];
        const cells = heat.customdata.flatMap(r => [...r]), colours = heat.z.flatMap(r => [...r]);
        return {sum: cells.reduce((a, b) => a + b),
                coloured: colours.filter(c => !Number.isNaN(c)).length,
                empty: cells.every((n, i) => (n === 0) === Number.isNaN(colours[i])),
                logarithmic: cells.every((n, i) => !n || Math.abs(10 ** colours[i] - n) < 1e-3)};
    }"""
    assert page.evaluate(script) == {
        "sum": stored["count"].sum(), "coloured": stored.height, "empty": True, "logarithmic": True
    }  # fmt: skip


def test_pointing_at_a_cell_tells_time_range_and_count(opened, synthetic):
    frame = synthetic.latency()
    page = opened(synthetic.manifest(frame), frame)
    page.locator("#figure-3").scroll_into_view_if_needed()
    script = """() => {
        const plot = document.getElementById("figure-3"), box = plot.getBoundingClientRect();
        const {xaxis2: x, yaxis: y} = plot._fullLayout;
        return [box.x + x._offset + x.l2p(3.5), box.y + y._offset + y.l2p(141)];
    }"""
    page.mouse.move(*page.evaluate(script))
    page.wait_for_selector("#tip:not([hidden])")
    assert page.locator("#tip").inner_text() == "3 to 4 s, 139.3 µs to 143.4 µs: 50 I/O, l2arc"
    page.mouse.move(2, 2)
    page.wait_for_selector("#tip", state="hidden")


def test_rate_bars_are_level_with_their_rows(opened, synthetic):
    page = opened(synthetic.manifest())
    script = """() => {
        const plot = document.getElementById("figure-3"), axis = plot._fullLayout.yaxis;
        const heat = plot.data[1], top = plot.getBoundingClientRect().y + axis._offset;
        const wanted = [...heat.y].slice(1).map(v => top + axis.d2p(v));
        const bars = [...plot.querySelectorAll(".barlayer .point path")].map(b => b.getBoundingClientRect());
        return bars.map((b, i) => [b.width, Math.abs(b.y - wanted[i])]);
    }"""
    bars = page.evaluate(script)
    assert len(bars) == 2
    assert all(width > 1 and off < 1.5 for width, off in bars)


def test_a_figure_can_be_saved_under_the_policy(opened, synthetic):
    page = opened(synthetic.manifest())
    script = "Plotly.toImage(document.getElementById('figure-1'), {format: 'png'})"
    assert page.evaluate(script).startswith("data:image/png;base64,")


def test_hostile_strings_are_inert(opened, synthetic):
    manifest = synthetic.manifest()
    manifest["title"] = manifest["load"] = manifest["workload"] = manifest["run"] = ATTACK
    manifest["problems"] = [ATTACK]
    manifest["command"] = [ATTACK]
    manifest["versions"] = {ATTACK: ATTACK}
    manifest["mount"] = {"options": ATTACK}
    manifest["tunables"] = [{"name": ATTACK, "before": ATTACK, "set": ATTACK}]
    manifest["testbed"]["devices"][0] |= {"name": ATTACK, "model": ATTACK, "path": ATTACK}
    for phase in manifest["phases"]:
        phase["title"] = phase["job"] = phase["outstanding"] = ATTACK
        phase["checks"][0] |= {"name": ATTACK, "source": ATTACK, "found": ATTACK}
        phase["expected_tiers"] = [*phase["expected_tiers"], ATTACK]
    page = opened(manifest)
    page.locator("#figure-1").hover()
    assert page.evaluate("window.hit") is None
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert page.locator("body").inner_text().count("onerror") > 5


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_horizontal_overflow(opened, synthetic, width):
    manifest = synthetic.manifest()
    manifest["mount"]["options"] = "rw," + "x" * 400
    manifest["problems"] = ["y" * 300]
    page = opened(manifest, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width


def test_unknown_is_written_on_the_maps(opened, synthetic):
    manifest = synthetic.manifest()
    manifest["problems"] = ["the server rebooted"]
    page = opened(manifest)
    titles = page.locator(".plot .gtitle").all_text_contents()
    assert len(titles) == 11 and all("verdict unknown" in t for t in titles)


def test_no_button_sends_anything_away(opened, synthetic):
    page = opened(synthetic.manifest())
    titles = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    allowed = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
    assert titles and set(titles) <= allowed
    contexts = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p._context.plotlyServerURL)")
    assert set(contexts) == {""}
    # Nor does a link lead out of the page.
    assert all(
        h.startswith("#") for h in page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    )
