"""kit.load.launch with logs: one load on several clients; here this machine is all of them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kit.config.address import parse_address
from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import Host, HostLost
from kit.hosts.clock_offset import Clocks
from kit.hosts.connect import connect
from kit.hosts.local import LocalHost
from kit.hosts.ssh import SshHost
from kit.load import common_start, fio
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, LoadSpec, Worker
from kit.store.run_directory import RunDir
from tests.kit.hosts.conftest import Sshd, abort, until

JOB = """\
[global]
ioengine=psync
directory=${HSP_DIRECTORY}
size=${HSP_SIZE}
[read]
thread=0 ; a process would outlive its fio
rw=randread
bs=512
filename=working-set
norandommap
time_based
runtime=${HSP_RUNTIME}
rate_iops=500
numjobs=2
"""

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio; the lab has it")


# --- Jobs and commands ---


def spec(tmp_path: Path, seconds: float = 0.3, clock: Clock | None = None) -> LoadSpec:
    job = tmp_path / "job.fio"
    job.write_text(JOB)
    mount = tmp_path / "mount"
    mount.mkdir(exist_ok=True)
    mount.joinpath("working-set").write_bytes(bytes(1 << 20))
    return LoadSpec("p", read_job(job), str(tmp_path / "work"), int(seconds * 1e9), clock or Clock())


def mount(tmp_path: Path) -> str:
    return str(tmp_path / "mount")


def workers(hosts: Sequence[Host], load_spec: LoadSpec) -> list[Worker]:
    place = str(Path(load_spec.work_dir).with_name("mount"))
    return [Worker(host, host.name, place, 1 << 20) for host in hosts]


def job_text(load_spec: LoadSpec, client: int) -> str:
    values = load_spec.values(workers([Machine("client0")], load_spec)[0], client)
    files = fio.FioFiles("/run/x")
    return fio.job_text(load_spec.job, files, values, "every I/O", together=True).decode()


def test_variables_are_replaced_and_files_keep_their_names(tmp_path: Path) -> None:
    load_spec = spec(tmp_path, 0.5, Clock("virtual", 4))
    text = job_text(load_spec, 0)
    assert "${" not in text
    assert f"directory={mount(tmp_path)}" in text
    assert "runtime=2000000us" in text
    assert "thread=1" in text and "thread=0" not in text
    assert text.index("exec_prerun=") < text.index("[read]")


def test_each_client_draws_its_own_random_numbers(tmp_path: Path) -> None:
    load_spec = spec(tmp_path)
    worker = workers([Machine("client0")], load_spec)[0]
    seeds = [load_spec.values(worker, client)["HSP_SEED"] for client in range(8)]
    assert seeds[0] == str(load_spec.seed) and len(set(seeds)) == 8
    # A job without randseed has that of its client.
    texts = [job_text(load_spec, client) for client in range(2)]
    assert [f"\nrandseed={seed}\n" in text for seed, text in zip(seeds, texts, strict=False)] == [True, True]


# --- For real, on this machine ---


class Machine(LocalHost):
    """A client on this machine that can be lost."""

    lost = False

    def run(self, argv: Any, **options: Any) -> Any:
        if self.lost:
            raise HostLost(f"{self.name}: the connection broke during `{argv[0]}`")
        return super().run(argv, **options)

    def get(self, path: str, **options: Any) -> bytes:
        self.run(["true"])
        return super().get(path, **options)


def machines(count: int) -> list[Machine]:
    return [Machine(f"client{number}") for number in range(count)]


def run_dir(tmp_path: Path) -> RunDir:
    directory = RunDir(tmp_path / "run")
    directory.raw.mkdir(parents=True)
    return directory


def prepared(hosts: Sequence[Host], load_spec: LoadSpec) -> PhaseLoad:
    running = PhaseLoad(workers(hosts, load_spec), load_spec, Clocks(hosts[0]))
    running.prepare()
    return running


def results_of(running: PhaseLoad, tmp_path: Path) -> list[ClientResult]:
    """Wait for the end of the load and read its results."""
    assert until(lambda: not running.running(), 60)
    running.finish(False)
    return running.collect(run_dir(tmp_path))


def processes_of(directory: str) -> list[Path]:
    """fio in the directory, by its arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if directory in (entry / "cmdline").read_text() and (entry / "exe").readlink().name == "fio":
                found.append(entry)
    return found


def read_bytes(directory: str) -> int:
    total = 0
    for entry in processes_of(directory):
        with suppress(OSError):
            total += int((entry / "io").read_text().partition("rchar: ")[2].split()[0])
    return total


def await_reads(load_spec: LoadSpec, clients: int) -> None:
    """Until each client has done about a hundred I/Os more."""
    places = [f"{load_spec.work_dir}/fio{number}-p" for number in range(clients)]
    before = [read_bytes(place) for place in places]
    assert until(
        lambda: all(read_bytes(place) > at + 100 * 512 for place, at in zip(places, before, strict=True))
    )


def check_client1_failed(running: PhaseLoad, tmp_path: Path, reason: str) -> None:
    """client1 is named with the reason, the other clients have results, and no process is left."""
    results = results_of(running, tmp_path)
    others = [worker.name for worker in running.workers if worker.name != "client1"]
    assert [result.worker.name for result in results] == others
    (problem,) = running.problems
    assert problem.startswith(f"fio failed on client1: {reason}")
    assert processes_of(running.spec.work_dir) == []


