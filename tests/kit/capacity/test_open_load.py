"""The open loop's program on a file of this machine, and what is made of its output."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.capacity.open_load import BATCHES, OpenLoad, batches_of, open_loop_of
from kit.capacity.open_words import open_words
from kit.config.tables.capacity_table import OpenJob, OpenTable
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load.phase_load import ClientResult, LoadSpec, Worker
from kit.load.programs.force_program import program
from kit.store.load.open_loop import OpenLoop
from kit.store.run_directory import create_run
from tests.kit.hosts.conftest import until

REAL = Clock("real", 1)
MIB = 1 << 20
PLACE = (Path("w.toml"), 1)


def job_of(limit_ns: int = 10**9, **keys: Any) -> OpenJob:
    table = OpenTable.model_validate({"rate": 2000, "threads": 8, "block": "512B", **keys})
    # A file of this machine may be on what has no direct I/O.
    made = OpenJob.of(table, "working-set", limit_ns, PLACE)
    section = made.sections[0]
    return replace(made, sections=(replace(section, options={**section.options, "direct": "0"}),))


def loaded(tmp_path: Path, job: OpenJob, clients: int = 1) -> list[ClientResult]:
    run = create_run(tmp_path / "results", "w")
    for name in ("work", "set"):
        (tmp_path / name).mkdir()
    (tmp_path / "set" / "working-set").write_bytes(bytes(MIB))
    hosts = [LocalHost(f"client{number}") for number in range(clients)]
    spec = LoadSpec(
        name="p", job=job, work_dir=os.fspath(tmp_path / "work"), duration_ns=500_000_000, clock=REAL, seed=7,
        histograms_ns=20_000_000, raw=run.raw,
    )  # fmt: skip
    workers = [Worker(host, host.name, os.fspath(tmp_path / "set"), MIB) for host in hosts]
    load = OpenLoad(workers, spec, Clocks(hosts[0]))
    load.prepare()
    load.start()
    assert until(lambda: not load.running())
    load.finish(False)
    results = load.collect(run)
    assert load.problems == [] and not load.failed
    return results


def opened(result: ClientResult) -> OpenLoop:
    assert isinstance(result.part, OpenLoop)
    return result.part


@pytest.mark.parametrize("op", ["read", "write"])
def test_all_that_is_due_is_counted_from_both_starts(tmp_path: Path, op: str) -> None:
    (result,) = loaded(tmp_path, job_of(op=op))
    load = opened(result)
    assert result.ios[op] == load.due == load.intended.ios > 500, "nothing is left out"
    assert (load.op, load.unstarted, load.rate_per_s) == (op, 0, 2000)
    assert load.intended.sum_ns > load.actual.sum_ns, "no I/O starts before it should"
    assert load.intended.sum_ns >= load.actual.sum_ns + load.late.sum_ns
    assert 1 < len(load.batches) <= BATCHES and sum(n for n, *_ in load.batches) == load.due
    content = (tmp_path / "set" / "working-set").read_bytes()
    assert any(content) == (op == "write") and len(content) == MIB


def test_several_clients_have_parts_of_the_rate_and_schedules_of_their_own(tmp_path: Path) -> None:
    parts = [opened(result) for result in loaded(tmp_path, job_of(), clients=2)]
    assert [each.rate_per_s for each in parts] == [1000, 1000]
    assert parts[0].due != parts[1].due or parts[0].intended != parts[1].intended
    both = OpenLoop.together(parts)
    assert (both.rate_per_s, both.due, both.threads) == (2000, sum(each.due for each in parts), 16)
    again = OpenLoop.in_turn(parts)
    assert (again.rate_per_s, again.elapsed_ns) == (1000, sum(each.elapsed_ns for each in parts))
    assert len(again.batches) == sum(len(each.batches) for each in parts)


def run_program(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    own = tmp_path / "own"
    own.mkdir()
    copy = own / "program"
    copy.write_bytes(program().read_bytes())
    copy.chmod(0o700)
    output = subprocess.run([copy, *words], capture_output=True, text=True, timeout=60, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def test_what_cannot_start_in_time_is_counted_and_left(tmp_path: Path) -> None:
    """Far more than one thread can do: what has not started a millisecond after the end never does."""
    file = tmp_path / "set" / "working-set"
    file.parent.mkdir()
    file.write_bytes(bytes(MIB))
    job = job_of(limit_ns=1_000_000, rate=10_000_000, threads=1)
    words = open_words(job, os.fspath(file.parent), MIB, 3, REAL, (20_000_000, 100_000_000), 1)
    lines = run_program(tmp_path, *words)
    load = open_loop_of(job, lines, REAL, 1)
    assert 900_000 < load.due < 1_100_000 and load.unstarted > load.due / 2
    assert load.above >= load.unstarted and load.intended.ios == load.due - load.unstarted
    assert load.rank_ns(0.999) is None, "of an I/O that never started"
    assert load.rank_ns(0.999, intended=False)
    assert load.intended.max_ns > 10 * load.actual.min_ns


def test_writes_go_in_order_and_many_times_through_a_small_file(tmp_path: Path) -> None:
    """More threads than blocks, most of them idle: none waits for another that has nothing to do."""
    file = tmp_path / "set" / "working-set"
    file.parent.mkdir()
    file.write_bytes(bytes(16 * 4096))
    job = job_of(op="write", rate=500, threads=64, limit_ns=10**10)
    assert not job.is_random
    words = open_words(job, os.fspath(file.parent), 16 * 4096, 3, REAL, (20_000_000, 500_000_000), 1)
    load = open_loop_of(job, run_program(tmp_path, *words), REAL, 1)
    assert 150 < load.due < 400 and not load.unstarted and load.actual.ios == load.due
    blocks = file.read_bytes()
    assert all(any(blocks[at : at + 4096]) for at in range(0, len(blocks), 4096)), "each was written"


def test_damaged_counts_are_no_measurement(tmp_path: Path) -> None:
    job = job_of()
    ended = {"read": {"bins": {"5216": 3}, "min": 5190, "max": 5240, "sum": 15640}}
    ended |= {name: ended["read"] for name in ("intended", "late")}
    line = {"from_ns": 1, "to_ns": 2, "due": 3, "above": 1, "slow": 1, "unstarted": 0, **ended}
    assert open_loop_of(job, [line], REAL, 1).batches == ((3, 1, 1),)
    for change in (
        {"due": 4},
        {"above": 9},
        {"unstarted": 1},
        {"late": {}},
        {"intended": 1},
        {"due": "x"},
    ):
        with pytest.raises(MeasurementUnknown):
            open_loop_of(job, [{**line, **change}], REAL, 1)


def test_batches_are_parts_of_the_time() -> None:
    lines = [
        {"read": {"bins": {"1": n}}, "unstarted": 0 if n < 50 else 5, "above": n // 2, "slow": n // 5}
        for n in range(1, 51)
    ]
    found = batches_of(lines, "read")
    assert len(found) == BATCHES
    assert [sum(each) for each in zip(*found, strict=True)] == [sum(range(1, 51)) + 5, 25, 10]


def test_a_lab_that_is_slowed_down_has_longer_gaps() -> None:
    clock = Clock("virtual", 4)
    words = open_words(job_of(limit_ns=10**6), "/dev/x", MIB, 3, clock, (10**6, 4 * 10**9), 2)
    assert words[-3:] == ["4000000000", "4000000", "4000000"]
    assert words[1:3] == ["/dev/x", "read"]
