"""A/A comparisons from the lab: three runs against three of the same, and no difference is shown.

HSP_BENCH_ALIKE says how many comparisons; without it none is made, because each takes about eight minutes.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import reports
from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.progress import Progress
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.plan.plan import make_plan
from kit.run.execute import execute
from kit.session.comparison import ComparedRun, comparison
from kit.store import json_file, run_directory
from kit.store.run_directory import RunDir
from tests.bench.conftest import Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]

COMPARISONS = int(os.environ.get("HSP_BENCH_ALIKE", "0"))
# As `hsp run --versus` goes on: what drifts falls on both.
ORDER = "ABBAAB"
HERE = Path(__file__).parent


def six_runs(folder: Path) -> dict[str, list[RunDir]]:
    """Runs of A and B, one after the other in one lab."""
    workload, testbed = folder / "alike.toml", HERE / "alike-testbed.toml"
    for file in (HERE / "alike.toml", HERE.parents[1] / "workloads" / "top-speeds-write.fio"):
        shutil.copy(file, folder)
    bed = read_testbed(testbed)
    runs: dict[str, list[RunDir]] = {"A": [], "B": []}
    with lab_site(bed, build(ImageInputs(), Progress()), Progress(), seed=1) as site:
        for side in ORDER:
            plan = make_plan(read_workload(workload), bed, workload, testbed)
            run = run_directory.create_run(folder, plan.workload.name)
            json_file.write_json(run.path / "plan.json", plan.as_json())
            execute(plan, site, run, Progress(quiet=True), ["hsp", "run"])
            assert reports.analyse(run).summary.verdict == "valid"
            runs[side].append(run)
    return runs


@pytest.mark.skipif(not COMPARISONS, reason="HSP_BENCH_ALIKE does not say how many comparisons")
def test_the_same_again_shows_no_difference(tmp_path: Path, tell: Tell) -> None:
    different = []
    for number in range(COMPARISONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs = six_runs(folder)
        a, b = ([ComparedRun(str(run.path)) for run in runs[side]] for side in "AB")
        found = comparison(a, b, [])
        print(f"\ncomparison {number}: {found.compared} figures, {found.conclusion}", flush=True)
        assert found.compared
        if found.different:
            different.append(json.dumps(found.as_json()["rows"]))
    share = 100 * (1 - len(different) / COMPARISONS)
    tell("A/A", f"{COMPARISONS} comparisons from the lab, no difference shown", share, "%", at_least=95)
