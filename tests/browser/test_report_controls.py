"""What a figure answers: legend, selection, zoom, keys, theme; all figures of a phase together."""

import re

import numpy as np
import polars as pl
import pytest

from tests.browser.page import HERO, LINES, OF_READ, READ, at, drag, figure, opened_wholly, plot, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FRAME = synthetic.realistic()
L2ARC = f"{READ}: SSD cache (L2ARC)"
STATUS = "document.getElementById('status').textContent"
HASH = "decodeURIComponent(location.hash)"
# What is selected as it is drawn: [x0, x1, y0, y1] of each box.
BOXES = "{}.layout.shapes.filter(s => s.opacity === 0.14).map(s => [s.x0, s.x1, s.y0, s.y1])"


@pytest.fixture
def page(opened):
    page = opened(synthetic.manifest(FRAME, 60), FRAME)
    opened_wholly(page)
    return page


def ios(first, last, low_ns=0, high_ns=1 << 40):
    """I/Os of the reads at the server in these seconds and bins."""
    time = pl.col("time_ns").is_between(first * synthetic.SECOND, last * synthetic.SECOND, closed="left")
    inside = (pl.col("lo_ns") >= low_ns) & (pl.col("hi_ns") <= high_ns)
    return FRAME.filter(time & inside, pl.col("phase") == "read", pl.col("layer") == "nfs-server")[
        "count"
    ].sum()


def summary(page, title=READ):
    return figure(page, title).locator("details.range summary").inner_text()


def boxes(page, title, number):
    until(page, f"{BOXES.format(plot(title))}.length === {number}")
    return page.evaluate(BOXES.format(plot(title)))


def range_of(page, title, axis="x"):
    return page.evaluate(f"{plot(title)}._fullLayout.{axis}axis.range")


def test_tiers_are_toggled_by_the_legend_and_stay_so(page):
    shown = f"{plot(READ)}._fullData.filter(t => t.type === 'heatmap').map(t => t.visible)"
    figure(page).locator(".legendtoggle").first.click()
    until(page, f"{shown}.join() === 'legendonly,true,true'")
    page.get_by_label("dark").check()
    until(page, f"{plot(READ)}._fullLayout.paper_bgcolor === '#14181d'")
    assert page.evaluate(shown) == ["legendonly", True, True]


def test_percentiles_are_the_same_in_the_table_of_a_figure_and_of_the_page(page):
    cells = "[...{}.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    numbers = page.evaluate(cells.format("document.querySelector('[aria-label=\"Latency of each tier\"]')"))
    beside = page.evaluate(cells.format(f"{plot(READ)}.closest('figure')"))
    shown = {tier: rest[3:6] for tier, *rest in beside[:3]}
    assert shown == {tier: rest[5:8] for _, tier, *rest in numbers[:3]} and len(shown) == 3


def test_a_range_is_selected_in_all_figures_of_its_phase(page, show, tmp_path):
    drag(page, READ, (10.1, 1e-3), (19.9, 1e-4))
    until(page, f"{HASH}.startsWith('#read:10')")
    for title in OF_READ:
        [[x0, x1, *_]] = boxes(page, title, 1)
        assert [x0, x1] == pytest.approx([10.1, 19.9], abs=0.1)
    assert page.evaluate(BOXES.format(plot("512 B write-pool"))) == []
    assert summary(page).startswith(f"Selected: 10 to 20 s, {ios(10, 20):,} I/Os") and summary(
        page
    ) in page.evaluate(STATUS)
    cells = figure(page).locator("details.range tbody tr").last.locator("td").all_text_contents()
    assert int(cells[0].replace(",", "")) == ios(10, 20) and float(cells[1]) == pytest.approx(
        ios(10, 20) / 10, rel=1e-2
    )
    # The bars at the left are of this range, also after a change of theme.
    bars = f"{plot(READ)}.data.filter(t => t.meta?.rates).flatMap(t => t.customdata).reduce((a, b) => a + b)"
    assert page.evaluate(bars) == ios(10, 20)
    page.get_by_label("dark").check()
    until(page, f"{plot(READ)}._fullLayout.paper_bgcolor === '#14181d'")
    assert page.evaluate(bars) == ios(10, 20) and len(boxes(page, READ, 1)) == 1
    address = page.evaluate(HASH)
    page.keyboard.press("Escape")
    for title in OF_READ:
        boxes(page, title, 0)
    assert page.evaluate(HASH) == "" and page.evaluate(bars) == ios(0, 60)
    again = show(tmp_path / "run" / "report.html", fragment=address)
    assert len(boxes(again, READ, 1)) == 1 and again.evaluate(bars) == ios(10, 20)
    assert again.evaluate(f"{plot(READ)}.getBoundingClientRect().top") < 900
    again.evaluate("location.hash = '#read:30-40'")
    until(again, f"{BOXES.format(plot(READ))}[0][0] === 30")


