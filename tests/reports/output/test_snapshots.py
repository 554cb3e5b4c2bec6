"""What people and CI servers read of representative runs, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

import reports
from kit.importers import fio_latency_log
from kit.session.sheet import buyers_sheet
from kit.store.parts.comparison import ComparedSeries, Comparison
from kit.store.series import Series
from kit.store.sheet import Sheet
from kit.store.summary import Summary
from reports.analysis.headline import headline
from reports.comparison.compare import compare
from reports.features.slog.write_cache import judge
from reports.output import comparison_table, sheet_table, slog_table, trend_table
from reports.output.junit import junit, series_junit
from reports.output.result_table import result_lines
from reports.output.series_table import comparison_lines, series_lines
from reports.series.compare import compare_series
from reports.trend.analyse import trend_of
from tests.reports import candidates, synthetic, synthetic_series
from tests.reports.candidates import need
from tests.reports.comparison.test_compare import make_side
from tests.reports.series.test_analyse import WISH
from tests.reports.series.test_forces import table_series
from tests.reports.slog import slog_test
from tests.reports.trend.points import VERSIONS, point

pytestmark = pytest.mark.slow

Json = dict[str, Any]
ALL = synthetic.latency()
AT_CLIENTS = ALL.filter(pl.col("layer") == "client")
READS = AT_CLIENTS.filter(pl.col("phase") == "read")
FEW = synthetic.latency(1).with_columns(pl.lit(1, pl.Int64).alias("count"))
SKIPPED = {"name": "io-size=1m", "at": {}, "phase": "write-slog", "reason": "too large"}


def run(manifest: Json, frame: pl.DataFrame, width: int, *findings: str) -> Iterable[str]:
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary")
    return result_lines(summary, headline(frame, synthetic.parsed(manifest), summary), width, findings)


def manifest(each_phase: Json, **changes: Any) -> Json:
    made = synthetic.manifest() | changes
    return made | {"phases": [phase | each_phase for phase in made["phases"]]}


def unknown() -> Json:
    """Sums that are open, a phase bound by CPU, and a long title."""
    made = synthetic.manifest()
    read = made["phases"][0]
    read["server_ios"] += 5
    read["checks"][0]["ok"] = False
    read["title"] = "random reads of a working set larger than the cache device and the memory together"
    nothing = {"at_ns": 0, "idle_ns": 0, "user_ns": 0, "system_ns": 0, "softirq_ns": 0}
    later = {"at_ns": 12 * synthetic.SECOND, "idle_ns": synthetic.SECOND, "user_ns": 11 * synthetic.SECOND}
    read["cpu"] = [{"host": "lab", "cpus": 1, "samples": [nothing, nothing | later]}]
    return made


def untraced() -> Json:
    shares = {"unit": "requests", "source": "x", "counts": {"dram": 768}}
    tracing = {"kind": "none", "asked_for": True, "reason": "it says so"}
    return manifest({"shares": shares, "checks": []}, tracing=tracing)


def imported() -> Json:
    logs = {"format": "fio-log", "source": fio_latency_log.FORMAT.source.as_json()}
    made = manifest({"server_ios": 0, "checks": []}, **{"import": logs})
    return made | {"expect": [], "reference": None, "phases": made["phases"][:1]}


def appliance() -> Json:
    unseen = {"server_ios": None, "lost_events": None, "expected_tiers": [], "tiers": [], "checks": []}
    nas = {"export": "nas:/x", "not_seen": [], "not_done": [], "skipped": []}
    return manifest(unseen, expect=[], appliance=nas)


def series(folder: Path, *factors: float, **changes: Any) -> Series:
    folder.mkdir(exist_ok=True)
    made = synthetic_series.series(folder, factors or (1, 1.5, 4, 1), **changes)
    return reports.analyse_series(made, ended=True)


def two_series(folder: Path) -> ComparedSeries:
    a, b = (series(folder / str(factor), 1, factor, 4, 1, rounds=4) for factor in (1.5, 3))
    changes = {"id": "series-20261121T060000Z-bbbbbb", "started_utc": "2026-11-21T06:00:00Z"}
    return compare_series(a, b.model_copy(update=changes))


def slog(cache: str, write_us: Callable[[int], float], flush_us: float, width: int) -> Iterable[str]:
    test = slog_test(cache, write_us, lambda _: flush_us)
    return slog_table.text(test, judge(test), width)


def compared() -> Comparison:
    generator = np.random.default_rng(2)
    sides = [make_side(generator, 5, shift) for shift in (1, 1.3)]
    return compare(*([synthetic.summary_of(rows, run="run") for rows in side] for side in sides))


def sheet(folder: Path) -> Sheet:
    return buyers_sheet(candidates.series(folder), need(folder))


TERMINAL: dict[str, Callable[[Path, int], Iterable[str]]] = {
    "valid_run": lambda _, width: run(synthetic.manifest(), ALL, width, "one write took 323 ms"),
    "unknown_run": lambda _, width: run(unknown(), ALL, width),
    "no_io": lambda _, width: run(synthetic.manifest(), FEW.clear(), width),
    "few_ios": lambda _, width: run(synthetic.manifest(), FEW, width),
    "imported": lambda _, width: run(imported(), READS, width),
    "untraced": lambda _, width: run(untraced(), AT_CLIENTS, width),
    "appliance": lambda _, width: run(appliance(), AT_CLIENTS, width),
    "series": lambda at, width: series_lines(series(at, rounds=2, quick=True, skipped=[SKIPPED]), width),
    "unknown_series": lambda at, width: series_lines(series(at, 1, 1.5, 4, 1.2), width),
    "forced_series": lambda _, width: series_lines(table_series(), width),
    "two_series": lambda at, width: comparison_lines(two_series(at), width),
    "slog": lambda _, width: slog("write back", lambda size: 20 + size / 1000, 800, width),
    "slog_without_flush": lambda _, width: slog("write through", lambda _: 20, 0.3, width),
    "comparison": lambda _, width: comparison_table.plain(compared(), width),
    "trend": lambda _, width: trend_table.plain(trend_of([*VERSIONS, point(30, 9.0, trusted=False)]), width),
    "trend_by_version": lambda _, width: trend_table.plain(trend_of(VERSIONS[:6], "version"), width),
    "sheet": lambda at, width: sheet_table.plain(sheet(at), width),
}
FILES: dict[str, Callable[[Path], str]] = {
    "comparison.md": lambda _: comparison_table.markdown(compared()),
    "trend.md": lambda _: trend_table.markdown(trend_of(VERSIONS)),
    "trend.csv": lambda _: trend_table.table(trend_of(VERSIONS)),
    "sheet.md": lambda at: sheet_table.markdown(sheet(at)),
    "run.junit.xml": lambda _: junit(
        Summary.from_json(synthetic.summarise(synthetic.latency(), unknown()), "summary")
    ).decode(),
    "series.junit.xml": lambda at: series_junit(
        series(at, expect=[WISH | {"ratio_max": 1.1}], skipped=[SKIPPED])
    ).decode(),
}


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", TERMINAL)
def test_terminal(name: str, width: int, tmp_path: Path, snapshot: Callable[[str, str], None]) -> None:
    lines = list(TERMINAL[name](tmp_path, width))
    # Some lines of `hsp slog` are as other programs print them.
    assert max(map(cell_len, lines)) <= width or "slog" in name
    snapshot(f"{name}-{width}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, tmp_path: Path, snapshot: Callable[[str, str], None]) -> None:
    snapshot(name, FILES[name](tmp_path))
