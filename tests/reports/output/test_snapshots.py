"""What people and CI servers read of representative runs, as a whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

import reports
from kit.session.sheet import buyers_sheet
from kit.store.series import Series
from kit.store.sheet import Sheet
from kit.store.summary import Summary
from reports.comparison.compare import compare
from reports.output import comparison_table, sheet_table, slog_table, trend_table
from reports.output.junit import junit
from reports.output.series_junit import series_junit
from reports.output.series_table import comparison_lines, series_lines
from reports.series.compare import compare_series
from reports.trend.analyse import trend_of
from reports.verdict.write_cache import judge
from tests.reports import candidates, synthetic, synthetic_series
from tests.reports.comparison.test_compare import make_side
from tests.reports.output.test_result_table import lines_of
from tests.reports.series.test_analyse import WISH
from tests.reports.series.test_forces import table_series
from tests.reports.sheet.test_sheet import need
from tests.reports.slog import slog_test
from tests.reports.trend.points import VERSIONS, point

Json = dict[str, Any]
Lines = Iterable[str]
SKIPPED = {"name": "io-size=1m", "at": {}, "phase": "write-slog", "reason": "too large"}


def valid_run(_: Path, width: int) -> Lines:
    return lines_of(None, None, width, "one write took 323 ms")


def unknown_run(_: Path, width: int) -> Lines:
    return lines_of(unknown(), None, width)


def no_io(_: Path, width: int) -> Lines:
    return lines_of(None, synthetic.latency().clear(), width)


def few_ios(_: Path, width: int) -> Lines:
    return lines_of(None, synthetic.latency(1).with_columns(pl.lit(1, pl.Int64).alias("count")), width)


def unknown() -> Json:
    """Sums that are open, a phase bound by CPU, and a long title."""
    manifest = synthetic.manifest()
    read = manifest["phases"][0]
    read["server_ios"] += 5
    read["checks"][0]["ok"] = False
    read["title"] = "random reads of a working set larger than the cache device and the memory together"
    nothing = {"at_ns": 0, "idle_ns": 0, "user_ns": 0, "system_ns": 0, "softirq_ns": 0}
    later = {"at_ns": 12 * synthetic.SECOND, "idle_ns": synthetic.SECOND, "user_ns": 11 * synthetic.SECOND}
    read["cpu"] = [{"host": "lab", "cpus": 1, "samples": [nothing, nothing | later]}]
    return manifest


def imported(_: Path, width: int) -> Lines:
    """Reads of several modes, of which no tier is known."""
    frame = synthetic.latency().filter(pl.col("layer") == "client", pl.col("phase") == "read")
    manifest = synthetic.manifest()
    manifest["phases"] = [manifest["phases"][0] | {"server_ios": 0, "checks": []}]
    manifest |= {"import": {"format": "fio-log"}, "expect": [], "reference": None}
    return lines_of(manifest, frame, width)


def untraced(_: Path, width: int) -> Lines:
    """Shares by counters; expectations that nothing could judge."""
    manifest = synthetic.manifest()
    for phase in manifest["phases"]:
        phase["shares"] = {"unit": "requests", "source": "x", "counts": {"dram": phase["client_ios"]}}
    manifest["tracing"] = {"kind": "none", "asked_for": True, "reason": "the testbed says so"}
    return lines_of(manifest, synthetic.latency().filter(pl.col("layer") == "client"), width)


def appliance(_: Path, width: int) -> Lines:
    """Only the clients say anything."""
    manifest = synthetic.manifest() | {"expect": []}
    manifest["appliance"] = {"export": "nas:/x", "not_seen": [], "not_done": [], "skipped": []}
    for phase in manifest["phases"]:
        phase |= {"server_ios": None, "lost_events": None, "expected_tiers": [], "tiers": []}
    return lines_of(manifest, synthetic.latency().filter(pl.col("layer") == "client"), width)


def series(folder: Path, width: int) -> Lines:
    made = synthetic_series.series(folder, rounds=2, quick=True, skipped=[SKIPPED])
    return series_lines(reports.analyse_series(made, ended=True), width)


def forced_series(_: Path, width: int) -> Lines:
    return series_lines(table_series(), width)


def crossed_series(folder: Path, width: int) -> Lines:
    """Cells of two axes, some of them excluded by a drift of the base."""
    made = reports.analyse_series(synthetic_series.series(folder, (1, 1.5, 4, 1.2)), ended=True)
    cells = [cell.model_copy(update={"at": {**cell.at, "log": "bypassed"}}) for cell in made.cells[:2]]
    axis = made.axes[0].model_copy(update={"name": "log", "keys": ("use.log",), "values": ("no", "bypassed")})
    changes = {"cells": (*made.cells, *cells), "axes": (*made.axes, axis)}
    return series_lines(made.model_copy(update=changes), width)


def two_series(folder: Path, width: int) -> Lines:
    pair: list[Series] = []
    for name, factor in (("a", 1.5), ("b", 3)):
        (folder / name).mkdir()
        pair.append(
            reports.analyse_series(synthetic_series.series(folder / name, (1, factor, 4, 1), rounds=2))
        )
    b = pair[1].model_copy(update={"id": "series-20261121T060000Z-bbbbbb"})
    return comparison_lines(compare_series(pair[0], b), width)


def slog(_: Path, width: int) -> Lines:
    test = slog_test("write back", lambda size: 20 + size / 1000, lambda _: 800)
    return slog_table.text(test, judge(test), width)


def slog_without_flush(_: Path, width: int) -> Lines:
    test = slog_test("write through", lambda _: 20, lambda _: 0.3)
    return slog_table.text(test, judge(test), width)


@functools.cache
def compared() -> Json:
    generator = np.random.default_rng(2)
    a, b = (
        [synthetic.summary_of(rows, run="run") for rows in make_side(generator, 5, shift)]
        for shift in (1, 1.3)
    )
    return compare(a, b)


def comparison(_: Path, width: int) -> Lines:
    return comparison_table.plain(compared(), width)


def trend(_: Path, width: int) -> Lines:
    return trend_table.plain(trend_of([*VERSIONS, point(30, 9.0, trusted=False)]), width)


def trend_by_version(_: Path, width: int) -> Lines:
    return trend_table.plain(trend_of(VERSIONS[:6], "version"), width)


def sheet_of(folder: Path) -> Sheet:
    return buyers_sheet(candidates.series(folder), need(folder))


def sheet(folder: Path, width: int) -> Lines:
    return sheet_table.plain(sheet_of(folder), width)


TERMINAL: tuple[Callable[[Path, int], Lines], ...] = (
    valid_run, unknown_run, no_io, few_ios, imported, untraced, appliance, series, forced_series,
    crossed_series, two_series, slog, slog_without_flush, comparison, trend, trend_by_version, sheet,
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("made", TERMINAL, ids=lambda made: made.__name__)
def test_the_terminal(
    made: Callable[[Path, int], Lines], width: int, tmp_path: Path, snapshot: Callable[[str, str], None]
) -> None:
    lines = list(made(tmp_path, width))
    # Those of `hsp slog` are as other programs print them.
    assert max(map(cell_len, lines)) <= width or "slog" in made.__name__
    snapshot(f"{made.__name__}-{width}.txt", "\n".join(lines) + "\n")


def junit_of_series(folder: Path) -> bytes:
    made = synthetic_series.series(folder, expect=[WISH | {"ratio_max": 1.1}], skipped=[SKIPPED])
    return series_junit(reports.analyse_series(made))


def junit_of_run() -> bytes:
    return junit(Summary.from_json(synthetic.summarise(synthetic.latency(), unknown()), "summary"))


FILES: dict[str, Callable[[Path], str | bytes]] = {
    "comparison.md": lambda _: comparison_table.markdown(compared()),
    "trend.md": lambda _: trend_table.markdown(trend_of(VERSIONS)),
    "trend.csv": lambda _: trend_table.table(trend_of(VERSIONS)),
    "sheet.md": lambda folder: sheet_table.markdown(sheet_of(folder)),
    "run.junit.xml": lambda _: junit_of_run(),
    "series.junit.xml": junit_of_series,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file(name: str, tmp_path: Path, snapshot: Callable[[str, str], None]) -> None:
    found = FILES[name](tmp_path)
    snapshot(name, found.decode() if isinstance(found, bytes) else found)