def test_a_range_is_typed(page):
    panel = figure(page).locator("details.range")
    for number, value in enumerate(("20", "10")):
        panel.locator("input").nth(number).fill(value)
        page.keyboard.press("Tab")
    until(page, f"{HASH} === '#read:10-20'")
    panel.get_by_role("button", name="Zoom to it").click()
    until(page, f"{plot(LINES)}._fullLayout.xaxis.range.join() === '10,20'")
    panel.get_by_role("button", name="Whole phase").click()
    until(page, f"{plot(LINES)}._fullLayout.xaxis.range.join() === '0,60'")
    assert boxes(page, READ, 0) == [] and page.evaluate(HASH) == ""


def test_a_click_on_a_row_selects_a_band_of_latency(page, show, tmp_path):
    rows = f"{plot(READ)}._fullData[1]"
    y, z = page.evaluate(
        f"[[...{rows}.y], {rows}.z.map(r => [...r].findIndex(v => !Number.isNaN(v) && v !== null))]"
    )
    row = max(range(len(z)), key=lambda n: z[n] >= 0 and n)
    low, high = y[row], y[row + 1]
    page.mouse.click(*at(page, READ, z[row] + 0.5, (low * high) ** 0.5))
    until(page, f"{HASH}.startsWith('#read@')")
    [[*_, y0, y1]] = boxes(page, READ, 1)
    assert [y0, y1] == [low, high] and boxes(page, LINES, 0) == []
    number = ios(0, 60, low * 1e9 - 1, high * 1e9 + 1)
    assert f"{number:,} I/Os" in summary(page).split(". ", 1)[1] and "per s, from" in summary(page)
    again = show(tmp_path / "run" / "report.html", fragment=page.evaluate(HASH))
    assert f"{number:,} I/Os" in summary(again).split(". ", 1)[1]
    page.keyboard.press("Escape")
    boxes(page, READ, 0)


def test_two_clicks_reset_the_axes_and_select_nothing(page):
    page.evaluate("window.clicks = 0")
    page.evaluate(f"{plot(READ)}.on('plotly_click', () => {{ window.clicks += 1; }})")
    page.mouse.dblclick(*at(page, READ, 30.5, 6.8e-6))
    until(page, "window.clicks > 0")
    # Longer than the page waits for a second click.
    page.wait_for_timeout(500)
    assert page.evaluate(HASH) == "" and boxes(page, READ, 0) == []


def test_time_waited_and_exact_bins_are_those_of_all_maps_of_a_phase_and_in_the_address(page, show, tmp_path):
    bar = "{}._fullData.find(t => t.marker?.showscale).marker.colorbar.title.text.startsWith('s waited')"
    figure(page).get_by_label("time waited").check()
    figure(page, L2ARC).get_by_label("exact bins").check()
    for title in (READ, L2ARC, f"{READ}: clients"):
        until(page, bar.format(plot(title)))
        assert figure(page, title).get_by_label("time waited").is_checked()
    assert not page.evaluate(bar.format(plot("512 B write-pool")))
    # The bars at the left: all time that was waited in 60 s.
    bars = f"{plot(READ)}.data.find(t => t.meta?.rates && t.meta.tier === 'disk')"
    octaves = "x.reduce((sum, rate, n) => sum + rate * Math.log2(1 + width[n] / y[n]), 0)"
    total = f"(({{x, y, width}}) => 60 * {octaves})({bars})"
    disk = FRAME.filter((pl.col("tier") == "disk") & (pl.col("phase") == "read"))
    waited = (disk["count"] * (disk["lo_ns"] + disk["hi_ns"] - 1)).sum() / 2e9
    assert page.evaluate(total) == pytest.approx(waited, rel=1e-3)
    assert page.evaluate(f"{plot(READ)}._fullLayout.xaxis2.title.text") == "s waited/s/octave"
    again = show(tmp_path / "run" / "report.html", fragment=page.evaluate("location.hash"))
    until(again, bar.format(plot(READ)))
    assert figure(again, L2ARC).get_by_label("exact bins").is_checked()


