"""The program of a replay on a file of this machine, and what is made of a capture and of its output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kit.capacity.open_words import replay_words
from kit.capacity.replay_load import _START, ReplayLoad, replayed_of, schedules
from kit.config.tables.capacity_table import ReplayJob, ReplayTable
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load.phase_load import ClientResult, LoadSpec, Worker
from kit.store.load.capture import capture_of
from kit.store.load.replayed import Replayed
from kit.store.run_directory import create_run
from tests.captures import Row, capture_file
from tests.kit.capacity.test_open_load import run_program
from tests.kit.hosts.conftest import until

REAL = Clock("real", 1)
MIB = 1 << 20
# Writes of 8 KiB to the second half of the first file, reads of 4 KiB of the first half.
ROWS: list[Row] = [
    (n * 10**6, n % 3, 0, (n * 8192) % (MIB // 2) + (MIB // 2 if n % 2 else 0), 8192 if n % 2 else 4096,
     "write" if n % 2 else "read", bool(n % 2))
    for n in range(300)
]  # fmt: skip


def job_of(folder: Path, rows: list[Row] | None = None, **keys: object) -> ReplayJob:
    path = capture_file(folder / "capture.parquet", ROWS if rows is None else rows)
    table = ReplayTable.model_validate({"capture": "capture.parquet", "threads": 8, **keys})
    return ReplayJob.of(table, "working-set", capture_of(path.read_bytes(), path))


def loaded(tmp_path: Path, job: ReplayJob, clients: int) -> list[ClientResult]:
    run = create_run(tmp_path / "results", "w")
    for name in ("work", "set"):
        (tmp_path / name).mkdir()
    (tmp_path / "set" / "working-set").write_bytes(bytes(MIB))
    hosts = [LocalHost(f"client{number}") for number in range(clients)]
    spec = LoadSpec(
        name="p", job=job, work_dir=os.fspath(tmp_path / "work"), duration_ns=300_000_000, clock=REAL, seed=7,
        histograms_ns=20_000_000, raw=run.raw,
    )  # fmt: skip
    workers = [Worker(host, host.name, os.fspath(tmp_path / "set"), MIB) for host in hosts]
    load = ReplayLoad(workers, spec, Clocks(hosts[0]))
    load.prepare()
    load.start()
    assert until(lambda: not load.running())
    load.finish(False)
    results = load.collect(run)
    assert load.problems == [] and not load.failed
    return results


@pytest.mark.parametrize("clients", [1, 4])
def test_each_captured_io_is_done_once_by_its_client(tmp_path: Path, clients: int) -> None:
    results = loaded(tmp_path, job_of(tmp_path), clients)
    # Of three captured clients the fourth has nothing.
    assert len(results) == min(clients, 3)
    for result in results:
        assert isinstance(result.part, Replayed)
        assert result.part.due == sum(result.ios.values()) == len(ROWS) // len(results)
        assert result.part.captured == len(ROWS) and not result.part.unstarted
    assert sum(result.ios["write"] for result in results) == sum(row[5] == "write" for row in ROWS)
    content = (tmp_path / "set" / "working-set").read_bytes()
    assert len(content) == MIB and not any(content[: MIB // 2]), "reads change nothing"
    written = {row[3] for row in ROWS if row[5] == "write"}
    # Content that differs from sector to sector.
    stamps = {content[at : at + 8] for place in written for at in range(place, place + 8192, 512)}
    assert len(stamps) == len(written) * 16


def test_starts_have_the_times_of_the_speed_on_the_clock_of_the_host(tmp_path: Path) -> None:
    [content] = schedules(job_of(tmp_path, speed=2), 1, Clock("virtual", 4))
    starts = np.frombuffer(content, _START)
    assert starts["due_ns"].tolist() == [n * 2 * 10**6 for n in range(300)]
    assert starts["place"].tolist() == [row[3] for row in ROWS]
    assert starts["writes"].tolist() == [n % 2 for n in range(300)]
    parts = [np.frombuffer(each, _START) for each in schedules(job_of(tmp_path), 2, REAL)]
    assert [len(each) for each in parts] == [200, 100], "clients 0 and 2 are one, client 1 is the other"


def words_of(tmp_path: Path, job: ReplayJob, starts: np.ndarray, size: int = MIB) -> list[str]:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "working-set").write_bytes(bytes(size))
    schedule = tmp_path / "schedule"
    schedule.write_bytes(starts.tobytes())
    times_ns = 20_000_000, 100_000_000
    return replay_words(job, os.fspath(folder), size, 3, REAL, times_ns, os.fspath(schedule))


def test_what_starts_late_is_counted(tmp_path: Path) -> None:
    """All at once by one thread: each waits for those before it."""
    job = job_of(tmp_path, threads=1)
    starts = np.zeros(20_000, _START)
    starts["length"] = 4096
    lines = run_program(tmp_path, *words_of(tmp_path, job, starts))
    found = replayed_of(job, lines, REAL)
    assert found.due == found.intended.ios == 20_000 and found.unstarted == 0
    assert found.late_ios > 200 and any("late" in text for text in found.problems())


@pytest.mark.parametrize(
    "change",
    [
        {"place": MIB}, {"place": (1 << 64) - 1}, {"length": 0}, {"length": (1 << 32) - 1}, {"writes": 2},
        {"due_ns": 1 << 63},
    ],
)  # fmt: skip
def test_a_start_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, change: dict[str, int]
) -> None:
    starts = np.zeros(2, _START)
    starts["length"], starts["writes"] = 4096, 1
    for name, value in change.items():
        starts[name][1] = value
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_program(tmp_path, *words_of(tmp_path, job_of(tmp_path), starts))
    assert "a start that cannot be" in caught.value.stderr
    assert not any((tmp_path / "set" / "working-set").read_bytes())


def test_a_schedule_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    words = words_of(tmp_path, job_of(tmp_path), np.zeros(1, _START))
    Path(words[-1]).write_bytes(bytes(_START.itemsize + 1))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_program(tmp_path, *words)
    assert "not a schedule" in caught.value.stderr


def test_damaged_counts_are_no_measurement(tmp_path: Path) -> None:
    job, bins = job_of(tmp_path), {"bins": {"5216": 3}, "min": 5190, "max": 5240, "sum": 15640}
    line = {"from_ns": 1, "to_ns": 2, "due": 3, "unstarted": 0, "behind": 1, "intended": bins, "late": bins}
    assert replayed_of(job, [line], REAL).late_ios == 1
    for change in ({"due": 4}, {"behind": 9}, {"late": {}}, {"to_ns": "x"}, {"unstarted": -1}):
        with pytest.raises(MeasurementUnknown, match="the counts of the replay are damaged"):
            replayed_of(job, [line | change], REAL)
