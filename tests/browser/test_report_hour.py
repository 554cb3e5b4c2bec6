"""An hour of a fio log with a step and a stall of a minute, imported: both are seen at a glance."""

import re

import numpy as np
import pytest

import reports
from kit.core.text import NO_BREAK
from kit.importers.base import Options
from kit.importers.format_detection import manifest, read_files
from tests.browser.page import HERO, figure, plot, until
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
TITLE = "fio latency logs: clients, read"
IOS_PER_S, STALLED = 40, 830
# Time and latency of the stall in seconds.
TIMES, LATENCIES = (2400, 2460), (5e-3, 10e-3)
STATUS = "document.getElementById('status').textContent"


def log_of_an_hour():
    """160 us; half as much again from 20 min on; a minute of 5 to 10 ms at 40 min."""
    generator = np.random.default_rng(11)
    time_ms = np.sort(generator.integers(0, 3_600_000, 3600 * IOS_PER_S))
    latency_ns = 160_000 * np.exp(0.1 * generator.standard_normal(time_ms.size))
    latency_ns[time_ms >= 1_200_000] *= 1.5
    calm = (time_ms < TIMES[0] * 1000) | (time_ms >= TIMES[1] * 1000)
    stall_ms = np.linspace(TIMES[0] * 1000 + 100, TIMES[1] * 1000 - 1, STALLED).astype(int)
    stalls_ns = generator.uniform(LATENCIES[0] * 1e9, LATENCIES[1] * 1e9, STALLED)
    time_ms = np.concatenate([time_ms[calm], stall_ms])
    latency_ns = np.concatenate([latency_ns[calm], stalls_ns]).astype(int)
    order = np.argsort(time_ms, kind="stable")
    rows = zip(time_ms[order].tolist(), latency_ns[order].tolist(), strict=True)
    return "".join(f"{at}, {took}, 0, 512, 0, 0\n" for at, took in rows)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hour")
    (folder / "hour_lat.1.log").write_text(log_of_an_hour())
    read = read_files([folder / "hour_lat.1.log"], Options())
    stored = manifest(read, "r", "import", ["hsp", "import"], "2026-11-21T05:30:00Z", 1.0)
    run = synthetic.write(folder / "run", stored, read.frame)
    reports.analyse(run)
    return run.report


def cells(page, title):
    """The drawn cells within the axes: [from, to] of time and of latency, count, part of the scale."""
    return page.evaluate(f"""(plot => {{
        const {{xaxis, yaxis}} = plot._fullLayout, [low, high] = yaxis.range.map(v => 10 ** v), found = [];
        for (const {{type, x, y, z, customdata, zmin, zmax}} of plot._fullData) {{
            if (type !== "heatmap") continue;
            z.forEach((row, r) => row.forEach((value, c) => {{
                if (!Number.isFinite(value) || y[r] < low || y[r + 1] > high) return;
                const part = (value - zmin) / (zmax - zmin);
                found.push([x[c], x[c + 1], y[r], y[r + 1], customdata[r][c], part]);
            }}));
        }}
        return found;
    }})({plot(title)})""")


def stalled(page, title):
    return [
        cell
        for cell in cells(page, title)
        if cell[3] > LATENCIES[0] and cell[1] > TIMES[0] and cell[0] < TIMES[1]
    ]


def test_the_stall_is_drawn_wherever_the_hour_is(show, path):
    page = show(path)
    for title in (HERO, TITLE):
        seen = stalled(page, title)
        assert sum(cell[4] for cell in seen) == STALLED and len(seen) > 5
        assert {cell[4] for cell in cells(page, title) if cell[2] > 1e-3} == {cell[4] for cell in seen}
    # p50 and p99 are drawn, and follow it.
    lines = dict(
        page.evaluate(f"""{plot(TITLE)}._fullData.filter(t => t.mode === 'lines' && t.visible === true)
        .map(t => [t.name, t.x.map((x, n) => [x, t.y[n]])])""")
    )
    assert set(lines) == {"p50", "p99"}
    inside = [y for x, y in lines["p50"] if x and y and TIMES[0] + 20 < x < TIMES[1] - 20]
    assert inside and min(inside) > LATENCIES[0]
    # Most of the time that was waited in any second, so the darkest.
    figure(page, TITLE).get_by_label("time waited").check()
    until(page, f"{plot(TITLE)}._fullData.some(t => t.marker?.colorbar?.title.text === 's waited/s/octave')")
    waited = cells(page, TITLE)
    assert sum(cell[4] for cell in stalled(page, TITLE)) == STALLED
    assert max(waited, key=lambda cell: cell[5])[3] > LATENCIES[0]
    assert page.evaluate("location.hash") == "#import?waited=true"


def test_the_first_finding_names_both_and_leads_to_the_stall(show, path):
    page = show(path)
    item = page.locator("#findings li").first
    text = item.inner_text()
    assert re.fullmatch(
        rf"{STALLED} of [\d,]+ reads took (4.9\d|5) to 10 ms, at least 16 times the p99 \(30\d µs\), "
        r"from 0:40:00 to 0:41:00\. The p50 of the reads rose from 1(59|60|61) µs to 2(39|40|41) µs "
        r"at 0:20:00\. Show", text
    )  # fmt: skip
    # It is the answer of the page, too.
    assert page.inner_text(".headline").replace(NO_BREAK, " ") == text.removesuffix(" Show")
    for title in (HERO, TITLE):
        ticks = page.evaluate(f"[...{plot(title)}.querySelectorAll('.xtick text')].map(t => t.textContent)")
        assert len(ticks) > 2 and set(ticks) <= {f"0:{minute:02}" for minute in range(0, 60, 5)} | {"1:00"}
    item.get_by_role("link", name="Show").click()
    until(page, f"{plot(TITLE)}._fullLayout.yaxis.range[0] > -3")
    until(page, f"{STATUS}.includes(' I/Os')")
    summary = figure(page, TITLE).locator("details.range summary").inner_text()
    assert f": {STALLED} I/Os" in summary.split(". ", 1)[1]
    x, y = (page.evaluate(f"{plot(TITLE)}._fullLayout.{axis}axis.range") for axis in "xy")
    assert 2300 < x[0] < TIMES[0] < TIMES[1] < x[1] < 2560
    assert 10 ** y[0] < LATENCIES[0] < LATENCIES[1] < 10 ** y[1] < 0.1
    until(page, f"{plot(TITLE)}._fullData[0].x.length < 300")
    assert sum(cell[4] for cell in stalled(page, TITLE)) == STALLED
