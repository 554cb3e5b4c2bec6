"""The page of a trend in a real browser: by time and by version, narrow and wide, dark, by keyboard."""

import re

import pytest

from reports.page import trend_page
from reports.trend.analyse import trend_of
from reports.trend.slower_limit import gate
from tests.browser.page import ATTACK, plot, saved_rows, violations
from tests.reports.trend.points import VERSIONS, firmware, point

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
TITLE = "read: NFS server"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trend")
    kernel = {**firmware("1.2"), "versions.kernel": ATTACK}
    points = [
        *VERSIONS, point(12, 2.0, trusted=False, settings=firmware("1.2")),
        *(point(number, settings=kernel, run=f"{ATTACK}{number}") for number in (14, 15)),
    ]  # fmt: skip
    for by in ("time", "version"):
        trend = trend_of(points, by)
        (folder / f"{by}.html").write_text(trend_page.render(trend, gate(trend, 0.1)))
    return folder


@pytest.mark.parametrize("width", [360, 1920])
@pytest.mark.parametrize("by", ["time", "version"])
def test_the_page_fits_and_is_accessible(show, pages, by, width):
    page = show(pages / f"{by}.html", width)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.hit") is None


def test_the_keyboard_reaches_each_control_and_table(show, pages):
    page = show(pages / "time.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent.trim()")
        )
    assert {"Over time", "Checks that failed in a run", "Runs", "All figures", "Save"} <= seen


def test_change_points_have_rings_marks_lines_and_unknown_runs_are_hollow(show, pages):
    page = show(pages / "time.html")
    traces = f"{plot(TITLE)}.data"
    rings = page.evaluate(f"{traces}.filter(t => t.mode === 'markers+text').map(t => t.x.length)")
    assert rings == [2, 2]
    # The new level beside the ring is that of the axis.
    words, heights = page.evaluate(
        f"{traces}.filter(t => t.mode === 'markers+text').reduce("
        "([w, y], t) => [w.concat(t.text), y.concat(t.y)], [[], []])"
    )
    levels = [float(re.fullmatch(r"to (\d+) %", word).group(1)) / 100 for word in words]
    assert levels == pytest.approx(heights, rel=0.05)
    hollow = page.evaluate(
        f"{traces}.filter(t => String(t.marker?.symbol).endsWith('-open') && t.mode === 'markers').length"
    )
    assert hollow == 2
    assert page.evaluate(f"{plot(TITLE)}.layout.shapes.length") == 3
    # One for p50 and p99: 10 % slower than the past, of which the axis has parts.
    limits = page.evaluate(f"{traces}.filter(t => t.name === 'limit 10 %').map(t => t.y)")
    assert limits == [pytest.approx([1.1, 1.1])]
    assert len(saved_rows(page, TITLE)) == 2 * 12


def test_the_keyboard_sorts_the_table_of_all_figures(show, pages):
    page = show(pages / "time.html")
    head = page.locator(".sortable thead button", has_text="Now : past")
    head.focus()
    page.keyboard.press("Enter")
    column = "[...document.querySelectorAll('.sortable tbody tr')].map(r => Number(r.cells[7].dataset.sort))"
    assert page.evaluate(column) == sorted(page.evaluate(column))
    reached = page.evaluate(
        "[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))"
    )
    assert reached


def test_a_small_screen_has_ratios_without_the_words_of_marks(show, pages):
    words = f"{plot(TITLE)}._fullLayout.annotations.map(each => each.text)"
    named = [
        [text for text in show(pages / "time.html", width).evaluate(words) if "firmware" in text]
        for width in (360, 1280)
    ]
    assert (len(named[0]), len(named[1])) == (0, 2)


def test_ratios_of_p50_and_p99_do_not_lie_on_each_other(show, pages):
    page = show(pages / "time.html")
    boxes = page.evaluate(f"""[...{plot(TITLE)}.querySelectorAll('.textpoint')].map(text => {{
        const {{left, right, top, bottom}} = text.getBoundingClientRect();
        return [left, right, top, bottom];
    }})""")
    assert len(boxes) == 4
    for number, (left, right, top, bottom) in enumerate(boxes):
        for a, b, c, d in boxes[number + 1 :]:
            assert right <= a or b <= left or bottom <= c or d <= top
