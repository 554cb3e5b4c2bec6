"""Forced writes of phases: the program on files of this machine, and what is made of its output."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.force_table import ForceJob, ForceTable
from kit.core.clock import Clock
from kit.core.errors import HostError, MeasurementUnknown
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load.fio_windows import ClientWindows, read_counts
from kit.load.phase_load import ClientResult, LoadSpec, Worker
from kit.load.programs import force_load, program_load
from kit.load.programs.force_load import ForceLoad
from kit.load.programs.force_program import (
    DIRECTORY,
    PROGRAM,
    SOURCE,
    command,
    put_program,
    words_of,
)
from kit.store.parts.forces import Forces
from kit.store.run_directory import RunDir, create_run
from tests.kit.hosts.conftest import until

REAL = Clock("real", 1)
MIB = 1 << 20
METHODS = ["open_datasync", "open_sync", "fdatasync", "fsync", "fsync_close", "close_fsync", "none"]


def job_of(**keys: Any) -> ForceJob:
    keys = {"record": "600B", "file": "1MiB", **keys}
    return ForceJob.of(ForceTable.model_validate(keys), (Path("w.toml"), 1))


def load_of(tmp_path: Path, job: ForceJob, duration_ns: int = 200_000_000) -> tuple[ForceLoad, RunDir]:
    run = create_run(tmp_path / "results", "w")
    (tmp_path / "work").mkdir()
    (tmp_path / "set" / DIRECTORY).mkdir(parents=True)
    host = LocalHost()
    spec = LoadSpec(
        name="log", job=job, work_dir=os.fspath(tmp_path / "work"), duration_ns=duration_ns, clock=REAL,
        seed=7, histograms_ns=20_000_000, raw=run.raw,
    )  # fmt: skip
    worker = Worker(host, "client", os.fspath(tmp_path / "set"), 1 << 20)
    return ForceLoad([worker], spec, Clocks(host)), run


def finished(load: ForceLoad, run: RunDir) -> ClientResult:
    assert until(lambda: not load.running())
    load.finish(False)
    (result,) = load.collect(run)
    return result


def forces_in(result: ClientResult) -> Forces:
    assert isinstance(result.part, Forces)
    return result.part


def loaded(tmp_path: Path, job: ForceJob) -> ClientResult:
    load, run = load_of(tmp_path, job)
    load.prepare()
    load.start()
    result = finished(load, run)
    assert load.problems == [] and not load.failed
    return result


def test_several_clients_start_together_with_files_of_their_own(tmp_path: Path) -> None:
    run = create_run(tmp_path / "results", "w")
    (tmp_path / "work").mkdir()
    (tmp_path / "set" / DIRECTORY).mkdir(parents=True)
    hosts = [LocalHost(f"client{number}") for number in range(3)]
    spec = LoadSpec(
        name="log", job=job_of(method="fdatasync", files=2, threads=2), work_dir=os.fspath(tmp_path / "work"),
        duration_ns=200_000_000, clock=REAL, seed=7, histograms_ns=20_000_000, raw=run.raw,
    )  # fmt: skip
    workers = [Worker(host, host.name, os.fspath(tmp_path / "set"), 1 << 20) for host in hosts]
    load = ForceLoad(workers, spec, Clocks(hosts[0]))
    load.prepare()
    files = sorted(path.name for path in (tmp_path / "set" / DIRECTORY).iterdir())
    assert files == [f"log.{client}.{file}" for client in range(3) for file in range(2)]
    load.start()
    assert until(lambda: not load.running())
    load.finish(False)
    results = load.collect(run)
    assert load.problems == [] and [each.worker.name for each in results] == ["client0", "client1", "client2"]
    windows = [each.latencies for each in results if isinstance(each.latencies, ClientWindows)]
    # A common start: each had begun before any had ended.
    assert len(windows) == 3
    assert max(int(each.begin_ns.min()) for each in windows) < min(each.last_ns for each in windows)
    parts = [forces_in(each) for each in results]
    together = Forces.together(parts)
    assert (together.files, together.threads, together.lost) == (6, 6, 0)
    for name in ("records", "forces", "overwritten", "recovered"):
        assert getattr(together, name) == sum(getattr(each, name) for each in parts), name
    assert together.group.ios == sum(each.group.ios for each in parts) == together.records
    assert together.group.max_ns == max(each.group.max_ns for each in parts)
    assert together.force and together.force.sum_ns == sum(each.force.sum_ns for each in parts if each.force)
    assert not any((tmp_path / "set" / DIRECTORY).iterdir()) and list((tmp_path / "work").iterdir()) == [
        tmp_path / "work" / PROGRAM
    ]


def test_one_client_that_was_not_read_back_leaves_it_open_for_all(tmp_path: Path) -> None:
    forces = forces_in(loaded(tmp_path, job_of(method="open_datasync")))
    assert forces == Forces.together([forces])
    unread = forces.model_copy(update={"recovered": None, "damaged": None})
    both = Forces.together([forces, unread])
    assert both.recovered is None and both.damaged is None and both.records == 2 * forces.records
    assert both.force is None and both.elapsed_ns == forces.elapsed_ns


@pytest.mark.parametrize("method", METHODS)
def test_each_method_counts_its_forces_and_reads_all_records_back(tmp_path: Path, method: str) -> None:
    result = loaded(tmp_path, job_of(method=method, per_force=2, append=True))
    forces, windows = forces_in(result), result.latencies
    assert isinstance(windows, ClientWindows)
    assert (forces.method, forces.records, forces.lost, forces.damaged) == (
        method,
        2 * forces.group.ios,
        0,
        0,
    )
    assert forces.recovered == forces.records - forces.overwritten > 0
    assert result.ios == {"read": 0, "write": forces.group.ios} and windows.ios == forces.group.ios
    assert windows.sums_ns[1] == forces.group.sum_ns
    per_group = {"none": 0, "open_datasync": 2, "open_sync": 2}.get(method, 1)
    assert forces.forces == per_group * forces.group.ios
    assert (forces.force is not None) == (per_group == 1)
    if forces.force:
        assert forces.force.ios == forces.group.ios
        assert forces.group.sum_ns >= forces.force.sum_ns + forces.write.sum_ns
    # Several readings in the phase, not one at its end; a slow disk may take longer than it for one group.
    assert len(set(windows.end_ns.tolist())) > 1 or forces.group.ios == 1
    assert not any((tmp_path / "set" / DIRECTORY).iterdir()), "its files are removed"


def test_threads_of_files_of_their_own_and_of_one_that_share_a_force(tmp_path: Path) -> None:
    apart = forces_in(loaded(tmp_path / "apart", job_of(threads=4, files=4, method="fsync")))
    shared = forces_in(loaded(tmp_path / "shared", job_of(threads=4, group_commit=True)))
    assert apart.forces == apart.group.ios and shared.forces < shared.group.ios
    assert apart.lost == shared.lost == 0 and apart.recovered and shared.recovered


def test_threads_of_a_small_file_write_over_no_record_that_another_still_writes(tmp_path: Path) -> None:
    """Without a force a thread that sleeps is behind by many rounds of the file."""
    keys = {"method": "none", "threads": 2, "record": "4KiB", "file": "32KiB"}
    forces = forces_in(loaded(tmp_path, job_of(**keys)))
    assert forces.overwritten > 8 and (forces.lost, forces.damaged) == (0, 0)
    assert forces.group.ios == forces.records and forces.force is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / DIRECTORY).mkdir()
    return tmp_path / DIRECTORY / "log.0"


def call(tmp_path: Path, job: ForceJob, name: str, *words: str) -> str:
    argv = command(os.fspath(tmp_path), [
        name, *words_of(job.force, "log", os.fspath(tmp_path), 0, 7, is_device=False), *words,
    ])  # fmt: skip
    put_program(LocalHost(), os.fspath(tmp_path))
    return LocalHost().run(argv).stdout


def written(tmp_path: Path, job: ForceJob) -> int:
    """How many records it wrote, in a run long enough for some on a busy machine as well."""
    for duration_ns in (50_000_000, 2_000_000_000, 20_000_000_000):
        call(tmp_path, job, "prepare")
        output = call(tmp_path, job, "run", "10000000", str(duration_ns), "0")
        lines = [json.loads(line) for line in output.splitlines()]
        assert lines[-1]["end"] is True
        if (count := int(lines[-1]["written"][0])) > 16:
            return count
    raise AssertionError("no run wrote more than 16 records")


def test_a_record_that_is_gone_is_lost_and_one_with_another_byte_is_damaged(
    tmp_path: Path, path: Path
) -> None:
    job = job_of(append=True, file="8MiB")
    count = written(tmp_path, job)
    content = bytearray(path.read_bytes())
    assert len(content) == 600 * count and count > 4
    content[600:1200] = bytes(600)
    content[1200:1800] = content[1800:2400]  # an intact record in the place of another
    content[2400 + 300] ^= 1
    path.write_bytes(content[:-600])
    found = json.loads(call(tmp_path, job, "verify", str(count)))
    assert found == {"kept": count, "recovered": count - 4, "damaged": 1}


def test_records_go_over_those_before_and_the_last_round_is_read_back(tmp_path: Path, path: Path) -> None:
    job = job_of(record="4KiB", file="64KiB", method="none")
    count = written(tmp_path, job)
    assert count > 16 and path.stat().st_size == 64 << 10
    assert json.loads(call(tmp_path, job, "verify", str(count))) == {
        "kept": 16,
        "recovered": 16,
        "damaged": 0,
    }


def test_other_records_of_the_same_phase_are_no_evidence(tmp_path: Path, path: Path) -> None:
    """Of a run that was cut off: its sequence numbers are the same, its seed is not."""
    job = job_of(append=True, file="8MiB")
    count = written(tmp_path, job)
    words = [*words_of(job.force, "log", os.fspath(tmp_path), 0, 8, is_device=False), str(count)]
    argv = command(os.fspath(tmp_path), ["verify", *words])
    assert json.loads(LocalHost().run(argv).stdout)["recovered"] == 0


def kill(words: str, copies: Path | None = None) -> bool:
    """Whether the program with these arguments ran, and was killed.

    `copies`: only after it has removed its copy there; nobody can clean up behind it before that.
    """
    argv = ["pgrep", "--list-name", "--full", words]
    lines = subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()
    mine = [int(line.split()[0]) for line in lines if line.split()[1] == "force_load"]
    if copies and list(copies.glob("tmp.*")):
        return False
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    return bool(mine)


def test_one_that_is_killed_is_named_and_what_arrived_is_kept(tmp_path: Path) -> None:
    load, run = load_of(tmp_path, job_of(append=True, file="64MiB"), 60_000_000_000)
    load.prepare()
    load.start()
    assert until(lambda: load.outputs[0].read_text().count("\n") >= 3)
    work = os.fspath(tmp_path / "set")
    assert kill(f"force_load run {work}")
    result = finished(load, run)
    assert load.failed and forces_in(result).recovered is None
    assert result.ios["write"] == forces_in(result).group.ios > 0
    (problem,) = load.problems
    assert "the program of forced writes failed on client" in problem


def test_an_interrupted_one_ends_its_group_and_is_read_back(tmp_path: Path) -> None:
    load, run = load_of(tmp_path, job_of(append=True, file="64MiB"), 60_000_000_000)
    load.prepare()
    load.start()
    assert until(lambda: load.outputs[0].read_text().count("\n") >= 3)
    load.finish(True)
    (result,) = load.collect(run)
    forces = forces_in(result)
    assert not load.problems and forces.recovered == forces.records > 0


def test_files_that_cannot_be_made_are_refused_before_the_phase(tmp_path: Path) -> None:
    load, _ = load_of(tmp_path, job_of())
    shutil.rmtree(tmp_path / "set")
    with pytest.raises(HostError, match=r"client: the files of the forced writes cannot be made"):
        load.prepare()


LINE = {
    "from_ns": 0, "asked_ns": 10, "to_ns": 10, "forces": 1, "written": [1], "end": True,
    **{kind: {"bins": {"129": 1}, "min": 129, "max": 129, "sum": 129} for kind in ("write", "part", "force")},
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]\n", "[" * 100_000 + "\n"]
    + [json.dumps({**LINE, key: value}) + "\n" for key, value in (
        ("written", "no"), ("forces", None), ("part", {"bins": {"5.5": 1}, "min": 1, "max": 1, "sum": 1}),
        ("to_ns", -5), ("write", {"bins": {"129": -1}, "min": 1, "max": 1, "sum": 1}),
    )],
)  # fmt: skip
def test_damaged_output_is_refused(text: str) -> None:
    with pytest.raises(MeasurementUnknown):
        force_load.forces_of(job_of().force, program_load.lines_of(text, "it"), REAL)


def test_its_lines_are_those_of_fios_counts_in_the_experiments_time(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text(json.dumps(LINE) + "\n" + '{"from_ns": 10, "asked')
    assert read_counts(path, 10, alone=True).by_op() == {"read": 0, "write": 1}
    forces = force_load.forces_of(job_of().force, [LINE], Clock("virtual", 4))
    assert (forces.group.bins, forces.group.sum_ns, forces.group.max_ns) == (((32, 1),), 32, 32)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"kept": 2, "recovered": 3, "damaged": 0}', '{"kept": 9, "recovered": 9, "damaged": 0}'],
)
def test_what_was_read_back_is_checked(text: str) -> None:
    with pytest.raises(MeasurementUnknown):
        force_load.checked(force_load.forces_of(job_of().force, [LINE], REAL), text)


def test_it_compiles_without_warnings(tmp_path: Path) -> None:
    strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(["cc", *strict, SOURCE], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
