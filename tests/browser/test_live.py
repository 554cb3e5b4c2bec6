"""The page of a run that goes on, with a recorded trace; the map of time waited in a report."""

import threading

import pytest

import reports
from kit.session.live.watch import Watch
from tests.browser.page import READ, figure, plot, saved, until, violations
from tests.kit.session.live.rig import READ as TRACE
from tests.kit.session.live.rig import going_on
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FIGURE = "document.getElementById('live-figure')"
COUNTED = f"{FIGURE}._fullData?.some(t => t.type === 'heatmap')"


@pytest.fixture
def watched(tmp_path):
    """A run whose trace is half there: the run, its journal, the server."""
    run, journal = going_on(tmp_path)
    (run.raw / "read-trace.json").write_text("".join(TRACE.splitlines(keepends=True)[:6]))
    watch = Watch(run)
    with watch.serving(0) as server:
        following = threading.Thread(target=watch.follow, daemon=True)
        following.start()
        yield run, journal, server
        journal.close()
        following.join(20)


def opened(browser, server, width=1280, **options):
    page = browser.new_context(viewport={"width": width, "height": 900}, **options).new_page()
    wrong = []
    page.on("console", lambda m: wrong.append(m.text))
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.goto(server.url)
    until(page, COUNTED)
    return page, wrong


def test_the_figure_grows_and_becomes_the_report(browser, watched):
    run, journal, server = watched
    page, wrong = opened(browser, server)
    before = page.locator("#live-rows tr").first.inner_text()
    assert page.locator("#live-state").inner_text() == "Running"
    page.get_by_label("time waited").check()
    until(page, f"{FIGURE}.closest('figure').textContent.includes('seconds waited per second')")
    (run.raw / "read-trace.json").write_text(TRACE)
    until(page, "document.getElementById('live-progress').textContent.includes('ended')")
    assert page.locator("#live-rows tr").first.inner_text() != before
    # What was chosen stays, and so does the number of controls.
    assert page.get_by_label("time waited").is_checked()
    assert page.locator("figure .controls").count() == 1
    synthetic.write(run.path, synthetic.manifest(), synthetic.latency())
    reports.analyse(run)
    journal.close()
    page.locator("#verdict").wait_for(timeout=30_000)
    until(page, "window.drawn > 0")
    assert wrong == []


@pytest.mark.parametrize(
    "width, options",
    [(1280, {}), (1920, {}), (360, {}), (1280, {"color_scheme": "dark"}), (360, {"color_scheme": "dark"})],
)
def test_everybody_can_read_it_at_every_width(browser, watched, width, options):
    page, wrong = opened(browser, watched[2], width, **options)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []


def test_the_keyboard_reaches_switch_and_cells(browser, watched):
    page, wrong = opened(browser, watched[2])
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('label')?.textContent.includes('time waited')"):
            break
    page.keyboard.press("Space")
    assert page.get_by_label("time waited").is_checked()
    page.evaluate(f"{FIGURE}.focus()")
    page.keyboard.press("ArrowRight")
    until(page, "/I\\/O, .* waited, /.test(document.getElementById('status').textContent)")
    assert wrong == []


def test_a_killed_run_is_told_and_keeps_its_figure(browser, watched):
    page, _ = opened(browser, watched[2])
    watched[1].close()
    until(page, "document.getElementById('live-state').textContent === 'Killed'")
    assert page.evaluate(COUNTED) and page.locator("#live-killed").is_visible()


def test_the_switch_of_a_report_changes_colours_titles_and_no_number(show, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    reports.analyse(run)
    page = show(run.report)
    box = figure(page, READ)
    cells = f"{plot(READ)}._fullData.filter(t => t.type === 'heatmap').map(t => [t.meta.tier, t.zmax, t.z])"
    bar = f"{plot(READ)}._fullData.find(t => t.marker?.showscale).marker.colorbar.title.text"
    table = saved(page, READ, "CSV")
    before, counts = (
        page.evaluate(cells),
        page.evaluate(f"JSON.stringify({plot(READ)}._fullData[0].customdata)"),
    )
    assert page.evaluate(bar) == "I/O/s/octave"
    box.get_by_label("time waited").check()
    until(page, f"{bar} === 's waited/s/octave'")
    after = page.evaluate(cells)
    assert [tier for tier, *_ in after] == [tier for tier, *_ in before] and after != before
    assert page.evaluate(f"JSON.stringify({plot(READ)}._fullData[0].customdata)") == counts
    # Tooltips have both, whichever is drawn; tables and their names have counts alone.
    told = page.evaluate(f"{plot(READ)}._fullData.find(t => t.type === 'heatmap').text[0][3]")
    assert "I/O" in told and "waited" in told
    assert saved(page, READ, "CSV") == table
    name, image = saved(page, READ, "SVG")
    assert "where-users-waited" in name and b"where users waited" in image
    assert "seconds waited per second" in box.locator("figcaption").inner_text()
    box.get_by_label("exact bins").check()
    until(page, f"{plot(READ)}.closest('figure').textContent.includes('exact bins.')")
    waited = page.evaluate(f"""(() => {{
        const maps = {plot(READ)}._fullData.filter(t => t.type === 'heatmap');
        return maps.flatMap(({{meta, customdata}}) => customdata.map(
            (row, r) => row.reduce((a, b) => a + b) * meta.wait_s[r])).reduce((a, b) => a + b);
    }})()""")
    of_read = (synthetic.pl.col("phase") == "read") & (synthetic.pl.col("layer") == "nfs-server")
    mine = synthetic.latency().filter(of_read)
    middle = (mine["lo_ns"] + mine["hi_ns"] - 1) / 2
    assert waited == pytest.approx(float((mine["count"] * middle).sum()) / 1e9, rel=1e-4)
