"""S2: a day to its report. Each of three tiers uses 200 bins in every second, and the clients as many.

No real day does: its I/Os are in the same bins most of the time.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kit.core.bins import bin_edges
from kit.store.json_file import write_json
from kit.store.run_directory import RunDir
from kit.store.summary import read_summary
from kit.store.tables import LATENCY_SCHEMA
from tests.bench.conftest import Tell, python
from tests.bench.test_report_opening import WATCH, opened, panned

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

SECOND = 10**9
SECONDS, BINS = 86_400, 200
# The first bin of each tier: from 7 us, 480 us and 40 ms on.
TIERS = {"dram": 250, "l2arc": 450, "disk": 650}
ROUNDS = 3


def a_day(path: Path) -> tuple[RunDir, int]:
    """A run of one phase, and how many I/Os its server answered: about 97,000 a second."""
    rate = 400 * np.exp(-(((np.arange(BINS) - BINS / 2) / 45) ** 2)) + 2
    kinds = []
    for layer in ("nfs-server", "client"):
        for tier, first in TIERS.items():
            lo, hi = bin_edges(np.arange(first, first + BINS))
            labels = {"layer": layer, "tier": tier if layer == "nfs-server" else "all"}
            kinds.append(pl.DataFrame({"lo_ns": lo, "hi_ns": hi, "rate": rate, **labels}))
    times = pl.LazyFrame({"time_ns": np.arange(SECONDS) * SECOND})
    # As far from the rate as counts of independent I/Os are.
    noise = (
        ((pl.col("time_ns") * 31 + pl.col("lo_ns")).hash(7) % 1_000_003).cast(pl.Float64) / 1_000_003 - 0.5
    ) * 3.4
    count = (pl.col("rate") + pl.col("rate").sqrt() * noise).round().clip(1).cast(pl.Int64)
    rows = times.join(pl.concat(kinds).lazy(), how="cross").with_columns(
        count=count, phase=pl.lit("read"), host=pl.lit("h"), op=pl.lit("read")
    )
    path.mkdir()
    rows.select(list(LATENCY_SCHEMA)).sink_parquet(path / "latency.parquet")
    sums = pl.scan_parquet(path / "latency.parquet").group_by("layer").agg(pl.col("count").sum())
    [(_, total), (_, same)] = sums.collect(engine="streaming").rows()
    assert total == same
    phase = {"name": "read", "op": "read", "expected_tiers": list(TIERS), "job": "a.fio", "outstanding": 1,
             "block_bytes": 512, "start_ns": 0, "end_ns": SECONDS * SECOND, "interval_ns": SECOND,
             "client_ios": total, "server_ios": total, "lost_events": 0,
             "checks": [], "problems": []}  # fmt: skip
    write_json(
        path / "manifest.json",
        {"format": 1, "ended": True, "title": "A day", "phases": [phase], "problems": []},
    )
    return RunDir(path), total


def test_s2_a_day_to_its_report(tmp_path: Path, tell: Tell) -> None:
    run, total = a_day(tmp_path / "run")
    command = Path(__file__).parent / "reporting.py"
    measured = [json.loads(python(command, run.path)) for _ in range(ROUNDS)]
    middle = sorted(measured, key=lambda each: float(each["seconds"]))[ROUNDS // 2]
    tell("S2", "a day's report, 104 million rows", middle["seconds"], "s", at_most=15)
    tell("S2", "its processor time", middle["processor_seconds"], "s")
    tell("S2", "its memory, the most of all rounds", max(e["peak_mb"] for e in measured), "MB", at_most=500)
    tell("S2", "its page, with Plotly", run.report.stat().st_size / 1e6, "MB", at_most=12)
    rows = read_summary(run).rows
    for layer in ("nfs-server", "client"):
        assert sum(row.count for row in rows if row.layer == layer) == total
    assert {r.tier: r.count for r in rows if r.layer == "nfs-server"}.keys() == TIERS.keys()
    if chromium := shutil.which("chromium"):
        pans(run, chromium, tell)


def pans(run: RunDir, chromium: str, tell: Tell) -> None:
    """The longest task while a map is panned: first over merged cells, then over exact bins."""
    from playwright.sync_api import sync_playwright

    views = {"22 hours": (3_600, 82_800), "8 hours": (30_000, 60_000), "1 hour": (30_000, 33_600)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for what, view in views.items():
            rounds = []
            for _ in range(ROUNDS):
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.add_init_script(WATCH)
                rounds.append(opened(page, run.report.as_uri()))
                browser.start_tracing(page=page, categories=["toplevel"])
                rounds[-1]["panning"] = panned(page, view)
                rounds[-1]["processor"] = longest_ms(json.loads(browser.stop_tracing()))
                page.close()
            middle = {key: sorted(r[key] for r in rounds)[ROUNDS // 2] for key in rounds[0]}
            words = f"longest task while panning, {what} in view"
            tell("S2", words, middle.pop("panning") / 1e3, "s", at_most=0.2)
            tell("S2", f"{words}: its processor time", middle.pop("processor") / 1e3, "s")
        for key, value in middle.items():
            tell("", f"opening a day's report, {key.replace('_', ' ')}", value, "ms")
        browser.close()


def longest_ms(trace: dict[str, Any]) -> float:
    """The most processor time of a task in a trace of Chromium; zooming to the view is in it, too."""
    tasks = (event for event in trace["traceEvents"] if event["name"].endswith("RunTask"))
    return max(event.get("tdur", 0) for event in tasks) / 1e3
