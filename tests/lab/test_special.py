"""Pools with a special vdev: what it answers, what it does when it is full, and where the log lies.

A mirror of disks that turn 7,200 times a minute, and a mirror of SSDs (kit/lab/special-testbed.toml).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from kit.store.series import Series
from kit.store.summary import Summary
from reports.features.special.judge import sentences
from reports.series.answering import answers
from reports.series.view import rate_of
from tests.lab.conftest import Finished, finish, hsp

PROTECTS = ("kit/zfs", "kit/trace", "kit/sizes", "kit/instruments", "reports/features/special")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

BACKPORTS = ("--pin", "zfs-linux/trixie-backports")
# Half a turn of the disks, and a read of the SSDs' flash.
HALF_TURN_US, SSD_US = 4167, 60


def run(name: str, folder: Path, *options: str) -> Finished:
    return finish(hsp("run", name, "--json", *options, results=folder), folder, name)


def rows(done: Finished, phase: str) -> dict[str, dict[str, Any]]:
    """Those of a phase of a valid run at the NFS server, by tier."""
    assert done.summary["verdict"] == "valid" and done.code == 0, (done.summary["reasons"], done.stderr)
    found = [row for row in done.summary["rows"] if row["layer"] == "nfs-server" and row["phase"] == phase]
    return {row["tier"]: row for row in found if row["count"]}


@pytest.fixture(scope="module")
def special(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The workload `special`, and a phase of it in which the pool is exported and imported."""
    folder = tmp_path_factory.mktemp("special")
    path = folder / "special-imported.toml"
    path.write_text(WITH_IMPORT)
    return finish(hsp("run", str(path), "--json", results=folder), folder, path.stem)


@pytest.fixture(scope="module")
def full(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Of an encrypted dataset."""
    return run("special-full", tmp_path_factory.mktemp("full"), "--set", "dataset.encryption=on")


WITH_IMPORT = """\
format = 1
name = "special-imported"
title = "Small blocks, and while the pool is exported and imported"
base = "special"
[[phase]]
name = "read"
[[phase]]
name = "imported"
base = "read"
duration = "2500ms"
[[event]]
phase = "imported"
at = "500ms"
what = "export-import"
[[phase]]
name = "write"
"""


def special_reads(done: Finished, phase: str) -> dict[str, Any]:
    [mine] = [each for each in done.summary["accounting"]["phases"] if each["phase"] == phase]
    [check] = [each for each in mine["checks"] if each["id"] == "SPECIAL-READS"]
    return check  # type: ignore[no-any-return]


def test_the_special_vdev_answers_small_blocks_at_the_latency_of_its_ssds(special: Finished) -> None:
    found = rows(special, "read")
    assert set(found) <= {"dram", "special", "shared"}
    assert found["special"]["count"] >= 370 and SSD_US < found["special"]["p50_us"] < 10 * SSD_US
    # The counters of the SSDs have each of them.
    check = special_reads(special, "read")
    assert found["special"]["count"] <= check["expected"] == pytest.approx(check["found"], rel=0.02)
    [vdev] = [each for each in special.manifest["pool"]["vdevs"] if each["role"] == "special"]
    assert (vdev["kind"], vdev["devices"]) == ("mirror", ["special0", "special1"])


def test_without_a_log_device_this_openzfs_has_its_log_on_the_disks(special: Finished) -> None:
    assert special.manifest["versions"]["zfs"].startswith("2.3.")
    found = rows(special, "write")
    assert set(found) == {"pool"} and found["pool"]["p50_us"] > HALF_TURN_US


def test_metadata_after_an_import_come_from_the_special_vdev(special: Finished) -> None:
    assert "disk" not in rows(special, "imported")
    [phase] = [each for each in special.manifest["phases"] if each["name"] == "imported"]
    print(phase["metadata_reads"], phase["schedule"])
    assert phase["metadata_reads"].get("special", 0) > 0 and not phase["metadata_reads"].get("disk", 0)


def test_a_full_special_vdev_leaves_small_blocks_to_the_disks(full: Finished) -> None:
    found = rows(full, "read")
    assert full.manifest["dataset"]["properties"]["encryption"] == "aes-256-gcm"
    assert found["special"]["count"] >= 370 and found["disk"]["count"] >= 370
    assert found["disk"]["p50_us"] > HALF_TURN_US > 10 * found["special"]["p50_us"]
    [phase] = full.summary["special"]
    use = phase["special"]
    # Three quarters, and what one txg may have allocated before that counts.
    assert 0.73 < use["allocated_bytes"] / use["size_bytes"] < 1
    said = [*sentences(Summary.from_json(full.summary, "summary.json"))]
    assert said[0].endswith("and from 75 % on small blocks go to disks.")


@pytest.mark.long
def test_openzfs_2_4_has_its_log_on_the_special_vdev_and_a_parameter_spares_it(tmp_path: Path) -> None:
    """The same file on both; 64 KiB are large enough to be written to the disks at once."""
    old = run("special-as-log", tmp_path)
    assert old.manifest["versions"]["zfs"].startswith("2.3.")
    assert set(rows(old, "write")) == {"pool"}
    new = run("special-as-log", tmp_path / "new", *BACKPORTS)
    assert new.manifest["versions"]["zfs"].startswith("2.4.")
    assert set(rows(new, "write")) == {"special"}
    spared = run("special-as-log", tmp_path / "spared", *BACKPORTS, "--set", "tunables.zil_special_is_slog=0")
    assert set(rows(spared, "write")) == {"pool"}
    ssd, *disks = (rows(done, "write") for done in (new, old, spared))
    assert ssd["special"]["p50_us"] < 1000
    assert all(each["pool"]["p50_us"] > HALF_TURN_US for each in disks)


@pytest.mark.long
@pytest.mark.timeout(1800, func_only=True)
def test_ssds_answer_what_disks_would_in_either_role(image: Image, tmp_path: Path) -> None:
    """An SSD of the lab takes 0.1 ms, a disk 5 ms; twice the memory leaves a third of the reads to disks."""
    process = hsp("run", "cache-or-special", results=tmp_path)
    _, stderr = process.communicate(timeout=1500)
    assert process.returncode == 0, stderr
    (path,) = (tmp_path / "cache-or-special").glob("series-*/series.json")
    series = Series.from_json(json.loads(path.read_text()), path)
    rate = {cell.at.get("ssds", "none"): rate_of(cell) or 0.0 for cell in series.cells if not cell.again}
    assert min(rate["l2arc"], rate["special"]) > 4 * rate["memory"] > 4 * 1.5 * rate["none"]
    first = "special" if rate["special"] > rate["l2arc"] else "l2arc"
    [said] = answers(series)
    assert said.startswith(f"Reads a second by ssds: {first} ")
