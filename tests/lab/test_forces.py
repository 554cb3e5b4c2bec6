"""Phases of forced writes: beside the C models alone, on arrays, over NFS, killed, on a device that lies."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import find_preset
from kit.config.testbed import LAB_TESTBED
from kit.emulation.served import Served
from kit.hosts.base import Host
from kit.lab.guest import free_port, open_host, running_labs
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from tests.kit.emulation.model_library import ModelDevice, Op
from tests.lab.conftest import Finished, finish, hsp

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]
LOG_BYTES = 64 << 20
_DEADLINE_S = 300.0

DEVICE = '\n[[device]]\nname = "{name}"\nrole = "{role}"\nsize = "64MiB"\npreset = "{preset}"\n'
# Of an array. Two have a volatile write cache: the kernel counts the FLUSH commands that reach them.
VOLATILE = "set = { power_loss_protection = false }\n"
MEMBERS = "".join(
    DEVICE.format(name=f"ssd{number}", role="data", preset="ssd-2009-write") + given
    for number, given in enumerate(("", VOLATILE, VOLATILE))
)
HEAD = 'format = 1\nname = "forces"\ntitle = "Forces"\nprecondition = "none"\n'
PHASE = """
[[phase]]
name = "{name}"
title = "{name}"
{target}
force = {{ {force} }}
duration = "{duration}"
interval = "10ms"
"""


def on(device: str, name: str, force: str, duration: str = "60ms") -> str:
    target = f'target = "device:log"\ndevices = ["{device}"]'
    return PHASE.format(name=name, target=target, force=force, duration=duration)


def on_array(level: str, force: str) -> str:
    target = f'target = "array"\narray = {{ level = "{level}" }}'
    return PHASE.format(name=f"on-{level}", target=target, force=force, duration="40ms")


def started(folder: Path, text: str, *devices: tuple[str, str], more: str = "") -> subprocess.Popen[str]:
    (folder / "forces.toml").write_text(HEAD + text)
    testbed = LAB_TESTBED
    if devices:
        testbed = folder / "lab.toml"
        made = "".join(DEVICE.format(name=name, role="log", preset=preset) for name, preset in devices)
        testbed.write_text(LAB_TESTBED.read_text().split("[[device]]")[0] + made + more)
    words = "run", os.fspath(folder / "forces.toml"), "--testbed", os.fspath(testbed), "--json"
    return hsp(*words, results=folder)


def forces(done: Finished) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in done.summary["forces"]}


def model_write_us(preset: str, size_bytes: int) -> float:
    """Mean of writes in order, one after another, by the model alone."""
    with ModelDevice(find_preset(preset), LOG_BYTES) as device:
        now_ns, latencies, sectors = 0, [], size_bytes // 512
        for number in range(400):
            done_ns, _ = device.submit(now_ns, Op.WRITE, number * sectors, sectors)
            latencies.append(done_ns - now_ns)
            now_ns = done_ns
    return sum(latencies) / len(latencies) / 1e3


@pytest.fixture(scope="module")
def on_devices(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("forces")
    text = (
        on("battery", "one", 'record = "8KiB", method = "open_datasync", direct = true')
        + on("battery", "whole", 'record = "16KiB", method = "open_sync", direct = true')
        + on("battery", "split", 'record = "1KiB", per_force = 16, method = "open_sync", direct = true')
        + on("volatile", "flushed", 'record = "8KiB", method = "fdatasync"')
        + on("volatile", "dsync", 'record = "8KiB", method = "open_datasync", direct = true')
        + on("volatile", "lazy", 'record = "8KiB", method = "none"', "20ms")
        + on_array("raid0", 'record = "8KiB", method = "fdatasync"')
        + on_array("raid1", 'record = "8KiB", per_force = 4, method = "open_datasync", direct = true')
    )
    devices = ("battery", "controller-battery"), ("volatile", "nvme-consumer")
    process = started(folder, text, *devices, more=MEMBERS)
    return finish(process, folder, "forces")


def test_a_force_takes_what_the_model_says(on_devices: Finished) -> None:
    assert (on_devices.code, on_devices.summary["verdict"]) == (0, "valid"), on_devices.summary["reasons"]
    rows = forces(on_devices)
    for name, size in (("one", 8 << 10), ("whole", 16 << 10)):
        # The kernel and ublk: 5 us in tests/lab/test_slog.py, and the copy of 8 KiB or 16 KiB.
        assert 0 < rows[name]["mean_us"] - model_write_us("controller-battery", size) < 15, (name, rows[name])
    # pg_test_fsync: 752 : 49 us.
    assert 8 < rows["split"]["mean_us"] / rows["whole"]["mean_us"] < 16
    assert rows["split"]["forces"] == rows["split"]["records"]


def test_every_record_is_read_back_and_the_bytes_are_the_kernels(on_devices: Finished) -> None:
    for name, row in forces(on_devices).items():
        assert row["recovered"] == row["records"] - row["overwritten"] > 0 and row["lost"] == 0, name
    for phase in on_devices.manifest["phases"]:
        checks = [each for each in phase["checks"] if each["name"].startswith("bytes written")]
        # Of a device: fio, the kernel and its model. Of an array: its members, too.
        counted = {"lazy": 0, "on-raid0": 5, "on-raid1": 5}.get(phase["name"], 2)
        assert len(checks) == counted, phase["name"]
        assert all(each["expected"] == each["found"] for each in checks)
        assert all(each["found"] > 0 for each in checks[:2])
    assert read_journal(on_devices.run.resolve() / "journal.jsonl").finished


def test_an_array_is_judged_by_its_members(on_devices: Finished) -> None:
    phases = {each["name"]: each for each in on_devices.manifest["phases"]}
    rows = forces(on_devices)
    for level, copies, records in (("raid0", 1, 1), ("raid1", 3, 4)):
        row, of = rows[f"on-{level}"], phases[f"on-{level}"]
        assert row["recovered"] == row["records"] - row["overwritten"] > 20 and row["lost"] == 0
        assert row["forces"] == row["records"] == records * of["client_ios"]
        found = {check["name"]: check["found"] for check in of["checks"]}
        assert found["bytes written to array"] == row["records"] * (8 << 10)
        assert found[f"bytes written to the members of the {level}"] == copies * row["records"] * (8 << 10)
        flushes = {each["device"]: each["samples"][-1]["flushes"] for each in of["devices"]}
        assert flushes["ssd0"] == 0 and flushes["ssd1"] == flushes["ssd2"] >= row["forces"]
        assert row["durable"] == "durable"
        assert row["why"].startswith(f"{flushes['ssd1']:,} FLUSH commands reached each of ssd1, ssd2, with")


def test_what_nothing_forces_is_not_called_durable(on_devices: Finished) -> None:
    rows = forces(on_devices)
    worth = {name: row["durable"] for name, row in rows.items()}
    assert worth == {**dict.fromkeys(worth, "durable"), "lazy": "unforced"}
    assert "FLUSH commands reached volatile" in rows["flushed"]["why"]
    assert "no volatile write cache" in rows["one"]["why"]
    # As fast as memory, and said so.
    assert rows["lazy"]["mean_us"] < rows["flushed"]["mean_us"] / 20
    assert any(note.startswith("lazy: ") and "Not durable" in note for note in on_devices.summary["notes"])


def over_nfs(name: str, force: str) -> str:
    return PHASE.format(name=name, target='tiers = ["slog"]', force=force, duration="60ms")


def test_a_transaction_log_over_nfs_closes_all_sums(image: Image, tmp_path: Path) -> None:
    text = '[working_set]\nfile = "working-set"\nsize = "1MiB"\n' + "".join(
        over_nfs(name, f'record = "600B", append = true, {more}')
        for name, more in (
            ("log", "per_force = 1"),
            ("batch", "per_force = 16"),
            ("shared", "threads = 4, group_commit = true"),
        )
    )
    done = finish(started(tmp_path, text), tmp_path, "forces")
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    rows = forces(done)
    assert all(row["durable"] == "durable" and row["recovered"] == row["records"] for row in rows.values())
    assert rows["log"]["forces"] == rows["log"]["records"]
    assert rows["batch"]["records_per_s"] > 8 * rows["log"]["records_per_s"]
    assert rows["shared"]["forces"] < rows["shared"]["records"]
    for phase in done.manifest["phases"]:
        calls = [each for each in phase["checks"] if each["name"] == "NFS WRITE calls"]
        assert [each["found"] for each in calls] == (
            [] if phase["name"] == "shared" else [phase["client_ios"]]
        )
    done.check_undone()


def in_phase(
    process: subprocess.Popen[str], folder: Path, act: Callable[[Host], object], after: str = ""
) -> Finished:
    """The run, after `act` has been done to its guest while the load ran; or when its counts have `after`."""
    end = time.monotonic() + _DEADLINE_S
    counts: list[Path] = []
    while not counts or counts[0].read_text().count("\n") < 3:
        assert process.poll() is None and time.monotonic() < end, "no counts arrived"
        counts = list(folder.glob("forces/2*/raw/*-counts.1.jsonl"))
        time.sleep(0.05)
    (lab,) = running_labs()
    with open_host(Path(lab["state"]), free_port()) as guest:
        while after not in counts[0].read_text():
            assert process.poll() is None and time.monotonic() < end, f"no {after} arrived"
            time.sleep(0.02)
        act(guest)
    return finish(process, folder, "forces")


def test_a_helper_that_is_killed_is_named_and_all_is_undone(image: Image, tmp_path: Path) -> None:
    text = on("log0", "killed", 'record = "8KiB", method = "fdatasync"', "5s") + on(
        "log0", "next", 'record = "8KiB"'
    )
    process = started(tmp_path, text, ("log0", "ssd-2009-write"))
    done = in_phase(process, tmp_path, lambda guest: guest.run(["pkill", "-KILL", "-x", "force_load"]))
    assert (done.code, done.summary["verdict"]) == (3, "unknown")
    reasons = " ".join(done.summary["reasons"])
    assert (
        "the program of forced writes failed on log0" in reasons and "stopped after phase killed" in reasons
    )
    (phase,) = done.manifest["phases"]
    assert phase["client_ios"] == sum(count for _, count in phase["forces"]["group"]["bins"]) > 0
    assert "recovered" not in phase["forces"]
    assert read_journal(done.run.resolve() / "journal.jsonl").finished


def test_records_that_a_lying_device_loses_make_the_run_invalid(image: Image, tmp_path: Path) -> None:
    """It answers FLUSH and does nothing. Its power goes after the load, before the records are read back.

    The load is so long that the device has not yet written what it holds by then.
    """
    text = on("log0", "lying", 'record = "8KiB", method = "fdatasync"', "1s")
    process = started(tmp_path, text, ("log0", "ssd-lying"))

    done = in_phase(
        process, tmp_path, lambda guest: Served(guest).tell("log0", "power-loss"), after='"end":true'
    )
    (row,) = done.summary["forces"]
    assert (done.code, done.summary["verdict"]) == (1, "invalid"), done.summary["reasons"]
    assert row["lost"] > 0 and row["durable"] == "durable"
    assert f"{row['lost']:,} are lost" in " ".join(done.summary["reasons"])
