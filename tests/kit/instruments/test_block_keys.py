"""kit.instruments.block_keys: rows of keys.parquet, with dataset, tier and time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kit.core.clock import Clock
from kit.instruments import block_keys
from kit.store import tables
from kit.store.run_directory import RunDir
from kit.trace import keys
from kit.trace.output import Class, parse_trace, place_of
from kit.trace.tier import Vdevs
from tests.kit.trace.test_keys import SEEN, line, mixed, output

KNOWN = {0: "tank", 3: "tank/home"}


def dataset_of(key: Class) -> tuple[str, Vdevs] | None:
    name = KNOWN.get(place_of(key))
    return (name, Vdevs(frozenset({7}))) if name else None


LINES = [
    line(4, SEEN, 5, 0, 512, 12, 100),  # begins before the phase is told
    line(69, SEEN | 1 | 3 << 22, 5, 4096, 8192, 12, 1 << 20),  # two blocks from a disk
    line(29, SEEN | 512 | 192 | 7 << 32, 6, 0, 512, 12, 1 << 20),  # a write into the log device
    line(30, SEEN | 9 << 22, 6, 0, 512, 12, 1 << 20),  # of a file system without a name
]


def rows(lines: list[str], clock: Clock, **more: int) -> tuple[pl.DataFrame, list[str]]:
    trace = parse_trace(output(lines, **more), observed=True)
    assert [text for text in trace.problems if "clients have" not in text] == []
    return block_keys.rows(trace, 1, "read", dataset_of, 5, clock)


def test_rows_have_dataset_tier_and_time(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    found, notes = rows(LINES, Clock("virtual", 4))
    assert notes == [] and set(found["phase"]) == {"read"} and set(found["one_in"]) == {1}
    assert found.drop("phase", "one_in").rows() == [
        ("tank", 0, mixed(5), "read", "dram", 512),
        ("tank", 6, mixed(6), "write", "slog", 4096),
        ("tank/home", 16, mixed(5 ^ 1), "read", "disk", 4096),
        ("tank/home", 16, mixed(5 ^ 2), "read", "disk", 4096),
    ]
    tables.write_keys(run, found)
    assert tables.read_keys(run).equals(found)


def test_a_sample_without_lines_has_no_rows() -> None:
    found, notes = rows([], Clock())
    assert found.is_empty() and found.schema == tables.KEYS_SCHEMA and notes == []


def test_what_is_too_much_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _, [note] = rows(LINES, Clock(), left_out=1000)
    assert "ended after 4 of 1,004 sampled requests" in note
    monkeypatch.setattr(keys, "MOST_ROWS", 100)
    large = [line(6, SEEN, 5, 0, 4096 * 50, 12, 1 << 20)] * 9000
    found, [note] = rows(large, Clock())
    assert found.height == 100 and "ended after 100 rows" in note
    monkeypatch.setattr(keys, "MOST_ROWS", 50 * 9000)
    found, notes = rows(large, Clock())
    assert found.height == 50 * 9000 and notes == []
