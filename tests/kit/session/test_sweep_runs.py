"""kit.session.sweep_runs: a series that was killed goes on at its build."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError, HostError, SafetyRefusal
from kit.core.progress import Progress
from kit.core.seed import seed_of_build
from kit.recovery.journal import Journal, read_journal
from kit.run.resume import sources
from kit.session import sweep_runs
from kit.session.measure import MeasuredRun, ResumedRun, _create_run
from kit.session.place import Request
from kit.session.side import Side
from kit.store.run_directory import RunDir
from kit.store.series import read_series
from tests.reports import synthetic_series

WORKLOAD = """\
format = 1
name = "sizes"
title = "T"
base = "top-speeds"
precondition.method = "none"
[sweep.layout]
set = "pool.data"
to = ["mirror", "stripe"]
"""
BUILDS = ["base", "layout=stripe", "base-again"]


class Killed(BaseException):
    """SIGKILL: nothing of the series goes on."""


class Sweep:
    """A series whose runs are not measured. `calls`: build, seed, and the directory that it goes on in.

    `ends`: what happens in the run of a build, by its number, from 0.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.results = folder / "results"
        (folder / "sizes.toml").write_text(WORKLOAD)
        self.side = Side(str(folder / "sizes.toml"), LAB_TESTBED)
        planned = self.side.sweep()
        assert planned
        self.planned, self.ends = planned, dict[int, Any]()
        self.calls: list[tuple[str, int | None, Path | None]] = []
        self.site = SimpleNamespace(place=lambda *_: None, is_up=False)
        patch.setattr(sweep_runs, "SharedSite", lambda *_: self.site)
        patch.setattr(sweep_runs, "measure", self.measure)

    def measure(
        self, plan: Any, _: Any, request: Any, __: Any, begun: ResumedRun | None = None, **___: Any
    ) -> MeasuredRun:
        self.calls.append((request.series.build, request.seed, begun.run_dir.path if begun else None))
        end = self.ends.pop(len(self.calls) - 1, None)
        if end == "before its directory":
            raise Killed
        if end == "stored":
            name = synthetic_series.run(self.results, 1, {"write-slog": 1000})
            run = RunDir(self.results / "sizes" / name)
            (run.path / "plan.json").write_text(
                json.dumps({**plan.as_json(), "series": asdict(request.series)})
            )
            raise Killed
        run = begun.run_dir if begun else _create_run(plan, request)
        if end == "begun":
            with Journal(run.journal) as journal:
                journal.begin(run.path.name, plan.digest)
            raise Killed
        failure = end if isinstance(end, Exception) else None
        summary = SimpleNamespace(verdict="valid", state="valid")
        return MeasuredRun(run, cast(Any, SimpleNamespace(summary=summary)), 0, cast(Any, failure))

    def run(self, resume: Path | None = None) -> Path:
        """Raises Killed, HostError."""
        request = Request(self.results, seed=5, resume=resume)
        sweep_runs.measure_sweep(self.side, self.planned, request, Progress(quiet=True))
        return self.path

    @property
    def path(self) -> Path:
        (path,) = (self.results / "sizes").glob("series-*")
        return path

    def runs(self) -> list[list[str]]:
        return [[run.run for run in build.runs] for build in read_series(self.path).builds]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(tmp_path, monkeypatch)


@pytest.mark.parametrize("killed", ["before its directory", "begun", "stored"])
def test_a_killed_series_goes_on_at_its_build(sweep: Sweep, killed: str) -> None:
    sweep.ends[1] = killed
    with pytest.raises(Killed):
        sweep.run()
    before, left = sweep.runs(), sorted(each.name for each in sweep.path.parent.glob("2*"))
    assert [len(runs) for runs in before] == [1, 0, 0] and not read_series(sweep.path).ended
    report = sweep.path / "report.html"
    assert not report.exists(), "drawn once, at the end"
    begun = [sweep.path.parent / name for name in left if [name] not in before]
    assert len(begun) == (killed != "before its directory")
    sweep.calls.clear()
    sweep.run(sweep.path)
    seeds = [seed_of_build(5, build, 1) for build in BUILDS]
    again = [] if killed == "stored" else [(BUILDS[1], seeds[1], begun[0] if begun else None)]
    assert sweep.calls == [*again, (BUILDS[2], seeds[2], None)]
    series, runs = read_series(sweep.path), sweep.runs()
    assert (
        report.exists()
        and series.ended
        and runs[0] == before[0]
        and [len(each) for each in runs] == [1, 1, 1]
    )
    assert sorted(each.name for each in sweep.path.parent.glob("2*")) == sorted(
        run for each in runs for run in each
    )
    if begun:
        assert runs[1] == [begun[0].name] and read_journal(begun[0] / "journal.jsonl").finished
        with pytest.raises(ConfigError, match="is a run of the series"):
            sources(begun[0])


def test_a_host_that_is_lost_ends_the_series_and_it_goes_on(
    sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.ends[1] = HostError("the connection broke")
    with pytest.raises(HostError, match="the connection broke"):
        sweep.run()
    assert f"goes on with `hsp run --resume {sweep.path}`" in capsys.readouterr().err
    assert [len(runs) for runs in sweep.runs()] == [1, 0, 0]
    sweep.run(sweep.path)
    assert [build for build, _, _ in sweep.calls] == [*BUILDS[:2], *BUILDS[1:]]
    assert sweep.calls[2][2] is not None, "in the directory that it had begun"


def test_a_series_that_is_refused_leaves_nothing(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SafetyRefusal("erasing was not agreed to")

    monkeypatch.setattr(sweep_runs, "SharedSite", refuse)
    with pytest.raises(SafetyRefusal):
        sweep.run()
    assert not sweep.results.exists()


def test_another_plan_does_not_go_on(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.run()
    (tmp_path / "sizes.toml").write_text(WORKLOAD + '[sweep.threads]\nset = "job.numjobs"\nto = [1, 2]\n')
    planned = sweep.side.sweep()
    assert planned
    sweep.planned = planned
    with pytest.raises(ConfigError, match="is not what the series began with"):
        sweep.run(path)
