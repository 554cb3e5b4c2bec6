"""The kit's client layer against another program's clock: O_DSYNC writes of 8 KiB in the same cell.

Both run right after a txg sync, and the next is far away. During one, about forty writes wait 150 to 600 us
for the guest's one CPU: no error of a clock, but the p99 of a phase of few I/Os, and only of that of the two
in which the sync falls.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reports
from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.progress import Progress
from kit.lab.image.image import Image
from kit.lab.site import lab_site
from kit.plan.plan import make_plan
from kit.run import execute
from kit.store import json_file, run_directory

PROTECTS = ("kit/load", "kit/trace")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tests" / "bench"
PROGRAM = "/run/write_clock"
SECONDS = 0.4
PHASE = """
[[phase]]
name = "write"
title = "8 KiB writes"
job = "write.fio"
tiers = ["slog"]
duration = "400ms"
interval = "100ms"
"""


@pytest.fixture(scope="module")
def write_clock(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    program = tmp_path_factory.mktemp("c") / "write_clock"
    source = Path(__file__).with_name("write_clock.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run(["cc", *flags, "-o", program, source], check=True)
    return program.read_bytes()


def test_another_program_sees_what_the_client_layer_has(
    image: Image, write_clock: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (BENCH / "alike.toml").read_text().partition("[[phase]]")[0].replace("= 512,", "= 8192,")
    assert '"5s"' in text
    text = text.replace('"5s"', '"60s"')
    workload, testbed = tmp_path / "write.toml", BENCH / "alike-testbed.toml"
    workload.write_text(text + PHASE)
    job = (ROOT / "workloads" / "top-speeds-write.fio").read_text()
    (tmp_path / "write.fio").write_text(job.replace("bs=512", "bs=8192"))
    bed = read_testbed(testbed)
    plan = make_plan(read_workload(workload), bed, workload, testbed)
    run = run_directory.create_run(tmp_path, plan.workload.name)
    json_file.write_json(run.path / "plan.json", plan.as_json())
    taken_us: list[float] = []
    run_phase = execute.run_phase

    def both(bench: Any, phase: Any, job: Any, tracer: Any, *more: Any) -> Any:
        server, client = bench.site.server, bench.site.clients[0].host
        server.run(["zpool", "sync"])
        result = run_phase(bench, phase, job, tracer, *more)
        client.put(write_clock, PROGRAM)
        client.run(["chmod", "0755", PROGRAM])
        server.run(["zpool", "sync"])
        tracer.begin(bed.clock.to_host_ns(phase.interval))
        file, seconds = f"{bench.mount}/working-set", str(SECONDS * bed.clock.dilation)
        found = client.run([PROGRAM, file, "8192", str(bench.size_bytes), seconds, "direct"], deadline_s=600)
        tracer.end()
        taken_us.extend(int(line.split()[1]) / bed.clock.dilation / 1e3 for line in found.stdout.splitlines())
        return result

    monkeypatch.setattr(execute, "run_phase", both)
    with lab_site(bed, image, Progress(), seed=8192) as site:
        outcome = execute.execute(plan, site, run, Progress(quiet=True), ["hsp", "run"])
    assert outcome.failure is None
    summary = reports.analyse(run).summary
    assert summary.verdict == "valid", summary.reasons
    [row] = [row for row in summary.rows if row.layer == "client"]
    assert min(row.count, len(taken_us)) > 1000
    p50, p99 = row.interpolated["p50"], row.interpolated["p99"]
    assert p50 and p99 and row.mean_us
    other_p50, other_p99 = (float(np.percentile(taken_us, q)) for q in (50, 99))
    figures = f"kit {p50.us:.1f} {p99.us:.1f}, other {other_p50:.1f} {other_p99:.1f} us"
    print(figures)
    assert p50.us == pytest.approx(other_p50, rel=0.03), figures
    assert p99.us == pytest.approx(other_p99, rel=0.05), figures
