"""The report on a phone, and its legends by keyboard."""

import pytest

from tests.browser.page import HERO, READ, figure, plot, until, violations
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_one_finger_scrolls_the_page_on_every_kind_of_figure_and_rows_are_cards(opened):
    page = opened(synthetic.manifest(), width=360, has_touch=True, is_mobile=True)
    cdp = page.context.new_cdp_session(page)
    for title in (HERO, READ, f"{READ}: disk"):
        page.evaluate(f"{plot(title)}.scrollIntoView({{block: 'center'}})")
        before = page.evaluate("scrollY")
        for kind, y in (("touchStart", 450), *(("touchMove", 450 - 20 * n) for n in range(1, 11))):
            cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": 150, "y": y}]})
        cdp.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        until(page, f"scrollY - {before} > 100")
    cells = "[...document.querySelectorAll('[aria-label=\"Latency of each tier\"] tbody tr:first-child td')]"
    assert page.evaluate(f"{cells}.map(c => c.dataset.label)")[:3] == ["Tier", "I/Os", "Share"]
    right = page.evaluate(f"Math.max(...{cells}.map(c => c.getBoundingClientRect().right))")
    assert right <= 360 and violations(page) == []
    # No lines lead to words that are not there.
    assert page.evaluate(f"{plot(HERO)}._fullData.every(trace => !trace.meta?.beside)")


def test_a_tablet_has_cards_where_words_beside_the_bars_would_be_cut(opened):
    page = opened(synthetic.manifest(), width=800)
    words = f"{plot(HERO)}._fullLayout.annotations.filter(each => each.text.includes('p50')).length"
    card = page.locator(".cards li").first
    assert page.evaluate(words) == 0 and card.is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    until(page, f"{words} === 5 && {plot(HERO)}._fullLayout.width > 980")
    inside = f"""[...{plot(HERO)}.querySelectorAll('.annotation-text-g')].every(each =>
        each.getBoundingClientRect().right <= {plot(HERO)}.getBoundingClientRect().right)"""
    assert page.evaluate(inside) and not card.is_visible()


def test_an_item_of_the_legend_is_a_button_for_the_keyboard(opened):
    page = opened(synthetic.manifest())
    item = figure(page, READ).get_by_role("button", name="disk")
    assert item.get_attribute("aria-pressed") == "true"
    item.press("Enter")
    until(page, f"{plot(READ)}._fullData.some(t => t.visible === 'legendonly' && t.name === 'disk')")
    pressed = "[...document.querySelectorAll('[role=button][aria-label=disk]')].map(b => b.ariaPressed)"
    until(page, f"{pressed}.includes('false')")
