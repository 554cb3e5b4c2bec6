"""Soaks and impacts: rows, drift and ratios of made-up hours whose truth is known."""

import numpy as np
import polars as pl
import pytest

from kit.store.latency import Latency
from kit.store.tables import LATENCY_SCHEMA
from reports.output.junit import junit
from reports.statistics import blocks
from reports.verdict import impact, soak
from tests.reports import synthetic
from tests.reports.synthetic import SECOND

HOUR = 3600
STEP = 60


def hours(factors, phase="soak", start=0, tier="slog", seed=1, per_step=40, host="lab"):
    """An O_DSYNC write load, a factor on 150 us an hour; minutes differ from each other by 2 %."""
    generator = np.random.default_rng(seed)
    frames = []
    for hour, factor in enumerate(factors):
        minutes = np.repeat(np.arange(HOUR // STEP), per_step)
        slow = np.exp(0.02 * generator.standard_normal(HOUR // STEP))[minutes]
        latency = 150_000 * factor * slow * np.exp(0.1 * generator.standard_normal(minutes.size))
        time = (start + hour * HOUR + minutes * STEP) * SECOND
        common = {"phase": phase, "op": "write"}
        frames.append(synthetic.binned(time, latency.astype(np.int64), layer="nfs-server", host=host,
                                       tier=tier, **common))  # fmt: skip
        frames.append(synthetic.binned(time, latency.astype(np.int64) + 20_000, layer="client",
                                       host="lab/client0", tier="all", **common))  # fmt: skip
    return pl.concat(frames)


def entry(name, start, seconds, ios, events=()):
    return {
        "name": name, "title": name, "op": "write", "expected_tiers": ["slog"], "tiers": ["slog"],
        "job": "w.fio", "block_bytes": 512, "outstanding": 1, "start_ns": start * SECOND,
        "end_ns": (start + seconds) * SECOND, "interval_ns": STEP * SECOND, "client_ios": ios,
        "server_ios": ios, "lost_events": 0, "checks": [], "problems": [], "events": list(events),
    }  # fmt: skip


def described(frame, limits=None, events=(), seconds=None):
    ios = int(frame.filter(pl.col("layer") == "client")["count"].sum())
    seconds = seconds or (int(frame["time_ns"].max()) // SECOND + STEP)
    wanted = {"phase": "soak", "row_ns": HOUR * SECOND, **(limits or {"p50_drift_max": 0.1})}
    manifest = {**synthetic.manifest(), "expect": [], "ended": True, "soak": [wanted],
                "phases": [entry("soak", 0, seconds, ios, events)]}  # fmt: skip
    return synthetic.summarise(frame, manifest)


def test_rows_are_hours_and_add_up():
    frame = hours((1, 1, 1, 1))
    [row] = described(frame)["soak"]
    [tier] = row["tiers"]
    assert (tier["layer"], tier["op"], tier["tier"]) == ("nfs-server", "write", "slog")
    assert [each["at_s"] for each in tier["rows"]] == [0, 3600, 7200, 10800]
    counted = frame.filter(pl.col("layer") == "nfs-server")["count"].sum()
    assert sum(each["ios"] for each in tier["rows"]) == counted == 4 * 2400
    assert all(each["share"] == 1 and 140 < each["p50_us"] < 160 for each in tier["rows"])
    assert [each["per_s"] for each in tier["rows"]] == [pytest.approx(2 / 3, rel=0.02)] * 4


def test_no_drift_is_valid_and_said_with_its_interval():
    summary = described(hours((1, 1.3, 1)))
    [drift] = [d for d in summary["soak"][0]["tiers"][0]["drift"] if d["figure"] == "p50"]
    assert summary["verdict"] == "valid" and drift["ok"] is True
    assert drift["range"][0] < 1 < drift["range"][1] and drift["range"][1] < 1.05
    assert any("the last against the first, write/slog: p50 x" in note for note in summary["notes"])


@pytest.mark.parametrize("factor", [1.25, 0.8])
def test_a_drift_is_invalid_with_its_line(factor):
    summary = described(hours((1, 1, factor)))
    assert summary["verdict"] == "invalid"
    [reason] = summary["reasons"]
    assert reason.startswith("soak: p50 of write/slog in the last row is") and "it drifted" in reason
    [drift] = [d for d in summary["soak"][0]["tiers"][0]["drift"] if d["figure"] == "p50"]
    assert drift["range"][0] < factor < drift["range"][1]


def test_a_drift_that_is_not_known_well_meets_no_limit():
    summary = described(hours((1, 1.01), per_step=40), {"p50_drift_max": 0.012})
    assert summary["verdict"] == "invalid" and "the interval reaches beyond" in summary["reasons"][0]


def test_without_limits_nothing_is_judged():
    summary = described(hours((1, 2)), {"p50_drift_max": None})
    assert summary["verdict"] == "valid"
    assert {d["ok"] for d in summary["soak"][0]["tiers"][0]["drift"]} == {None}


def test_a_rule_that_stopped_it_is_named():
    event = {"time_ns": 2999 * SECOND, "kind": "stop-rule", "text": "stopped by its limits: log0 got 9MiB"}
    frame = hours((1,)).filter(pl.col("time_ns") < 3000 * SECOND)
    summary = described(frame, events=[event], seconds=3000)
    assert summary["verdict"] == "invalid"
    assert summary["reasons"][0] == "soak: stopped by its limits: log0 got 9MiB, after 50min."
    assert "one row alone" in summary["reasons"][1]


def test_alike_hours_are_rarely_called_drift():
    """95 % intervals: of 60 pairs of alike hours at most 5 % exclude 1 (they are made for 2.5 %)."""
    wrong = 0
    for seed in range(60):
        frame = hours((1, 1), seed=seed, per_step=10).filter(pl.col("layer") == "nfs-server")
        halves = [
            frame.filter(pl.col("time_ns") < HOUR * SECOND),
            frame.filter(pl.col("time_ns") >= HOUR * SECOND),
        ]
        found = blocks.ratio(*halves, (0, HOUR * SECOND), (HOUR * SECOND, 2 * HOUR * SECOND), 0.5)
        wrong += not found.low <= 1 <= found.high
    assert wrong <= 3


def pair(alone, beside, **limits):
    frame = pl.concat([hours((alone,), "alone"), hours((beside,), "beside", start=2 * HOUR, seed=2)])
    ios = int(frame.filter(pl.col("layer") == "client")["count"].sum()) // 2
    manifest = {**synthetic.manifest(), "expect": [], "ended": True,
                "phases": [entry("alone", 0, HOUR, ios), entry("beside", 2 * HOUR, HOUR, ios)],
                "impact": [{"alone": "alone", "beside": "beside", "op": "write", **limits}]}  # fmt: skip
    return synthetic.summarise(frame, manifest)


def test_impact_is_a_ratio_with_its_interval():
    summary = pair(1, 1.5)
    p50 = next(row for row in summary["impact"] if row["figure"] == "p50")
    assert p50["range"][0] < 1.5 < p50["range"][1] and p50["ok"] is None
    assert summary["verdict"] == "valid"
    assert any(note.startswith("beside against alone, write/slog: p50 x 1.5") for note in summary["notes"])


@pytest.mark.parametrize(("limit", "verdict"), [(1.4, "invalid"), (1.6, "valid")])
def test_impact_has_limits(limit, verdict):
    summary = pair(1, 1.5, p50_ratio_max=limit)
    assert summary["verdict"] == verdict
    if verdict == "invalid":
        assert "write/slog in beside, beside alone: p50 x 1.5" in summary["reasons"][0]


def test_junit_has_a_case_for_each_limit():
    from kit.store.summary import Summary

    summary = described(hours((1, 1, 1.3)))
    text = junit(Summary.from_json(summary, "summary.json")).decode()
    assert 'classname="top-speeds.soak" name="SOAK-STOPPED"' in text
    assert 'name="SOAK-DRIFT: p50 of write/slog"' in text and text.count("the requirement is not met") == 2


def test_page_has_the_rows():
    frame = hours((1, 1, 1.3))
    ios = int(frame.filter(pl.col("layer") == "client")["count"].sum())
    manifest = {**synthetic.manifest(), "expect": [], "ended": True,
                "soak": [{"phase": "soak", "row_ns": HOUR * SECOND, "p50_drift_max": 0.1}],
                "phases": [entry("soak", 0, 3 * HOUR, ios)]}  # fmt: skip
    page = synthetic.render(frame, manifest, synthetic.summarise(frame, manifest))
    assert "soak: in rows of 1h" in page and "± 10 %" in page


def test_nothing_of_a_phase_without_ios():
    empty = pl.DataFrame(schema=LATENCY_SCHEMA)
    manifest = {**synthetic.manifest(), "soak": [{"phase": "read", "row_ns": SECOND}],
                "impact": [{"alone": "read", "beside": "write-slog", "op": "read"}]}  # fmt: skip
    typed = synthetic.parsed(manifest)
    [row] = soak.describe(typed, Latency.of(empty))
    assert row.tiers == () and impact.describe(typed, Latency.of(empty)) == []
