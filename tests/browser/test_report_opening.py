"""What is drawn when: first what is in view, then the rest; and all of it for a printer, whenever it asks."""

import pytest

from tests.browser.page import READY, number_of, report_of, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
# Whoever scrolls or types all the time leaves the page no idle moment.
RESTLESS = """window.order = [];
    setInterval(() => { if (!window.calm) dispatchEvent(new Event("pointermove")); }, 20);"""
DRAWN = "[...document.querySelectorAll('.plot')].filter(p => p._fullLayout).map(p => p.id)"


@pytest.fixture
def restless(browser, tmp_path):
    """Opens a report in which only what is in view is drawn until `calm` is set."""
    contexts = []

    def show(manifest, frame=None):
        context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
        contexts.append(context)
        context.add_init_script(RESTLESS)
        page = context.new_page()
        page.goto(report_of(tmp_path, manifest, frame).as_uri() + "#phases")
        until(page, "window.drawn > 0")
        return page

    yield show
    for context in contexts:
        context.close()


def test_what_is_in_view_is_drawn_first_and_the_rest_in_peace(restless):
    page = restless(synthetic.manifest())
    page.wait_for_timeout(1000)
    drawn = page.evaluate(DRAWN)
    assert 0 < len(drawn) < 15
    last = page.locator(".plot").last
    assert last.get_attribute("id") not in drawn
    last.scroll_into_view_if_needed()
    until(page, f"{DRAWN}.includes('{last.get_attribute('id')}')")
    assert len(page.evaluate(DRAWN)) < 15
    page.evaluate("window.calm = true")
    until(page, READY)
    assert len(page.evaluate(DRAWN)) == 15 and page.locator(".preview").count() == 0


def test_a_printer_gets_every_figure_at_once(restless):
    page = restless(synthetic.manifest())
    count = "[...document.querySelectorAll('.plot')].filter(p => p._fullLayout?.width === 980).length"
    assert page.evaluate(f"() => {{ dispatchEvent(new Event('beforeprint')); return {count}; }}") == 15


def test_controls_of_a_figure_out_of_view_are_obeyed_when_it_is_drawn(restless):
    frame = synthetic.realistic()
    page = restless(synthetic.manifest(frame, 60), frame)
    title = "512 B write-pool: NFS server"
    target = number_of(page, title)
    assert target not in page.evaluate(DRAWN)
    # Not by pointing at it: that would bring it into view.
    page.evaluate("""id => {
        const list = document.getElementById(id).closest("figure").querySelectorAll("select")[1];
        list.value = "linear";
        list.dispatchEvent(new Event("change"));
    }""", target)  # fmt: skip
    page.evaluate("window.calm = true")
    until(page, READY)
    assert page.evaluate(f"document.getElementById('{target}')._fullLayout.yaxis.type") == "linear"


def test_the_picture_is_there_before_the_library(browser, tmp_path):
    html = report_of(tmp_path, synthetic.manifest()).read_text("utf-8")
    # Half a library never comes: the pictures do all the same.
    begin = html.index('id="plotly-code">') + len('id="plotly-code">')
    (tmp_path / "cut.html").write_text(html[:begin] + html[html.index("</script>", begin) :], "utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((tmp_path / "cut.html").as_uri() + "#phases")
    until(page, "document.querySelectorAll('canvas.preview').length > 0")
    colours = page.evaluate("""() => { const c = document.querySelector("canvas.preview"), found = new Set();
        const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        for (let n = 0; n < data.length; n += 4) found.add(data[n] * 65536 + data[n + 1] * 256 + data[n + 2]);
        return found.size; }""")  # fmt: skip
    assert colours > 10
    assert page.evaluate("document.querySelector('canvas.preview').getBoundingClientRect().width") > 600
    page.close()


def test_faults_are_whole_lines_and_other_kinds_go_by_their_names(opened):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["events"] = [{"time_ns": n * synthetic.SECOND // 2, "end_ns": None, "kind": "fault",
                           "text": f"data0 stalls {n}"} for n in range(20)]  # fmt: skip
    manifest["events"].append({"time_ns": 104 * synthetic.SECOND, "end_ns": 106 * synthetic.SECOND,
                               "kind": "power-loss", "text": "log0"})  # fmt: skip
    manifest["phases"][0]["events"] = [{"time_ns": 0, "end_ns": None, "kind": "l2arc-feed", "text": ""}]
    page = opened(manifest, frame)
    script = """id => Object.fromEntries(document.getElementById(id).data
        .filter(t => t.mode === "lines" && t.text)
        .map(t => [t.name, {text: t.text, y: t.y, line: t.line}]))"""
    first = page.evaluate(script, number_of(page, "512 B read: NFS server"))
    assert set(first) == {"fault", "L2ARC feed"}
    assert first["fault"]["text"][0] == "0 s: data0 stalls 0"
    # As long as the axis, though they are many.
    assert max(first["fault"]["y"][:2]) / min(first["fault"]["y"][:2]) > 100
    second = page.evaluate(script, number_of(page, "512 B write-slog: NFS server"))
    assert set(second) == {"power-loss"} and second["power-loss"]["text"][0] == "4 s to 6 s: log0"
