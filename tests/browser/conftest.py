"""Chromium, and pages in it: what goes wrong in a page fails its test."""

import shutil

import pytest

from tests.browser.page import READY, report_of, until

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    if not program:
        pytest.fail("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def show(browser):
    """show(path): a page, all its figures drawn; at the end of the test nothing may have gone wrong in it."""
    contexts, wrong = [], []

    def open_page(path, width=1280, fragment="", **options):
        address = path.as_uri()
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(f"console: {m.type}: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on(
            "request", lambda r: wrong.append(f"request: {r.url}") if r.url.split("#")[0] != address else None
        )
        page.goto(address + fragment)
        until(page, READY)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # Plotly paints heat maps as images of the page; a file that is saved comes from the page itself.
    assert [w for w in wrong if not w.startswith(("request: data:", "request: blob:"))] == []


@pytest.fixture
def opened(show, tmp_path):
    """opened(manifest, frame): the report of a run."""

    def open_report(manifest, frame=None, width=1280, aged=None, **options):
        return show(report_of(tmp_path, manifest, frame, aged), width, **options)

    return open_report
