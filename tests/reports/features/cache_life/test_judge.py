"""What is said of caches that got warm, or came back."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.tables import LATENCY_SCHEMA
from reports.features.cache_life.judge import answer, describe, sentences
from tests.reports.synthetic import summary_of

MIB, S = 1 << 20, 10**9
POINT = {"at_s": 0.0, "ios": 300, "shares": {}, "p50_us": {}, "l2arc_bytes": 0, "arc_bytes": 0}
LIFE: dict[str, Any] = {
    "phase": "cold", "cold": True, "window_s": 1.0,
    "points": [POINT, {**POINT, "at_s": 1.0, "ios": 1500, "shares": {"l2arc": 0.4}}],
    "final_share": 0.4, "settled": True, "captured": 0.85, "fed_bytes_per_s": 1e7,
    "feed_max_bytes_per_s": 4e7,
    "capacity_bytes": 400_000_000_000, "imports": [],
    "reached": [{"part": 0.5, "at_s": 7.64, "low_s": 7.0, "high_s": 8.0},
                {"part": 0.9, "at_s": 13.1, "low_s": 9.0, "high_s": None}],
}  # fmt: skip
IMPORT: dict[str, Any] = {
    "begin_s": 6.0, "end_s": 7.9, "window_s": 6.0, "share_before": 0.4, "share_after": 0.38,
    "cached_before": 0.8, "cached_after": 0.6, "rebuilt_s": 1.5, "rebuilt_bytes": 10**8, "failures": 0,
}  # fmt: skip


def said(**changed: Any) -> list[str]:
    return [*sentences(summary_of(caches=[{**LIFE, **changed}]))]


def of_import(**changed: Any) -> str:
    return said(cold=False, imports=[{**IMPORT, **changed}])[0]


def test_how_an_l2arc_gets_warm() -> None:
    whole, rates, devices, captured = said()
    assert whole == (
        "From empty caches on the L2ARC gets to answer 40 % of the reads: 50 % of that after 7.6 s and "
        "90 % of that after 13 s."
    )
    assert rates == "Reads a second: 300 at first, 1,500 at the end (5 times)."
    # 400 GB at 40 MB/s: 10,000 s.
    assert "(400 GB) takes 2 h 46 min at the feed's most" in devices, devices
    assert captured.endswith("85 % were in it.")
    assert [*answer(summary_of(caches=[LIFE]))] == [whole]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"settled": False},
            "is not warm at the end: it answers 40 % of the reads, and the share still rises",
        ),
        ({"settled": None}, "the phase is too short to say more"),
        ({"reached": []}, "the phase is too short to say when"),
        ({"points": [POINT]}, "the L2ARC answered no read"),
    ],
)
def test_what_is_not_known_is_not_said(changed: dict[str, Any], words: str) -> None:
    assert words in said(**changed)[0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "comes back warm: 38 % of the reads, 40 % before."),
        (
            {"share_after": 0.02, "rebuilt_s": None, "rebuilt_bytes": 0},
            "comes back cold: 2 % of the reads, 40 % before; nothing was rebuilt.",
        ),
        (
            {"share_after": 0.02, "failures": 1},
            "cold: 2 % of the reads, 40 % before; its header could not be used.",
        ),
        ({"share_after": 0.02, "rebuilt_s": None}, "40 % before; 100 MB of it had been rebuilt."),
        ({"share_after": 0.0, "share_before": 0.0}, "the L2ARC answers 0 % of the reads, 0 % before."),
        ({"rebuilt_bytes": 0, "rebuilt_s": None}, "the L2ARC answers 38 % of the reads, 40 % before."),
        ({"share_after": 0.2}, "the L2ARC answers 20 % of the reads, 40 % before."),
        ({"share_after": None}, "Too few reads beside an export and import of the pool (1.9 s)"),
    ],
)
def test_what_an_l2arc_is_worth_after_an_import(changed: dict[str, Any], words: str) -> None:
    assert words in of_import(**changed)


@pytest.mark.parametrize(
    ("reads", "before", "after", "words"),
    [
        # 2 of 100 reads, then none: it may be chance. Of 10,000 it is not.
        (100, 0.02, 0.0, "answers 0 % of the reads, 2 % before, which may be chance: too few reads"),
        (10_000, 0.02, 0.0, "comes back cold"),
        (100, 0.02, 0.02, "which may be chance"),
        (10_000, 0.02, 0.02, "comes back warm"),
        (400, 0.15, 0.015, "comes back cold"),
    ],
)
def test_few_reads_call_no_l2arc_cold_or_warm(reads: int, before: float, after: float, words: str) -> None:
    counts = {"reads_before": reads, "reads_after": reads}
    assert words in of_import(share_before=before, share_after=after, **counts)


def test_few_reads_have_no_ratio() -> None:
    points = [{**POINT, "ios": 3}, {**POINT, "at_s": 1.0, "ios": 9, "shares": {"l2arc": 0.4}}]
    assert said(points=points)[1] == (
        "Reads a second: 3 at first, 9 at the end (too few reads to say how many times)."
    )


REBOOT = {"kind": "reboot", "begin_s": -95.0, "end_s": 0.0, "import_s": -15.0, "rebuilt_s": 3.2}


@pytest.mark.parametrize(
    ("changed", "first", "second"),
    [
        (
            {},
            "After a reboot of the server (1 min 35 s until the first read) the L2ARC comes back warm: 38 %",
            "The import of the pool began 1 min 20 s after the begin of the reboot; 3.2 s after that the "
            "L2ARC was read in (100 MB of records).",
        ),
        (
            {"kind": "power-cut", "share_after": 0.02, "rebuilt_s": None, "rebuilt_bytes": 0},
            "comes back cold: 2 % of the reads, 40 % before; nothing was rebuilt.",
            "after the begin of the power cut; nothing of the L2ARC was read in.",
        ),
        (
            {"rebuilt_s": None},
            "comes back warm",
            "100 MB of records of the L2ARC had been read in when the phase ended, not all.",
        ),
    ],
)
def test_what_an_l2arc_is_worth_after_a_restart(changed: dict[str, Any], first: str, second: str) -> None:
    found = said(cold=False, imports=[{**IMPORT, **REBOOT, **changed}])
    assert first in found[0] and second in found[1], found


def stored(**changed: Any) -> Manifest:
    """A phase of 20 s, whose pool is away from 10 to 12 s, and a cache device of 1 GB."""
    sample = dict.fromkeys(
        ("arc_bytes", "l2arc_bytes", "l2arc_data_bytes", "header_bytes", "fed_bytes", "evicted_cached_bytes",
         "evicted_eligible_bytes", "rebuilds", "rebuilt_bytes", "rebuild_failures"), 0,
    )  # fmt: skip
    samples = [
        {**sample, "at_ns": (100 + n) * S, "l2arc_bytes": min(n, 5) * MIB, "fed_bytes": n * MIB,
         "evicted_cached_bytes": 3 * n * MIB, "evicted_eligible_bytes": n * MIB, "rebuilds": int(n >= 11)}
        for n in range(21)
    ]  # fmt: skip
    action = {
        "kind": "event",
        "what": "export-import",
        "text": "",
        "at_ns": 10 * S,
        "begin_ns": 110 * S,
        "end_ns": 112 * S,
    }
    phase = {
        "name": "cold", "cold": True, "interval_ns": S, "client_ios": 0, "server_ios": 0, "lost_events": 0,
        "start_ns": 100 * S, "end_ns": 120 * S, "caches": samples, "schedule": {"actions": [action]},
    }  # fmt: skip
    testbed = {"devices": [{"name": "cache0", "role": "cache", "size_bytes": 10**9}]}
    return Manifest.from_json({"phases": [phase], "testbed": testbed, **changed}, "manifest.json")


def latency() -> Latency:
    """A hundred reads each second: the L2ARC answers none for five seconds, then half."""
    rows = []
    for second in (*range(10), *range(12, 20)):
        for tier, count in (("disk", 100), ("l2arc", 0)) if second < 5 else (("disk", 50), ("l2arc", 50)):
            rows.append(((100 + second) * S, "cold", "nfs-server", "server", "read", tier, 1000, 1024, count))
    return Latency.of(pl.DataFrame([row for row in rows if row[-1]], schema=LATENCY_SCHEMA, orient="row"))


def test_a_stored_phase_is_described() -> None:
    modules = {"zfs": {"l2arc_write_max": "4000000", "l2arc_write_boost": "4000000", "l2arc_feed_secs": "1",
                       "l2arc_feed_min_ms": "200", "l2arc_feed_again": "1"}}  # fmt: skip
    [life] = describe(stored(modules=modules), latency())
    assert (life.final_share, life.captured, life.capacity_bytes) == (0.5, 0.75, 10**9)
    assert life.fed_bytes_per_s == MIB and life.feed_max_bytes_per_s == 40e6
    assert 4.5 <= life.reached[0].at_s <= 5.5
    [imported] = life.imports
    assert (imported.begin_s, imported.end_s, imported.rebuilt_s) == (10, 12, 1)
    # The eight seconds before it, but for the last: of seven, four have half.
    assert imported.share_before == pytest.approx(2 / 7)
    assert imported.share_after == 0.5
    assert [each.at_s for each in life.points[:3]] == [0, 1, 2] and life.points[5].shares == {
        "disk": 0.5,
        "l2arc": 0.5,
    }


def test_without_parameters_or_samples_less_is_known() -> None:
    [life] = describe(stored(), latency())
    assert life.feed_max_bytes_per_s is None
    assert describe(Manifest.from_json({"phases": []}, "manifest.json"), latency()) == []


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 400, "\u0663", "1e9"])
def test_parameters_of_a_stranger_are_no_feed(text: str) -> None:
    names = ("write_max", "write_boost", "feed_secs", "feed_min_ms", "feed_again")
    modules = {"zfs": {f"l2arc_{name}": text for name in names}}
    [life] = describe(stored(modules=modules), latency())
    assert life.feed_max_bytes_per_s is None


def test_a_restart_is_held_beside_the_phase_before() -> None:
    """Of which the last twenty seconds are held beside the first twenty after it."""
    [cold] = stored().phases
    restarted = {"kind": "reboot", "begin_ns": 121 * S, "up_ns": 180 * S, "import_ns": 190 * S,
                 "rebuilt_ns": 4 * S, "rebuilt_bytes": 10**7}  # fmt: skip
    samples = [each.model_copy(update={"at_ns": each.at_ns + 100 * S}) for each in cold.caches]
    after = {**cold.as_json(), "name": "after", "cold": False, "start_ns": 200 * S, "end_ns": 220 * S}
    after |= {"schedule": None, "restarted": restarted, "caches": [each.as_json() for each in samples]}
    manifest = stored(phases=[cold.as_json(), after])
    rows = latency().cells
    moved = rows.with_columns(pl.lit("after").alias("phase"), pl.col("time_ns") + 100 * S)
    both = pl.concat([rows, moved.select(rows.columns).cast(dict(rows.schema))])
    [_, life] = describe(manifest, Latency.of(both.select(pl.DataFrame(schema=LATENCY_SCHEMA).columns)))
    [found] = life.imports
    assert (found.kind, found.begin_s, found.import_s, found.end_s) == ("reboot", -79, -10, 0)
    assert (found.rebuilt_s, found.rebuilt_bytes, found.window_s) == (4, 10**7, 20)
    # Without the interval in which the load ended: 600 of 1,700 reads, and 650 of all 1,800.
    assert found.share_before == pytest.approx(600 / 1700)
    assert found.share_after == pytest.approx(650 / 1800)
    # The windows of the phase are before no import.
    assert life.final_share == 0.5
