"""kit.observe.capture: requests of the file systems that are asked for, with small numbers for names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.clock import Clock
from kit.core.errors import ConfigError
from kit.observe.capture import store
from kit.observe.served import Served
from kit.store.load.capture import NAME, Capture, capture_of
from kit.store.run_directory import RunDir
from tests.kit.trace.test_captured import SEEN, line, parsed

HOME, OTHER, ZIL_COMMIT, WRITE, COMMIT = 5, 6, 64, 512, 1024
KNOWN = Served({HOME: "tank/home"}, {"tank": frozenset()})


def stored(folder: Path, lines: list[str], left_out: int = 0, clock: Clock | None = None) -> list[str]:
    trace = parsed(lines, len(lines), left_out)
    return store(trace, KNOWN, RunDir(folder), clock or Clock("real"))


def read(folder: Path) -> Capture:
    return capture_of((folder / NAME).read_bytes(), folder / NAME)


def test_requests_of_other_file_systems_are_left_out_and_stable_is_what_zfs_has_committed(
    tmp_path: Path,
) -> None:
    home = SEEN | HOME << 22
    notes = stored(tmp_path, [
        line(7, home, 901, 77, 4096, 512),
        line(8, SEEN | OTHER << 22, 902, 78, 0, 512),
        line(9, home | WRITE | ZIL_COMMIT, 903, 79, 0, 1024),
        line(10, home | WRITE, 901, 79, 1024, 1024),
        line(11, home | COMMIT | ZIL_COMMIT, 901, 79, 0, 0),
    ])  # fmt: skip
    assert read(tmp_path).rows.rows() == [
        (2, 0, 0, 4096, 512, "read", False),
        (4, 1, 1, 0, 1024, "write", True),
        (5, 0, 1, 1024, 1024, "write", False),
        (6, 0, 1, 0, 0, "commit", False),
    ]
    assert notes == ["capture.parquet has 4 requests, of 2 clients for 2 files."]


def test_a_full_capture_says_when_it_was_full(tmp_path: Path) -> None:
    lines = [line(5 + 3 * 10**9, SEEN | HOME << 22, 1, 2, 0, 512)]
    full = stored(tmp_path, lines, left_out=1234)[1]
    assert "full after 3 s: 1,234 later requests are not in it" in full and "--capture-max" in full
    assert (read(tmp_path).left_out, read(tmp_path).lost) == (1234, 0)


def test_times_are_those_of_the_experiment(tmp_path: Path) -> None:
    stored(tmp_path, [line(5 + 4000, SEEN | HOME << 22, 1, 2, 0, 512)], clock=Clock("virtual", 4))
    assert read(tmp_path).rows["time_ns"].to_list() == [1000]


def test_without_a_request_there_is_nothing_to_replay(tmp_path: Path) -> None:
    assert stored(tmp_path, []) == ["capture.parquet has 0 requests, of 0 clients for 0 files."]
    with pytest.raises(ConfigError, match="0 rows"):
        read(tmp_path)
