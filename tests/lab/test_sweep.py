"""A sweep in the lab: one guest for all its runs; killed in a build, it goes on there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kit.core.seed import seed_of_build
from kit.lab.image.image import Image
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.series import Series, read_series
from tests.lab.conftest import ROOT

PROTECTS = ("kit/session/sweep_runs.py", "kit/plan")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]

WORKLOAD = """\
format = 1
name = "layouts"
title = "Pool layout, threads: O_DSYNC writes"
base = "top-speeds"
precondition.method = "none"
host = { nfsd_threads = 12, scheduler = "mq-deadline", transparent_hugepage = "never" }

[[phase]]
name = "write-slog"
duration = "120ms"

[sweep.layout]
set = "pool.data"
to = ["mirror", "stripe"]

[sweep.threads]
set = "job.numjobs"
to = [1, 2]

[[expect]]
axis = "layout"
phase = "write-slog"
op = "write"
tier = "slog"
from = "mirror"
to = "stripe"
ratio_min = 0.97
ratio_max = 1.03
"""
_DEADLINE_S = 1200
# The series, series.json and the names of its runs when the kit was killed, and the exit code of the rest.
Killed = tuple[Path, Series, list[str], int]


def begin(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "kit.cli", "run", *words, "--results", str(folder / "results")]
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)


@pytest.fixture(scope="module")
def killed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A series whose kit was killed in the second build, and that was resumed."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "layouts.toml").write_text(WORKLOAD)
    process = begin(folder, str(folder / "layouts.toml"), "--seed", "5")
    log = folder / "log"
    deadline = time.monotonic() + _DEADLINE_S
    while not (begun := log.read_text().partition("build 2 of 3")[2]) or "exporting" not in begun:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    (path,) = (folder / "results" / "layouts").glob("series-*")
    before = read_series(path)
    begun_runs = [each.name for each in path.parent.glob("2*")]
    code = begin(folder, "--resume", str(path)).wait(_DEADLINE_S)
    return path, before, begun_runs, code


def test_a_killed_series_goes_on_at_its_build(killed: Killed) -> None:
    path, before, begun, code = killed
    series = read_series(path)
    assert (code, series.verdict, series.ended) == (0, "valid", True), (path.parents[2] / "log").read_text()
    assert [len(build.runs) for build in before.builds] == [1, 0, 0]
    assert series.builds[0].runs == before.builds[0].runs, "what was measured is kept"
    runs = sorted(each.name for each in path.parent.glob("2*"))
    assert set(begun) < set(runs) and len(begun) == 2, "the second had begun"
    assert runs == sorted(run.run for build in series.builds for run in build.runs), "and the second goes on"


def test_ratios_stand_in_series_and_page(killed: Killed) -> None:
    path, *_ = killed
    series = read_series(path)
    p50 = {
        (r.axis, r.to): r.ratio
        for r in series.ratios
        if (r.layer, r.tier, r.figure) == ("nfs-server", "slog", "p50")
    }
    assert p50["layout", "stripe"] == pytest.approx(1, abs=0.03), "the log device is the same"
    assert p50["threads", "2"] > 1, "two writers wait for each other"
    assert series.expect[0].ok
    text = (path / "report.html").read_text()
    assert all(f"../{run.run}/report.html" in text for build in series.builds for run in build.runs)


def test_each_run_is_one_of_the_ordinary_kind(killed: Killed) -> None:
    path, *_ = killed
    series = read_series(path)
    for build in series.builds:
        run = path.parent / build.runs[0].run
        plan: dict[str, Any] = json.loads((run / "plan.json").read_text())
        assert plan["digest"] == build.digest
        assert plan["series"] == {"id": series.id, "build": build.name, "round": 1}
        assert json.loads((run / "summary.json").read_text())["verdict"] == "valid"
        manifest = read_manifest(RunDir(run))
        assert manifest.seed == seed_of_build(5, build.name, 1), "also after the series was resumed"
        settings = {(each.name, each.set) for each in manifest.host_settings}
        assert settings == {
            ("nfsd_threads", "12"),
            ("scheduler", "mq-deadline"),
            ("transparent_hugepage", "never"),
        }
        assert all(each.before != each.set for each in manifest.host_settings), "and each was restored"
        assert {each["settings"]["scheduler"] for each in manifest.testbed.devices} == {"mq-deadline"}


def test_a_run_of_a_series_is_not_resumed_alone(killed: Killed) -> None:
    path, *_ = killed
    run = path.parent / read_series(path).builds[0].runs[0].run
    done = subprocess.run(
        [sys.executable, "-m", "kit.cli", "run", "--resume", str(run)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "is a run of the series" in done.stderr
