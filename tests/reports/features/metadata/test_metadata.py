"""What operations on files and directories wait for, in sentences."""

from __future__ import annotations

from typing import Any

from reports.features.metadata.judge import FEATURE, sentences
from tests.reports.synthetic import summary_of

LOAD = {
    "action": "create", "files": 10, "directories": 2, "depth": 1, "least_bytes": 1, "most_bytes": 1,
    "version": "3",
}  # fmt: skip


def said(rows: list[tuple[str, str, int, float | None]], **load: Any) -> list[str]:
    """Of rows (op, tier, number, p50 in us) of one phase."""
    whole = {op: sum(n for of, _, n, _ in rows if of == op) for op, *_ in rows}
    made = [
        {
            "phase": "p",
            "op": op,
            "tier": tier,
            "count": n,
            "share": n / whole[op],
            "p50_us": us,
            "min_us": 1.0,
            "max_us": 2.0,
        }
        for op, tier, n, us in rows
    ]
    row = {"phase": "p", "load": LOAD | load, "matched": True}
    return [*sentences(summary_of(made, metadata=[row]))]


def test_a_create_takes_as_long_as_its_log() -> None:
    rows = [("getattr", "dram", 900, 2.5), ("create", "slog", 300, 60.5)]
    assert said(rows) == ["p: CREATE takes 60.5 µs (p50) with its log on the log device."]
    rows = [("create", "shared", 30, 300.0), ("create", "pool", 270, 8200.0)]
    assert said(rows, action="untar") == [
        "p: CREATE takes 8.2 ms (p50) with its log on the data disks, 90 % of them and 300 µs (p50) with an "
        "I/O of another request, 10 % of them."
    ]


def test_of_nfs_4_open_makes_files_and_create_directories() -> None:
    rows = [("create", "pool", 5, None), ("open", "special", 300, 100.0)]
    assert said(rows, version="4.2") == ["p: OPEN takes 100 µs (p50) with its log on the special vdev."]


def test_too_few_have_no_p50_and_other_operations_no_sentence() -> None:
    rows = [("readdirplus", "special", 21, None), ("getattr", "dram", 300, 2.5)]
    assert said(rows, action="ls") == [
        "p: READDIRPLUS takes 1 µs to 2 µs (21, too few for a p50) from the special vdev."
    ]
    assert said([("access", "dram", 300, 2.5)], action="ls") == []
    assert said([("getattr", "dram", 300, 2.5)], action="stat") == [
        "p: GETATTR takes 2.5 µs (p50) in memory (ARC)."
    ]


def test_the_answer_has_what_makes_and_lists_alone() -> None:
    rows = [{"phase": "p", "op": "rename", "tier": "slog", "count": 9, "share": 1.0, "p50_us": 60.0}]
    row = {"phase": "p", "load": LOAD | {"action": "rename"}, "matched": True}
    summary = summary_of(rows, metadata=[row])
    assert [*sentences(summary)] and [*FEATURE.answer(summary)] == []


def test_the_phase_has_its_title_and_a_file_its_time_at_the_client() -> None:
    rows = [
        {"phase": "p", "op": "rename", "tier": "slog", "count": 9, "share": 1.0, "p50_us": 60.0},
        {"phase": "p", "layer": "client", "op": "rename", "tier": "all", "count": 9, "p50_us": 310.0},
    ]
    row = {"phase": "p", "title": "New names", "load": LOAD | {"action": "rename"}, "matched": True}
    assert [*sentences(summary_of(rows, metadata=[row]))] == [
        "New names: a file takes 310 µs (p50) at the client; "
        "RENAME takes 60 µs (p50) with its log on the log device."
    ]
