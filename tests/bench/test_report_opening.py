"""How long reports take to open in a browser, and that of an hour to pan. Prints; limits no time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.store.run_directory import RunDir
from tests.bench.conftest import Tell
from tests.bench.test_report_cost import an_hour
from tests.reports import synthetic

pytestmark = pytest.mark.bench

WATCH = """window.seen = {}; window.long = [];
    new PerformanceObserver(list => long.push(...list.getEntries().map(e => Math.round(e.duration))))
        .observe({type: "longtask", buffered: true});
    setInterval(() => {
        const now = Math.round(performance.now());
        if (window.drawn) seen.figure ??= now;
        if (window.drawn === document.querySelectorAll("script[id^=figure-]").length) seen.all ??= now;
    }, 5);"""
INSIDE = """id => {
    const plot = document.getElementById(id), {xaxis, yaxis} = plot._fullLayout;
    const box = plot.getBoundingClientRect();
    return [box.x + xaxis._offset + xaxis._length * 0.7, box.y + yaxis._offset + yaxis._length / 3];
}"""
ROUNDS = 3


def opened(page: Any, address: str) -> dict[str, Any]:
    """Milliseconds since the page was asked for, and the longest task until all is drawn."""
    page.goto(address)
    for _ in range(600):
        if page.evaluate("seen.all"):
            break
        page.wait_for_timeout(100)
    found: dict[str, Any] = page.evaluate("seen")
    found["longest_task_opening"] = page.evaluate("Math.max(0, ...long)")
    return found


def panned(page: Any, view: tuple[int, int]) -> float:
    """The longest task, in milliseconds, of a pan over the first map while it shows `view` (seconds)."""
    target = page.evaluate("[...document.querySelectorAll('.map .plot')][0].id")
    page.evaluate("([id, view]) => Plotly.relayout(id, {'xaxis.range': view})", [target, list(view)])
    page.wait_for_timeout(1000)
    page.evaluate("id => document.getElementById(id).scrollIntoView({block: 'center'})", target)
    page.evaluate("document.querySelector('.map .modebar-btn[data-val=pan]').click()")
    page.wait_for_timeout(1000)
    page.evaluate("long.length = 0")
    x, y = page.evaluate(INSIDE, target)
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(40):
        page.mouse.move(x - step * 10, y)
    page.mouse.up()
    page.wait_for_timeout(1000)
    longest: float = page.evaluate("Math.max(0, ...long)")
    assert page.evaluate("id => document.getElementById(id).layout.xaxis.range[0]", target) > view[0]
    return longest


def a_demo(path: Path) -> RunDir:
    """As many phases, seconds and I/Os as the demo has."""
    frame = synthetic.realistic(36, 220)
    return synthetic.write(path, synthetic.manifest(frame, 36), frame)


@pytest.mark.parametrize(("what", "make"), [("a demo's", a_demo), ("an hour's", an_hour)])
def test_a_report_opens_and_pans(
    tmp_path: Path, tell: Tell, what: str, make: Callable[[Path], RunDir]
) -> None:
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium")
    from playwright.sync_api import sync_playwright

    run = make(tmp_path / "run")
    reports.analyse(run)
    rounds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.add_init_script(WATCH)
            rounds.append(opened(page, run.report.as_uri()))
            if make is an_hour:
                rounds[-1]["longest_task_panning"] = panned(page, (1000, 1600))
            page.close()
        browser.close()
    middle = {key: sorted(r[key] for r in rounds)[ROUNDS // 2] for key in rounds[0]}
    for key, value in middle.items():
        tell("", f"opening {what} report, {key.replace('_', ' ')}", value, "ms")
    tell("", f"{what} report with Plotly", run.report.stat().st_size / 1e6, "MB", at_most=8)
