"""The main job on a second guest: Debian 12, so OpenZFS 2.1, Linux 6.1 and bpftrace 0.17.

Its kernel has no ublk, so its devices are null_blk.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from kit.core.bins import bin_edges, bin_index
from kit.core.progress import Progress
from kit.lab.image.image import Image, ImageInputs, build
from tests.lab.conftest import ROOT, Finished, finish, hsp

# Building the image compiles OpenZFS; that and the run are no part of a test's time.
PROTECTS = ("kit/zfs", "kit/trace")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1800, func_only=True)]

SUITE = "bookworm"
TESTBED = ROOT / "docs" / "examples" / "lab-null-blk.toml"


@pytest.fixture(scope="module")
def old_image() -> Image:
    return build(ImageInputs(SUITE), Progress())


@pytest.fixture(scope="module")
def old_job(old_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    results = tmp_path_factory.mktemp("old")
    words = ("run", "top-speeds", "--testbed", str(TESTBED), "--suite", SUITE, "--json")
    return finish(hsp(*words, results=results), results)


def test_it_is_the_old_openzfs_kernel_and_bpftrace(old_job: Finished) -> None:
    versions = old_job.manifest["versions"]
    assert versions["zfs"].startswith("2.1.")
    assert versions["kernel"].startswith("6.1.")
    assert versions["bpftrace"].startswith("0.17")
    assert old_job.manifest["tracing"]["kind"] == "full"


def test_it_is_valid_with_five_tiers(old_job: Finished) -> None:
    assert old_job.code == 0, old_job.stderr
    assert json.loads(old_job.stdout) == old_job.summary
    assert old_job.summary["verdict"] == "valid", old_job.summary["reasons"]
    for tier in ("dram", "l2arc", "disk", "slog", "pool"):
        assert old_job.row(tier)["count"] >= 500, tier
    # What the devices take is known; the software above them adds to it.
    assert old_job.row("dram")["p50_us"] < 130
    assert 130 < old_job.row("l2arc")["p50_us"] < 1000
    assert 4500 < old_job.row("disk")["p50_us"] < 10_000
    assert 115 < old_job.row("slog")["p50_us"] < 1000
    assert 4500 < old_job.row("pool")["p50_us"] < 15_000


def test_every_io_is_accounted_for(old_job: Finished) -> None:
    accounting = old_job.summary["accounting"]
    assert accounting["lost_events"] == 0
    for phase in accounting["phases"]:
        assert phase["client_ios"] == phase["server_ios"] > 0
        assert phase["checks"] and all(check["ok"] for check in phase["checks"]), phase


def test_checks_that_openzfs_2_1_cannot_make_are_listed_and_not_counted_as_passed(old_job: Finished) -> None:
    phases = {phase["phase"]: phase for phase in old_job.summary["accounting"]["phases"]}
    missing = {
        name: {check["source"]: check["why"] for check in phase["unavailable"]}
        for name, phase in phases.items()
    }
    for name in phases:
        assert "not available on OpenZFS 2.1" in missing[name]["iostats direct_*_count"]
    for counter in ("zil_commit_stall_count", "zil_commit_error_count"):
        assert f"ZIL of all pools {counter}" in missing["write-slog"]
        assert all(counter not in check["source"] for check in phases["write-slog"]["checks"])
    total = sum(len(found) for found in missing.values())
    assert f"{total} checks cannot be made on these hosts" in old_job.summary["reasons"][0]
    assert "not available on OpenZFS 2.1" in (old_job.run / "report.html").read_text()


def test_bins_are_as_fine_as_anywhere(old_job: Finished) -> None:
    """bpftrace 0.17 has histograms of one bin per octave only; the kit's are worked out in the program."""
    latency = pl.read_parquet(Path(old_job.run) / "latency.parquet")
    server = latency.filter(pl.col("layer") == "nfs-server")
    lows, highs = bin_edges(bin_index(server["lo_ns"].to_numpy()))
    assert server.height > 50
    assert lows.tolist() == server["lo_ns"].to_list()
    assert highs.tolist() == server["hi_ns"].to_list()