def test_exact_bins_have_a_scale_of_their_own(page):
    spans = f"""(t => {{ const z = t.z.flatMap(r => [...r]).filter(Number.isFinite);
        return [Math.max(...z), t.zmax, Math.min(...z), t.zmin]; }})({plot(L2ARC)}._fullData[0])"""
    before = page.evaluate(spans)
    figure(page, L2ARC).get_by_label("exact bins").check()
    until(page, f"{plot(L2ARC)}._fullData[0].zmax !== {before[1]}")
    most, top, least, low = page.evaluate(spans)
    assert most == pytest.approx(top, abs=1e-3) and low == pytest.approx(max(least, top - 3), abs=1e-3)
    marker = f"{plot(L2ARC)}._fullData.find(t => t.marker?.showscale).marker"
    assert page.evaluate(f"[{marker}.cmin, {marker}.cmax]") == pytest.approx([low, top])


def test_the_finding_about_one_tier_leads_to_its_ios(opened):
    # 150 reads of disk as fast as those of L2ARC.
    rows = [(second * synthetic.SECOND, "read", "nfs-server", "lab", "read", "disk", 147456, 151552, 5)
            for second in range(30)]  # fmt: skip
    frame = pl.concat([FRAME, synthetic.table(rows)])
    page = opened(synthetic.manifest(frame, 60), frame)
    item = page.locator("#findings li", has_text="like those of").first
    assert item.inner_text().startswith("150 of ")
    item.get_by_role("link", name="Show").click()
    until(page, f"{HASH}.includes('tier=disk')")
    until(page, f"{plot(READ)}._fullData.filter(t => t.type === 'heatmap').some(t => t.opacity < 1)")
    shown = page.evaluate(
        f"{plot(READ)}._fullData.filter(t => t.type === 'heatmap' && t.opacity === 1).map(t => t.name)"
    )
    assert shown == ["disk"] and ": 150 I/Os, " in summary(page)
    until(page, f"{plot(READ)}._fullLayout.yaxis.range[1] < -3")


def test_a_click_on_a_bar_selects_a_band_of_latency(page):
    low, width, x = page.evaluate(f"""() => {{
        const {{y, width, x}} = {plot(READ)}.data.find(t => t.meta?.rates), n = x.indexOf(Math.max(...x));
        return [y[n], width[n], x[n]]; }}""")
    _, down = at(page, READ, 0, low + width / 2)
    left = page.evaluate(f"""{plot(READ)}.getBoundingClientRect().x + (a => a._offset + a.d2p({x / 2}))(
        {plot(READ)}._fullLayout.xaxis2)""")
    page.mouse.click(left, down)
    [[*_, y0, y1]] = boxes(page, READ, 1)
    assert [y0, y1] == pytest.approx([low, low + width])
    assert f"{ios(0, 60, low * 1e9 - 1, (low + width) * 1e9 + 1):,} I/Os" in summary(page)


def test_all_figures_of_a_phase_have_one_time_axis_and_exact_bins_when_zoomed(page):
    rows = "{}._fullData.find(t => t.type === 'heatmap').z.length"
    merged = page.evaluate(rows.format(plot(L2ARC)))
    assert range_of(page, READ) == [0, 60]
    page.evaluate(f"Plotly.relayout({plot(LINES)}, {{'xaxis.range': [5, 25]}})")
    for title in OF_READ:
        until(page, f"{plot(title)}._fullLayout.xaxis.range.join() === '5,25'")
    assert range_of(page, "512 B write-pool") == [0, 60]
    exact = f"""(cells => cells.y.length - 1)({plot(L2ARC)}._fullData.find(t => t.type === 'heatmap'))"""
    until(page, f"{exact} !== {merged}")
    data = f"{plot(READ)}._fullData.find(t => t.name === 'disk')"
    until(page, f"{data}.x.length === 21")
    counts = page.evaluate(f"{data}.customdata.flatMap(r => [...r]).reduce((a, b) => a + b)")
    disk = FRAME.filter((pl.col("tier") == "disk") & (pl.col("time_ns") >= 5 * synthetic.SECOND))
    assert counts == disk.filter(pl.col("time_ns") < 25 * synthetic.SECOND)["count"].sum()
    page.evaluate(f"Plotly.relayout({plot(READ)}, {{'xaxis.range': [0, 60]}})")
    for title in OF_READ:
        until(page, f"{plot(title)}._fullLayout.xaxis.range.join() === '0,60'")
    until(page, f"{rows.format(plot(L2ARC))} === {merged}")
    # Along latency each figure is zoomed by itself.
    page.evaluate(f"Plotly.relayout({plot(READ)}, {{'yaxis.range': [-4, -3]}})")
    until(page, f"{plot(READ)}._fullData[2].y.at(-1) < 3e-3")
    assert range_of(page, f"{READ}: clients", "y") != [-4, -3]


