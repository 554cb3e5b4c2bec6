"""What is drawn when: first what is in view, then the rest; and all of it for a printer, whenever it asks."""

import pytest

from tests.browser.page import READY, report_of, until
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
        page.goto(report_of(tmp_path, manifest, frame).as_uri() + "#maps")
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
    last = page.locator(".zooms .plot").last
    assert last.get_attribute("id") not in drawn
    last.scroll_into_view_if_needed()
    until(page, f"{DRAWN}.includes('{last.get_attribute('id')}')")
    assert len(page.evaluate(DRAWN)) < 15
    page.evaluate("window.calm = true")
    until(page, READY)
    assert len(page.evaluate(DRAWN)) == 15


def test_a_printer_gets_every_figure_at_once(restless):
    page = restless(synthetic.manifest())
    count = "[...document.querySelectorAll('.plot')].filter(p => p._fullLayout?.width === 980).length"
    assert page.evaluate(f"() => {{ dispatchEvent(new Event('beforeprint')); return {count}; }}") == 15


def test_a_printer_that_is_earlier_than_the_script_gets_pictures(browser, tmp_path):
    page = browser.new_page()
    page.add_init_script("DecompressionStream = class { constructor() { throw new Error('later'); } }")
    page.goto(report_of(tmp_path, synthetic.manifest(), synthetic.realistic()).as_uri())
    page.emulate_media(media="print")
    seen = "each => each.filter(one => one.checkVisibility()).length"
    shown = [page.locator(part).evaluate_all(seen) for part in (".plot", "figure", ".picture", ".cards li")]
    assert shown == [0, 1, 3, 5]
    said = "getComputedStyle(document.querySelector('header'), '::after').content"
    assert "Printed before all figures were drawn" in page.evaluate(said)
    page.close()


def test_a_closed_part_is_drawn_at_the_width_that_it_has_when_it_is_opened(restless):
    page = restless(synthetic.manifest())
    target = page.locator("details.fold .plot").first
    assert target.get_attribute("id") not in page.evaluate(DRAWN)
    page.locator("details.fold:has(.plot) > summary").first.click()
    target.scroll_into_view_if_needed()
    until(page, f"{DRAWN}.includes('{target.get_attribute('id')}')")
    box = target.bounding_box()
    assert target.locator(".main-svg").first.bounding_box()["width"] == pytest.approx(box["width"], abs=1)


def test_a_choice_made_before_a_figure_is_drawn_is_obeyed(restless):
    page = restless(synthetic.manifest())
    last = page.locator(".plot").last
    assert last.get_attribute("id") not in page.evaluate(DRAWN)
    page.get_by_label("dark").check()
    page.evaluate("window.calm = true; location.hash = '#write-pool:2-5'")
    until(page, READY)
    drawn = f"document.getElementById('{last.get_attribute('id')}')"
    assert page.evaluate(f"{drawn}._fullLayout.paper_bgcolor") == "#14181d"
    assert page.evaluate(f"{drawn}.layout.shapes.filter(s => s.x0 === 2 && s.x1 === 5).length") == 1
