"""The main job on a host that is reached over TCP as any other is: its disks, their serials, their locks.

The host is a guest, and the kit does not know it: what it measures there is worth nothing, but it must close.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.config.workload_source import WORKLOADS
from kit.core.errors import EXIT_HOST, EXIT_SAFETY, EXIT_UNKNOWN
from kit.devices.check import check, guarded
from kit.devices.reasons import DeviceSpec
from kit.lab.image.image import Image
from kit.lab.qemu import Disk
from kit.recovery.journal import read_journal
from kit.store.slog import SlogTest
from tests.lab.conftest import ROOT
from tests.lab.hoststate import differences, state_of
from tests.lab.interrupted import BALLAST
from tests.lab.rig import SAVED_DISKS, Bed, Rig, open_rig
from tests.lab.workloads import write_device_phases, write_small

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

_SMALL = {"data": ("vd0",), "log": ("vd1",)}
_ROLES = {"data": ("vd6", "vd7"), "cache": ("vd2",), "log": ("vd3",)}
# Large enough for the main job's mirror.
_LARGE = tuple(Disk(name, "virtio", f"HSP{name.upper()}", 384 << 20) for name in _ROLES["data"])


def commands_of(run: Path) -> list[tuple[str, list[str]]]:
    lines = [json.loads(line) for line in (run / "raw" / "commands.jsonl").read_text().splitlines()]
    return [(line["host"], line["argv"]) for line in lines if "argv" in line]


def filled_in(planned: dict[str, Any], run: str, fsid: str) -> list[str]:
    """A planned command with what stands for RUN, ID and FSID."""
    last = run.rsplit("-", 1)[1]
    words = [word.replace("RUN", run).replace("hsp-ID", f"hsp-{last}") for word in planned["argv"]]
    return [word.replace("fsid=FSID", fsid).replace("CLIENT0-ADDRESS", "127.0.0.1") for word in words]


_LOOKS = {
    "find", "readlink", "grep", "cat", "test", "uname", "dpkg-query", "head", "tail", "stat", "zdb", "lsblk",
    "sleep", "udevadm", "bpftrace", "env", "id",
}  # fmt: skip


def changes_something(argv: list[str], run: str) -> bool:
    """Whether a command does more than look, outside the run's own directory."""
    if "fio" in argv[1:]:
        return True
    if argv[0] in _LOOKS or argv[:2] in (["exportfs", "-v"], ["fio", "--version"]):
        return False
    if argv[0] in ("zfs", "zpool") and argv[1] in ("get", "list", "status", "version"):
        return False
    # Of an owner that only the host knows.
    if argv[:5] == ["install", "-d", "-m", "0700", "-o"] or argv[:2] == ["chmod", "0711"]:
        return False
    if argv[0] in ("mkdir", "rm") and argv[-1].startswith(f"/run/hsp/{run}"):
        return False
    if argv[0] == "sh" and ("dd if=" in argv[2] or "until test -e" in argv[2]):
        return False
    probe = argv[:3] == ["/usr/bin/python3", "-I", "-"] and argv[3].startswith(("{", "["))
    return not probe and argv[:2] != ["blockdev", "--getsize64"]


def sketch(argv: list[str]) -> list[str]:
    """Of the tracer's scripts without arguments that only the host knows (sizes, versions)."""
    return argv[:3] if argv[0] == "sh" else argv


def main_job_of_few(folder: Path) -> Path:
    """The main job, content with fewer I/Os: a guest whose clock the kit takes for a real one is slow.

    Its disks answer at once, so that each second of a phase is one of its emulated CPU, which takes several.
    """
    fewer = {
        "min_count = 3000": "min_count = 20",
        "fills = 2": "fills = 1",
        'duration = "36s"': 'duration = "2s"',
    }
    for file in WORKLOADS.glob("top-speeds*"):
        text = file.read_text()
        for old, new in fewer.items():
            assert file.suffix != ".toml" or old in text
            text = text.replace(old, new)
        (folder / file.name).write_text(text)
    return folder / "top-speeds.toml"


