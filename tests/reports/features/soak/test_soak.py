"""Soaks and impacts: rows, drift and ratios of made-up hours whose truth is known."""

import numpy as np
import polars as pl
import pytest

from kit.store.latency import Latency
from kit.store.parts.soak import ImpactRow
from kit.store.tables import LATENCY_SCHEMA
from reports.features.soak import impact
from reports.features.soak import judge as soak
from reports.output.junit import junit
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


def slowed(frame, from_s, to_s, times=4):
    """The same; what ended between these moments took so many times as long."""
    during = pl.col("time_ns").is_between(from_s * SECOND, to_s * SECOND, closed="left")
    edges = [
        pl.when(during).then(pl.col(edge) * times).otherwise(pl.col(edge)) for edge in ("lo_ns", "hi_ns")
    ]
    return frame.with_columns(edges)


def schedule(begin_s, for_s, within_s):
    """Of a phase with one fault: a disk fails, and is back; latency recovers within some seconds."""
    end_s = begin_s + for_s
    fault = {"kind": "fault", "what": "fail", "text": "data1 fails", "device": "data1",
             "at_ns": begin_s * SECOND, "for_ns": for_s * SECOND, "begin_ns": begin_s * SECOND,
             "end_ns": end_s * SECOND, "times": 1, "expect": "recovers",
             "recover_within_ns": within_s * SECOND}  # fmt: skip
    return {"load_begun_ns": 0, "actions": [fault], "client_errors": 0, "retransmissions": 0,
            "data": {"data_errors": 0, "scan": "scrub repaired 0B"}}  # fmt: skip


def described(frame, limits=None, events=(), seconds=None, **more):
    ios = int(frame.filter(pl.col("layer") == "client")["count"].sum())
    seconds = seconds or (int(frame["time_ns"].max()) // SECOND + STEP)
    wanted = {"phase": "soak", "row_ns": HOUR * SECOND, **(limits or {"p50_drift_max": 0.1})}
    manifest = {**synthetic.manifest(), "expect": [], "ended": True, "soak": [wanted],
                "phases": [entry("soak", 0, seconds, ios, events) | more]}  # fmt: skip
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
    summary = described(hours((1, 1.01, 1)))
    [drift] = [d for d in summary["soak"][0]["tiers"][0]["drift"] if d["figure"] == "p50"]
    assert summary["verdict"] == "valid" and drift["ok"] is True
    assert drift["range"][0] < 1 < drift["range"][1] and drift["range"][1] < 1.05
    [note] = [note for note in summary["notes"] if "synchronous writes drifted at most: p50 " in note]
    assert "within this run" in note and "95 %" not in note


@pytest.mark.parametrize(
    ("factors", "at"),
    [
        ((1, 1, 1.25), "2:00:00"),
        ((1, 1, 0.8), "2:00:00"),
        ((1, 3, 2.5, 1), "1:00:00"),
        ((1, 1.3, 1), "1:00:00"),
    ],
)
def test_a_drift_is_invalid_with_its_line(factors, at):
    """Also of a row in the middle."""
    factor = max(factors, key=lambda each: abs(np.log(each)))
    summary = described(hours(factors))
    assert summary["verdict"] == "invalid"
    [reason] = summary["reasons"]
    assert reason.startswith("soak: p50 of synchronous writes drifted: ")
    assert f" from {at} on against the first row (within this run: " in reason and reason.endswith(
        "limit 10 %."
    )
    [drift] = [d for d in summary["soak"][0]["tiers"][0]["drift"] if d["figure"] == "p50"]
    assert drift["range"][0] < factor < drift["range"][1]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (hours((1, 1.01)), "undecided. A longer run decides it"),
        (hours((1, 1), per_step=1), "More I/Os a second, shorter intervals, or longer rows, tell."),
    ],
)
def test_a_drift_that_is_not_known_well_is_open(frame, words):
    summary = described(frame, {"p50_drift_max": 0.012} if "undecided" in words else {"p99_drift_max": 0.1})
    assert summary["verdict"] == "unknown" and words in summary["reasons"][0]


@pytest.mark.parametrize(
    ("factors", "recovers_s", "ok"),
    [
        ((1, 1.05, 1.12, 1.2), 240, False),
        ((1, 1, 1, 1), 240, True),
        # It never is as before: within two rows of it, what lasts and what varies cannot be told apart.
        ((1, 1, 1, 1), 7200, None),
    ],
)
def test_what_a_fault_does_is_no_drift_and_hides_none(factors, recovers_s, ok):
    begin_s = HOUR * 2 + 600
    frame = slowed(hours(factors), begin_s, min(begin_s + 120 + recovers_s, HOUR * 4))
    summary = described(frame, schedule=schedule(begin_s, 120, 300))
    [drift] = [d for d in summary["soak"][0]["tiers"][0]["drift"] if d["figure"] == "p50"]
    assert drift["ok"] is ok
    rows = [row["p50_us"] / 150 for row in summary["soak"][0]["tiers"][0]["rows"]]
    assert rows[:2] == pytest.approx(factors[:2], rel=0.02), "the table has all of it"
    if recovers_s < 7200:
        assert drift["range"][0] < factors[-1] < drift["range"][1] < 1.1 * factors[-1]


def test_a_row_of_few_intervals_says_how_long_it_has_to_be():
    """Five of a minute: blocks of one have no scatter."""
    summary = described(hours((1, 1)), {"row_ns": 300 * SECOND, "p50_drift_max": 0.1})
    assert summary["verdict"] == "unknown"
    assert "counts are those of 60 s each" in summary["reasons"][0]
    assert 'soak.row = "12min" or longer tells' in summary["reasons"][0]


