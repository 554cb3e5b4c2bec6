"""The latency of the L2ARC by threads, against what the model of its SSD does with the same queue, alone.

tests/kit/emulation/test_seen_reads.py has the figures of such a run, for each change.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.lab.image.image import Image
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.series import read_series
from kit.store.summary import read_summary
from tests.kit.emulation.seen_reads import SeenReads
from tests.lab.conftest import finish, hsp

PROTECTS = ("kit/emulation", "kit/sizes")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]

WORKLOAD = Path(__file__).parent / "own_workloads" / "l2arc-queue.toml"
# From 4 threads on the guest's one CPU would be the limit: one that seems 16 times as fast is not.
DILATION = 16


def test_more_threads_wait_longer_as_the_model_says(image: Image, tmp_path: Path) -> None:
    testbed = tmp_path / "testbed.toml"
    testbed.write_text(LAB_TESTBED.read_text().replace("dilation = 4 ", f"dilation = {DILATION} "))
    assert read_testbed(testbed).clock.dilation == DILATION
    done = finish(
        hsp("run", str(WORKLOAD), "--testbed", str(testbed), results=tmp_path), tmp_path, "l2arc-queue"
    )
    (path,) = (tmp_path / "l2arc-queue").glob("series-*")
    series = read_series(path)
    assert (done.code, series.verdict) == (0, "valid"), done.stderr
    run = RunDir(path.parent / series.builds[0].runs[0].run)
    summary, manifest = read_summary(run), read_manifest(run)
    # The warm-up spreads: ARC and L2ARC hold different parts of the working set, and no disk answers.
    of_base = {r.tier: r.share for r in summary.rows if (r.phase, r.layer) == ("read", "nfs-server")}
    assert of_base["l2arc"] > 0.35 and of_base.get("disk", 0) < 0.01, of_base
    latencies_us, seen = [], []
    for phase in ("read", "read-threads-4", "read-threads-16"):
        row = next(r for r in summary.rows if (r.phase, r.tier, r.layer) == (phase, "l2arc", "nfs-server"))
        use = next(each for each in summary.use if each.phase == phase)
        assert not use.is_cpu_bound, "or the latency would be that of the CPU"
        stored = next(each for each in manifest.phases if each.name == phase)
        samples = next(each for each in stored.devices if each.device == "cache0").samples
        of = (getattr(samples[-1], n) - getattr(samples[0], n) for n in ("reads", "read_bytes", "read_ns"))
        latencies_us.append(row.p50_us)
        seen.append(SeenReads(phase, *of, load_s=use.seconds))
        print(seen[-1], round(row.p50_us, 1))
    assert latencies_us == sorted(latencies_us) and latencies_us[-1] > 1.05 * latencies_us[0]
    for reads in seen:
        reads.check()
