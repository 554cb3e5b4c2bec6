"""Imported runs in a browser: histograms and heat maps of other layers, with the controls of all figures."""

import csv
import importlib.util
import io
from pathlib import Path

import polars as pl
import pytest

from kit.store.tables import LATENCY_SCHEMA

_path = Path(__file__).with_name("test_report.py")
_spec = importlib.util.spec_from_file_location("report_in_browser", _path)
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)
browser, opened = shared.browser, shared.opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SECOND = 10**9
READ = "zpool iostat -w: vdevs, read"
WRITE = "zpool iostat -w: vdevs, write"
COUNTS = {("read", 17): 900, ("read", 18): 90, ("read", 23): 10, ("write", 12): 3, ("write", 14): 4}


def frame_of(rows, host="tank"):
    fixed = [(t * SECOND, "import", layer, host, op, "all", lo, hi, n) for t, layer, op, lo, hi, n in rows]
    return pl.DataFrame(fixed, schema=LATENCY_SCHEMA, orient="row")


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


def saved(page, title, kind, target):
    with page.expect_download() as download:
        shared.figure(page, title).get_by_role("button", name=f"Save as {kind}").click()
    download.value.save_as(target)
    return target.read_bytes()


def test_a_histogram_shows_and_saves_the_stored_counts(opened, tmp_path):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    target = shared.number_of(page, READ)
    bars = page.evaluate("""id => {
        const {x, y, width} = document.getElementById(id).data[0];
        return y.map((low, n) => [low, low + width[n], x[n]]).filter(bar => bar[2]);
    }""", target)  # fmt: skip
    wanted = [[(1 << b) / 1e3, (2 << b) / 1e3, n] for (op, b), n in COUNTS.items() if op == "read"]
    assert bars == [pytest.approx(row) for row in wanted]
    assert page.locator(f"#{target} .barlayer .point path").first.bounding_box()["width"] > 100
    rows = list(csv.DictReader(io.StringIO(saved(page, READ, "CSV", tmp_path / "c").decode("utf-8-sig"))))
    assert [(r["layer"], r["op"], r["from_s"], float(r["lo_us"]), int(r["count"])) for r in rows] == [
        ("vdev", "read", "", lo, n) for lo, _, n in wanted]  # fmt: skip
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        content = saved(page, WRITE, kind, tmp_path / kind)
        assert content.startswith(start) and len(content) > 2000


def test_a_histogram_answers_its_controls(opened):
    page = opened(manifest_of(iostat(), "zpool-iostat"), iostat())
    target = shared.number_of(page, READ)
    figure = shared.figure(page, READ)
    assert "Load not recorded" in page.locator(f"#{target} .gtitle").text_content()
    figure.get_by_label("percentiles").focus()
    page.keyboard.press("Space")
    lines = f"document.getElementById('{target}').data.filter(t => t.type === 'scatter' && t.name)"
    shared.until(page, f"{lines}.length === 3")
    assert page.evaluate(f"{lines}.map(t => t.name)") == ["p50", "p95", "p99"]
    shown = page.evaluate(f"{lines}[0].y[0]")
    assert 131.072 < shown < 262.144
    figure.get_by_label("latency").select_option("linear")
    shared.until(page, f"document.getElementById('{target}')._fullLayout.yaxis.type === 'linear'")
    figure.locator("details.range summary").click()
    cells = figure.locator("details.range tbody td").all_text_contents()
    assert cells[0] == "1000" and cells[1] == "-"
    # 7 I/Os are enough for a median, and for nothing above it.
    write = shared.figure(page, WRITE).locator("details.range tbody td").all_text_contents()
    assert write[0] == "7" and write[3].endswith("\u00b5s") and write[4:7] == ["n too small"] * 3
    for name in ("dark", "colour-blind safe"):
        page.get_by_label(name).check()
    shared.until(page, f"document.getElementById('{target}')._fullLayout.paper_bgcolor === '#14181d'")


def test_a_vdev_layer_with_times_is_a_map_with_gaps_and_ranges(opened, tmp_path):
    rows = [(t, "vdev", "read", 131072, 135168, 500) for t in range(20) if not 8 <= t < 11]
    rows += [(t, "vdev", "read", 1310720, 1351680, 1) for t in range(20) if not 8 <= t < 11]
    frame = frame_of(rows, "d0")
    page = opened(manifest_of(frame, "trace"), frame)
    title = "latency trace: vdevs, read"
    target = shared.number_of(page, title)
    assert page.evaluate("id => document.getElementById(id).state.cells.gaps", target) == [[8, 11]]
    assert "nothing recorded" in page.locator(f"#{target} .legendtext").all_text_contents()
    panel = shared.figure(page, title).locator("details.range")
    panel.locator("summary").click()
    # 17 x 501 I/Os bound a p99.9, three seconds of them do not.
    assert panel.locator("tbody td").nth(6).text_content() != "n too small"
    panel.locator("input").nth(0).fill("0")
    panel.locator("input").nth(1).fill("3")
    page.keyboard.press("Tab")
    shared.until(page, f"document.getElementById('{target}').state.range?.join() === '0,3'")
    assert panel.locator("tbody td").all_text_contents()[0] == "1503"
    assert panel.locator("tbody td").nth(6).text_content() == "n too small"
    rows = list(csv.DictReader(io.StringIO(saved(page, title, "CSV", tmp_path / "c").decode("utf-8-sig"))))
    assert sum(int(r["count"]) for r in rows) == 1503


@pytest.mark.parametrize("width", [360, 1280])
def test_foreign_names_of_an_import_are_inert(opened, width):
    attack = shared.ATTACK
    frame = iostat(attack)
    manifest = manifest_of(frame, "zpool-iostat", attack)
    manifest["events"] = [{"time_ns": 0, "kind": "fault", "text": attack}, {"time_ns": 0, "kind": attack}]
    page = opened(manifest, frame, width)
    for box in page.locator("main input[type=checkbox]").all():
        if box.is_enabled():
            box.check()
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0 and page.locator("a[href^=javascript]").count() == 0
    assert "{{7*7}}" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
