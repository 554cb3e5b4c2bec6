"""The buyer's sheet in a real browser."""

import pytest

from kit.session.sheet import buyers_sheet
from reports.page import sheet_page
from tests.browser.page import ATTACK, until, violations
from tests.reports import candidates
from tests.reports.candidates import DRIVES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheet")
    drives = {**DRIVES, "slc": {**DRIVES["slc"], "model": ATTACK}}
    need = folder / "need.toml"
    need.write_text(
        'today = "today"\nsync_write_p99 = "300us"\nread_p99 = "400us"\n'
        "survives_power_loss = true\npower_losses_min = 10\n"
    )
    sheet = buyers_sheet(candidates.series(folder, drives), need)
    (folder / "sheet.html").write_text(sheet_page.render(sheet))
    return folder / "sheet.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_it_fits_and_is_accessible(show, path, width, scheme):
    page = show(path, width, color_scheme=scheme)
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").inner_text().startswith("Buy datacentre (TLC with capacitors): it meets all")
    assert page.locator("script").count() == 0 and page.evaluate("window.hit") is None


def test_the_keyboard_reaches_the_table_and_leads_to_where_a_value_is_from(show, path):
    page = show(path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    label = "document.activeElement.getAttribute('aria-label')"
    # The entries of the page's sections come first.
    for _ in range(page.locator("nav a").count() + 1):
        page.keyboard.press("Tab")
    assert page.evaluate(label) == "Line by line"
    page.keyboard.press("Tab")
    target = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    # The browser follows the link after the key was taken.
    until(page, f"location.hash === '{target}'")
    assert page.evaluate(f"document.querySelector('{target}').offsetTop > 0")
    page.evaluate("scrollTo(0, 0)")


def test_a_printed_sheet_has_the_whole_table(show, path):
    page = show(path)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.table')).overflowX") == "visible"
    # It may go on on the next page: in one piece it would leave the first one empty.
    assert page.evaluate("getComputedStyle(document.querySelector('.table')).breakInside") == "auto"


def test_the_printed_answer_is_on_the_first_page(show, path):
    """A4 landscape without its margins: 275 mm by 188 mm of 96 dots an inch."""
    page = show(path, 1039)
    page.emulate_media(media="print")
    assert (
        page.evaluate("document.querySelector('.candidates').getBoundingClientRect().bottom")
        < 188 / 25.4 * 96
    )
