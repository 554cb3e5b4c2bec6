"""Whether forced writes are durable, and still there."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.forces.durability import durability, problem
from tests.reports import synthetic
from tests.reports.synthetic import SECOND

LATENCIES = {"sum_ns": 100_000_000, "min_ns": 90_000, "max_ns": 110_000, "bins": [[400, 1000]]}
FORCES = {
    "record_bytes": 8192, "per_force": 1, "method": "fdatasync", "direct": False, "append": False, "files": 1,
    "threads": 1, "writes_per_group": 1, "elapsed_ns": SECOND, "forces": 1000, "records": 1000,
    "overwritten": 0, "recovered": 1000, "damaged": 0, "group": LATENCIES,
    "write": LATENCIES, "force": LATENCIES,
}  # fmt: skip


def manifest(
    forces: dict[str, Any] | None = None,
    *,
    flushes: int | None = 1000,
    cache: str = "write back",
    **changes: Any,
) -> dict[str, Any]:
    counters = {"at_ns": 0, "reads": 0, "read_bytes": 0, "read_ns": 0, "writes": 0, "written_bytes": 0,
                "write_ns": 0, "in_flight": 0, "busy_ns": 0, "queue_ns": 0}  # fmt: skip
    moved = {"at_ns": SECOND, "writes": 1000, "written_bytes": 8_192_000}
    last = {**counters, **moved, **({} if flushes is None else {"flushes": flushes})}
    phase = {
        "name": "log", "title": "Log", "target": "device:log", "op": "write", "block_bytes": 8192,
        "outstanding": 1, "start_ns": 0, "end_ns": SECOND, "interval_ns": SECOND, "client_ios": 1000,
        "server_ios": None, "lost_events": None, "forces": {**FORCES, **(forces or {})},
        "devices": [{"device": "log0", "samples": [counters, last]}], "checks": [], "problems": [],
        "clients": [{"host": "log0", "ios": 1000, "first_ns": 0, "last_ns": SECOND, "skew_ns": 0,
                     "clock_offset_ns": 0, "clock_error_ns": 0}],
    }  # fmt: skip
    value = {**synthetic.manifest(), "phases": [{**phase, **changes}], "expect": []}
    value["testbed"] = {
        **value["testbed"],
        "devices": [{"name": "log0", "role": "log", "settings": {"write_cache": cache}}],
    }
    value.pop("reference", None)
    return value


def judged(*arguments: Any, **keywords: Any) -> tuple[str, str]:
    stored = Manifest.from_json(manifest(*arguments, **keywords), "manifest")
    found = durability(stored, stored.phases[0])
    return found.code, found.why


@pytest.mark.parametrize(
    ("forces", "keywords", "code", "why"),
    [
        ({}, {}, "durable", "1,000 FLUSH commands reached log0"),
        ({}, {"flushes": 999}, "not-durable", "999 FLUSH commands reached log0"),
        ({}, {"flushes": 0, "cache": "write through"}, "durable", "no volatile write cache"),
        ({}, {"flushes": None}, "unknown", "are not known"),
        ({}, {"cache": "unknown"}, "unknown", "are not known"),
        ({"threads": 4}, {"flushes": 250}, "durable", "250 FLUSH"),
        ({"threads": 4}, {"flushes": 249}, "not-durable", "249 FLUSH"),
        ({"method": "none"}, {}, "unforced", "nothing forces"),
        ({}, {"devices": []}, "unknown", "no device"),
    ],
)
def test_a_force_is_worth_what_reached_the_device(
    forces: dict[str, Any], keywords: dict[str, Any], code: str, why: str
) -> None:
    found = judged(forces, **keywords)
    assert found[0] == code and why in found[1]


@pytest.mark.parametrize(
    ("caches", "flushes", "code", "why"),
    [
        (("write through",) * 2, (0, 0), "durable", "no volatile write cache: ssd0, ssd1"),
        (("write back",) * 2, (1000, 1001), "durable", "1,000 FLUSH commands reached each of ssd0, ssd1"),
        (("write back",) * 2, (1999, 1), "not-durable", "1 FLUSH commands reached ssd1, whose"),
        (("write through", "write back"), (0, 1000), "durable", "1,000 FLUSH commands reached ssd1, whose"),
        (
            ("write through", "write back"),
            (1000, 999),
            "not-durable",
            "999 FLUSH commands reached ssd1, whose",
        ),
        (("write back", "unknown"), (1000, 1000), "unknown", "are not known"),
    ],
)
def test_a_force_of_an_array_reaches_each_of_its_members(
    caches: tuple[str, ...], flushes: tuple[int, ...], code: str, why: str
) -> None:
    """The array itself is no device of the testbed: it has no cache, and no count of FLUSH commands."""
    value = manifest(
        target="array", array={"level": "raid0", "chunk_bytes": 65536, "members": ["ssd0", "ssd1"]}
    )
    (phase,) = value["phases"]
    counters, last = phase["devices"][0]["samples"]
    rows = [("array", 0), *zip(("ssd0", "ssd1"), flushes, strict=True)]
    phase["devices"] = [
        {"device": name, "samples": [counters, {**last, "flushes": count}]} for name, count in rows
    ]
    value["testbed"]["devices"] = [
        {"name": f"ssd{number}", "role": "data", "settings": {"write_cache": cache}}
        for number, cache in enumerate(caches)
    ]
    stored = Manifest.from_json(value, "manifest")
    found = durability(stored, stored.phases[0])
    assert found.code == code and why in found.why


def test_without_sync_a_server_answers_from_memory() -> None:
    value = manifest(target=None)
    value["dataset"] = {"name": "p/d", "properties": {"sync": "disabled"}}
    stored = Manifest.from_json(value, "manifest")
    assert durability(stored, stored.phases[0]).code == "memory"


def summary(value: dict[str, Any]) -> Summary:
    rows = synthetic.table([(0, "log", "device", "log0", "write", "all", 98_304, 100_352, 1000)])
    return Summary.from_json(synthetic.summarise(rows, value), "summary")


def test_what_was_acknowledged_and_is_gone_makes_a_run_invalid() -> None:
    whole = summary(manifest())
    assert (whole.verdict, whole.forces[0].lost) == ("valid", 0), whole.reasons
    assert any(
        "1,000 records/s, 1,000 forces/s, 8.19 MB/s; 100 µs on average" in note for note in whole.notes
    )
    for changes, words in (
        ({"recovered": 997, "damaged": 1}, "2 are lost and 1 are damaged"),
        ({"recovered": 999}, "1 are lost and 0 are damaged"),
    ):
        found = summary(manifest(changes))
        assert found.verdict == "invalid" and words in " ".join(found.reasons), found.reasons
    overwritten = manifest({"records": 5000, "overwritten": 4000})
    assert problem(Manifest.from_json(overwritten, "m").phases[0]) == ""
    assert problem(Manifest.from_json(manifest({"recovered": None, "damaged": None}), "m").phases[0]) == ""


def test_one_that_is_not_durable_says_so_beside_its_rate() -> None:
    (note,) = [note for note in summary(manifest(flushes=0)).notes if note.startswith("log: ")]
    assert note.endswith(
        "Not durable: 0 FLUSH commands reached log0, whose write cache is volatile, for 1,000 forces."
    )
