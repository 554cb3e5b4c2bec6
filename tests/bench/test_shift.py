"""1 % of a log device's latency, found in five runs against five; and five against five of the same.

HSP_BENCH_SHIFT says how many runs of each side, at least 10; without it none is made: each takes half a
minute or more. Choices of five are drawn from these runs. They overlap: they show a share, not its error.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
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
from kit.session.repeated_runs import order
from kit.store import json_file, run_directory
from kit.store.summary import Summary
from reports.comparison.compare import DIFFERENCE, compare
from tests.bench.conftest import Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]

RUNS = int(os.environ.get("HSP_BENCH_SHIFT", "0"))
CHOICES = 200
HERE = Path(__file__).parent
# All that a write waits for in this device, but for its link.
SHIFTED = 'set = { write_command = "96.96us", write_command_spread = "30.3us", serial = "20.2us" }\n'
# A transaction group written in the phase makes its mean 5 % longer: in one run of six, and it is the disks.
QUIET = ('zfs_txg_timeout = "5s"', 'zfs_txg_timeout = "60s"')
PHASE = """[[phase]]
name = "write-slog"
title = "Writes"
job = "top-speeds-write.fio"
tiers = ["slog"]
duration = "800ms"
interval = "50ms"
"""


def measured(folder: Path, runs: int) -> dict[str, list[Summary]]:
    """Summaries of A and B, in the order of `hsp run --versus`, each run in a lab of its own."""
    workload = folder / "shift.toml"
    head = (HERE / "alike.toml").read_text().partition("[[phase]]")[0]
    assert QUIET[0] in head
    workload.write_text(head.replace(*QUIET) + PHASE)
    shutil.copy(HERE.parents[1] / "workloads" / "top-speeds-write.fio", folder)
    text = (HERE / "alike-testbed.toml").read_text()
    files = {"A": folder / "a.toml", "B": folder / "b.toml"}
    files["A"].write_text(text)
    files["B"].write_text(text + SHIFTED)
    image = build(ImageInputs(), Progress())
    made: dict[str, list[Summary]] = {"A": [], "B": []}
    for seed, side in enumerate(order(runs)):
        bed = read_testbed(files[side])
        plan = make_plan(read_workload(workload), bed, workload, files[side])
        run = run_directory.create_run(folder, plan.workload.name)
        json_file.write_json(run.path / "plan.json", plan.as_json())
        with lab_site(bed, image, Progress(quiet=True), seed=seed) as site:
            execute(plan, site, run, Progress(quiet=True), ["hsp", "run"])
        summary = reports.analyse(run).summary
        assert summary.verdict == "valid", summary.reasons
        made[side].append(summary)
        at = [f"{row.layer} {row.mean_us:.2f}" for row in summary.rows if row.mean_us]
        print(f"\n{side} {run.path.name}: mean in us: {', '.join(at)}", flush=True)
    return made


def share_found(a: Sequence[Summary], b: Sequence[Summary], figure: str) -> float:
    """The share (%) of choices of five of A and of B that show a difference in `figure` at the server."""
    draw = random.Random(figure)
    shown = 0
    for _ in range(CHOICES):
        rows = compare(draw.sample(a, 5), draw.sample(b, 5)).rows
        row = next(r for r in rows if (r.layer, r.figure) == ("nfs-server", figure))
        shown += row.words == DIFFERENCE and (row.ratio or 0) > 1
    return 100 * shown / CHOICES


def share_alike(runs: Sequence[Summary]) -> float:
    """The share (%) of choices of five and five others of the same side that show no difference at all."""
    draw = random.Random(len(runs))
    alike = 0
    for _ in range(CHOICES):
        chosen = draw.sample(runs, 10)
        alike += compare(chosen[:5], chosen[5:]).different == 0
    return 100 * alike / CHOICES


@pytest.mark.skipif(RUNS < 10, reason="HSP_BENCH_SHIFT does not say how many runs, 10 or more")
def test_a_hundredth_of_a_device_is_found(tmp_path: Path, tell: Tell) -> None:
    runs = measured(tmp_path, RUNS)
    text = f"1 % of the log device, 5 against 5 of {RUNS}, shown in"
    tell("A/B", f"{text} the mean", share_found(runs["A"], runs["B"], "mean"), "%", at_least=95)
    # For comparison: it is known to a part of a bin, whose width is 2.5 %.
    tell("A/B", f"{text} p50", share_found(runs["A"], runs["B"], "p50"), "%")
    for side, of_side in runs.items():
        tell("A/A", f"5 against 5 of {RUNS} of {side}, no difference shown", share_alike(of_side), "%",
             at_least=95)  # fmt: skip
