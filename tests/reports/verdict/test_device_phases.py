"""The verdict, the headline and the notes of a run whose phases went to bare devices."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kit.store.summary import Summary
from reports.analysis import headline
from tests.reports import synthetic
from tests.reports.synthetic import SECOND

PHASES = {"write-a": {"a": 1000}, "write-b": {"b": 2000}, "all": {"a": 1000, "b": 2000}}


def latency() -> pl.DataFrame:
    """All I/Os in one bin."""
    rows = [
        (n * 100 * SECOND, name, "device", host, "write", "all", 139264, 143360, ios)
        for n, (name, devices) in enumerate(PHASES.items())
        for host, ios in devices.items()
    ]
    return synthetic.table(rows)


def manifest() -> dict[str, Any]:
    phases = []
    for n, (name, devices) in enumerate(PHASES.items()):
        start = n * 100 * SECOND
        clients = [
            {
                "host": host, "ios": ios, "first_ns": start, "last_ns": start + SECOND, "skew_ns": 0,
                "clock_offset_ns": 0, "clock_error_ns": 0,
            }
            for host, ios in devices.items()
        ]  # fmt: skip
        bytes_ = {"name": "bytes written to a", "source": "/sys", "expected": 5, "found": 5, "tolerance": 0}
        phases.append(
            {
                "name": name, "title": name, "target": "device:log", "op": "write", "job": "w.fio",
                "block_bytes": 4096, "outstanding": 1, "is_random": True, "start_ns": start,
                "end_ns": start + SECOND, "interval_ns": SECOND, "client_ios": sum(devices.values()),
                "server_ios": None, "lost_events": None, "clients": clients,
                "checks": [{**bytes_, "ok": True}], "problems": [],
            }
        )  # fmt: skip
    value = synthetic.manifest()
    for key in ("pool", "dataset", "mount", "working_set", "tunables", "expect", "reference"):
        del value[key]
    value["testbed"]["clients"] = []
    value["testbed"]["devices"] = [{"name": name, "role": "log", "size_bytes": 1 << 29} for name in "ab"]
    return {**value, "phases": phases}


def test_it_is_valid_without_a_server_side(tmp_path: Any) -> None:
    summary = synthetic.summarise(latency(), manifest())
    assert summary["verdict"] == "valid", summary["reasons"]
    assert summary["reasons"] == ["All 6,000 I/Os are accounted for, 46 of 46 checks hold."]
    assert summary["notes"] == [
        "all: all 2 devices at once wrote 12.29 MB/s, 1.00 times what each does alone, 12.29 MB/s together "
        "(range not known). Whether that is less than 0.97 times is open: measure longer, or in more phases."
    ]


def test_the_headline_calls_the_devices_by_name() -> None:
    parsed, frame = synthetic.parsed(manifest()), latency()
    summary = Summary.from_json(synthetic.summarise(frame, manifest()), "x")
    made = headline.headline(frame, parsed, summary)
    assert made.sentence == "Median latency of writes: a 141 µs, b 141 µs, a and b 141 µs."
    assert made.measured.endswith("Closed loop, 1 outstanding. Latency at the devices.")
    assert made.evidence == ("Complete: 6,000 I/Os (fio = device counters). 46 of 46 checks hold.",)


def lost_rows(frame: pl.DataFrame, _: dict[str, Any]) -> pl.DataFrame:
    return frame.with_columns(count=pl.col("count") - 1)


def no_rows(frame: pl.DataFrame, _: dict[str, Any]) -> pl.DataFrame:
    return frame.filter(pl.col("phase") != "all")


def another_layer(frame: pl.DataFrame, _: dict[str, Any]) -> pl.DataFrame:
    return frame.with_columns(layer=pl.lit("client"))


def other_bytes(frame: pl.DataFrame, manifest_: dict[str, Any]) -> pl.DataFrame:
    manifest_["phases"][0]["checks"][0] |= {"found": 6, "ok": False}
    return frame


def not_counted(frame: pl.DataFrame, manifest_: dict[str, Any]) -> pl.DataFrame:
    manifest_["phases"][1]["problems"] = [{"code": "resource-use", "text": "nothing counted the I/Os of b"}]
    return frame


def mixed(frame: pl.DataFrame, manifest_: dict[str, Any]) -> pl.DataFrame:
    """A phase over NFS needs its server."""
    del manifest_["phases"][2]["target"]
    return frame


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lost_rows, "write-a: latency.parquet holds 999 I/Os of fio, the manifest says 1,000."),
        (no_rows, "all: the phase has no I/O."),
        (another_layer, "write-b: the phase has no I/O."),
        (other_bytes, "write-a: bytes written to a (/sys): expected 5, found 6, tolerance 0."),
        (not_counted, "write-b: nothing counted the I/Os of b"),
        (mixed, "all: the manifest lacks the server's I/Os or the lost trace events."),
    ],
)
def test_what_does_not_close_is_unknown(damage: Any, reason: str) -> None:
    value = manifest()
    summary = synthetic.summarise(damage(latency(), value), value)
    assert summary["verdict"] == "unknown" and reason in summary["reasons"], summary["reasons"]


@pytest.mark.parametrize(
    ("drive", "found", "expected"),
    [
        ({"transitions": 0}, 0, []),
        ({"transitions": 2}, 2, [("DRIVE-THROTTLED", "write-b")]),
        # Its check was taken away, or says something else.
        ({"transitions": 2}, None, [("MANIFEST-VALUES", "write-b")]),
        ({"throttled_ms": 9}, 0, [("MANIFEST-VALUES", "write-b")]),
        ({"crc_errors": 1}, None, [("MANIFEST-VALUES", "write-b")]),
    ],
)
def test_exactly_the_phase_in_which_a_drive_throttled_is_unknown(
    drive: dict[str, int], found: int | None, expected: list[tuple[str, str]]
) -> None:
    value = manifest()
    value["phases"][1]["drives"] = [{"device": "b", **drive}]
    value["phases"][1]["checks"] += [] if found is None else [
        {"id": "DRIVE-THROTTLED", "name": "slowdowns of b", "source": "nvme smart-log", "of": "b",
         "expected": 0, "found": found, "tolerance": 0, "ok": not found, "instrument": "host-health"},
    ]  # fmt: skip
    summary = synthetic.summarise(latency(), value)
    failed = [(each["id"], each["phase"]) for each in summary["outcomes"] if each["holds"] is False]
    assert failed == expected and (summary["verdict"] == "unknown") == bool(expected)
