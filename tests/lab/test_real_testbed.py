"""The main job on a host that is reached over TCP as any other is: its disks, their serials, their locks.

The host is a guest, and the kit does not know it: what it measures there is worth nothing, but it must close.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.workload_base import WORKLOADS
from kit.core.errors import EXIT_HOST, EXIT_SAFETY, EXIT_UNKNOWN
from kit.devices.check import check, guarded
from kit.devices.refusal_reasons import DeviceSpec
from kit.recovery.journal import read_journal
from tests.changes import changes_something, sketch
from tests.lab.hoststate import State, differences, state_of
from tests.lab.interrupted import BALLAST
from tests.lab.rig import Bed, Rig
from tests.lab.workloads import write_device_phases, write_small

PROTECTS = ("kit/devices", "kit/hosts", "kit/remote", "kit/recovery", "kit/precondition")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

_SMALL = {"data": ("vd0",), "log": ("vd1",)}
_ROLES = {"data": ("vd6", "vd7"), "cache": ("vd2",), "log": ("vd3",)}


def commands_of(run: Path) -> list[tuple[str, list[str]]]:
    lines = [json.loads(line) for line in (run / "raw" / "commands.jsonl").read_text().splitlines()]
    return [(line["host"], line["argv"]) for line in lines if "argv" in line]


def filled_in(planned: dict[str, Any], run: str, fsid: str) -> list[str]:
    """A planned command with what stands for RUN, ID and FSID."""
    last = run.rsplit("-", 1)[1]
    words = [word.replace("RUN", run).replace("hsp-ID", f"hsp-{last}") for word in planned["argv"]]
    return [word.replace("fsid=FSID", fsid).replace("CLIENT0-ADDRESS", "127.0.0.1") for word in words]


def main_job_of_few(folder: Path) -> Path:
    """The main job whose length smoke is shorter: a guest whose clock the kit takes for a real one is slow.

    Its disks answer at once, so that each second of a phase is one of its emulated CPU, which takes several.
    """
    fewer = {
        "min_count = 200\n": "min_count = 20\n",
        '"phase.read.duration" = "6s"': '"phase.read.duration" = "1s"',
        '"phase.write-pool.duration" = "6s"': '"phase.write-pool.duration" = "1s"',
        '"phase.ios" = 200': '"phase.ios" = 20',
    }
    for file in WORKLOADS.glob("top-speeds*"):
        text = file.read_text()
        for old, new in fewer.items():
            assert file.suffix != ".toml" or old in text
            text = text.replace(old, new)
        (folder / file.name).write_text(text)
    return folder / "top-speeds.toml"


@pytest.fixture(scope="module")
def bed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Bed:
    return Bed(rig, tmp_path_factory.mktemp("real"), _ROLES)


# The begin of the first label's configuration in the first partition, which begins at 1 MiB.
_LABEL_BYTES = 'dd if="$1" bs=4096 skip=260 count=1 status=none | tr -d "\\0" | wc -c'


def specs(rig: Rig, *names: str) -> list[DeviceSpec]:
    return [DeviceSpec(rig.by_id[name], rig.disks[name].serial, rig.disks[name].size_bytes) for name in names]


def check_as_before(rig: Rig, before: State, cache: str, *others: str) -> None:
    """The host is as it was, each device is free, and they can be used again at once."""
    assert differences(before, state_of(rig.host)) == []
    asked = specs(rig, cache, *others)
    assert [one.reasons for one in check(rig.host, asked)] == [()] * len(asked)
    left = rig.host.run(["sh", "-c", _LABEL_BYTES, "sh", rig.nodes[cache]]).stdout.strip()
    assert left == "0", "a part of the cache device's label is left"
    with guarded(rig.host, asked, "run-again") as guard:
        guard.before_writing()


def cache_of_pool(run: Path) -> str:
    (pool,) = (argv for _, argv in commands_of(run) if argv[:2] == ["zpool", "create"])
    return pool[-1]


def test_every_device_ends_as_it_began(rig: Rig, tmp_path: Path) -> None:
    """Phases on bare devices, then a pool with the whole cache device; the main job has a part of it.

    Of the special device the pool has a part.
    """
    roles = {"log": ("vd3", "vd5"), "data": ("vd0",), "cache": ("vd2",), "special": ("vd6",)}
    bed = Bed(rig, tmp_path, roles, "none")
    devices = write_device_phases(tmp_path).read_text().partition("[[phase]]")
    workload = write_small(tmp_path, ("good", "write", "100ms"))
    head, _, good = workload.read_text().partition("[[phase]]")
    part = '[pool]\nspecial_size = "64MiB"\n'
    workload.write_text(f"{head}{part}{devices[1]}{devices[2]}[[phase]]{good}")
    words = ["run", os.fspath(workload), "--testbed", os.fspath(bed.path), *bed.results, "--json"]
    names = ("vd3", "vd5", "vd0", "vd2", "vd6")
    assert [one.reasons for one in check(rig.host, specs(rig, *names))] == [()] * 5
    before = state_of(rig.host)
    agreed = [word for name in names for word in ("--erase-serial", rig.disks[name].serial)]
    assert bed.hsp(*words, *agreed[:2], *agreed[4:]).returncode == EXIT_SAFETY, "vd5 is to be erased, too"
    assert differences(before, state_of(rig.host)) == []
    done = bed.hsp(*words, *agreed)
    assert "not undone" not in done.stderr and done.returncode in (0, 1, EXIT_UNKNOWN), done.stderr
    phases = {phase["phase"]: phase for phase in json.loads(done.stdout)["accounting"]["phases"]}
    assert [*phases] == ["write-vd3", "write-vd5", "all", "good"]
    checks = [c for name, phase in phases.items() if name != "good" for c in phase["checks"]]
    counted = [c for c in checks if c["name"].startswith("bytes written to") and "sys/block" in c["source"]]
    assert len(counted) == 4 and all(c["expected"] == c["found"] > 0 for c in counted)
    # udev reads a disk when fio has closed it, but not one that is locked.
    assert [c["found"] for c in checks if c["name"].startswith("bytes read from")] == [0] * 4
    assert cache_of_pool(tmp_path / "small" / "latest") == rig.by_id["vd2"]
    special = f"{rig.by_id['vd6']}-part1"
    assert any(
        argv[:2] == ["zpool", "create"] and special in argv
        for _, argv in commands_of(bed.folder / "small" / "latest")
    )
    check_as_before(rig, before, "vd2", "vd0", "vd3", "vd5")
    check_as_before(rig, before, "vd6")


@pytest.mark.basic
def test_the_main_job_over_tcp_does_what_its_plan_says(bed: Bed, rig: Rig) -> None:
    workload = main_job_of_few(bed.folder)
    before = state_of(rig.host)
    short = "--length", "smoke"
    planned = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--json", *short)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert differences(before, state_of(rig.host)) == []
    done = bed.hsp(*bed.run_words(workload), "--json", *short, *bed.results)
    assert done.returncode == 0, done.stderr
    summary, run = json.loads(done.stdout), bed.folder / "top-speeds" / "latest"
    assert summary["verdict"] == "valid", summary["reasons"]
    assert {row["tier"] for row in summary["rows"] if row["layer"] == "nfs-server"} >= {
        "dram", "l2arc", "disk", "slog", "pool",
    }  # fmt: skip
    for phase in summary["accounting"]["phases"]:
        assert phase["client_ios"] == phase["server_ios"] > 0
        assert all(check["ok"] for check in phase["checks"]), phase
    assert not json.loads((run / "manifest.json").read_text())["testbed"]["emulated"]
    # The plan is what was done, in its order, and its digest is in the journal.
    assert json.loads((run / "journal.jsonl").read_text().splitlines()[0])["plan"] == plan["digest"]
    ran = commands_of(run)
    fsid = next(
        w for _, argv in ran if argv[0] == "exportfs" for w in argv[2].split(",") if w.startswith("fsid")
    )
    name = run.resolve().name
    end = next(number for number, (_, argv) in enumerate(ran) if argv[0] == "kill")
    assert [sketch(argv) for _, argv in ran[:end] if changes_something(argv, name)] == [
        sketch(filled_in(command, name, fsid))
        for command in plan["commands"]
        if command["step"] != "undo" and changes_something(filled_in(command, name, fsid), name)
    ]
    undone = iter(argv for _, argv in ran[end:])
    # What had the run's value before is not written again.
    tunables = json.loads((run / "manifest.json").read_text())["tunables"]
    kept = [t["name"] for t in tunables if t["before"] == t["set"]]
    for command in plan["commands"]:
        expected = filled_in(command, name, fsid)
        # A cache device whose partition was removed has no label any more.
        of_label = "wipefs" in expected or expected[:2] == ["zpool", "labelclear"]
        if command["step"] != "undo" or of_label or expected[-1].endswith(tuple(kept)):
            continue
        assert any(argv == expected for argv in undone), expected
    assert cache_of_pool(run) == f"{rig.by_id['vd2']}-part1"
    check_as_before(rig, before, "vd2", "vd6", "vd7", "vd3")


def test_without_a_word_for_each_device_nothing_is_touched(bed: Bed, rig: Rig) -> None:
    before = state_of(rig.host)
    # All but one of them: test_every_device_ends_as_it_began.
    for words in ([], [*bed.agreed, "--erase-serial", "OTHER"]):
        done = bed.hsp("run", "top-speeds", "--testbed", os.fspath(bed.path), *words, *bed.results)
        assert done.returncode == 4, done.stderr
    assert differences(before, state_of(rig.host)) == []


def test_after_a_restart_of_the_host_the_pool_is_found_on_its_disks(rig: Rig, tmp_path: Path) -> None:
    """A restart leaves the pool on the disks and nothing else: nothing imports it by itself."""
    bed = Bed(rig, tmp_path, _SMALL, "none")
    workload = write_small(tmp_path, ("one", "write", "100ms"))
    words = [*bed.run_words(workload), *bed.results]
    before = state_of(rig.host)
    killed = bed.hsp(*words, strike=("kill-at", "done:create dataset"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = (tmp_path / "small" / "latest").resolve()
    rig.host.run(["zpool", "export", f"hsp-{run.name.rsplit('-', 1)[1]}"])
    rig.host.run(["rm", "-r", f"/run/hsp/{run.name}"])
    cleaned = bed.hsp("clean", os.fspath(run))
    assert cleaned.returncode == 0, cleaned.stderr
    assert differences(before, state_of(rig.host)) == []


def test_a_run_that_was_killed_goes_on_at_its_phase(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, _SMALL)
    workload = write_small(tmp_path, ("one", "write", "100ms"), ("two", "write", "100ms"))
    words = [*bed.run_words(workload), *bed.results]
    before = state_of(rig.host)
    whole = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--json")
    assert whole.returncode == 0, whole.stderr
    killed = bed.hsp(*words, strike=("kill-at", "done:phase one"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = (tmp_path / "small" / "latest").resolve()
    measured = json.loads((run / "manifest.json").read_text())["phases"]
    assert [phase["name"] for phase in measured] == ["one"]

    # Another run must not begin on what the first one left.
    refused = bed.hsp(*words)
    assert refused.returncode == 4 and f"hsp clean {run}" in refused.stderr, refused.stderr

    # Nor may the workload have changed.
    text = workload.read_text()
    workload.write_text(text.replace('title = "small"', 'title = "smaller"'))
    changed = bed.hsp("run", "--resume", os.fspath(run), *bed.agreed, *bed.results)
    assert changed.returncode == 2 and "workload" in changed.stderr, changed.stderr
    workload.write_text(text)

    done = bed.hsp("run", "--resume", os.fspath(run), *bed.agreed, "--json", *bed.results)
    assert done.returncode == 0, done.stderr
    phases = json.loads((run / "manifest.json").read_text())["phases"]
    assert [phase["name"] for phase in phases] == ["one", "two"]
    assert phases[0] == measured[0]
    assert phases[1]["start_ns"] > phases[0]["end_ns"]
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "valid", summary["reasons"]
    assert differences(before, state_of(rig.host)) == []

    again = bed.hsp("run", "--resume", os.fspath(run), *bed.agreed, *bed.results)
    assert again.returncode == 2 and "complete" in again.stderr, again.stderr


def test_a_disk_that_gets_full_here_leaves_nothing_there(
    rig: Rig, tmp_path: Path, small_disk: Callable[[int], Path]
) -> None:
    # Little more than a run asks for.
    disk = small_disk(260)
    bed = Bed(rig, tmp_path, _SMALL, "none")
    workload = write_small(tmp_path, ("one", "write", "100ms"), ("two", "write", "100ms"))
    before = state_of(rig.host)
    words = [*bed.run_words(workload), "--results", os.fspath(disk)]
    done = bed.hsp(*words, strike=("fill", "done:phase one"))
    assert done.returncode == EXIT_HOST, done.stderr
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert differences(before, state_of(rig.host)) == []
    # Not a line more went into the journal, so nobody can know that all of it was undone.
    run = (disk / "small" / "latest").resolve()
    assert not read_journal(run / "journal.jsonl").finished
    (disk / BALLAST).unlink()
    for _ in range(2):
        cleaned = bed.hsp("clean", os.fspath(run))
        assert cleaned.returncode == 0, cleaned.stderr
    assert read_journal(run / "journal.jsonl").finished
    assert differences(before, state_of(rig.host)) == []
    drawn = bed.hsp("show", os.fspath(run), "--json")
    summary = json.loads(drawn.stdout)
    assert summary["verdict"] == "unknown" and "has not ended" in summary["reasons"][0], drawn.stderr
    assert {row["phase"] for row in summary["rows"]} == {"one"}


def test_without_mdadm_the_run_ends_before_it_writes(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"data": ("vd0", "vd1")})
    workload = write_device_phases(tmp_path)
    head, phase, rest = workload.read_text().partition('\n[[phase]]\nname = "all"')[0].partition("[[phase]]")
    array = 'target = "array"\narray = { level = "raid0", chunk = "64KiB" }'
    workload.write_text(head + phase + rest.replace('target = "device:log"', array))
    before = state_of(rig.host)
    rig.host.run(["mv", "/usr/sbin/mdadm", "/usr/sbin/mdadm.away"])
    try:
        done = bed.hsp(*bed.run_words(workload), *bed.results)
    finally:
        rig.host.run(["mv", "/usr/sbin/mdadm.away", "/usr/sbin/mdadm"])
    assert done.returncode == EXIT_HOST, done.stderr
    assert "mdadm does not run on" in done.stderr and "install the package mdadm there" in done.stderr
    assert differences(before, state_of(rig.host)) == []
