"""What holds for every kind of page: accessible, one spelling of numbers, an entry for each section."""

import re

import pytest

from kit.store.labels import EMULATED
from tests import screens
from tests.browser.page import report_of, until, violations
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def demo(at):
    frame = synthetic.realistic()
    return report_of(at, synthetic.manifest(frame, 60), frame)


PAGES = {"demo": demo, **screens.PAGES}
NOT_OF_THE_LAB = {"import", "import-clients", "pg-test-fsync"}
TIMES = "\N{MULTIPLICATION SIGN}"
# What words must not have, by what they should have. What somebody else wrote (settings, the names of
# pg_test_fsync, what zpool says) stays as it was written.
WRONG = {
    "34 %": r"\d%",
    "1.20 times": rf"\d ?x[ \d]|\bx ?\d|{TIMES}\d|\d{TIMES}",
    "µs": r"\bus\b",
    "12 µs, 4 KiB": r"(?<![\w.=])[\d.]+(?:ns|µs|ms|s|min|h|B|kB|MB|GB|KiB|MiB|GiB)\b",
    "18,237": r"(?<![\w.,])\d{1,3} \d{3}(?![\d.])|(?<![\w.,:/#+-])\d{5,}(?![\w.:-])",
    "± 2": r"±\d|\+/-",
    "0.2 to 1": r"(?<![\w.:-])[\d.]+-[\d.]+ ?(?:%|[nµm]?s)\b",
}
QUOTED = r"\d ?\*? ?\d*kB|zfs_\w+(?: is |=)\w+|repaired 0B|\d+ ns\b|(?<=[\t(])\d+x\d+k\b|at most 0B"
WORDS = """() => {
    const hidden = document.querySelectorAll(".plot, code, sup, #settings, #testbed");
    for (const each of hidden) each.hidden = true;
    const text = document.body.innerText;
    for (const each of hidden) each.hidden = false;
    return text;
}"""
# Sections below the entries, and where the entries lead; what is above is on the first screen.
SECTIONS = """() => {
    const nav = document.querySelector("nav"), after = nav.compareDocumentPosition.bind(nav);
    const heads = [...document.querySelectorAll("h2")].filter(each => after(each) & 4);
    const idOf = each => each.id || each.closest("[id]:not(main)")?.id || each.textContent;
    return [heads.filter(each => !each.closest("figure")).map(idOf),
        [...nav.querySelectorAll("a")].map(each => each.getAttribute("href").slice(1)),
        [...nav.querySelectorAll("a")].every(each => document.querySelector(each.getAttribute("href")))];
}"""


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_accessible_and_spelled_like_all_others(show, tmp_path, kind):
    page = show(PAGES[kind](tmp_path / "made"))
    assert page.get_by_text(EMULATED, exact=True).count() == (kind not in NOT_OF_THE_LAB)
    found = {"light": violations(page)}
    text = re.sub(QUOTED, "", page.evaluate(WORDS))
    found["words"] = [
        f"{text[max(0, at.start() - 30) : at.end() + 10]!r}: as in {right}"
        for right, wrong in WRONG.items()
        for at in re.finditer(wrong, text)
    ]
    heads, entries, reached = page.evaluate(SECTIONS)
    found["no entry"] = sorted(set(heads) - set(entries))
    page.set_viewport_size({"width": 360, "height": 740})
    found["360"] = violations(page)
    page.emulate_media(color_scheme="dark")
    if page.locator(".plot").count():
        until(page, "document.querySelector('.plot')._fullLayout.paper_bgcolor === '#14181d'")
    found["dark, 360"] = violations(page)
    assert {what: each for what, each in found.items() if each} == {} and reached
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
