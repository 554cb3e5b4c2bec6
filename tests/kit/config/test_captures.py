"""A phase with `replay`: what follows from its capture, and what cannot be replayed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kit.config.overrides import with_sets
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import Workload, workload_of
from kit.config.workload_base import WORKLOADS, read_source
from kit.config.workload_jobs import read_jobs
from kit.core.errors import ConfigError
from kit.plan.plan import Plan, make_plan
from kit.store.load.capture import NAME
from tests.captures import Row, capture_file

ROWS: list[Row] = [
    (10**9, 0, 0, 0, 4096, "read", False), (4 * 10**9, 1, 1, 5 << 40, 8192, "write", True),
]  # fmt: skip
_TEXT = """\
format = 1
name = "again"
title = "Again"
precondition = "none"
[working_set]
file = "working-set"
size = "auto"
[[phase]]
name = "again"
title = "again"
"""


def written(folder: Path, keys: str = "", rows: list[Row] | None = None, more: str = "") -> Path:
    capture_file(folder / NAME, ROWS if rows is None else rows)
    path = folder / "again.toml"
    path.write_text(f'{_TEXT}{more}replay = {{ capture = "{NAME}"{keys} }}\n')
    return path


def read(path: Path, *sets: str) -> Workload:
    return workload_of(with_sets(read_source(path), sets))


def planned(path: Path, *sets: str) -> Plan:
    source = with_sets(read_source(path), sets)
    return make_plan(workload_of(source), read_testbed(LAB_TESTBED), path, LAB_TESTBED, source)


@pytest.mark.parametrize(("speed", "lasts_ms"), [(1, 3000), (2, 1500), (0.5, 6000)])
def test_how_long_it_lasts_and_how_large_the_set_is_follow_from_the_capture(
    tmp_path: Path, speed: float, lasts_ms: int
) -> None:
    workload = read(written(tmp_path, f", speed = {speed}"))
    [phase] = workload.phase
    assert phase.duration == lasts_ms * 10**6 and phase.interval == lasts_ms // 60 * 10**6
    # One part of each file: nothing was asked of the rest.
    assert workload.file_set.size == 2 << 20


def test_a_sweep_or_a_person_may_set_the_speed(tmp_path: Path) -> None:
    found = read(written(tmp_path), "replay.speed=3").phase[0]
    # Whole intervals.
    assert (found.interval, found.duration) == (17 * 10**6, 59 * 17 * 10**6)


def test_a_person_names_a_capture_anywhere_and_a_file_only_one_beside_it(tmp_path: Path) -> None:
    beside, away = tmp_path / "beside", tmp_path / "away"
    for folder in (beside, away):
        folder.mkdir()
    path = written(beside)
    late: list[Row] = [*ROWS, (11 * 10**9, 0, 0, 0, 512, "read", False)]
    capture_file(away / NAME, late)
    for named in (away, away / NAME):
        found = read(path, f"replay.capture={json.dumps(os.fspath(named))}").phase[0]
        # Whole intervals: 10 s in 60 of them.
        assert (found.interval, found.duration) == (167 * 10**6, 60 * 167 * 10**6)
    path.write_text(path.read_text().replace(f'"{NAME}"', f'"../away/{NAME}"'))
    with pytest.raises(ConfigError, match="is a path; name a file beside again"):
        read(path)


@pytest.mark.parametrize(
    ("keys", "more", "text"),
    [
        (", speed = 0", "", "speed"), (", speed = nan", "", "speed"), (', speed = "fast"', "", "speed"),
        (", threads = 0", "", "threads"), ("", 'target = "dataset"\n', "a capture is of requests over NFS"),
        ("", 'log = "every-io"\n', "a phase with replay counts"), 
        ("", "ios = 5\n", "ios does not go with replay"),
        ("", 'open = { rate = 5 }\n', "replay does not go with open"),
    ],
)  # fmt: skip
def test_keys_that_mean_nothing_are_refused(tmp_path: Path, keys: str, more: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(written(tmp_path, keys, more=more))
    assert text in caught.value.message and "again.toml" in caught.value.message


def test_a_capture_that_is_not_there_says_how_it_is_made(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / NAME).unlink()
    with pytest.raises(ConfigError, match="no capture: `hsp observe --capture` makes"):
        read(path)


def test_a_link_in_place_of_the_capture_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / NAME).rename(tmp_path / "other")
    (tmp_path / NAME).symlink_to("other")
    with pytest.raises(ConfigError):
        read(path)


def test_unstable_writes_are_refused_or_forced(tmp_path: Path) -> None:
    rows: list[Row] = [
        *ROWS,
        (5 * 10**9, 0, 0, 0, 512, "write", False),
        (6 * 10**9, 0, 0, 0, 0, "commit", False),
    ]
    path = written(tmp_path, rows=rows)
    with pytest.raises(ConfigError, match="1 unstable writes and 1 COMMITs"):
        planned(path)
    plan = planned(path, "replay.unstable=force")
    assert plan.jobs["replay (again)"].operations == {"read", "write"}


def test_requests_larger_than_a_call_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, rows=[(0, 0, 0, 0, 2 << 20, "read", False)])
    with pytest.raises(ConfigError, match="it has reads of 2097152 bytes, but rsize of"):
        planned(path)
    path = written(tmp_path, ", threads = 1024", rows=[(0, 0, 0, 0, 1 << 20, "read", False), *ROWS])
    assert planned(path)
    path = written(tmp_path, ", threads = 1024", rows=[(0, 0, 0, 0, (1 << 20) + 1, "read", False)], more="")
    path.write_text(
        path.read_text().replace("[working_set]", '[nfs]\noptions = ["rsize=4194304"]\n[working_set]')
    )
    with pytest.raises(ConfigError, match="use fewer threads"):
        planned(path)


def test_another_capture_is_another_plan(tmp_path: Path) -> None:
    first = planned(written(tmp_path)).digest
    assert planned(written(tmp_path)).digest == first
    moved: list[Row] = [(ROWS[0][0], 0, 0, 512, 4096, "read", False), ROWS[1]]
    assert planned(written(tmp_path, rows=moved)).digest != first


def test_the_kits_own_example_is_replayed() -> None:
    workload = read(WORKLOADS / "replay.toml")
    [job] = read_jobs(workload, read_source(WORKLOADS / "replay.toml")).values()
    assert job.operations == {"read", "write"} and workload.file_set.size >= 1 << 20
