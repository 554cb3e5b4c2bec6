"""The reasons of a verdict name what was done to the devices."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kit.store.checks.outcome import Outcome
from tests.reports import synthetic

FAULT = {
    "time_ns": 5, "end_ns": None, "kind": "fault", "text": "fault",
    "fault": {"declared": False, "what": "cache0 error 16384 8 read"},
}  # fmt: skip
ERRORS = {"name": "L2ARC errors", "source": "arcstats l2_io_error", "expected": 0, "found": 7, "tolerance": 0}
NAMED = (
    "read: faults were injected into emulated devices until the end of this phase: cache0 error 16384 8 read."
)


def judged(events: list[dict[str, Any]], *checks: dict[str, Any]) -> tuple[str, list[str]]:
    manifest = synthetic.manifest()
    phase = manifest["phases"][0]
    phase["events"] = events
    phase["checks"] += checks
    summary = synthetic.summarise(synthetic.latency(), manifest)
    return summary["verdict"], summary["reasons"]


def test_a_reason_names_the_injected_fault() -> None:
    verdict, reasons = judged([FAULT], ERRORS | {"ok": False})
    assert verdict == "unknown"
    assert reasons == [
        "read: L2ARC errors (arcstats l2_io_error): expected 0, found 7, tolerance 0.", NAMED,
    ]  # fmt: skip


def test_a_fault_that_no_check_minds_is_no_reason() -> None:
    """A stall, for example: its latencies are those that were asked for."""
    verdict, reasons = judged([FAULT], ERRORS | {"found": 0, "ok": True})
    assert verdict == "valid" and not any("fault" in reason for reason in reasons)


def test_other_events_are_no_faults_and_many_faults_are_counted() -> None:
    feed = {"time_ns": 5, "end_ns": None, "kind": "l2arc-feed", "text": "L2ARC feed"}
    assert len(judged([feed], ERRORS | {"ok": False})[1]) == 1
    many = [FAULT | {"fault": {"declared": False, "what": f"log0 stall {n}"}} for n in range(10)]
    (_, reason) = judged([feed, *many], ERRORS | {"ok": False})[1]
    assert "log0 stall 0, log0 stall 1, " in reason and reason.endswith("log0 stall 7 and 2 more.")


def with_rows(*rows: synthetic.Row) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    frame = pl.concat([synthetic.latency(), synthetic.table(rows)])
    summary = synthetic.summarise(frame, synthetic.manifest())
    return summary, [row for row in summary["rows"] if (row["phase"], row["layer"]) == ("read", "nfs-server")]


def test_commits_are_no_ios_of_the_clients() -> None:
    """They are rows of their own, and no share of another operation."""
    summary, rows = with_rows((0, "read", "nfs-server", "lab", "commit", "slog", 139264, 143360, 3))
    assert summary["verdict"] == "valid", summary["reasons"]
    assert [(row["count"], row["share"]) for row in rows if row["op"] == "commit"] == [(3, 1.0)]
    assert sum(row["share"] for row in rows if row["op"] == "read") == pytest.approx(1)
    # Other I/Os that no client sent are a reason.
    summary, _ = with_rows((0, "read", "nfs-server", "lab", "write", "slog", 139264, 143360, 3))
    assert summary["verdict"] == "unknown"


PROBE = {"answered_bytes": 64 << 20, "beyond_bytes": None, "again_p50_ns": 200_000, "whole_p50_ns": 8_000_000}


@pytest.mark.parametrize(
    ("probe", "problems", "verdict", "state"),
    [
        (None, [], "valid", "not asked for"),
        (PROBE, [], "valid", "ok"),
        (PROBE, [{"code": "device-dram", "text": "data0 answers"}], "unknown", "failed"),
    ],
)
def test_dram_of_a_device_is_a_check_where_it_was_looked_for(
    probe: dict[str, Any] | None, problems: list[dict[str, str]], verdict: str, state: str
) -> None:
    manifest = synthetic.manifest()
    manifest["problems"] = problems
    manifest["testbed"]["devices"] = [{"name": "data0", **({"dram_probe": probe} if probe else {})}]
    summary = synthetic.summarise(synthetic.latency(), manifest)
    assert summary["verdict"] == verdict, summary["reasons"]
    [found] = (Outcome.from_json(one, "x") for one in summary["outcomes"] if one["id"] == "DEVICE-DRAM")
    assert found.state == state


def test_what_the_doctor_warns_of_and_what_is_not_known_is_said_beside_the_verdict():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    words = {"host": "nas", "meaning": "A CPU that slows down adds its ramp-up time.", "remedy": "cpupower"}
    manifest["findings"] = [
        {**words, "check": "governor", "state": "warn", "found": "powersave on 8 of 8 policies"},
        {**words, "check": "smt", "state": "note", "found": "on"},
    ]
    missing = {"id": "OTHER-POOL", "name": "I/Os of another pool, tank", "source": "iostats", "of": "tank"}
    for phase in manifest["phases"]:
        phase["unavailable"] = [{**missing, "why": "not available on OpenZFS 2.1"}]
    summary = synthetic.summarise(frame, manifest)
    assert summary["notes"] == [
        "nas: governor: powersave on 8 of 8 policies. A CPU that slows down adds its ramp-up time.",
        "Whether the pool tank was used meanwhile is not known: not available on OpenZFS 2.1.",
    ]
    assert summary["verdict"] == synthetic.summarise(frame, synthetic.manifest())["verdict"]
    page = synthetic.render(frame, manifest, summary)
    assert all(note in page for note in summary["notes"])
