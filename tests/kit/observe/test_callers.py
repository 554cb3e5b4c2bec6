"""Requests of an observed server by client, calls by process, and all operations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.core.bins import bin_edges, bin_index
from kit.observe import callers
from kit.observe.served import Served
from kit.trace.callers import client, operation
from kit.trace.output import Trace, parse_trace
from tests.kit.observe.test_local import PLACE


def test_processes_by_tier_and_the_least_are_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_MOST_ROWS", 2)
    fsync, write = ("fsync", PLACE | 64 | 128, 3), ("write", PLACE | 64 | 128, 0)
    read, strange = ("read", PLACE, 0), ("read", 99 << 22, 0)
    counted = {
        ("postgres", fsync): (10, 9000), ("fio", write): (5, 800), ("cat", read): (4, 40),
        ("ls", read): (1, 2), ("elsewhere", strange): (7, 99_999),
    }  # fmt: skip
    known = Served({45: "tank/db"}, {"tank": frozenset({3})})
    rows = callers.rows(Trace(callers=counted), known)
    assert [(row.caller, row.op, row.tier, row.ios, row.waited_ns) for row in rows] == [
        ("postgres", "fsync", "slog", 10, 9000),
        ("fio", "write", "pool", 5, 800),
        (callers.OTHERS, "read", "dram", 5, 42),
    ]


@pytest.mark.parametrize(
    ("high", "low", "address"),
    [
        (0, 0x0100007F, "127.0.0.1"), (0, 0x0B00090A, "10.9.0.11"), (0x80FE, 0x0100 << 48, "fe80::1"),
        (0, 0x0100007FFFFF0000, "127.0.0.1"), (0, 1 << 56, "::1"),
    ],
)  # fmt: skip
def test_an_address_is_as_it_is_in_memory(high: int, low: int, address: str) -> None:
    assert client(high, low) == address


def test_operations_have_the_names_of_their_protocol() -> None:
    assert operation("@calls", "1") == "NFSv3 GETATTR" and operation("@calls", "17") == "NFSv3 READDIRPLUS"
    assert operation("@operations", "OP_SEQUENCE") == "NFSv4 SEQUENCE"
    for key in ("x", "OP_", "OP_a b", "<b>"):
        with pytest.raises(ValueError):
            operation("@operations", key)


def test_clients_and_operations_are_read_and_must_add_up() -> None:
    home = 1 << 11 | 45 << 22

    def trace(calls: int) -> Trace:
        maps = {
            "map": {"@counts": {f"{home},4000": 3, f"{home},100": 3}},
            "stats": {"@callers": {f"0,16777343,{home}": {"count": calls, "total": 435}}},
        }
        lines = [{"type": "printf", "data": f"hsp-trace {text}\n"} for text in ("phase 1 100", "end 900")]
        lines += [{"type": kind, "data": content} for kind, content in maps.items()]
        lines += [{"type": "stats", "data": {"@calls": {"4": {"count": 7, "total": 70}}}}]
        lines += [{"type": "stats", "data": {"@operations": {"OP_GETATTR": {"count": 2, "total": 90}}}}]
        lines += [{"type": "printf", "data": "hsp-trace ended 1\n"}]
        return parse_trace("\n".join(map(json.dumps, lines)), observed=True)

    whole = trace(3)
    assert whole.problems == []
    assert {who: value for (who, _), value in whole.callers.items()} == {"127.0.0.1": (3, 435)}
    assert [(each.name, each.calls, each.waited_ns) for each in callers.operations(whole)] == [
        ("NFSv3 READ", 3, 435), ("NFSv4 GETATTR", 2, 90), ("NFSv3 ACCESS", 7, 70),
    ]  # fmt: skip
    assert trace(2).problems == ["the clients have 2 of 3 requests: a map was full"]


def test_what_is_not_counted_of_each_read_is_made_of_the_counts() -> None:
    """Extremes below a millisecond, and READ and WRITE of NFSv3 beside those of NFSv4."""
    fast, slow = 1 << 11 | 45 << 22, 1 << 11 | 1 | 45 << 22
    exact_ns = 3_000_001
    bins = {fast: int(bin_index(3000)), slow: int(bin_index(exact_ns))}
    lines: list[dict[str, Any]] = [
        {"type": "printf", "data": f"hsp-trace {text}\n"} for text in ("phase 1 100", "end 900")
    ]
    counts = {f"{fast},4000": 5, f"{1 << 11},4050": 2, f"{fast},{bins[fast]}": 3, f"{slow},{bins[slow]}": 1}
    sums = {f"0,1,{fast}": {"count": 3, "total": 3 * 3000}, f"0,1,{slow}": {"count": 1, "total": exact_ns}}
    lines += [
        {"type": "map", "data": {"@counts": counts, "@highest": {f"{slow},0": exact_ns}}},
        {"type": "stats", "data": {"@callers": sums}},
        {"type": "stats", "data": {"@operations": {"OP_READ": {"count": 2, "total": 9}}}},
        {"type": "printf", "data": "hsp-trace ended 1\n"},
    ]
    trace = parse_trace("\n".join(map(json.dumps, lines)), observed=True)
    assert trace.problems == []
    by_tier = {key[1] & 1: key for key in trace.highest}
    low, high = (int(edge[0]) for edge in bin_edges([bins[fast]]))
    assert (trace.lowest[by_tier[0]], trace.highest[by_tier[0]]) == (low, high - 1)
    assert trace.highest[by_tier[1]] == exact_ns >= trace.lowest[by_tier[1]]
    # Five have started, three of them of NFSv3; four have ended.
    assert trace.started == {"read": 5}
    assert trace.operations["NFSv3 READ"] == (3, (9000 + exact_ns) * 3 // 4)
    assert trace.operations["NFSv4 READ"] == (2, 9) and "NFSv3 WRITE" not in trace.operations


def test_files_are_told_apart_by_number_and_their_names_are_text() -> None:
    home = 1 << 11 | 45 << 22

    def of(*keys: str) -> Trace:
        content = {key: {"count": 2, "total": 50} for key in keys}
        lines = [
            {"type": "printf", "data": "hsp-trace phase 1 100\n"},
            {"type": "map", "data": {"@counts": {f"{home},4000": 2, f"{home},100": 2}}},
            {"type": "printf", "data": "hsp-trace end 900\n"},
            {"type": "map", "data": {"@counts": {f"{home},4000": 2, f"{home},100": 2}}},
            {"type": "stats", "data": {"@callers": {f"0,16777343,{home}": {"count": 2, "total": 290}}}},
            {"type": "stats", "data": {"@files": content}},
            {"type": "printf", "data": "hsp-trace ended 1\n"},
        ]
        return parse_trace("\n".join(map(json.dumps, lines)), observed=True)

    trace = of(f"a, b\x1b[2J,7,{home}", f"a, b\x1b[2J,8,{home}", f"x,7,{2 << 11 | 45 << 22}")
    assert trace.complete and not trace.problems
    found = callers.files(trace, Served({45: "tank/db"}, {"tank": frozenset()}))
    # The third is of another phase.
    assert [(row.number, row.file_system, row.op, row.tier, row.ios, row.waited_ns) for row in found] == [
        (7, "tank/db", "read", "dram", 2, 50), (8, "tank/db", "read", "dram", 2, 50),
    ]  # fmt: skip
    assert all(row.name.startswith("a, b") and "\x1b" not in row.name for row in found)
    assert any("damaged" in text for text in of("no number").problems)
