"""The sentence above a run: what failed, or what is asked of its kind of workload."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from kit.core.clock import Clock
from kit.precondition import latency_curve
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.client_figures import ClientFigures
from reports.analysis import clients, headline
from reports.analysis.analysed import analysed
from tests.reports import synthetic
from tests.reports.complete import completed
from tests.reports.features.power_loss import test_power_loss
from tests.reports.features.soak import test_soak

Json = dict[str, Any]
FIRST_OF_ALL = synthetic.realistic(30)


def said(frame: pl.DataFrame, manifest: Json, aged: pl.DataFrame | None = None) -> str:
    of = Manifest.from_json(completed(manifest, frame), "m")
    made = analysed(Latency.of(frame), of, aged if aged is not None else EMPTY)
    return made.headline.sentence


EMPTY = latency_curve.frame("log0", "log", 1 << 30, [])


def usual(**changes: Any) -> Json:
    return {**synthetic.manifest(FIRST_OF_ALL, 30), "ended": True, **changes}


def limited(name: str, limit: float) -> Json:
    manifest = usual()
    row = {"phase": "write-slog", "op": "write", "tier": "slog", "min_count": 1}
    manifest["expect"].append({**row, name: limit})
    return manifest


def test_a_failed_limit_is_the_answer_with_value_and_limit() -> None:
    text = said(FIRST_OF_ALL, limited("p99_us_max", 150))
    assert text == "Failed: p99 of synchronous writes is 167 µs, limit 150 µs (512 B write-slog)."
    two = limited("p99_us_max", 150)
    two["expect"][-1]["p50_us_max"] = 100
    assert said(FIRST_OF_ALL, two).endswith(
        " Of the other limits and checks, 1 failed; all others that were judged hold."
    )


def test_what_failed_is_the_answer_also_where_another_limit_is_open() -> None:
    manifest = limited("p99_us_max", 166)
    row = {"phase": "write-pool", "op": "write", "tier": "pool", "min_count": 1}
    manifest["expect"].append({**row, "p50_us_max": 1000})
    made = analysed(Latency.of(FIRST_OF_ALL), Manifest.from_json(manifest, "m"), EMPTY)
    assert [each.makes for each in made.summary.outcomes if each.decides] == ["unknown", "invalid"]
    assert made.headline.sentence.startswith("Failed: p50 of synchronous writes to disk is 4.8 ms")
    assert "too near to the limit 166 µs" in made.headline.evidence[0] and made.summary.state == "failed"


def test_a_limit_that_holds_leaves_the_tiers_to_speak() -> None:
    assert said(FIRST_OF_ALL, limited("p99_us_max", 500)).startswith("Median latency of reads: ")


def test_where_no_tiers_are_known_a_limit_that_holds_is_the_answer() -> None:
    manifest = limited("p99_us_max", 500)
    manifest["expect"][-1]["p50_us_max"] = 5000
    made = analysed(Latency.of(FIRST_OF_ALL), Manifest.from_json(manifest, "m"), EMPTY)
    text = "Within the limit: p50 of synchronous writes in phase write-slog is 152 µs, at most 5 ms"
    assert headline._within(made.summary) == f"{text}; 1 more limit met."
    without = analysed(Latency.of(FIRST_OF_ALL), Manifest.from_json(usual(), "m"), EMPTY)
    assert headline._within(without.summary) == ""


def test_what_cannot_be_trusted_says_why_and_gives_no_number() -> None:
    manifest = usual()
    manifest["phases"][0]["lost_events"] = 3
    assert said(FIRST_OF_ALL, manifest) == "Unknown: 3 trace events were lost (512 B read)."


@pytest.mark.parametrize(
    ("factors", "begins"),
    [
        ((1, 1.01, 1), "In 3:00:00, rows of 1:00:00: synchronous writes drifted at most: p50 "),
        ((1, 1, 1.25), "Failed: p50 of synchronous writes drifted: +2"),
        ((1, 1, 3), "Failed: p50 of synchronous writes drifted: +199 % from 2:00:00 on"),
    ],
)
def test_a_soak_says_how_far_it_drifted_within_this_run(factors: tuple[float, ...], begins: str) -> None:
    frame = test_soak.hours(factors)
    ios = int(frame.filter(pl.col("layer") == "client")["count"].sum())
    soak = [{"phase": "soak", "row_ns": 3600 * synthetic.SECOND, "p50_drift_max": 0.1}]
    phases = [test_soak.entry("soak", 0, len(factors) * 3600, ios)]
    text = said(frame, usual(expect=[], soak=soak, phases=phases))
    assert text.startswith(begins) and "(within this run: " in text and text.endswith("limit 10 %.")


def test_power_losses_say_what_was_lost_of_how_many() -> None:
    kept = [test_power_loss.moment()] * 20
    text = said(FIRST_OF_ALL, usual(power_loss=test_power_loss.losses(*kept).as_json()))
    assert text.startswith(
        "20 power losses lost none of 60 records looked for (200 acknowledged writes). 20 power losses "
        "can show no more than this: fewer than 13.9 % of power losses like these lose data "
        "(95 % confidence)."
    )
    lost = [*kept[:19], test_power_loss.moment(lost=1, first_lost=2, first_worker=0)]
    text = said(FIRST_OF_ALL, usual(power_loss=test_power_loss.losses(*lost).as_json()))
    assert text.startswith("Failed: 1 of 60 records looked for (200 acknowledged writes) were gone")


def aged(factor: float) -> pl.DataFrame:
    spread = 1 + np.random.default_rng(3).random(4000)
    points = [
        latency_curve.point(stage, op, 4096, number << 30, (9e4 * by * spread).astype(np.int64), Clock())
        for number, (stage, by) in enumerate((("purge", 1.0), ("fill 1", 1.1), ("round 1", factor)))
        for op in ("write", "read")
    ]
    return latency_curve.frame("log0", "log", 1 << 30, points)


@pytest.mark.parametrize(("factor", "word"), [(2.0, "slower"), (1.0, "no change shown"), (0.5, "faster")])
def test_ageing_says_whether_the_writes_of_a_log_device_became_slower(factor: float, word: str) -> None:
    text = said(FIRST_OF_ALL, usual(), aged(factor))
    assert text.startswith("log0: p50 of 4 KiB writes is ") and f": {word}, {factor:#.3g} times " in text
    assert "(within this run: " in text


def test_devices_that_were_aged_besides_are_not_the_answer() -> None:
    fills = aged(2).filter(pl.col("stage") != "round 1")
    assert said(FIRST_OF_ALL, usual(), fills).startswith("Median latency of reads")


def figures(host: str, p50_us: float | None, merged: bool = False) -> ClientFigures:
    numbers: Json = {"count": 9, "iops": None, "skew_us": None, "clock_error_us": None, "min_us": 1.0,
                     "p95_us": None, "p99_us": None, "p999_us": None, "max_us": 9.0,
                     "range_us": (1.0, 9.0)}  # fmt: skip
    return ClientFigures(phase="import", op="write", host=host, merged=merged, p50_us=p50_us, **numbers)


@pytest.mark.parametrize(
    ("medians", "text"),
    [
        ((160, 650, 161), "f.2 is slow: p50 of its writes is 650 µs, that of the 2 others 161 µs."),
        ((160, 650), "f.2 is slow: p50 of its writes is 650 µs, that of the other 160 µs."),
        ((160, 300, 161), None),
        ((160, None), None),
        ((160,), None),
    ],
)
def test_the_slow_file_of_an_import_is_named(medians: tuple[float | None, ...], text: str | None) -> None:
    rows = [figures("all", 170, merged=True), *(figures(f"f.{n}", us) for n, us in enumerate(medians, 1))]
    assert [*clients.slowest(rows)] == ([text] if text else [])