def test_without_limits_nothing_is_judged():
    summary = described(hours((1, 2)), {"p50_drift_max": None})
    assert summary["verdict"] == "valid"
    assert {d["ok"] for d in summary["soak"][0]["tiers"][0]["drift"]} == {None}


def test_a_rule_that_stopped_it_is_named():
    event = {"time_ns": 2999 * SECOND, "kind": "stop-rule", "text": "stopped by its limits: log0 got 9MiB"}
    frame = hours((1,)).filter(pl.col("time_ns") < 3000 * SECOND)
    summary = described(frame, events=[event], seconds=3000)
    # That a drift cannot be told hides no limit that was passed.
    assert summary["verdict"] == "invalid"
    assert summary["reasons"][0] == "soak: stopped by its limits: log0 got 9MiB, after 0:50:00."
    assert "one row alone" in summary["reasons"][1]


def sides(alone, beside, scatter=0.0, **limits):
    """Phases of an hour, in the order alone, beside, beside, alone..., each with its moment."""
    generator, frames, phases, names = np.random.default_rng(5), [], [], ([], [])
    for number in range(alone[1] + beside[1]):
        side = number % 4 in (1, 2) if min(alone[1], beside[1]) > 1 else number
        name = f"{('alone', 'beside')[side]}-{number}"
        factor = (alone, beside)[side][0] * np.exp(scatter * generator.standard_normal())
        frames.append(hours((factor,), name, start=2 * HOUR * number, seed=number + 1))
        ios = frames[-1].filter(pl.col("layer") == "client")["count"].sum()
        phases.append(entry(name, 2 * HOUR * number, HOUR, int(ios)))
        names[side].append(name)
    one = [each[0] if len(each) == 1 else each for each in names]
    manifest = {**synthetic.manifest(), "expect": [], "ended": True, "phases": phases,
                "impact": [{"alone": one[0], "beside": one[1], "op": "write", **limits}]}  # fmt: skip
    return synthetic.summarise(pl.concat(frames), manifest)


def test_one_phase_on_a_side_is_within_this_run_and_decides_nothing():
    summary = sides((1, 1), (1.5, 1))
    p50 = next(row for row in summary["impact"] if row["figure"] == "p50")
    assert p50["range"][0] < 1.5 < p50["range"][1] and p50["ok"] is None
    assert summary["verdict"] == "valid"
    [note] = [
        each for each in summary["notes"] if each.startswith("Synchronous writes, ") and " against " in each
    ]
    assert "within this run" in note and "95 %" not in note
    summary = sides((1, 1), (1.5, 1), p50_ratio_max=1.4)
    assert summary["verdict"] == "unknown"
    assert "name several, in the order alone, beside, beside, alone" in summary["reasons"][0]


def impact_of(tier, ratio, low, high, titles=("", "")):
    row = {"alone": "a", "beside": ["b", "c"], "op": "read", "tier": tier, "figure": "p50", "over": [3, 3]}
    return row | {"ratio": ratio, "range": [low, high], "limit": None, "ok": None, "titles": list(titles)}


def test_the_answer_is_of_what_differs_most_and_has_the_titles_of_the_phases():
    titles = "Reads alone", "Reads beside a log"
    rows = [
        impact_of("dram", 0.998, 0.99, 1.01, titles), impact_of("l2arc", 2.0, 0.5, 8.0, titles),
        impact_of("disk", 1.25, 1.11, 1.4, titles),
    ]  # fmt: skip
    made = [ImpactRow.from_json(row, "test") for row in rows]
    assert [*impact.answer(made)] == [
        'Reads from disk, "Reads beside a log" against "Reads alone": '
        "p50 1.25 times (95 %, over 3 phases: 1.11 to 1.4)."
    ]
    assert len([*impact.sentences(made)]) == 3
    # Where nothing is known to differ, the first; without titles, names.
    same = [ImpactRow.from_json(impact_of(tier, 1.1, 0.9, 1.3), "test") for tier in ("dram", "disk")]
    assert [text.partition(":")[0] for text in impact.answer(same)] == ["Reads from DRAM, b, c against a"]


@pytest.mark.parametrize(
    ("limit", "scatter", "verdict"), [(1.3, 0.01, "invalid"), (1.7, 0.01, "valid"), (1.5, 0.03, "unknown")]
)
def test_impact_of_several_phases_has_limits(limit, scatter, verdict):
    summary = sides((1, 4), (1.5, 4), scatter, p50_ratio_max=limit)
    p50 = next(row for row in summary["impact"] if row["figure"] == "p50")
    assert summary["verdict"] == verdict and p50["over"] == [4, 4]
    assert any("(95 %, over 4 phases: " in note for note in summary["notes"])
    if verdict != "valid":
        assert "beside-1, beside-2, beside-5, beside-6, beside alone-0" in summary["reasons"][0]


def test_a_range_that_says_nothing_is_not_printed():
    summary = sides((1, 2), (1.5, 2), 0.5, p50_ratio_max=1.4)
    assert summary["verdict"] == "unknown"
    for text in (*summary["reasons"], *(each for each in summary["notes"] if "synchronous writes" in each)):
        assert "p50 not known over 2 phases: as they scatter, about " in text and "95 %" not in text
    assert "on each side would tell" in summary["reasons"][0]


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
    assert "soak: in rows of 1:00:00" in page and "± 10 %" in page


def test_nothing_of_a_phase_without_ios():
    empty = pl.DataFrame(schema=LATENCY_SCHEMA)
    manifest = {**synthetic.manifest(), "soak": [{"phase": "read", "row_ns": SECOND}],
                "impact": [{"alone": "read", "beside": "write-slog", "op": "read"}]}  # fmt: skip
    typed = synthetic.parsed(manifest)
    [row] = soak.describe(typed, Latency.of(empty))
    assert row.tiers == () and impact.describe(typed, Latency.of(empty)) == []
