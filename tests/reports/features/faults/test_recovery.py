"""Declared faults and events: recovery, errors and data, on made-up runs whose recovery is known."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from reports.features.faults import judge as recovery
from reports.verdict.outcomes import verdict_of
from tests.reports.synthetic import Row, table

S = 10**9
USUAL, SLOW = (98304, 100352), (9961472, 10223616)
COUNT = 180
BEGIN = 120


def made(
    slow: Container[int] = range(0),
    *,
    empty: Container[int] = range(0),
    reads: bool = False,
    data: dict[str, Any] | None = None,
    **action: Any,
) -> tuple[Phase, Latency]:
    """Three minutes of seconds with 20 writes each, a fault from 120 to 122 s; `slow` seconds are slow.

    `reads`: in each second is also a read, which is never slow.
    """
    rows: list[Row] = []
    for second in range(COUNT):
        lo, hi = SLOW if second in slow else USUAL
        for layer, host in (("nfs-server", "lab"), ("client", "lab/client0")):
            if second not in empty:
                rows.append((second * S, "soak", layer, host, "write", "slog", lo, hi, 20))
            if reads:
                rows.append((second * S, "soak", layer, host, "read", "dram", *USUAL, 1))
    declared = {
        "kind": "fault", "what": "stall", "text": "log0 stalls for 2s", "device": "log0", "at_ns": BEGIN * S,
        "for_ns": 2 * S, "begin_ns": BEGIN * S, "end_ns": 122 * S, "times": 1, "expect": "recovers",
        "recover_within_ns": 5 * S, **action,
    }  # fmt: skip
    schedule = {
        "load_begun_ns": 0, "actions": [declared], "client_errors": 0, "retransmissions": 0,
        "data": data or {"data_errors": 0, "scan": "scrub repaired 0B"},
    }  # fmt: skip
    phase = {
        "name": "soak", "interval_ns": S, "client_ios": 20 * COUNT, "server_ios": 20 * COUNT,
        "lost_events": 0, "start_ns": 0, "end_ns": COUNT * S, "schedule": schedule,
    }  # fmt: skip
    return Phase.from_json(phase, "phase"), Latency.of(table(rows))


def run(slow: Container[int] = range(0), **more: Any) -> recovery.JudgedFaults:
    phase, latency = made(slow, **more)
    return recovery.judge(Manifest(phases=(phase,)), latency)


def unmet(judged: recovery.JudgedFaults) -> list[Outcome]:
    return [each for each in judged.outcomes if each.makes == "invalid"]


def unknown(judged: recovery.JudgedFaults) -> list[Outcome]:
    return [each for each in judged.outcomes if each.makes == "unknown"]


def decisive(judged: recovery.JudgedFaults) -> bool:
    """Whether the run is invalid whatever else is unknown."""
    return verdict_of([*judged.outcomes, Outcome.failed("NOT-ENDED", "killed")]) == "invalid"


@pytest.mark.parametrize(
    ("slow", "recovered_s", "ok"),
    [
        (range(0), 0, True),
        (range(120, 123), 0, True),
        (range(120, 126), 4, True),
        (range(120, 130), 8, False),
    ],
)
def test_recovery_is_the_first_of_three_intervals_in_the_band_but_for_one(
    slow: range, recovered_s: float, ok: bool
) -> None:
    judged = run(slow)
    (row,) = judged.rows
    assert (row.recovered_s, row.ok) == (recovered_s, ok)
    assert row.recovered_from_begin_s == recovered_s + 2 and row.resolution_s == 1
    assert bool(unmet(judged)) is not ok
    if not ok:
        assert str(unmet(judged)[0]).startswith("soak: fault at 0:02:00 (log0 stalls for 2s): ")
        assert "took 8 s from the fault's end to recover, limit 5 s" in unmet(judged)[0].text


@pytest.mark.parametrize(
    ("slow", "action", "until_s"),
    [
        (range(120, 130), {}, 131),  # it recovered, later than it may
        (range(120, COUNT), {}, 128),  # never: until it should have
        (range(120, COUNT), {"recover_within_ns": None}, COUNT),
        # With so few intervals before it that it is not judged: as long as it went on.
        (range(10, 16), {"begin_ns": 10 * S, "end_ns": 13 * S, "recover_within_ns": None}, 13),
    ],
)
def test_a_fault_is_felt_until_latency_is_as_before(
    slow: range, action: dict[str, Any], until_s: int
) -> None:
    [(from_ns, until_ns)] = recovery.disturbed(*made(slow, **action))
    assert from_ns == action.get("begin_ns", BEGIN * S)
    assert until_ns / S == pytest.approx(until_s, abs=1.01)


def test_two_good_intervals_are_no_recovery_and_none_is_invalid() -> None:
    judged = run(range(BEGIN, COUNT, 3))
    assert judged.rows[0].recovered_s is None
    assert judged.rows[0].id == "FAULT-RECOVERY" and "did not recover" in unmet(judged)[0].text
    assert not decisive(judged) and not unknown(judged)


def test_what_comes_back_and_leaves_again_more_often_than_by_chance_is_no_recovery() -> None:
    often = [second for second in range(130, COUNT) if second % 5 == 0]
    judged = run(often)
    assert judged.rows[0].recovered_s == 0 and judged.rows[0].id == "FAULT-RECOVERY"
    assert "intervals from recovery on are slower than before" in unmet(judged)[0].text
    assert run(often[:1]).rows[0].ok


def test_an_interval_without_io_is_not_in_the_band_and_is_the_longest_gap() -> None:
    (row,) = run(empty=range(121, 125)).rows
    assert (row.recovered_s, row.gap_s) == (3, 4)


@pytest.mark.parametrize(("every", "resolution_s"), [(1, 1), (2, 2), (3, 3)])
def test_seconds_without_writes_are_taken_together(every: int, resolution_s: int) -> None:
    """Else only reads would be judged, and writes that stay slow would be as declared."""
    without = [second for second in range(COUNT) if second % every]
    lasts = {"reads": True, "empty": without, "end_ns": 190 * S, "for_ns": None, "lasted": True,
             "recover_within_ns": 7 * S}  # fmt: skip
    judged = run(range(BEGIN, COUNT), **lasts)
    (row,) = judged.rows
    assert {each.op for each in row.band} == {"read", "write"}
    assert (row.id, row.recovered_s, row.resolution_s) == ("FAULT-RECOVERY", None, resolution_s)
    (row,) = run(range(BEGIN, 124), **lasts).rows
    assert row.ok and 1 <= row.recovered_s <= 6


def test_writes_that_some_intervals_before_the_fault_are_without_are_not_judged() -> None:
    judged = run(range(BEGIN, COUNT), reads=True, empty=[n for n in range(COUNT) if n % 7])
    (row,) = judged.rows
    assert [each.op for each in row.band] == ["read", "read"] and row.ok is None
    assert [reason.id for reason in unknown(judged)] == [row.id] == ["FAULT-UNJUDGED"] and not unmet(judged)
    assert "write at the server" in row.why and "write at the clients" in row.why


def test_what_lasts_recovers_from_its_begin() -> None:
    (row,) = run(range(120, 124), end_ns=190 * S, for_ns=None, lasted=True).rows
    assert (row.recovered_s, row.ok) == (4, True)
    judged = run(range(120, COUNT), end_ns=190 * S, for_ns=None, lasted=True)
    assert judged.rows[0].id == "FAULT-RECOVERY"


@pytest.mark.parametrize(
    ("expect", "slow", "empty", "code"),
    [
        ("unaffected", range(0), range(0), None),
        ("unaffected", range(121, 122), range(0), None),
        ("unaffected", range(120, 130), range(0), "FAULT-AFFECTED"),
        ("unaffected", range(0), range(130, 140), "FAULT-AFFECTED"),
        ("degraded", range(120, 180), range(0), None),
        ("degraded", range(0), range(120, 180), "FAULT-DEGRADED"),
    ],
)
def test_other_expectations(expect: str, slow: range, empty: range, code: str | None) -> None:
    judged = run(slow, empty=empty, expect=expect, recover_within_ns=None, end_ns=140 * S)
    assert judged.rows[0].id == code and bool(unmet(judged)) == bool(code)


def test_what_did_not_happen_makes_the_run_unknown() -> None:
    for change in ({"begin_ns": None, "end_ns": None}, {"error": "`zpool` ended with 1"}, {"was_cut": True}):
        judged = run(**change)
        assert unknown(judged)[0].id == "FAULT-MISSING" and judged.rows[0].ok is None
    judged = run(kind="event", what="scrub", text="scrub", begin_ns=None, end_ns=None)
    assert str(unknown(judged)[0]).startswith("soak: event at 0:02:00 (scrub): it never began")
    assert run(kind="event", what="scrub", text="scrub", was_cut=True).rows[0].ok is True


def test_data_errors_decide_whatever_else_is_unknown() -> None:
    judged = run(data={"data_errors": 2, "scan": "scrub repaired 0B with 2 errors"})
    assert decisive(judged) and str(unmet(judged)[0]).startswith("soak: after the faults 2 data errors")
    judged = run(data={"data_errors": None, "why": "the scrub did not end"})
    assert [str(each) for each in unknown(judged)] == [
        "soak: the data could not be read back after the faults: the scrub did not end."
    ]


@pytest.mark.parametrize(
    ("expect", "begin", "end", "slow", "words"),
    [
        ("recovers", 3, 4, range(0), "fewer than 30 intervals"),
        ("unaffected", 30, 32, range(0), "fewer than 30 intervals"),
        ("unaffected", 178, 179, range(0), "even if no interval of it were in the band"),
        ("recovers", 176, 178, range(175, 180), "too few intervals are after it"),
    ],
)
def test_what_so_few_intervals_cannot_tell_is_not_judged(
    expect: str, begin: int, end: int, slow: range, words: str
) -> None:
    judged = run(slow, expect=expect, recover_within_ns=None, begin_ns=begin * S, end_ns=end * S)
    assert judged.rows[0].id == "FAULT-UNJUDGED" and judged.rows[0].ok is None and not unmet(judged)
    assert words in unknown(judged)[0].text


def test_io_that_goes_on_is_judged_without_a_band() -> None:
    assert run(begin_ns=3 * S, end_ns=4 * S, expect="degraded", recover_within_ns=None).rows[0].ok