@pytest.fixture(scope="module")
def rig(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with open_rig(image, tmp_path_factory.mktemp("rig"), (*SAVED_DISKS, *_LARGE)) as up:
        yield up


@pytest.fixture(scope="module")
def bed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Bed:
    return Bed(rig, tmp_path_factory.mktemp("real"), _ROLES)


# The begin of the first label's configuration in the first partition, which begins at 1 MiB.
_LABEL_BYTES = 'dd if="$1" bs=4096 skip=260 count=1 status=none | tr -d "\\0" | wc -c'


@pytest.mark.parametrize("table", ["", '[pool]\ncache_size = "64MiB"\n'], ids=["whole", "in part"])
def test_every_device_ends_as_it_began(rig: Rig, tmp_path: Path, table: str) -> None:
    roles = {"data": ("vd0",), "log": ("vd1",), "cache": ("vd2",)}
    bed = Bed(rig, tmp_path, roles, "none")
    workload = write_small(tmp_path, ("good", "write", "100ms"))
    workload.write_text(workload.read_text().replace("[working_set]", f"{table}[working_set]"))
    specs = [
        DeviceSpec(rig.by_id[name], rig.disks[name].serial, rig.disks[name].size_bytes)
        for (name,) in roles.values()
    ]
    assert [one.reasons for one in check(rig.host, specs)] == [()] * 3
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), *bed.results)
    assert "not undone" not in done.stderr and done.returncode in (0, 1, EXIT_UNKNOWN), done.stderr
    # The cache device was used as the workload asks.
    (pool,) = (
        argv for _, argv in commands_of(tmp_path / "small" / "latest") if argv[:2] == ["zpool", "create"]
    )
    assert pool[-1] == rig.by_id["vd2"] + ("-part1" if table else "")
    assert differences(before, state_of(rig.host)) == []
    assert [one.reasons for one in check(rig.host, specs)] == [()] * 3
    left = rig.host.run(["sh", "-c", _LABEL_BYTES, "sh", rig.nodes["vd2"]]).stdout.strip()
    assert left == "0", "a part of the cache device's label is left"
    # And it can be used again at once.
    with guarded(rig.host, specs, "run-again") as guard:
        guard.before_writing()


def test_the_main_job_over_tcp_does_what_its_plan_says(bed: Bed, rig: Rig) -> None:
    workload = main_job_of_few(bed.folder)
    before = state_of(rig.host)
    planned = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert differences(before, state_of(rig.host)) == []
    done = bed.hsp(*bed.run_words(workload), "--json", *bed.results)
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
        if command["step"] != "undo" or expected[0] == "wipefs" or expected[-1].endswith(tuple(kept)):
            continue
        assert any(argv == expected for argv in undone), expected
    assert differences(before, state_of(rig.host)) == []


def test_without_a_word_for_each_device_nothing_is_touched(bed: Bed, rig: Rig) -> None:
    before = state_of(rig.host)
    for words in ([], bed.agreed[:-2], [*bed.agreed, "--erase-serial", "OTHER"]):
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
    drawn = bed.hsp("report", os.fspath(run), "--json")
    summary = json.loads(drawn.stdout)
    assert summary["verdict"] == "unknown" and "has not ended" in summary["reasons"][0], drawn.stderr
    assert {row["phase"] for row in summary["rows"]} == {"one"}


def test_a_log_device_is_tried_alone_after_its_serial_was_typed(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"log": ("vd3",), "data": ("vd0",)})
    words = ("slog", "vd3", "--testbed", os.fspath(bed.path), "--writes", "100", *bed.results)
    before = state_of(rig.host)
    refused = bed.hsp(*words)
    assert refused.returncode == EXIT_SAFETY and "--erase-serial" in refused.stderr
    # The serial of another device of the testbed is not an agreement.
    assert bed.hsp(*words, "--erase-serial", rig.disks["vd0"].serial).returncode == EXIT_SAFETY
    assert not (tmp_path / "slog").exists()

    done = bed.hsp(*words, "--erase-serial", rig.disks["vd3"].serial, "--json", "--state", "fresh")
    assert done.returncode == 0, done.stderr
    test = SlogTest.from_json(json.loads(done.stdout), "stdout")
    assert (test.state.kind, test.state.purge) == ("fresh", "blkdiscard")
    assert (test.device.serial, test.device.emulated) == (rig.disks["vd3"].serial, None)
    assert differences(before, state_of(rig.host)) == []

    spec = DeviceSpec(rig.by_id["vd3"], rig.disks["vd3"].serial, rig.disks["vd3"].size_bytes)
    assert [one.reasons for one in check(rig.host, [spec])] == [()]
    # In use: refused, and the pool is as it was.
    rig.host.run(["zpool", "create", "-f", "-R", "/run/slog-pool", "slogpool", rig.by_id["vd3"]])
    try:
        taken = bed.hsp(*words, "--erase-serial", rig.disks["vd3"].serial)
        assert taken.returncode == EXIT_SAFETY and "slogpool" in taken.stderr
        rig.host.run(["zpool", "scrub", "-w", "slogpool"])
        assert "errors: No known data errors" in rig.host.run(["zpool", "status", "slogpool"]).stdout
    finally:
        rig.host.run(["zpool", "destroy", "slogpool"])
        rig.host.run(["zpool", "labelclear", "-f", f"{rig.by_id['vd3']}-part1"], check=False)
        rig.host.run(["wipefs", "-a", rig.by_id["vd3"]])


