"""Forced writes of a series: the table of pg_test_fsync, and the line through batches."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.series import Series
from reports.figures.runs.batches import batches_figure
from reports.page import series_page
from reports.published.references import forces_of_series
from reports.series.batches import batches_of, line_of
from reports.series.sentences import answer
from reports.series.sync_methods import sync_table

REFERENCE = "smart-path-2015"

NO_FLUSH = "0 FLUSH commands reached log0, whose write cache is volatile, for 300 forces"


def row(us: float, method: str = "fdatasync", record: int = 8192, per_force: int = 1, **changes: Any) -> Any:
    return {
        "phase": "p", "method": method, "record_bytes": record, "per_force": per_force, "direct": False,
        "append": False, "files": 1, "threads": 1, "group_commit": False, "forces": 1000,
        "records": 1000 * per_force, "overwritten": 0, "recovered": 1000 * per_force, "damaged": 0, "lost": 0,
        "records_per_s": per_force * 1e6 / us, "forces_per_s": 1e6 / us,
        "bytes_per_s": record * per_force * 1e6 / us, "mean_us": us, "p50_us": us, "p99_us": us * 1.5,
        "write_p50_us": 3.0, "force_p50_us": us - 3, "durable": "durable", "why": "x", **changes,
    }  # fmt: skip


def cell(phase: str, at: dict[str, str], forces: Any, **changes: Any) -> dict[str, Any]:
    run = {"run": "20261121T050000Z-000001", "round": 1, "verdict": "valid", "forces": forces}
    return {
        "name": ",".join(f"{k}={v}" for k, v in at.items()) or "base", "at": at, "phase": phase,
        "in_run": "p", "build": "base", "verdict": "valid", "runs": [run], **changes,
    }  # fmt: skip


def series(cells: list[dict[str, Any]], axes: list[dict[str, Any]], **changes: Any) -> Series:
    return Series.from_json({
        "format": 1, "name": "s", "title": "S", "id": "series-20261121T050000Z-aaaaaa",
        "started_utc": "2026-11-21T05:00:00Z", "sources": ["w", "t"], "testbed": "lab", "digest": "0" * 64,
        "drift_max": 0.05, "builds": [{"name": "base", "digest": "0" * 64}], "cells": cells, "axes": axes,
        "reference": REFERENCE, **changes,
    }, "series")  # fmt: skip


LOG = {"name": "log", "keys": ["use.log"], "kind": "build", "values": ["cache-on", "cache-bypassed"]}
METHOD = {
    "name": "method", "keys": ["force.method"], "kind": "phase", "phases": ["one"],
    "values": ["open_datasync", "fdatasync", "fsync_writethrough"],
}  # fmt: skip
SPLIT = {
    "name": "split", "keys": ["force.record", "force.per_force"], "kind": "phase", "phases": ["split"],
    "values": ["1x16k", "2x8k"],
}  # fmt: skip


def table_series() -> Series:
    bypassed = {"log": "cache-bypassed"}
    split = {"method": "open_sync", "record": 8192, "per_force": 2}
    cells = [
        cell("one", {}, row(50, "open_datasync")),
        cell("one", {"method": "fdatasync"}, row(60)),
        cell("one", {}, row(1, "open_datasync"), again=True),
        cell("split", {"split": "2x8k"}, row(90, **split)),
        cell("none", {}, row(1, "none", durable="unforced", why="nothing forces its writes")),
        cell("one", bypassed, row(125, "open_datasync")),
        cell("one", {**bypassed, "method": "fdatasync"}, row(1, durable="not-durable", why=NO_FLUSH)),
        cell("split", {**bypassed, "split": "2x8k"}, row(270, **split)),
        cell("none", bypassed, row(1, "none", durable="unforced", why="nothing forces its writes")),
    ]
    missing = {"name": "x", "at": {"method": "fsync_writethrough"}, "phase": "one", "reason": "n/a on Linux",
               "problem": "n/a on Linux"}  # fmt: skip
    return series(cells, [LOG, METHOD, SPLIT], skipped=[missing])


def test_the_table_has_a_row_a_method_and_a_column_a_configuration() -> None:
    table = sync_table(table_series(), forces_of_series(REFERENCE))
    assert table and table.configurations == ("cache-on", "cache-bypassed")
    assert [(each.phase, each.label) for each in table.rows] == [
        ("one", "open_datasync"), ("one", "fdatasync"), ("one", "fsync_writethrough"), ("split", "2x8k"),
        ("none", "none"),
    ]  # fmt: skip
    first, struck, missing, split, none = table.rows
    assert first.ratio == pytest.approx(2.5) and first.published_ratio == pytest.approx(123 / 54)
    # What is not durable is held against nothing.
    assert struck.ratio is None and none.ratio is None
    assert missing.cells == (None, None) and missing.missing == "n/a on Linux"
    # Of its own table: 302 : 93, not 292 : 92.
    assert split.ratio == pytest.approx(3) and split.published_ratio == pytest.approx(302 / 93)


def test_what_is_not_durable_is_struck_out_with_its_reason() -> None:
    page = series_page.render(table_series(), {})
    assert page.count("<s>") == 3 * 4 and "n/a on Linux" in page and 'id="sync"' in page
    assert page.count("valid, not durable") == 3 and "Struck out: not durable (see the note)" in page
    assert "that ratio in HP SSD Smart Path on and off, pg_test_fsync, 2015" in page
    cells = [{**cell("one", {}, row(9, "open_datasync")), "excluded": "a reboot"}]
    table = sync_table(series(cells, [LOG, METHOD]))
    assert table and table.struck_words == "not to be trusted"


def test_a_series_without_forces_has_no_table() -> None:
    cells = [cell("one", {}, None)]
    assert sync_table(series(cells, [LOG])) is None
    assert forces_of_series("sun-7410-2009") == {} == forces_of_series("gone") == forces_of_series(None)


BATCH = {"name": "batch", "keys": ["force.per_force"], "kind": "phase", "values": ["1", "4", "16", "64"]}


def batch_series(times: list[float], **changes: Any) -> Series:
    sizes = [1, 4, 16, 64]
    cells = [
        cell("log", {"batch": str(n)} if n > 1 else {}, row(us, record=600, per_force=n, **changes))
        for n, us in zip(sizes, times, strict=True)
    ]
    direct = cell("dd", {}, None)
    direct["runs"][0] |= {"bytes_per_s": 290e6}
    return series([*cells, direct], [BATCH])


def test_the_line_is_found_again() -> None:
    assert line_of([(n, 150 + 2 * n) for n in (1, 2, 8, 64)]) == pytest.approx((150, 2))
    (found,) = batches_of(batch_series([152, 158, 182, 278]))
    assert (found.force_us, found.record_us, found.record_bytes) == (
        pytest.approx(150),
        pytest.approx(2),
        600,
    )
    assert found.worst < 1e-9 and found.device_bytes_per_s == 290e6
    assert "it is forces in series that count" in found.sentence and "within 1 %" in found.sentence
    assert "290 MB/s of large writes" in found.sentence
    drawn = batches_figure(found)
    assert [trace["name"] for trace in drawn.data] == [
        "measured", "a + b n", "in proportion to the batch", "what large writes reach",
    ]  # fmt: skip
    assert drawn.data[0]["y"] == pytest.approx([n * 1e6 / (150 + 2 * n) for n in (1, 4, 16, 64)])


def test_a_line_that_does_not_hold_says_so() -> None:
    (found,) = batches_of(batch_series([152, 400, 100, 278]))
    assert found.worst > 0.15 and "not even within 15 %" in found.sentence


def test_what_is_not_durable_has_no_line() -> None:
    assert not list(batches_of(batch_series([152, 158, 182, 278], durable="memory")))


def test_the_headline_is_what_the_second_configuration_costs() -> None:
    made = table_series()
    text = answer(made, [], sync_table(made, forces_of_series(REFERENCE)))
    assert text == (
        "With log = cache-bypassed, forced writes take 2.50 times (open_datasync) to 3.00 times (2x8k) as "
        "long as with log = cache-on, within this series. Not durable: fdatasync at cache-bypassed (note 1)."
    )
    alone = made.model_copy(update={"cells": tuple(c for c in made.cells if "log" not in c.at)})
    text = answer(alone, [], sync_table(alone))
    assert text == "A forced write takes 50 µs (open_datasync) to 90 µs (2x8k)."
