"""What tests do with a page that is open in the browser."""

import csv
import io

import pytest
from axe_playwright_python.sync_playwright import Axe

import reports
from kit.store.tables import write_ageing
from tests.reports import synthetic

ATTACK = (
    "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
    "<a href='javascript:hit=1'>{{7*7}}"
)
# A page without scripts has no figures.
READY = "(window.drawn ?? 0) === document.querySelectorAll('script[id^=figure-]').length"
HERO, READ, LINES = "Latency by tier", "512 B read", "512 B read: percentiles over time"
# Those of the phase `read`: they share one selection and one time axis.
OF_READ = [
    READ,
    f"{READ}: DRAM (ARC)",
    f"{READ}: SSD cache (L2ARC)",
    f"{READ}: disk",
    LINES,
    f"{READ}: clients",
]


def report_of(folder, manifest, frame=None, aged=None):
    """The path of the report of a run that is written into `folder`."""
    run = synthetic.write(folder / "run", manifest, synthetic.latency() if frame is None else frame)
    if aged is not None:
        write_ageing(run, aged)
    reports.analyse(run)
    return run.report


def until(page, script):
    """Wait for `script` to be true. Playwright's own way to wait needs eval, which the page refuses."""
    for _ in range(250):
        if page.evaluate(script):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {script}")


def plot(title):
    """A script: the element of the figure with this title."""
    return f"[...document.querySelectorAll('.plot')].find(p => p.ariaLabel === {title!r})"


def figure(page, title=READ):
    return page.locator("figure", has=page.locator(f"#{page.evaluate(plot(title) + '.id')}"))


def opened_wholly(page):
    """Open all that is folded away."""
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")


def violations(page):
    """What axe-core finds in a page, all of it opened."""
    opened_wholly(page)
    found = Axe().run(page).response["violations"]
    return [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]


def at(page, title, x, y):
    """Where in the window the point `x`, `y` (seconds, and seconds of latency) of a figure is."""
    page.evaluate(f"{plot(title)}.scrollIntoView({{block: 'center'}})")
    return page.evaluate(f"""() => {{
        const plot = {plot(title)}, {{xaxis, yaxis}} = plot._fullLayout, box = plot.getBoundingClientRect();
        return [box.x + xaxis._offset + xaxis.d2p({x}), box.y + yaxis._offset + yaxis.d2p({y})];
    }}""")


def drag(page, title, start, end):
    page.mouse.move(*at(page, title, *start))
    page.mouse.down()
    page.mouse.move(*at(page, title, *end), steps=5)
    page.mouse.up()


def saved(page, title, kind):
    """The name and the bytes of what a button of a figure saves."""
    page.evaluate(f"{plot(title)}.closest('figure').querySelector('details.save').open = true")
    with page.expect_download() as download:
        figure(page, title).get_by_role("button", name=f"Save as {kind}").click()
    return download.value.suggested_filename, download.value.path().read_bytes()


def saved_rows(page, title):
    """The rows that the CSV button of a figure saves, without the stamp above them."""
    lines = saved(page, title, "CSV")[1].decode("utf-8-sig").splitlines(keepends=True)
    return list(csv.DictReader(io.StringIO("".join(row for row in lines if row[0] != "#"), newline="")))
