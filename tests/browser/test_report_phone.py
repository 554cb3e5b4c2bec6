"""The report on a phone, by keyboard, and where no script runs."""

import pytest

from tests.browser.page import HERO, READ, figure, plot, report_of, violations
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_one_finger_scrolls_the_page_on_every_kind_of_figure_and_rows_are_cards(opened):
    page = opened(synthetic.manifest(), width=360, has_touch=True, is_mobile=True)
    cdp = page.context.new_cdp_session(page)
    for title in (HERO, READ, f"{READ}: disk"):
        page.evaluate(f"{plot(title)}.scrollIntoView({{block: 'center'}})")
        before = page.evaluate("scrollY")
        gesture = {"x": 150, "y": 450, "yDistance": -200, "gestureSourceType": "touch"}
        cdp.send("Input.synthesizeScrollGesture", gesture)
        assert page.evaluate("scrollY") - before > 100, title
    cells = "[...document.querySelectorAll('[aria-label=\"Latency of each tier\"] tbody tr:first-child td')]"
    assert page.evaluate(f"{cells}.map(c => c.dataset.label)")[:3] == ["Tier", "I/Os", "Share"]
    right = page.evaluate(f"Math.max(...{cells}.map(c => c.getBoundingClientRect().right))")
    assert right <= 360 and violations(page) == []


def test_an_item_of_the_legend_is_a_button_for_the_keyboard(opened):
    page = opened(synthetic.manifest())
    item = figure(page, READ).get_by_role("button", name="disk")
    assert item.get_attribute("aria-pressed") == "true"
    item.press("Enter")
    hidden = f"{plot(READ)}._fullData.filter(t => t.visible === 'legendonly' && t.name === 'disk').length"
    page.wait_for_timeout(500)
    assert page.evaluate(hidden) > 0


def test_without_scripts_pictures_and_numbers_stand(browser, tmp_path):
    path = report_of(tmp_path, synthetic.manifest())
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator(".hero img").count() == 3 and page.locator(".hero img").first.is_visible()
    assert page.get_by_text("JavaScript is off").is_visible()
    assert not page.get_by_text("Drawing").first.is_visible()
    assert page.locator(".cards li").count() == 5 and page.locator(".cards li").first.is_visible()
    context.close()
