"""Imported runs in a browser: histograms and heat maps of other layers, with the controls of all figures."""

import pytest

from kit.importers.base import Options
from kit.importers.format_detection import FORMATS, read_files
from kit.importers.format_detection import manifest as manifest_of_files
from tests.browser.page import ATTACK, HERO, at, figure, plot, report_of, saved, saved_rows, until, violations
from tests.kit.importers.samples import DATA
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SECOND = 10**9
SOURCES = {each.name: each.source for each in FORMATS}
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
    return {"format": 1, "ended": True, "run": "r", "workload": "import", "title": "Imported: import",
            "phases": [phase],
            "import": {"format": kind, "origin_ns": 0, "rows_counted": 7, "warnings": [name],
                       "files": files, "source": SOURCES[kind].as_json()}}  # fmt: skip


def iostat(host="tank"):
    return frame_of([(0, "vdev", op, 1 << b, 2 << b, n) for (op, b), n in COUNTS.items()], host)


def test_a_histogram_shows_and_saves_the_stored_counts(opened):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    bars = page.evaluate(f"""(({{x, y, width, customdata}}) =>
        y.map((low, n) => [low, low + width[n], x[n], customdata[n]]))({plot(READ)}.data[0])""")
    # A bin is an octave: as many I/Os per octave as it holds.
    expected = [[(1 << b) / 1e9, (2 << b) / 1e9, n, n] for (op, b), n in COUNTS.items() if op == "read"]
    assert bars == [pytest.approx(row) for row in expected]
    target = page.evaluate(f"{plot(READ)}.id")
    assert page.locator(f"#{target} .barlayer .point path").first.bounding_box()["width"] > 100
    rows = saved_rows(page, READ)
    assert [(r["layer"], r["op"], r["from_s"], float(r["lo_us"]), int(r["count"])) for r in rows] == [
        ("vdev", "read", "", lo * 1e6, n) for lo, _, n, _ in expected]  # fmt: skip
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        content = saved(page, WRITE, kind)[1]
        assert content.startswith(start) and len(content) > 2000
    assert page.evaluate(f"{plot(HERO)}.data.some(t => t.type === 'heatmap')")


def test_a_histogram_answers_the_mouse_by_itself(opened):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    lines = page.evaluate(
        f"{plot(READ)}.data.filter(t => t.type === 'scatter' && t.name).map(t => [t.name, t.y[0]])"
    )
    assert [name for name, _ in lines] == ["p50", "p95", "p99"] and 131.072e-6 < lines[0][1] < 262.144e-6
    cells = figure(page, READ).locator("details.range tbody td").all_text_contents()
    assert cells[0] == "1,000" and cells[1] == "-"
    # 7 I/Os are enough for a median, and for nothing above it.
    write = figure(page, WRITE).locator("details.range tbody td").all_text_contents()
    assert write[0] == "7" and write[3].endswith("\u00b5s") and write[4:7] == ["n too small"] * 3
    page.evaluate(f"Plotly.relayout({plot(READ)}, {{'xaxis.range': [0, 50]}})")
    page.mouse.click(*at(page, READ, 25, 190e-6))
    until(page, f"{plot(READ)}.layout.shapes.some(s => s.opacity === 0.14)")
    assert (
        "Percentiles of 1,000 I/Os. 131 µs to 262 µs: 900 I/Os"
        in figure(page, READ).locator("summary").last.inner_text()
    )
    assert page.evaluate(f"{plot(WRITE)}._fullLayout.xaxis.range[1]") < 20
    for name in ("dark", "colour-blind"):
        page.get_by_label(name).check()
    until(page, f"{plot(READ)}._fullLayout.paper_bgcolor === '#14181d'")


def test_a_vdev_layer_with_times_is_a_map_with_gaps_and_ranges(opened):
    rows = [(t, "vdev", "read", 131072, 135168, 500) for t in range(20) if not 8 <= t < 11]
    rows += [(t, "vdev", "read", 1310720, 1351680, 1) for t in range(20) if not 8 <= t < 11]
    frame = frame_of(rows, "d0")
    page = opened(manifest_of(frame, "trace"), frame)
    title = "latency trace: vdevs, read"
    assert page.evaluate(f"{plot(title)}.data[0].type") == "heatmap"
    gap = page.evaluate(f"{plot(title)}.layout.shapes.find(s => s.label)")
    assert (gap["x0"], gap["x1"], gap["label"]["text"]) == (8, 11, "no data")
    panel = figure(page, title).locator("details.range")
    panel.locator("summary").click()
    # 17 x 501 I/Os bound a p99.9, three seconds of them do not.
    assert panel.locator("tbody td").nth(6).text_content() != "n too small"
    panel.locator("input").nth(1).fill("3")
    page.keyboard.press("Tab")
    until(page, "location.hash === '#import:0-3'")
    assert panel.locator("tbody td").all_text_contents()[0] == "1,503"
    assert panel.locator("tbody td").nth(6).text_content() == "n too small"
    assert sum(int(r["count"]) for r in saved_rows(page, title)) == 1503


@pytest.mark.parametrize("width", [360, 1280])
def test_foreign_names_of_an_import_are_inert(opened, width):
    frame = iostat(ATTACK)
    manifest = manifest_of(frame, "zpool-iostat", ATTACK)
    manifest["events"] = [{"time_ns": 0, "kind": "fault", "text": ATTACK}, {"time_ns": 0, "kind": ATTACK}]
    page = opened(manifest, frame, width)
    assert violations(page) == []
    assert page.evaluate("window.hit") is None
    assert (
        page.locator("img:not([src^='data:image/'])").count() == 0
        and page.locator("a[href^=javascript]").count() == 0
    )
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_pg_test_fsync_is_a_table_with_the_fastest_and_the_slowest_above(show, tmp_path):
    stored = read_files([DATA / "pg_test_fsync.txt"], Options())
    manifest = manifest_of_files(stored, "r", "import", ["hsp", "import"], "2026-11-21T05:30:00Z", 1.0)
    page = show(report_of(tmp_path, manifest, stored.frame))
    assert page.inner_text(".headline") == (
        "One 8kB: open_sync is the fastest, 48\u00a0µs; fsync the slowest, 65\u00a0µs, 1.35 times as long. "
        "Two 8kB: fsync is the fastest, 64\u00a0µs; open_datasync the slowest, 102\u00a0µs, 1.59 times "
        "as long."
    )
    assert page.locator(".plot").count() == 0 and page.locator("table tbody tr").count() == 17
    assert violations(page) == []
