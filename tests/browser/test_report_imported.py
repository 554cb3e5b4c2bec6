"""Imported runs in a browser: histograms and heat maps of other layers, with the controls of all figures."""

import pytest

from tests.browser.page import ATTACK, figure, number_of, saved, saved_rows, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SECOND = 10**9
READ = "zpool iostat -w: vdevs, read"
WRITE = "zpool iostat -w: vdevs, write"
COUNTS = {("read", 17): 900, ("read", 18): 90, ("read", 23): 10, ("write", 12): 3, ("write", 14): 4}


def frame_of(rows, host="tank"):
    fixed = [(t * SECOND, "import", layer, host, op, "all", lo, hi, n) for t, layer, op, lo, hi, n in rows]
    return synthetic.table(fixed)


def manifest_of(frame, kind, name="file.txt"):
    phase = {"name": "import", "title": "Imported", "op": None, "tiers": ["all"], "start_ns": 0,
             "end_ns": int(frame["time_ns"].max()) + SECOND, "interval_ns": SECOND, "client_ios": 0,
             "server_ios": 0, "lost_events": 0, "checks": [], "problems": [], "extremes": []}  # fmt: skip
    files = [{"file": name, "rows_read": 7, "rows_counted": 7, "left_out": {name: 1}}]
    return {"format": 1, "run": "r", "workload": "import", "title": "Imported: import", "phases": [phase],
            "import": {"format": kind, "origin_ns": 0, "rows_counted": 7, "warnings": [name],
                       "files": files}}  # fmt: skip


def iostat(host="tank"):
    return frame_of([(0, "vdev", op, 1 << b, 2 << b, n) for (op, b), n in COUNTS.items()], host)


def test_a_histogram_shows_and_saves_the_stored_counts(opened):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    target = number_of(page, READ)
    bars = page.evaluate("""id => {
        const {x, y, width} = document.getElementById(id).data[0];
        return y.map((low, n) => [low, low + width[n], x[n]]).filter(bar => bar[2]);
    }""", target)  # fmt: skip
    expected = [[(1 << b) / 1e3, (2 << b) / 1e3, n] for (op, b), n in COUNTS.items() if op == "read"]
    assert bars == [pytest.approx(row) for row in expected]
    assert page.locator(f"#{target} .barlayer .point path").first.bounding_box()["width"] > 100
    rows = saved_rows(page, READ)
    assert [(r["layer"], r["op"], r["from_s"], float(r["lo_us"]), int(r["count"])) for r in rows] == [
        ("vdev", "read", "", lo, n) for lo, _, n in expected]  # fmt: skip
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        content = saved(page, WRITE, kind)
        assert content.startswith(start) and len(content) > 2000


def test_a_histogram_answers_its_controls(opened):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    target = number_of(page, READ)
    histogram = figure(page, READ)
    assert "Load not recorded" in page.locator(f"#{target} .gtitle").text_content()
    histogram.get_by_label("percentiles").focus()
    page.keyboard.press("Space")
    lines = f"document.getElementById('{target}').data.filter(t => t.type === 'scatter' && t.name)"
    until(page, f"{lines}.length === 3")
    assert page.evaluate(f"{lines}.map(t => t.name)") == ["p50", "p95", "p99"]
    shown = page.evaluate(f"{lines}[0].y[0]")
    assert 131.072 < shown < 262.144
    histogram.get_by_label("latency").select_option("linear")
    until(page, f"document.getElementById('{target}')._fullLayout.yaxis.type === 'linear'")
    histogram.locator("details.range summary").click()
    cells = histogram.locator("details.range tbody td").all_text_contents()
    assert cells[0] == "1000" and cells[1] == "-"
    # 7 I/Os are enough for a median, and for nothing above it.
    write = figure(page, WRITE).locator("details.range tbody td").all_text_contents()
    assert write[0] == "7" and write[3].endswith("\u00b5s") and write[4:7] == ["n too small"] * 3
    for name in ("dark", "colour-blind safe"):
        page.get_by_label(name).check()
    until(page, f"document.getElementById('{target}')._fullLayout.paper_bgcolor === '#14181d'")


def test_a_vdev_layer_with_times_is_a_map_with_gaps_and_ranges(opened):
    rows = [(t, "vdev", "read", 131072, 135168, 500) for t in range(20) if not 8 <= t < 11]
    rows += [(t, "vdev", "read", 1310720, 1351680, 1) for t in range(20) if not 8 <= t < 11]
    frame = frame_of(rows, "d0")
    page = opened(manifest_of(frame, "trace"), frame)
    title = "latency trace: vdevs, read"
    target = number_of(page, title)
    assert page.evaluate("id => document.getElementById(id).state.cells.gaps", target) == [[8, 11]]
    assert "nothing recorded" in page.locator(f"#{target} .legendtext").all_text_contents()
    panel = figure(page, title).locator("details.range")
    panel.locator("summary").click()
    # 17 x 501 I/Os bound a p99.9, three seconds of them do not.
    assert panel.locator("tbody td").nth(6).text_content() != "n too small"
    panel.locator("input").nth(0).fill("0")
    panel.locator("input").nth(1).fill("3")
    page.keyboard.press("Tab")
    until(page, f"document.getElementById('{target}').state.range?.join() === '0,3'")
    assert panel.locator("tbody td").all_text_contents()[0] == "1503"
    assert panel.locator("tbody td").nth(6).text_content() == "n too small"
    rows = saved_rows(page, title)
    assert sum(int(r["count"]) for r in rows) == 1503


@pytest.mark.parametrize("width", [360, 1280])
def test_foreign_names_of_an_import_are_inert(opened, width):
    frame = iostat(ATTACK)
    manifest = manifest_of(frame, "zpool-iostat", ATTACK)
    manifest["events"] = [{"time_ns": 0, "kind": "fault", "text": ATTACK}, {"time_ns": 0, "kind": ATTACK}]
    page = opened(manifest, frame, width)
    for box in page.locator("main input[type=checkbox]").all():
        if box.is_enabled():
            box.check()
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0 and page.locator("a[href^=javascript]").count() == 0
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
