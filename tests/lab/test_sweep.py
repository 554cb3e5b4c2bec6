"""A sweep in the lab: one guest for all its runs. A killed one: tests/kit/session/test_sweep_runs.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import EXIT_UNKNOWN
from kit.core.seed import seed_of_build
from kit.lab.image.image import Image
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.series import read_series
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
duration = "240ms"
interval = "20ms"

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
ratio_min = 0.9
ratio_max = 1.1
"""
_DEADLINE_S = 1200


@pytest.fixture(scope="module")
def path(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a whole series."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "layouts.toml").write_text(WORKLOAD)
    words = ["run", str(folder / "layouts.toml"), "--seed", "5", "--results", str(folder / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "kit.cli", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=_DEADLINE_S, check=False,
    )  # fmt: skip
    (path,) = (folder / "results" / "layouts").glob("series-*")
    series = read_series(path)
    assert series.ended and {cell.verdict for cell in series.cells} == {"valid"}, done.stdout + done.stderr
    # Whether the I/Os of one round tell a ratio well enough is up to them (tests/reports/series has both).
    told = (0, "valid") if series.expect[0].ok else (EXIT_UNKNOWN, "unknown")
    assert (done.returncode, series.verdict) == told, done.stdout + done.stderr
    assert [len(build.runs) for build in series.builds] == [1, 1, 1]
    return path


def test_ratios_stand_in_series_and_page(path: Path) -> None:
    series = read_series(path)
    p50 = {
        (r.axis, r.to): r.ratio
        for r in series.ratios
        if (r.layer, r.tier, r.figure) == ("nfs-server", "slog", "p50")
    }
    assert p50["layout", "stripe"] == pytest.approx(1, abs=0.03), "the log device is the same"
    assert p50["threads", "2"] > 1, "two writers wait for each other"
    assert series.expect[0].ok is not False and series.expect[0].ratio == p50["layout", "stripe"]
    text = (path / "report.html").read_text()
    assert all(f"../{run.run}/report.html" in text for build in series.builds for run in build.runs)


def test_each_run_is_one_of_the_ordinary_kind(path: Path) -> None:
    series = read_series(path)
    for build in series.builds:
        run = path.parent / build.runs[0].run
        plan: dict[str, Any] = json.loads((run / "plan.json").read_text())
        assert plan["digest"] == build.digest
        assert plan["series"] == {"id": series.id, "build": build.name, "round": 1}
        assert json.loads((run / "summary.json").read_text())["verdict"] == "valid"
        manifest = read_manifest(RunDir(run))
        assert manifest.seed == seed_of_build(5, build.name, 1)
        settings = {(each.name, each.set) for each in manifest.host_settings}
        assert settings == {
            ("nfsd_threads", "12"),
            ("scheduler", "mq-deadline"),
            ("transparent_hugepage", "never"),
        }
        assert all(each.before != each.set for each in manifest.host_settings), "and each was restored"
        assert {(each.settings or {})["scheduler"] for each in manifest.testbed.devices} == {"mq-deadline"}
