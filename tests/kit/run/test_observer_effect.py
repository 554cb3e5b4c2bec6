"""kit.run.observer_effect: where it is refused, what it makes of the tracer's output, and its load.

The measurement itself is in tests/lab.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.core.errors import ConfigError
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.run import observer_effect
from kit.run.resume import read_earlier
from kit.setup.bench import Bench
from kit.setup.record import RunRecord
from kit.setup.site import Site, SiteClient
from kit.store import run_directory
from kit.store.manifest import Manifest
from kit.trace.support import TracingSupport, program
from kit.zfs import openzfs_version
from tests.kit.run.test_resume import plan

__all__ = ["plan"]

TRACE = Path(__file__).parents[1] / "data" / "trace-read.json"


def planned(trace: str = "auto", engine: str = "kernel", appliance: bool = False) -> Any:
    server = SimpleNamespace(trace=trace)
    testbed = SimpleNamespace(name="mynas", is_appliance=appliance, server=server)
    workload = SimpleNamespace(nfs=SimpleNamespace(engine=engine), over_nfs=True)
    return SimpleNamespace(testbed=testbed, workload=workload)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"appliance": True}, "is an appliance: the kit cannot log in"),
        ({"trace": "none"}, 'has trace = "none": no tracer runs there'),
        ({"engine": "libnfs"}, 'is read with engine = "libnfs"'),
    ],
)
def test_without_a_tracer_or_a_mount_it_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        observer_effect.refuse(planned(**settings))
    assert caught.value.message.startswith("--observer-effect: the server of the testbed 'mynas' " + reason)
    assert caught.value.hint.startswith("leave the option out")
    observer_effect.refuse(planned())


def test_a_server_that_turns_out_not_to_be_traceable_is_refused() -> None:
    whole = program(openzfs_version.parse("2.3.9"))
    with pytest.raises(ConfigError, match="this server cannot be traced: nas has no bpftrace"):
        observer_effect.refuse_untraced(TracingSupport("none", whole, reason="nas has no bpftrace"))
    observer_effect.refuse_untraced(TracingSupport("full", whole))


@pytest.mark.parametrize("threads", observer_effect.THREADS)
def test_its_job_is_one_that_a_user_could_write(tmp_path: Path, threads: int) -> None:
    job = observer_effect._job("working-set", 1 << 20, threads)
    path = tmp_path / "job.fio"
    path.write_text(job.text)
    again = read_job(path)
    assert (again.outstanding, again.operations, again.block_bytes) == (threads, {"read"}, 512)
    assert dict(again.sections[0].options) == dict(job.sections[0].options)


def test_reads_from_elsewhere_and_the_tracers_problems_make_it_unknown() -> None:
    """The recorded phase has reads from all three tiers."""
    [problem] = observer_effect._unlike_dram(TRACE.read_text())
    assert problem.endswith("of 3,456 reads were from DRAM, so they say nothing of it")
    assert "the tracer never began" in list(observer_effect._unlike_dram(""))


def test_each_side_comes_as_often_and_neither_always_first() -> None:
    pairs = [observer_effect._ORDER[at : at + 2] for at in range(0, 12, 2)]
    assert pairs == ["AB", "BA"] * 3


def test_a_resumed_run_still_measures_it(tmp_path: Path, plan: Any) -> None:
    run = run_directory.RunDir(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(plan.as_json()))
    assert read_earlier(run, plan).observer_effect is False
    (tmp_path / "plan.json").write_text(json.dumps({**plan.as_json(), "observer_effect": True}))
    assert read_earlier(run, plan).observer_effect is True


class Tracer:
    """Prints a phase with one read, from DRAM or from a disk, whatever the load is."""

    def __init__(self, seen: int) -> None:
        self.seen, self.begun = 2048 + seen, 0

    def begin(self, interval_ns: int) -> None:
        self.begun += 1

    def end(self) -> tuple[str, list[str]]:
        counts = {f"{self.seen},500": 1, "2048,4000": 1}
        lines = [
            {"type": "printf", "data": "hsp-trace phase 1 5\n"},
            {"type": "printf", "data": "hsp-trace end 9\n"},
            {"type": "map", "data": {"@counts": counts}},
            {"type": "printf", "data": "hsp-trace ended 1\n"},
        ]
        return "".join(json.dumps(line) + "\n" for line in lines), []


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
@pytest.mark.parametrize("seen", [0, 1])
def test_fio_reads_with_the_tracer_and_without_in_turn(
    seen: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real fio on this machine; only the tracer is made up."""
    monkeypatch.setattr(observer_effect, "THREADS", (1, 3))
    monkeypatch.setattr(observer_effect, "_STRETCH_NS", 100_000_000)
    starts: list[Tracer] = []

    @contextmanager
    def traced(*_: Any, writes: bool) -> Iterator[Tracer]:
        starts.append(Tracer(seen))
        yield starts[-1]

    monkeypatch.setattr(observer_effect, "traced", traced)
    host = LocalHost("client")
    for name in ("mount", "work", "run/raw"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "mount" / "set").write_bytes(bytes(1 << 20))
    bench = Bench(
        site=Site((SiteClient(host, "", ""),), Clock(), False, host),
        run_dir=run_directory.RunDir(tmp_path / "run"),
        work_dir=str(tmp_path / "work"),
        mount_point=str(tmp_path / "mount"),
        mount=str(tmp_path / "mount"),
        mounted=(),
        size_bytes=1 << 20,
        run_origin_ns=0,
        clocks=Clocks(host),
        storage=SimpleNamespace(server=host, path=str(tmp_path / "mount")),  # type: ignore[arg-type]
    )
    record = RunRecord(Manifest())
    observer_effect.measure(bench, "set", 10**9, None, record, writes=False)  # type: ignore[arg-type]
    effect = record.manifest.observer_effect
    if seen:
        assert effect is None and record.manifest.notes == (
            "The observer effect was not measured: threads: 1: 0 of 1 reads were from DRAM, so they say "
            "nothing of it.",
        )
        return
    assert effect is not None, record.manifest.notes
    assert [each.traced for each in effect.stretches[::2]] == [side == "B" for side in "ABBAABBAABBA"]
    assert [each.threads for each in effect.stretches] == [1, 3] * 12
    assert all(each.ios > 0 and 0 < each.p50_ns <= each.p99_ns for each in effect.stretches), effect
    assert [tracer.begun for tracer in starts] == [4, 4, 4]
