"""An observed server: what made its clients wait, and whether it is judged by what it can be judged by."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kit.store.latency import Latency
from kit.store.parts.observed import ObservedRow
from kit.store.tables import LATENCY_SCHEMA
from reports.analysis import summary as summaries
from reports.analysis.headline import headline
from reports.features.observed.judge import lines, savings
from tests.reports import synthetic

S = 10**9


def rows_of(host: str, op: str, tier: str, us: int, ios: int, at_s: int = 45) -> pl.DataFrame:
    low, high = us * 1000, us * 1000 + 1000
    row = {"time_ns": at_s * S, "phase": "observed", "layer": "nfs-server", "host": host, "op": op,
           "tier": tier, "lo_ns": low, "hi_ns": high, "count": ios}  # fmt: skip
    return pl.DataFrame([row], schema=LATENCY_SCHEMA)


def check(id_: str, count: int, **more: Any) -> dict[str, Any]:
    return {"id": id_, "name": id_.lower(), "source": "counters", "expected": count, "found": count,
            "tolerance": 0, "ok": True, "instrument": "observed", **more}  # fmt: skip


LOADS = [
    ("tank/home", "read", "dram", 20, 880), ("tank/home", "read", "disk", 5000, 100),
    ("plain", "read", "disk", 5000, 20), ("plain", "write", "pool", 8000, 0),
]  # fmt: skip


def observed(**changes: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A server with two pools; 12 % of its reads wait for disks."""
    loads = [load for load in LOADS if load[4]]
    sums = [{"layer": "nfs-server", "host": host, "op": op, "tier": tier, "ios": ios,
             "sum_ns": ios * (us * 1000 + 500)} for host, op, tier, us, ios in loads]  # fmt: skip
    reads = sum(load[4] for load in loads)
    disk = sum(load[4] for load in loads if load[2] == "disk")
    phase = {
        "name": "observed", "interval_ns": S, "client_ios": 0, "server_ios": reads, "lost_events": 0,
        "start_ns": 0, "end_ns": 60 * S, "sums": sums, "tiers": ["disk", "dram"],
        "checks": [
            check("NFS-CALLS", reads, op="read"), check("NFS-CALLS", 0, op="write"),
            check("NFS-CALLS", 0, op="commit"), check("NFS-OPERATIONS", reads), check("NFS-OPERATIONS", 0),
            check("ARC-MISSES", disk), check("L2ARC-HITS", 0),
            check("ZIL-COMMITS", 0),
        ],
    }  # fmt: skip
    callers = [{"caller": "10.0.0.5", "file_system": each["host"], "op": each["op"], "tier": each["tier"],
                "ios": each["ios"], "waited_ns": each["sum_ns"]} for each in sums]  # fmt: skip
    manifest = {
        "format": 1, "run": "20261121T053000Z-ab12cd", "workload": "observe", "title": "What nas serves",
        "started_utc": "2026-11-21T05:30:00Z", "clock": {"kind": "real", "dilation": 1}, "ended": True,
        "testbed": {"name": "nas", "server": "nas", "emulated": False}, "wall_s": 70.0,
        "load": "the load of its own clients", "phases": [phase],
        "observed": {"pools": [{"name": "tank", "log_vdevs": [1]}, {"name": "plain"}],
                     "file_systems": ["plain", "tank/home"], "elsewhere": 7, "failed": 1, "callers": callers},
    }  # fmt: skip
    phase |= changes.pop("phase", {})
    return pl.concat([rows_of(*load) for load in loads]), manifest | changes


def summary_of(frame: pl.DataFrame, manifest: dict[str, Any]) -> Any:
    return summaries.summarise(Latency.of(frame), synthetic.parsed(manifest))


def test_the_first_line_says_who_costs_the_most_time() -> None:
    frame, manifest = observed()
    summary = summary_of(frame, manifest)
    assert summary.verdict == "valid", summary.reasons
    said = headline(frame, synthetic.parsed(manifest), summary)
    assert said.sentence == (
        "12.0 % of all I/Os are reads that disks answer. Clients spend 97.1 % of their waiting on them, a "
        "mean of 5 ms each."
    )
    assert said.evidence[0].startswith(
        "Complete: 1,000 reads and writes (tracer = counters of the NFS server)"
    )
    rows = [(row.file_system, row.tier, row.ios) for row in summary.observed]
    assert rows == [("tank/home", "disk", 100), ("plain", "disk", 20), ("tank/home", "dram", 880)]
    # 120 of 5 ms, and 880 of 20 us that no device has a part in.
    assert next(iter(lines(summary))) == (
        "Saved at most, of all waiting: faster disks 97.1 %, a larger cache 97.1 %."
    )
    assert any(
        "Not among them: requests to file systems that are not of ZFS (7)." in note for note in summary.notes
    )


def test_time_without_ios_is_said_as_it_is_an_empty_part_of_the_map() -> None:
    frame, manifest = observed()
    # All of them ended in one second of sixty.
    assert "No I/O ended in 59 of 60 intervals of 1 s." in summary_of(frame, manifest).notes
    busy = pl.concat([rows_of("plain", "read", "dram", 20, 1, at_s) for at_s in range(56)])
    notes = summary_of(pl.concat([frame, busy]), manifest).notes
    assert not any("No I/O ended" in note for note in notes), "4 of 60 are no large part"