def test_exact_bins_are_the_stored_ones(page):
    before = page.evaluate(f"{plot(L2ARC)}._fullData[0].y.length")
    figure(page, L2ARC).get_by_label("exact bins").check()
    until(page, f"{plot(L2ARC)}._fullData[0].y.length !== {before}")
    caption = f"{plot(L2ARC)}.closest('figure').querySelector('figcaption').textContent"
    until(page, f"{caption} === 'In view: exact bins.'")
    assert figure(page, READ).get_by_label("exact bins").is_checked() and "exactly" in page.evaluate(HASH)
    edges = [round(y * 1e9) for y in page.evaluate(f"[...{plot(L2ARC)}._fullData[0].y]")]
    stored = FRAME.filter((pl.col("tier") == "l2arc") & (pl.col("phase") == "read"))
    assert set(stored["lo_ns"]) <= set(edges) and set(stored["hi_ns"]) <= set(edges)
    # Density: I/Os per second and µs, whatever the height of the row.
    z, counts, y = page.evaluate(
        f"(t => [t.z.map(r => [...r]), t.customdata.map(r => [...r]), [...t.y]])({plot(L2ARC)}._fullData[0])"
    )
    width = np.diff(np.array(y)) * 1e6
    z, counts = np.array(z, dtype=float), np.array(counts)
    used = counts > 0
    assert counts.sum() == stored["count"].sum()
    assert (10**z)[used] == pytest.approx((counts / width[:, None])[used], rel=1e-3)
    figure(page, L2ARC).get_by_label("exact bins").uncheck()
    until(page, f"{plot(L2ARC)}._fullData[0].y.length === {before}")
    until(page, f"!{caption}.includes('exact bins')")


def test_theme_and_palette_repaint(page):
    colours = "[{0}._fullLayout.paper_bgcolor, {0}._fullData[0].colorscale.map(c => c[1]).join()]"
    seen = [page.evaluate(colours.format(plot(title))) for title in (READ, HERO)]
    for label in ("colour-blind", "dark"):
        page.get_by_label(label).check()
        for number, title in enumerate((READ, HERO)):
            until(page, f"{colours.format(plot(title))}[1] !== '{seen[number][1]}'")
            seen[number] = page.evaluate(colours.format(plot(title)))
    until(page, f"{plot(LINES)}._fullLayout.paper_bgcolor === '#14181d'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 20)"
    page.get_by_label("system").check()
    page.emulate_media(color_scheme="light")
    until(page, f"{plot(LINES)}._fullLayout.paper_bgcolor === '#fff'")
    page.emulate_media(color_scheme="dark")
    until(page, f"{plot(LINES)}._fullLayout.paper_bgcolor === '#14181d'")


def test_a_drag_in_the_first_figure_selects_in_the_maps_of_its_phase_and_leads_there(page):
    x, y, width = page.evaluate(f"""(() => {{
        const plot = {plot(HERO)}, {{xaxis2: axis}} = plot._fullLayout, box = plot.getBoundingClientRect();
        return [box.x + axis._offset, box.y + 150, axis._length]; }})()""")
    page.mouse.move(x + width / 4, y)
    page.mouse.down()
    page.mouse.move(x + width / 2, y + 30, steps=5)
    page.mouse.up()
    until(page, f"{HASH}.startsWith('#write-slog:')")
    [[x0, x1, *_]] = boxes(page, "512 B write-slog", 1)
    assert [x0, x1] == pytest.approx([15, 30], abs=0.5)
    assert boxes(page, READ, 0) == []
    until(page, f"{plot('512 B write-slog')}.getBoundingClientRect().top < innerHeight")
    until(page, f"!{plot(HERO)}.layout.selections?.length")


def test_enter_selects_the_cell_and_home_and_end_are_the_ends_of_its_row(page):
    page.locator(f"#{page.evaluate(plot(READ) + '.id')}").focus()
    told = []
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "End", "Home"):
        page.keyboard.press(key)
        told.append(page.evaluate(STATUS))
    row, n = page.evaluate(f"""(t => {{
        const row = [...t.z[2]].map((v, n) => Number.isFinite(v) ? n : -1).filter(n => n >= 0);
        return [[t.x[row[0]], t.x[row.at(-1)]], row.length]; }})({plot(READ)}._fullData[0])""")
    assert n > 1 and f", {row[1]:g} to " in told[3] and f", {row[0]:g} to " in told[4]
    page.keyboard.press("Enter")
    [[x0, x1, y0, y1]] = boxes(page, READ, 1)
    assert x0 == row[0] < x1 and y0 < y1 and page.evaluate(HASH).startswith(f"#read:{x0:g}-{x1:g}@")


