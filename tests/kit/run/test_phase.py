"""kit.run.phase: every machine that takes part is asked before and after the load.

Hosts and load are made up here; with real ones it is in tests/lab.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kit.config.fio_job import read_job
from kit.config.tables.phase_table import Phase
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts import clock_offset
from kit.hosts.clock_offset import Clocks
from kit.instruments import arc_zil_counters, read_history, server_activity
from kit.instruments.arc_zil_counters import Counters
from kit.instruments.read_history import DemandReads
from kit.load.fio_bins import index_of
from kit.load.fio_latency_log import ClientLatencies
from kit.load.fio_windows import ClientWindows
from kit.load.phase_load import ClientResult, Worker
from kit.run import phase as phases
from kit.setup.bench import Bench, Storage
from kit.setup.site import Site, SiteClient
from kit.store.phase import Shares
from kit.store.run_directory import RunDir
from kit.zfs import openzfs_version, pool, zil
from tests.fakes import Command, ScriptedHost
from tests.kit.instruments.test_server_activity import files

SECOND = 1_000_000_000
PHASE = Phase.model_validate(
    {"name": "r", "title": "R", "job": "read.fio", "tiers": ("dram",), "duration": "10s", "interval": "1s"}
)
JOB = read_job(WORKLOADS / "top-speeds-read.fio")


class Machine(ScriptedHost):
    """A host with a wall clock and a CPU that can be hot."""

    def __init__(self, name: str, boot: str, hot: bool = False) -> None:
        super().__init__(name=name)
        self.boot = boot
        self.stepped_ns, self.hot_ms = 0, 0
        self.counts_heat = hot
        self.asked = 0

    def answer(self, command: Command) -> str:
        argv = command.argv
        if argv[0] == "cat":
            return self.boot
        if argv[:3] == ("head", "-n", "1000"):
            self.asked += 1
            clocks = {1: 10**18 + self.stepped_ns, 2: 0}
            return "".join(f"  .index:      {n}\n  .offset:     {ns} nsecs\n" for n, ns in clocks.items())
        if argv[0] == "head":
            return "now at 5000 nsecs\n"
        if self.counts_heat:
            path = "cpu0/thermal_throttle/core_throttle"
            count = 7 if self.hot_ms else 6
            return f"==> {path}_count <==\n{count}\n\n==> {path}_total_time_ms <==\n{self.hot_ms}\n"
        return ""


def worker(host: Any) -> Worker:
    return Worker(host, host.name, "/mnt", 512)


class Load:
    """One I/O of each client, and whatever else is to happen meanwhile."""

    def __init__(self, hosts: list[Machine], meanwhile: Callable[[], None]) -> None:
        self.problems: list[str] = []
        self.failed, self.outputs = False, ()
        self.hosts, self.meanwhile = hosts, meanwhile
        self.started = self.finished = False

    def prepare(self) -> None: ...

    def start(self) -> None:
        self.started = True
        assert all(host.asked == (1 if host.name != "same" else 0) for host in self.hosts)
        self.meanwhile()

    def running(self) -> bool:
        return False

    def finish(self, interrupted: bool) -> None:
        self.finished = True

    def collect(self, _: RunDir) -> list[ClientResult]:
        one = ClientLatencies(np.array([3 * SECOND]), np.array([1000]), np.array([0]))
        return [ClientResult(worker(host), {"read": 1}, one) for host in self.hosts]


@pytest.fixture
def machines() -> list[Machine]:
    """A server, a client in its kernel, and one of its own that counts heat."""
    return [Machine("server", "a"), Machine("same", "a"), Machine("other", "b", hot=True)]


@pytest.fixture
def run(
    request: pytest.FixtureRequest, machines: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None]], dict[str, Any]]:
    """The entry of a phase during which something happens."""
    server, *clients = machines
    monkeypatch.setattr(clock_offset, "_offset_to_local", lambda host: clock_offset.Offset())
    common: dict[str, Any] = {
        "run_dir": RunDir(tmp_path), "work_dir": "/w", "size_bytes": 512, "clocks": Clocks(server),  # type: ignore[arg-type]
        "mount_point": "/mnt", "mounted": (), "run_origin_ns": 0,
    }  # fmt: skip

    def on_a_server(
        meanwhile: Callable[[], None], tracer: Any = None, load: Load | None = None
    ) -> dict[str, Any]:
        zfs = openzfs_version.parse("2.3.9")
        found = server_activity.parse(files("tank"), {"tank": None}, "tank")
        monkeypatch.setattr(zil, "vdev_ids", lambda *_, **__: frozenset())
        monkeypatch.setattr(server_activity, "read", lambda *_, **__: found)
        monkeypatch.setattr(arc_zil_counters, "read", lambda *_: Counters({"l2_hits": 0}, {}))
        monkeypatch.setattr(read_history, "begin", lambda *_: None)
        monkeypatch.setattr(read_history, "history", lambda *_: DemandReads(2, 0, 2))
        monkeypatch.setattr(read_history, "shares", lambda *_: Shares(unit="requests", source="s", counts={}))
        monkeypatch.setattr(phases, "load_on", lambda *_, **__: load or Load(clients, meanwhile))
        site = Site(tuple(SiteClient(c, "", "") for c in clients), Clock(), False, server)  # type: ignore[arg-type]
        tracing = SimpleNamespace(kind="full" if tracer else "none")
        storage = Storage(
            server, zfs, tracing, pool.CreatedPool("tank", 1, "r"), dataset="tank/bench", path="/p", objset=1,
            log_devices=(),
        )  # type: ignore[arg-type]  # fmt: skip
        if tracer:
            (tmp_path / "raw").mkdir(exist_ok=True)
        bench = Bench(site=site, mount="/mnt", storage=storage, **common)
        return phases.run_phase(bench, PHASE, JOB, tracer).entry.as_json()

    def on_an_appliance(meanwhile: Callable[[], None]) -> dict[str, Any]:
        monkeypatch.setattr(phases, "load_on", lambda *_, **__: Load(machines, meanwhile))
        site = Site(tuple(SiteClient(m, "", "") for m in machines), Clock(), False, seed=1)  # type: ignore[arg-type]
        bench = Bench(site=site, mount="/mnt/d", **common)
        return phases.run_phase(bench, PHASE, JOB).entry.as_json()

    return on_a_server if request.param == "server" else on_an_appliance


both = pytest.mark.parametrize("run", ["server", "appliance"], indirect=True)


def of_machines(entry: dict[str, Any]) -> list[tuple[str, int, bool]]:
    marked = ("CLOCK_REALTIME", "/sys/devices/system/cpu")
    return [(c["name"], c["found"], c["ok"]) for c in entry["checks"] if c["source"].startswith(marked)]


@both
def test_each_kernel_is_asked_before_and_after_the_load(
    run: Callable[[Callable[[], None]], dict[str, Any]], machines: list[Machine]
) -> None:
    entry = run(lambda: None)
    assert [machine.asked for machine in machines] == [2, 0, 2]
    assert of_machines(entry) == [
        ("wall clock step of server, in us", 0, True),
        ("thermal throttling of other, in ms", 0, True),
        ("thermal throttling of other, events of unknown duration", 0, True),
        ("wall clock step of other, in us", 0, True),
    ]
    assert [machine["host"] for machine in entry["machines"]] == ["server", "other"]
    missing = [one for one in entry["unavailable"] if one["source"].startswith("/sys")]
    assert [one["name"] for one in missing] == ["thermal throttling of server"]
    assert not {"clock-step", "throttling"} & {event["kind"] for event in entry["events"]}


@both
def test_what_happens_during_the_load_is_in_the_entry(
    run: Callable[[Callable[[], None]], dict[str, Any]], machines: list[Machine]
) -> None:
    def happens() -> None:
        machines[0].stepped_ns = -5 * SECOND
        # Of a load that is over after a second.
        machines[2].hot_ms = 11

    entry = run(happens)
    assert [check for check in of_machines(entry) if not check[2]] == [
        ("wall clock step of server, in us", -5_000_000, False),
        ("thermal throttling of other, in ms", 11, False),
    ]
    marks = {e["kind"]: e for e in entry["events"] if e["kind"] in ("clock-step", "throttling")}
    assert set(marks) == {"clock-step", "throttling"}
    for mark in marks.values():
        assert (mark["time_ns"], mark["end_ns"]) == (entry["start_ns"], entry["end_ns"])
    assert entry["start_ns"] < entry["end_ns"]


class Tracer:
    """Begins, or does not, and dies while the load runs, or does not."""

    def __init__(self, begins: bool, lives: bool) -> None:
        self.begins, self.lives, self.ended = begins, lives, False

    def begin(self, interval_ns: int, output: Path | None = None) -> None:
        assert interval_ns == SECOND
        if not self.begins:
            raise HostError("the tracer died before the phase")

    def running(self) -> bool:
        return self.lives

    def end(self) -> tuple[str, list[str]]:
        self.ended = True
        lines = ["phase 3 5", "end 9", "ended 3"] if self.lives else ["phase 3 5"]
        said = [f'{{"type": "printf", "data": "hsp-trace {line}\\n"}}\n' for line in lines]
        return "".join(said), [] if self.lives else ["the tracer died during the load"]


on_a_server = pytest.mark.parametrize("run", ["server"], indirect=True)


@on_a_server
@pytest.mark.parametrize(
    ("begins", "lives", "problems"),
    [
        (True, True, []),
        (True, False, ["the tracer died during the load", "the tracer died before its end"]),
        (False, False, ["the tracer died before the phase: nothing of this phase was measured"]),
    ],
)
def test_a_phase_of_a_tracer_that_died_says_so(
    begins: bool, lives: bool, problems: list[str], run: Any, machines: list[Machine]
) -> None:
    tracer, load = Tracer(begins, lives), Load(machines[1:], lambda: None)
    entry = run(lambda: None, tracer, load)
    told = [problem["text"] for problem in entry["problems"] if "tracer" in problem["text"]]
    assert len(told) == len(problems)
    assert all(found.startswith(words) for found, words in zip(told, problems, strict=True))
    # Without a tracer the load is worth nothing: it is made ready, not started, and cleared away.
    assert (load.started, load.finished, tracer.ended) == (begins, True, begins)
    assert entry["client_ios"] == (2 if begins else 0)


class CountedLoad(Load):
    """Three I/Os of each client, counted in one window; one more after it."""

    def collect(self, _: RunDir) -> list[ClientResult]:
        begin, end = np.array([3 * SECOND, 4 * SECOND]), np.array([4 * SECOND, 4 * SECOND + 1])
        zeros, column = np.zeros(2, dtype=np.int64), np.full(2, index_of(1000))
        counts = ClientWindows(
            begin, end, zeros, column, np.array([3, 1]), {0: (1000, 1005)}, {0: 4009}, 1000
        )
        return [ClientResult(worker(host), {"read": 4}, counts) for host in self.hosts]


@on_a_server
def test_a_phase_with_histograms_says_how_well_it_knows_the_times(run: Any, machines: list[Machine]) -> None:
    entry = run(lambda: None, load=CountedLoad(machines[1:], lambda: None))
    assert entry["client_ios"] == 8
    assert [row["ios"] for row in entry["clients"]] == [4, 4]
    log = entry["client_log"]
    assert (log["kind"], log["latency"]) == ("histograms", "completion")
    assert {extreme["max_ns"] for extreme in entry["extremes"] if extreme["layer"] == "client"} == {1005}
    sums = [(each["ios"], each["sum_ns"]) for each in entry["sums"] if each["layer"] == "client"]
    assert sums == [(4, 4009)] * 2


@on_a_server
def test_a_phase_with_a_log_of_every_io_is_stored_as_before(run: Any) -> None:
    assert "client_log" not in run(lambda: None)


class LateLoad(Load):
    """The second client begins 1.5 s after the first, and both are done."""

    def collect(self, _: RunDir) -> list[ClientResult]:
        ends = (3 * SECOND, 4_500_000_000)
        ios = [ClientLatencies(np.array([end]), np.array([1000]), np.array([0])) for end in ends]
        return [
            ClientResult(worker(host), {"read": 1}, one) for host, one in zip(self.hosts, ios, strict=True)
        ]


@on_a_server
@pytest.mark.parametrize("duration", ["10s", "2min"])
def test_a_late_client_is_late_by_the_time_that_the_load_took(
    run: Any, machines: list[Machine], monkeypatch: pytest.MonkeyPatch, duration: str
) -> None:
    """A tree is done in seconds, whatever time it may take at most."""
    given = PHASE.model_copy(update={"duration": {"10s": 10, "2min": 120}[duration] * SECOND})
    monkeypatch.setattr(f"{__name__}.PHASE", given)
    entry = run(lambda: None, load=LateLoad(machines[1:], lambda: None))
    assert [each["code"] for each in entry["problems"] if "together" in each["text"]] == ["late-clients"]