@pytest.mark.parametrize(
    ("changes", "id_"),
    [
        ({"lost_events": 3}, "LOST-EVENTS"), ({"server_ios": 999}, "STORED-IOS"),
        ({"problems": [{"code": "tier-tracer", "text": "the tracer died"}]}, "TIER-TRACER"),
        ({"checks": []}, "MANIFEST-VALUES"), ({"start_ns": 46 * S}, "PHASE-TIMES"),
    ],
)  # fmt: skip
def test_what_does_not_close_makes_it_unknown(changes: dict[str, Any], id_: str) -> None:
    summary = summary_of(*observed(phase=changes))
    assert summary.verdict == "unknown"
    assert id_ in {each.id for each in summary.causes}, summary.reasons


def test_a_special_vdev_is_a_tier_of_its_own() -> None:
    loads = [("plain", "read", "special", 1000, 30), ("plain", "write", "special", 1000, 10),
             ("plain", "read", "disk", 5000, 2)]  # fmt: skip
    rows = [
        ObservedRow(client="a", file_system=name, op=op, tier=tier, ios=ios, share=0.0,
                    waited_ns=ios * us * 1000, waited_share=0.0)
        for name, op, tier, us, ios in loads
    ]  # fmt: skip
    assert dict(savings(rows)) == pytest.approx(
        {"a faster special vdev": 0.8, "faster disks": 0.4, "a larger cache": 0.8}
    )


def test_a_file_system_that_the_manifest_does_not_have_is_a_contradiction() -> None:
    frame, manifest = observed()
    manifest["observed"]["file_systems"] = ["tank/home"]
    assert summary_of(frame, manifest).verdict == "unknown"


CALLS = [
    ("postgres", "tank/db", "fsync", "slog", 412, 100), ("postgres", "tank/db", "write", "dram", 20, 300),
    ("cat", "plain", "read", "disk", 2000, 1),
]  # fmt: skip


def of_programs() -> tuple[pl.DataFrame, dict[str, Any]]:
    """A database that waits for its log device."""
    _, manifest = observed()
    phase = manifest["phases"][0]
    waited = [(*call, call[5] * (call[4] * 1000 + 500)) for call in CALLS]
    phase["sums"] = [
        {"layer": "nfs-server", "host": host, "op": op, "tier": tier, "ios": ios, "sum_ns": sum_ns}
        for _, host, op, tier, _, ios, sum_ns in waited
    ]  # fmt: skip
    calls = {("tank/db", "read"): 0, ("tank/db", "write"): 300, ("plain", "read"): 1, ("plain", "write"): 0}
    phase["checks"] = [
        *(check("DATASET-CALLS", n, op=op, name=f"{op}s of {name}") for (name, op), n in calls.items()),
        check("ARC-MISSES", 1), check("L2ARC-HITS", 0), check("ZIL-COMMITS", 100),
    ]  # fmt: skip
    phase |= {"server_ios": 301, "tiers": ["disk", "dram", "slog"]}
    programs = [
        {"caller": name, "file_system": host, "op": op, "tier": tier, "ios": ios, "waited_ns": sum_ns}
        for name, host, op, tier, _, ios, sum_ns in waited
    ]  # fmt: skip
    manifest["observed"] = {
        "local": True, "callers": programs, "file_systems": ["plain", "tank/db"], "mapped": 5, "empty": 2,
    }  # fmt: skip
    return pl.concat([rows_of(*call[1:]) for call in CALLS]), manifest


def test_the_first_line_says_what_a_program_waits_for() -> None:
    frame, manifest = of_programs()
    summary = summary_of(frame, manifest)
    assert summary.verdict == "valid", summary.reasons
    said = headline(frame, synthetic.parsed(manifest), summary)
    assert said.sentence == (
        "Fsyncs of postgres on the dataset 'tank/db' wait for the log device (SLOG): 83.5 % of all waiting, "
        "a mean of 412 µs each."
    )
    assert said.evidence[0].startswith("Complete: 301 reads and writes (tracer = counters of datasets)")
    assert [(row.program, row.op, row.ios) for row in summary.observed] == [
        ("postgres", "fsync", 100), ("postgres", "write", 300), ("cat", "read", 1),
    ]  # fmt: skip
    # Writes to DRAM may wait for disks that do not keep up.
    assert next(iter(lines(summary))) == (
        "Saved at most, of all waiting: a faster log device 83.5 %, faster disks 16.5 %, a larger cache "
        "4.0 %."
    )
    assert [note for note in summary.notes if "Not among them" in note] == [
        "Not among them: reads and writes that moved no byte, as at the end of a file (2).",
        "Not among them: reads and writes of pages of mapped files (5).",
    ]


@pytest.mark.parametrize("damage", ["no checks", "another count", "a program less", "no reads"])
def test_programs_that_do_not_add_up_are_unknown(damage: str) -> None:
    frame, manifest = of_programs()
    made = manifest["phases"][0]["checks"]
    if damage == "no checks":
        made[:] = made[4:]
    elif damage == "another count":
        made[1] |= {"expected": 299, "found": 299}
    elif damage == "a program less":
        manifest["observed"]["callers"].pop()
    else:
        manifest["phases"][0]["server_ios"] = 0
    summary = summary_of(frame, manifest)
    assert summary.verdict == "unknown"
    assert {each.id for each in summary.causes} & {"MANIFEST-VALUES", "NO-IO"}, summary.reasons


def test_a_load_of_the_kit_is_not_judged() -> None:
    summary = summary_of(*observed())
    outcomes = {each.id: each for each in summary.outcomes}
    assert outcomes["LOAD"].state == outcomes["WARM-UP"].state == "not asked for"
    # Nothing is lacking that such a run could have.
    assert summary.tally.unavailable == 0
    assert outcomes["LOST-EVENTS"].state == "ok"
