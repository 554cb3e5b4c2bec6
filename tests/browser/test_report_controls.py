"""What a reader does with the report: ranges, scales, colours, keyboard, saving. Uses test_report's browser."""

import csv
import importlib.util
import io
from pathlib import Path

import polars as pl
import pytest

_spec = importlib.util.spec_from_file_location("report_in_browser", Path(__file__).with_name("test_report.py"))
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)
browser, opened, until, panel, picture = (
    shared.browser, shared.opened, shared.until, shared.panel, shared.picture
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FORMULA = "=cmd|' /C calc'!A0"


def count_between(frame, first, last):
    """I/Os of the read phase at the server in these seconds."""
    second = pl.col("time_ns") // 10**9
    mine = (pl.col("phase") == "read") & (pl.col("layer") == "nfs-server")
    return frame.filter(mine & (second >= first) & (second < last))["count"].sum()


def uneven(synthetic):
    """Second n of a phase has n + 1 times the I/Os."""
    frame = synthetic.latency()
    return frame.with_columns(pl.col("count") * (1 + pl.col("time_ns") // 10**9 % 100))


def test_dragging_a_range_recomputes_table_and_bars(opened, synthetic):
    frame = uneven(synthetic)
    page = opened(synthetic.manifest(frame), frame)
    page.locator("#figure-1").scroll_into_view_if_needed()
    bars = "document.getElementById('figure-1').data[0].x.reduce((a, b) => a + b, 0)"
    assert page.evaluate(bars) == pytest.approx(count_between(frame, 0, 12) / 12)
    places = page.evaluate("""() => {
        const plot = document.getElementById("figure-1"), box = plot.getBoundingClientRect();
        const {xaxis2: x, yaxis: y} = plot._fullLayout;
        return [box.x + x._offset + x.l2p(3.2), box.x + x._offset + x.l2p(5.7), box.y + y._offset + 100];
    }""")
    page.mouse.move(places[0], places[2])
    page.mouse.down()
    page.mouse.move(places[1] - 20, places[2] + 60)
    page.mouse.move(places[1], places[2] + 80)
    page.mouse.up()
    wanted = count_between(frame, 3, 6)
    until(page, "document.getElementById('figure-1').state.range !== null")
    assert f"3 to 6 s, {wanted} I/Os" in panel(page, "figure-1").locator("summary").inner_text()
    until(page, f"Math.abs({bars} - {wanted / 3}) < 1e-6")
    table = panel(page, "figure-1").locator("tbody tr").last.inner_text().split("\t")
    assert table[:2] == ["all shown", str(wanted)]


def test_a_range_is_typed_with_the_keyboard_alone(opened, synthetic):
    frame = uneven(synthetic)
    page = opened(synthetic.manifest(frame), frame)
    figure = panel(page, "figure-1")
    figure.locator("summary").focus()
    page.keyboard.press("Enter")
    for value in ("2", "7"):
        page.keyboard.press("Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type(value)
    page.keyboard.press("Tab")
    assert f"2 to 7 s, {count_between(frame, 2, 7)} I/Os" in figure.locator("summary").inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Whole phase"
    page.keyboard.press("Enter")
    assert f"{count_between(frame, 0, 12)} I/Os" in figure.locator("summary").inner_text()


def test_every_control_has_a_name_and_takes_the_focus(opened, synthetic):
    page = opened(synthetic.manifest())
    script = """() => [...document.querySelectorAll("main button, main input, main select, main summary")]
        .filter(c => !c.disabled && c.offsetParent).map(c => {
            c.focus({focusVisible: true});
            const style = getComputedStyle(c);
            return {name: c.ariaLabel || c.labels?.[0]?.textContent.trim() || c.textContent.trim(),
                    focused: document.activeElement === c, outline: style.outlineStyle};
        })"""
    found = page.evaluate(script)
    assert len(found) > 100
    assert [c for c in found if not c["name"] or not c["focused"] or c["outline"] == "none"] == []


def test_latency_axis_is_switched(opened, synthetic):
    page = opened(synthetic.manifest())
    kind = "document.getElementById('figure-1')._fullLayout.yaxis.type"
    before = picture(page, "figure-1")
    assert page.evaluate(kind) == "log"
    panel(page, "figure-1").get_by_label("latency").select_option("linear")
    until(page, f"{kind} === 'linear'")
    assert page.evaluate("document.getElementById('figure-1')._fullLayout.yaxis.range[0]") == 0
    assert picture(page, "figure-1") != before
    panel(page, "figure-1").get_by_label("latency").select_option("log")
    until(page, f"{kind} === 'log'")


def test_palette_and_theme_are_switched(opened, synthetic):
    page = opened(synthetic.manifest(), scheme="dark")
    paper = "document.getElementById('figure-1')._fullLayout.paper_bgcolor"
    body = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "#14181d" and page.evaluate(body) == "rgb(13, 16, 20)"
    page.get_by_label("light", exact=True).check()
    until(page, f"{paper} === '#ffffff'")
    assert page.evaluate(body) == "rgb(246, 247, 249)"
    before = picture(page, "figure-1")
    page.get_by_label("colour-blind safe").check()
    page.wait_for_timeout(300)
    assert picture(page, "figure-1") != before
    page.get_by_label("dark", exact=True).check()
    until(page, f"{paper} === '#14181d'")


def test_percentile_lines_have_gaps_where_the_sample_is_small(opened, synthetic):
    frame = synthetic.latency()
    # 3 I/Os in the 5th second: not even a median.
    few = (pl.col("time_ns") // 10**9 == 4) & (pl.col("phase") == "read")
    frame = frame.with_columns(pl.when(few).then(pl.min_horizontal("count", 1)).otherwise(pl.col("count") * 9))
    page = opened(synthetic.manifest(frame), frame)
    panel(page, "figure-2").get_by_label("per", exact=False).first.select_option("1")
    lines = "document.getElementById('figure-2').data.filter(t => ['p50', 'p95', 'p99'].includes(t.name))"
    until(page, f"{lines}[0].x.length === 12")
    found = page.evaluate(f"{lines}.map(t => [t.name, [...t.y].map(v => v === null)])")
    assert [name for name, _ in found] == ["p50", "p95", "p99"]
    for name, missing in found:
        assert missing == [name != "p50" and n == 4 for n in range(12)]


def test_events_and_what_was_not_recorded(opened, synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    frame = frame.filter(~pl.col("time_ns").is_between(4 * 10**9, 6 * 10**9))
    manifest["phases"][0]["events"] = [
        {"time_ns": 2 * 10**9, "end_ns": None, "kind": "txg", "text": "txg 7"},
        {"time_ns": 3 * 10**9, "end_ns": 5 * 10**9, "kind": "scrub", "text": ""},
    ]
    page = opened(manifest, frame)
    legend = page.locator("#figure-1 .legendtext")
    assert legend.all_text_contents() == ["nothing recorded", "txg", "scrub"]
    colour = """f => new Promise(done => { const image = new Image(); image.onload = () => {
        const canvas = document.createElement("canvas"); canvas.width = image.width; canvas.height = image.height;
        const context = canvas.getContext("2d"); context.drawImage(image, 0, 0);
        done([[...context.getImageData(image.width * 5 / 12, 20, 1, 1).data],
              [...context.getImageData(image.width * 8.5 / 12, 20, 1, 1).data]]);
    }; image.src = document.querySelector(f + " .imagelayer image").href.baseVal; })"""
    gap, zero = page.evaluate(colour, "#figure-1")
    assert gap == [0xCF, 0xD4, 0xDA, 255] and zero[3] == 0
    panel(page, "figure-1").get_by_label("events (2)").uncheck()
    until(page, "document.querySelectorAll('#figure-1 .legendtext').length === 1")


@pytest.mark.parametrize("kind", ["PNG", "SVG", "CSV"])
def test_a_figure_is_saved(opened, synthetic, kind, tmp_path):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    page = opened(manifest, frame)
    with page.expect_download() as info:
        panel(page, "figure-1").get_by_role("button", name=f"Save as {kind}").click()
    target = tmp_path / "saved"
    info.value.save_as(target)
    content = target.read_bytes()
    if kind == "PNG":
        assert content.startswith(b"\x89PNG")
    elif kind == "SVG":
        assert content.startswith(b"<svg") and b"<image" in content
    else:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
        assert sum(int(r["count"]) for r in rows) == count_between(frame, 0, 12)
        assert {r["tier"] for r in rows} == {"dram", "l2arc", "disk"}


def test_hostile_names_are_inert_in_csv(opened, synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    for phase in manifest["phases"]:
        if phase["name"] == "read":
            phase["name"], phase["title"] = FORMULA, "\t" + FORMULA
    frame = frame.with_columns(pl.col("phase").replace("read", FORMULA))
    for expected in manifest["expect"]:
        expected["phase"] = FORMULA if expected["phase"] == "read" else expected["phase"]
    page = opened(manifest, frame)
    for figure in ("figure-1", "figure-2", "figure-15"):
        text = page.evaluate(
            "id => { const s = document.getElementById(id).state; return csvText(s ? csvOf(s) : "
            "JSON.parse(document.getElementById(id + '-data').textContent).csv); }", figure
        )  # fmt: skip
        cells = [c for row in csv.reader(io.StringIO(text, newline="")) for c in row]
        assert any("cmd" in c for c in cells)
        assert [c for c in cells if c.strip().startswith(("=", "+", "@"))] == []


def test_print_is_light_and_has_every_figure(opened, synthetic):
    page = opened(synthetic.manifest(), scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    until(page, "document.getElementById('figure-1')._fullLayout.paper_bgcolor === '#ffffff'")
    assert page.locator(".plot .main-svg").first.is_visible()
    assert not page.locator(".controls").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, "document.getElementById('figure-1')._fullLayout.paper_bgcolor === '#14181d'")