def test_phases_on_bare_devices_take_these_alone(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"log": ("vd3", "vd5"), "data": ("vd0",)})
    write_device_phases(tmp_path)
    words = ("run", os.fspath(tmp_path / "devices.toml"), "--testbed", os.fspath(bed.path), *bed.results)
    before, other = state_of(rig.host), rig.host.run(["sha256sum", rig.by_id["vd0"]]).stdout
    one = ("--erase-serial", rig.disks["vd3"].serial)
    assert bed.hsp(*words, *one).returncode == EXIT_SAFETY, "vd5 is to be erased, too"
    done = bed.hsp(*words, *one, "--erase-serial", rig.disks["vd5"].serial, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    checks = [c for phase in summary["accounting"]["phases"] for c in phase["checks"]]
    counted = [c for c in checks if c["name"].startswith("bytes written to") and "sys/block" in c["source"]]
    assert len(counted) == 4 and all(c["expected"] == c["found"] > 0 for c in counted)
    # udev reads a disk when fio has closed it, but not one that is locked.
    assert [c["found"] for c in checks if c["name"].startswith("bytes read from")] == [0] * 4
    assert differences(before, state_of(rig.host)) == []
    assert rig.host.run(["sha256sum", rig.by_id["vd0"]]).stdout == other
    assert [one.reasons for one in check(rig.host, bed_specs(rig, "vd3", "vd5"))] == [(), ()]


def test_the_power_of_a_disk_is_cut_by_commands_of_the_users_own(rig: Rig, tmp_path: Path) -> None:
    """The disk goes in mid-write and comes back; what it has acknowledged is there, and the control's is not.

    QEMU has its content in memory of this machine, so that it keeps all, as a protected one does.
    """
    bed = Bed(rig, tmp_path, {"log": ("sd0",)})
    disk = rig.disks["sd0"]
    words = [sys.executable, "-m", "tests.lab.cut_disk", "{}", str(rig.lab.state), "sd0", disk.serial]
    off, on, count = (
        json.dumps(
            ["env", f"PYTHONPATH={ROOT}", *[each.format(word) for each in words], str(disk.size_bytes)]
        )
        for word in ("off", "on", "count")
    )
    power = f'[power]\nscope = "device"\noff = {off}\non = {on}\ncount = {count}\n'
    bed.path.write_text(f"{bed.path.read_text()}\n{power}")
    write_device_phases(tmp_path)
    workload = tmp_path / "devices.toml"
    text = workload.read_text().replace('each = "together"\n', "")
    losses = '[power_loss]\nmoments = 2\nwithin = "200ms"\nidle = "0s"\n'
    workload.write_text(f"{text}\n{losses}")
    shown = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--commands")
    assert "controller: env" in shown.stdout and "cut_disk on" in shown.stdout, shown.stdout
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), *bed.results, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["power_loss"]
    assert (told["scope"], told["moments"], told["proven"], told["lost"]) == ("device", 2, 2, 0)
    assert told["control"]["lost"] > 0 and told["verified_again"] == 2
    assert (rig.lab.state / "sd0.cuts").read_text() == "4", "the control, two, and a clean power cycle"
    run = (tmp_path / "devices" / "latest").resolve()
    record = read_journal(run / "journal.jsonl")
    assert record.finished and not record.pending
    assert differences(before, state_of(rig.host)) == []


def bed_specs(rig: Rig, *names: str) -> list[DeviceSpec]:
    return [DeviceSpec(rig.by_id[name], rig.disks[name].serial, rig.disks[name].size_bytes) for name in names]