def test_zoom_and_theme_are_there_after_a_reload(page):
    page.evaluate(f"Plotly.relayout({plot(READ)}, {{'xaxis.range': [5, 25]}})")
    until(page, f"{HASH} === '#read?view=5-25'")
    page.get_by_label("dark").check()
    page.reload()
    until(page, f"{plot(L2ARC)}?._fullLayout")
    assert range_of(page, L2ARC) == [5, 25]
    until(page, f"{plot(L2ARC)}._fullLayout.paper_bgcolor === '#14181d'")


@pytest.mark.parametrize("title", [READ, HERO])
def test_arrow_keys_go_from_cell_to_cell_and_say_what_is_there(page, title):
    page.locator(f"#{page.evaluate(plot(title) + '.id')}").focus()
    page.keyboard.press("ArrowRight")
    first = page.evaluate(STATUS)
    what = r"[\d.,]+ I/O, [\d.]+ .?s waited, [\d.]+ to [\d.]+ s, [\d.]+ µs to [\d.]+ µs"
    what += r", [\d.]+ % of the column, [\d.]+ % up to [\d.]+ µs"
    assert re.fullmatch(rf"DRAM \(ARC\): {what}", first)
    seen = {first}
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
        seen.add(page.evaluate(STATUS))
    assert len(seen) > 3
    until(page, f"/I.O/.test({plot(title)}.querySelector('.hoverlayer').textContent)")
    for _ in range(300):
        page.keyboard.press("ArrowUp")
    assert page.evaluate(STATUS).startswith("disk: ")


def test_percentile_lines_break_where_the_sample_is_too_small(opened):
    gap = pl.col("time_ns").is_between(20 * synthetic.SECOND, 40 * synthetic.SECOND, closed="left")
    frame = FRAME.filter(~(gap & (pl.col("phase") == "read")))
    page = opened(synthetic.manifest(frame, 60), frame)
    lines = dict(page.evaluate(f"{plot(LINES)}.data.filter(t => t.name).map(t => [t.name, [t.x, t.y]])"))
    assert {"DRAM (ARC) p50", "SSD cache (L2ARC) p50", "disk p95"} <= set(lines)
    x, y = lines["DRAM (ARC) p50"]
    before, after = max(t for t in x if t and t < 30), min(t for t in x if t and t > 30)
    assert y[x.index(before) + 1] is None and before < 26 and after > 34
    assert all(v is None or 4e-6 < v < 1e-5 for v in y)


def test_the_axis_of_rates_has_room_for_a_range_with_more(opened, tmp_path):
    frame = synthetic.latency().with_columns(
        pl.when(pl.col("time_ns") == 5 * synthetic.SECOND)
        .then(pl.col("count") * 50)
        .otherwise(pl.col("count"))
        .alias("count")
    )
    page = opened(synthetic.manifest(frame), frame)
    page.evaluate("location.hash = '#read:5-6'")
    until(page, f"{BOXES.format(plot(READ))}.length === 1")
    most, end = (
        page.evaluate(f"""[Math.max(...{plot(READ)}.data.filter(t => t.meta?.rates).flatMap(t => t.x)),
        {plot(READ)}._fullLayout.xaxis2.range[0]]""")
    )
    assert most <= end