@needs_fio
def test_one_client_runs_fio_itself(tmp_path: Path) -> None:
    running = prepared(machines(1), spec(tmp_path))
    running.start()
    (result,) = results_of(running, tmp_path)
    assert running.problems == []
    assert sum(result.ios.values()) == len(result.latencies.end_ns) > 0


@needs_fio
def test_all_clients_start_together_and_each_has_its_result(tmp_path: Path) -> None:
    hosts, load_spec = machines(3), spec(tmp_path)
    running = prepared(hosts, load_spec)
    directory = Path(load_spec.work_dir) / "fio0-p"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    running.start()
    results = results_of(running, tmp_path)
    assert running.problems == []
    assert [result.worker.name for result in results] == ["client0", "client1", "client2"]
    for result in results:
        assert sum(result.ios.values()) == len(result.latencies.end_ns) > 0
    # A common start: each had begun before any had ended.
    starts = [int((r.latencies.end_ns - r.latencies.latency_ns).min()) for r in results]
    assert max(starts) < min(int(r.latencies.end_ns.max()) for r in results)
    assert sorted(os.listdir(mount(tmp_path))) == ["working-set"]
    assert not directory.exists()
    assert processes_of(load_spec.work_dir) == []


@needs_fio
def test_a_client_that_disconnects_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    hosts = machines(3)
    load_spec = spec(tmp_path, 3)
    running = prepared(hosts, load_spec)
    running.start()
    await_reads(load_spec, 3)
    hosts[1].lost = True
    running._kill(running._members[1])
    check_client1_failed(running, tmp_path, "")


@needs_fio
def test_a_client_that_does_not_get_ready_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_start, "_LAST_READY_S", 3.0)
    hosts, load_spec = machines(2), spec(tmp_path)
    running = prepared(hosts, load_spec)
    Path(load_spec.work_dir, "fio1-p", "start.py").write_text("import time; time.sleep(600)")
    running.start()
    check_client1_failed(running, tmp_path, "fio did not get ready")


@needs_fio
@pytest.mark.parametrize("started", [True, False])
def test_an_interrupted_load_leaves_nothing_but_its_results(tmp_path: Path, started: bool) -> None:
    load_spec = spec(tmp_path, 600)
    running = prepared(machines(2), load_spec)
    if started:
        running.start()
        await_reads(load_spec, 2)
    running.finish(True)
    if started:
        results = running.collect(run_dir(tmp_path))
        assert [len(result.latencies.end_ns) > 0 for result in results] == [True, True]
    assert processes_of(load_spec.work_dir) == []


@needs_fio
def test_a_client_lost_before_the_start_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, load_spec = machines(2), spec(tmp_path)
    running = prepared(hosts, load_spec)
    waited = common_start.await_ready

    def ready_and_lost(*arguments: Any) -> None:
        waited(*arguments)
        hosts[1].lost = True

    monkeypatch.setattr(common_start, "await_ready", ready_and_lost)
    running.start()
    hosts[1].lost = False
    check_client1_failed(running, tmp_path, "client1: the connection broke")


@needs_fio
def test_without_a_start_time_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise HostError("no clock")

    load_spec = spec(tmp_path)
    running = prepared(machines(2), load_spec)
    monkeypatch.setattr(common_start, "send_start", fail)
    with pytest.raises(HostError, match="no clock"):
        running.start()
    assert processes_of(load_spec.work_dir) == []


@needs_fio
def test_the_only_client_that_is_lost_with_its_log_ends_the_run(tmp_path: Path) -> None:
    (host,) = hosts = machines(1)
    running = prepared(hosts, spec(tmp_path))
    running.start()
    assert until(lambda: not running.running(), 60)
    running.finish(False)
    host.lost = True
    with pytest.raises(HostLost):
        running.collect(run_dir(tmp_path))


# --- Over SSH ---


@pytest.fixture
def connections(sshd: Sshd, tmp_path: Path) -> Iterator[list[Host]]:
    """Three connections: this machine as three clients."""
    names = ["far0", "far1", "far2"]
    for name in names:
        config = sshd.config(tmp_path, alias=name)
    with ExitStack() as stack:
        yield [
            stack.enter_context(connect(parse_address(f"ssh://{name}"), config_path=config)) for name in names
        ]


@needs_fio
@pytest.mark.parametrize("lost", [1, 0])
def test_a_connection_that_is_lost_in_the_middle(connections: list[Host], tmp_path: Path, lost: int) -> None:
    load_spec = spec(tmp_path, 5)
    running = prepared(connections, load_spec)
    running.start()
    await_reads(load_spec, 3)
    host = connections[lost]
    assert isinstance(host, SshHost)
    # Not closed, but gone: nothing is taken down in order.
    abort(host)
    results = results_of(running, tmp_path)
    others = [host.name for number, host in enumerate(connections) if number != lost]
    assert [result.worker.name for result in results] == others
    (problem,) = running.problems
    assert problem.startswith(f"fio failed on far{lost}: ") and running.failed
    assert until(lambda: not processes_of(load_spec.work_dir), 30), "a fio outlived its connection"
