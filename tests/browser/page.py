"""What tests do with a page that is open in the browser."""

import csv
import io

import pytest

import reports
from kit.store.tables import write_ageing
from tests.reports import synthetic

ATTACK = (
    "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
    "<a href='javascript:hit=1'>{{7*7}}"
)
READY = "window.drawn === document.querySelectorAll('script[id^=figure-]').length"


def report_of(folder, manifest, frame=None, aged=None):
    """The path of the report of a run that is written into `folder`."""
    run = synthetic.write(folder / "run", manifest, synthetic.latency() if frame is None else frame)
    if aged is not None:
        write_ageing(run, aged)
    reports.analyse(run)
    return run.report


def until(page, script):
    """Wait for `script` to be true. Playwright's own way to wait needs eval, which the page refuses."""
    for _ in range(900):
        if page.evaluate(script):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {script}")


def number_of(page, title):
    """The id of the figure with this title."""
    script = "t => [...document.querySelectorAll('.plot')].find(p => p.ariaLabel === t).id"
    return page.evaluate(script, title)


def figure(page, title="512 B read: NFS server"):
    return page.locator("figure", has=page.locator(f"#{number_of(page, title)}"))


def picture(page, title="512 B read: NFS server"):
    return page.evaluate("id => document.getElementById(id).layout.images[0].source", number_of(page, title))


def changed(page, title, before):
    """Wait until the picture of a figure is another."""
    until(page, f"document.getElementById('{number_of(page, title)}').layout.images[0].source !== '{before}'")


def saved(page, title, kind):
    """The bytes that a button of a figure saves."""
    with page.expect_download() as download:
        figure(page, title).get_by_role("button", name=f"Save as {kind}").click()
    return download.value.path().read_bytes()


def saved_rows(page, title):
    """The rows that the CSV button of a figure saves."""
    return list(csv.DictReader(io.StringIO(saved(page, title, "CSV").decode("utf-8-sig"), newline="")))
