"""One workload for bare devices, the dataset on the server, and NFS; and one for the dataset alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from kit.store.run_directory import RunDir
from kit.store.tables import read_latency
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.workloads import HEAD
from tests.lab.workloads import JOB as OVER_NFS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]
IN_DATASET = OVER_NFS.replace("direct=1\n", "")
ON_DEVICE = IN_DATASET.replace("directory=${HSP_DIRECTORY}\n", "").replace(
    "filename=working-set", "filename=${HSP_DEVICE}\ndirect=1"
)

PHASE = """\
[[phase]]
name = "{name}"
title = "{name}"
target = "{target}"
job = "{job}.fio"
{tiers}duration = "200ms"
interval = "20ms"
"""


FORCED = """\
[[phase]]
name = "{name}"
title = "Forced writes in the dataset"
target = "dataset"
force = {{ record = "600B", per_force = {per_force}, method = "{method}", append = true, file = "1MiB" }}
tiers = ["slog"]
duration = "200ms"
interval = "20ms"
"""


def run(folder: Path, *phases: tuple[str, str, str, str], more: str = "", sync: str = "standard") -> Finished:
    """A run with phases (name, target, job, tier), then `more`. `sync`: the property of the dataset."""
    lines = [
        PHASE.format(name=name, target=target, job=job, tiers=f'tiers = ["{tier}"]\n' if tier else "")
        for name, target, job, tier in phases
    ]
    expect = "".join(
        f'[[expect]]\nphase = "{name}"\nop = "{"read" if "read" in job else "write"}"\ntier = "all"\n'
        f'layer = "{"device" if target.startswith("device") else "client"}"\nmin_count = 100\n'
        for name, target, job, _ in phases
    )
    (folder / "targets.toml").write_text(
        HEAD.format(name="targets", more="", properties=f', sync = "{sync}"') + "".join(lines) + more + expect
    )
    for name, head in (("nfs", OVER_NFS), ("dataset", IN_DATASET), ("device", ON_DEVICE)):
        (folder / f"{name}-write.fio").write_text(f"{head}rw=randwrite\nsync=dsync\nsize=${{HSP_SIZE}}\n")
        (folder / f"{name}-read.fio").write_text(f"{head}rw=randread\nsize=${{HSP_SIZE}}\n")
    words = "run", os.fspath(folder / "targets.toml"), "--json"
    return finish(hsp(*words, results=folder), folder, "targets")


@pytest.fixture(scope="module")
def mixed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(
        tmp_path_factory.mktemp("mixed"),
        ("bare", "device:log", "device-write", ""),
        ("read", "dataset", "dataset-read", "dram"),
        ("write", "dataset", "dataset-write", "slog"),
        ("remote", "nfs", "nfs-write", "slog"),
        more=FORCED.format(name="group", per_force=4, method="fdatasync")
        + FORCED.format(name="each", per_force=4, method="open_sync"),
    )


def phases(done: Finished) -> dict[str, dict[str, Any]]:
    return {phase["name"]: phase for phase in done.manifest["phases"]}


def test_devices_come_first_then_the_pool_on_them(mixed: Finished) -> None:
    assert (mixed.code, mixed.summary["verdict"]) == (0, "valid"), (mixed.summary["reasons"], mixed.stderr)
    journal = (mixed.run / "journal.jsonl").read_text()
    order = [journal.index(f'"{step}"') for step in ("phase bare", "create pool", "phase read")]
    assert order == sorted(order)
    latency = read_latency(RunDir(mixed.run.resolve()))
    layers = {name: set(latency.filter(phase=name)["layer"]) for name in phases(mixed)}
    assert layers == {
        "bare": {"device"},
        "read": {"client"},
        "write": {"client"},
        "remote": {"client", "nfs-server"},
        "group": {"client"},
        "each": {"client"},
    }


def test_counters_of_the_server_account_for_a_load_in_the_dataset(mixed: Finished) -> None:
    read, write = phases(mixed)["read"], phases(mixed)["write"]
    assert read["target"] == write["target"] == "dataset"
    assert read["server_ios"] is None
    assert read["shares"]["counts"]["dram"] == read["client_ios"]
    checks = {check["name"]: check for check in write["checks"]}
    commits = checks["synchronous writes"]
    assert abs(commits["found"] - write["client_ios"]) <= commits["tolerance"] and commits["found"] > 100
    assert checks["NFS WRITE calls"]["found"] == 0
    counts = write["shares"]["counts"]
    assert counts["slog"] >= write["client_ios"] and counts["pool"] == 0


def test_a_force_in_the_dataset_is_a_commit_of_the_zil(mixed: Finished) -> None:
    """With open_sync each record is one."""
    for name, commits_per_group in (("group", 1), ("each", 4)):
        phase = phases(mixed)[name]
        checks = {check["name"]: check for check in phase["checks"]}
        assert checks["synchronous writes"]["expected"] == commits_per_group * phase["client_ios"] > 100
        assert phase["forces"]["recovered"] > 0 and not phase["forces"]["damaged"]
    (rows,) = [[row for row in mixed.summary["rows"] if row["phase"] == "group"]]
    assert rows[0]["p50_us"] is not None


def test_nfs_costs_what_the_server_alone_does_not(mixed: Finished) -> None:
    rows = {
        (row["phase"], row["layer"]): row["p50_us"] for row in mixed.summary["rows"] if row["op"] == "write"
    }
    device, dataset, client = rows["bare", "device"], rows["write", "client"], rows["remote", "client"]
    assert device < dataset < client


def test_without_a_phase_over_nfs_nothing_is_exported(image: Image, tmp_path: Path) -> None:
    done = run(tmp_path, ("write", "dataset", "dataset-write", "slog"))
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    commands = (done.run / "raw" / "commands.jsonl").read_text()
    assert "zpool" in commands and "exportfs" not in commands and "mount.nfs" not in commands
    assert "/mnt/hsp-" not in commands and "bpftrace" not in commands


def test_with_sync_disabled_forces_are_a_baseline_in_memory(image: Image, tmp_path: Path) -> None:
    more = FORCED.format(name="memory", per_force=1, method="fdatasync").replace("slog", "dram")
    done = run(tmp_path, more=more, sync="disabled")
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    (phase,) = done.manifest["phases"]
    assert "synchronous writes" not in {check["name"] for check in phase["checks"]}
    assert any("A baseline in memory, not durable" in note for note in done.summary["notes"])
