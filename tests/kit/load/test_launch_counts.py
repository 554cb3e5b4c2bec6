"""A real fio on this machine, whose counts arrive while it runs."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load.fio_windows import ClientWindows
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, LoadSpec, Worker
from kit.remote.load import count_ios
from kit.store.run_directory import RunDir
from tests.kit.hosts.conftest import until

pytestmark = [
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio; the lab has it"),
]
SECOND = 10**9
INTERVAL_NS = SECOND // 4
JOB = (
    "[read]\ndirectory=${HSP_DIRECTORY}\nsize=${HSP_SIZE}\nfilename=x\nrw=randread\nbs=4k\nnorandommap\n"
    "time_based\nruntime=${HSP_RUNTIME}\nioengine=psync\nnumjobs=2\nthread\nrate_iops=2000\n"
)


def started(tmp_path: Path, clients: int, seconds: float) -> PhaseLoad:
    (tmp_path / "job.fio").write_text(JOB)
    job = read_job(tmp_path / "job.fio")
    # A workload may not have it: it does nothing.
    job = dataclasses.replace(job, text=job.text.replace("ioengine=psync", "ioengine=null"))
    (tmp_path / "raw").mkdir()
    spec = LoadSpec(
        "p", job, str(tmp_path / "work"), int(seconds * SECOND), Clock(),
        histograms_ns=INTERVAL_NS, raw=tmp_path / "raw",
    )  # fmt: skip
    hosts = [LocalHost(f"client{number}") for number in range(clients)]
    workers = [Worker(host, host.name, str(tmp_path), 1 << 20) for host in hosts]
    load = PhaseLoad(workers, spec, Clocks(hosts[0]))
    load.prepare()
    load.start()
    return load


def lines(load: PhaseLoad) -> int:
    return min(path.read_text().count("\n") for path in load.outputs)


def await_lines(load: PhaseLoad, more: int = 2, unless: Callable[[], bool] = lambda: False) -> None:
    """Until each client has sent as many more."""
    count = lines(load) + more
    assert until(lambda: lines(load) >= count or unless() or not load.running()) and load.running()


def answers_no_more(group: int) -> bool:
    """Whether fio's thread that answers has ended, beside its main thread and two jobs.

    fio 3.33 ends it when its select() is interrupted, which a stop does on a busy machine, one time in five.
    """
    pid = subprocess.check_output(["pgrep", "-x", "-g", str(group), "fio"], text=True).strip()
    return len(list(Path("/proc", pid, "task").iterdir())) == 3


def ended(load: PhaseLoad, tmp_path: Path, *, interrupted: bool = False) -> list[ClientResult]:
    assert interrupted or until(lambda: not load.running())
    load.finish(interrupted)
    return load.collect(RunDir(tmp_path))


@pytest.mark.parametrize("clients", [1, 3])
def test_all_ios_are_counted_and_arrive_while_they_are_done(tmp_path: Path, clients: int) -> None:
    load = started(tmp_path, clients, 600)
    await_lines(load)
    results = ended(load, tmp_path, interrupted=True)
    assert load.problems == [] and len(results) == clients
    for result in results:
        assert isinstance(result.latencies, ClientWindows)
        assert sum(result.ios.values()) == result.latencies.ios > 20
        assert len(result.latencies.sums_ns) == 1
    firsts = [result.latencies.first_ns for result in results]
    # A common start: each had begun before any had ended an interval.
    assert max(firsts) < min(int(result.latencies.end_ns.min()) for result in results)
    assert not (tmp_path / "work").exists() or not list((tmp_path / "work").iterdir())


def test_a_load_ends_by_itself_with_all_counts(tmp_path: Path) -> None:
    load = started(tmp_path, 1, 0.7)
    (result,) = ended(load, tmp_path)
    assert isinstance(result.latencies, ClientWindows)
    assert load.problems == [] and sum(result.ios.values()) == result.latencies.ios > 20


def test_a_client_that_is_lost_keeps_what_has_arrived(tmp_path: Path) -> None:
    load = started(tmp_path, 2, 600)
    await_lines(load)
    # The whole group of the second client: nothing of it says another word.
    process = load._members[1].process
    assert process is not None
    os.killpg(process._child.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    assert until(lambda: not process.running())
    results = ended(load, tmp_path, interrupted=True)
    assert [sum(result.ios.values()) > 20 for result in results] == [True, True]
    (problem,) = load.problems
    assert problem.startswith("fio failed on client1") and load.failed


def test_a_stopped_client_counts_on_when_it_goes_on(tmp_path: Path) -> None:
    """It does not answer for a while: what it does then is not made up for, and nothing is lost."""
    for attempt in range(5):
        place = tmp_path / str(attempt)
        place.mkdir()
        load = started(place, 1, 600)
        await_lines(load)
        process = load._members[0].process
        assert process is not None
        group = process._child.pid  # type: ignore[attr-defined]
        os.killpg(group, signal.SIGSTOP)
        stopped_ns = time.monotonic_ns()
        # Three intervals pass it by.
        assert until(lambda: time.monotonic_ns() - stopped_ns > 3 * INTERVAL_NS)  # noqa: B023
        os.killpg(group, signal.SIGCONT)
        await_lines(load, unless=lambda: answers_no_more(group))  # noqa: B023
        if not answers_no_more(group):
            break
        process.end_group()
    (result,) = ended(load, place, interrupted=True)
    assert load.problems == []
    assert isinstance(result.latencies, ClientWindows)
    assert result.latencies.ios == sum(result.ios.values())
    assert int((result.latencies.end_ns - result.latencies.begin_ns).max()) > 2 * INTERVAL_NS


def test_no_room_for_counts_ends_the_load(tmp_path: Path) -> None:
    load = started(tmp_path, 1, 600)
    await_lines(load)
    # Only the client has it open for writing: what it prints now has no place to go.
    process = load._members[0].process
    assert process is not None
    resource.prlimit(process._child.pid, resource.RLIMIT_FSIZE, (64, 64))  # type: ignore[attr-defined]
    (result,) = ended(load, tmp_path)
    assert result.ios["read"] > 20 and load.failed
    assert "the counts could not be written: " in load.problems[0]


@pytest.mark.parametrize("more", ["", "thread\n"])
def test_no_count_is_asked_of_an_fio_that_ends(tmp_path: Path, more: str) -> None:
    """The signal ended fio while it gave its memory back: nearly each of these."""
    text = f"[read]\nioengine=null\nrw=read\nbs=4k\nsize=1m\ntime_based\nruntime=200ms\nnumjobs=4\n{more}"
    (tmp_path / "job.fio").write_text(text)
    counts = []
    for _ in range(6):
        words = [sys.executable, "-I", count_ios.__file__, "1", "fio.json", "job.fio"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        counts.append(len(done.stdout.splitlines()))
    # Counts were asked for; on a busy machine fio may have answered one of them alone.
    assert max(counts) > 2 and min(counts) > 0
