"""Phases on bare devices, on arrays, in the dataset and over NFS, with fio and with forced writes.

Two runs have all of them (tests/lab/families): one on bare devices and arrays, one from a device to NFS.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import find_preset
from kit.config.testbed import LAB_TESTBED
from kit.emulation.served import ServedDevices
from kit.hosts.base import Host
from kit.lab.guest import free_port, open_host, running_labs
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from kit.store.run_directory import RunDir
from kit.store.tables import read_latency
from tests.kit.emulation.model_library import ModelDevice, Op
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.test_faults import wait_for

PROTECTS = (
    "kit/load",
    "kit/precondition",
    "kit/emulation",
    "kit/recovery/storage_undos.py",
    "kit/plan",
    "kit/rules",
)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]
FAMILIES = Path(__file__).with_name("families")
LOG_BYTES, BLOCK, BUS_PER_S = 64 << 20, 4096, 60_000_000
SLC, DISKS = ("slc-on", "slc-off"), ["disk0", "disk1", "disk2"]
MEMBERS, ARRAYS = ["ssd0", "ssd1", "ssd2"], ["member0", "member1", "member2"]
_DEADLINE_S = 300.0


def run(workload: Path, results: Path, testbed: Path = LAB_TESTBED) -> Finished:
    words = "run", os.fspath(workload), "--testbed", os.fspath(testbed), "--json"
    return finish(hsp(*words, results=results), results, workload.stem)


@pytest.fixture(scope="module")
def devices(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("devices")
    return run(FAMILIES / "devices.toml", folder, FAMILIES / "testbed.toml")


@pytest.fixture(scope="module")
def dataset(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(FAMILIES / "dataset.toml", tmp_path_factory.mktemp("dataset"))


def phases(done: Finished) -> dict[str, dict[str, Any]]:
    return {phase["name"]: phase for phase in done.manifest["phases"]}


def forces(done: Finished) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in done.summary["forces"]}


def rates(done: Finished) -> dict[str, float]:
    return {use["phase"]: use["bytes_per_s"] for use in done.summary["use"]}


def check_valid(done: Finished) -> None:
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    assert read_journal(done.run.resolve() / "journal.jsonl").finished
    assert "not-undone" not in [problem["code"] for problem in done.manifest["problems"]]


# --- Devices in turn and together ---


def test_each_device_in_turn_and_all_together(devices: Finished) -> None:
    check_valid(devices)
    hosts = {name: [row["host"] for row in phase["clients"]] for name, phase in phases(devices).items()}
    assert [*hosts.items()][:4] == [*((f"disk-{name}", [name]) for name in DISKS), ("disks", DISKS)]
    latency = read_latency(RunDir(devices.run.resolve()))
    assert set(latency["layer"]) == {"device"}
    assert set(latency.filter(phase="disks")["host"]) == {*DISKS}
    assert [each["ok"] for each in devices.summary["expect"]] == [True] * 3
    # A common start: within the 40 ms of a sleep of the slowest.
    assert all(row["skew_ns"] < 100_000_000 for row in phases(devices)["disks"]["clients"])


def test_fio_the_kernel_and_the_model_agree_to_the_byte(devices: Finished) -> None:
    forced = forces(devices)
    of_fio = {name: phase for name, phase in phases(devices).items() if name not in forced}
    on_devices = {name: phase for name, phase in of_fio.items() if not phase.get("array")}
    assert len(on_devices) == 16
    for name, phase in on_devices.items():
        checks = [check for check in phase["checks"] if check["name"].startswith("bytes")]
        assert len(checks) == 4 * len(phase["clients"]), name
        assert all(check["expected"] == check["found"] for check in checks), name
        # Of each device: what the kernel says, and its model. Both are equal.
        found = {check["name"]: check["found"] for check in checks}
        assert sum(found.values()) == phase["client_ios"] * phase["block_bytes"] > 0, name


def test_it_makes_no_pool_and_is_undone(devices: Finished) -> None:
    assert devices.manifest.get("pool") is None and devices.manifest.get("mount") is None
    assert devices.manifest["testbed"]["clients"] == [] and "zfs" not in devices.manifest["versions"]
    commands = (devices.run / "raw" / "commands.jsonl").read_text()
    assert "zpool create" not in commands and "exportfs" not in commands


def model_write_us(preset: str, size_bytes: int, step: int = 1) -> list[float]:
    """Of writes one after another, by the model alone: each `step` writes after the last one's place."""
    with ModelDevice(find_preset(preset), LOG_BYTES) as device:
        now_ns, latencies, sectors = 0, [], size_bytes // 512
        for number in range(400):
            sector = number * step * sectors % device.sectors // sectors * sectors
            done_ns, _ = device.submit(now_ns, Op.WRITE, sector, sectors)
            latencies.append((done_ns - now_ns) / 1e3)
            now_ns = done_ns
    return latencies


def test_a_device_takes_what_its_model_says(devices: Finished) -> None:
    """O_DSYNC writes, all over the device."""
    (row,) = [row for row in devices.summary["rows"] if row["phase"] == "log"]
    latencies = sorted(model_write_us("ssd-2009-write", BLOCK, 7919))
    model_us = latencies[len(latencies) // 2]
    # fio, the kernel and ublk: 5 us in tests/lab/test_slog.py, and the copy of 4 KiB.
    assert 0 < row["interpolated"]["p50"]["us"] - model_us < 15, (row["interpolated"]["p50"], model_us)


def test_the_write_cache_doubles_writes_in_order_and_not_reads(devices: Finished) -> None:
    """Published for an Intel X25-E: 220 and 114 MB/s, reads 260 MB/s both ways. Nothing is fitted.

    A drive that was only written in order, as there. After random writes all over it, collection of garbage
    takes part of the rate of the first pass: 2.45 : 1.
    """
    found = rates(devices)
    assert 1.6 <= found["slc-write-slc-on"] / found["slc-write-slc-off"] <= 2.4, found
    assert found["slc-read-slc-on"] == pytest.approx(found["slc-read-slc-off"], rel=0.05)
    settings = {each["name"]: each["settings"] for each in devices.manifest["testbed"]["devices"]}
    assert [settings[name]["write_cache"] for name in SLC] == ["write back", "write through"]


def test_drives_of_one_bus_fall_short_together_and_a_queue_reads_nearest_first(devices: Finished) -> None:
    (note,) = [note for note in devices.summary["notes"] if note.startswith("disks: all 3 devices at once")]
    assert "times what each does alone" in note and "within this run" in note
    # One phase of each.
    assert "they share something that limits them, which the testbed has: the bus hba0 of 60 MB/s, or" in note
    found = rates(devices)
    alone = sum(found[f"disk-{name}"] for name in DISKS)
    assert 0.9 * BUS_PER_S < found["disks"] < min(1.02 * BUS_PER_S, 0.9 * alone), found
    # 3.4 by the model alone, at a longer run (tests/kit/emulation/test_disk.py has it over the whole stroke).
    assert 2 < found["queue-nearest-first"] / found["queue-in-order"] < 4.5, found


# --- Arrays ---


def test_each_level_closes_to_the_byte(devices: Finished) -> None:
    for level, copies in (("raid0", 1), ("raid1", 3), ("raid10", 2)):
        of = phases(devices)[level]
        chunk = 512 << 10 if level == "raid1" else 64 << 10
        assert of["array"] == {"level": level, "chunk_bytes": chunk, "members": MEMBERS}
        assert [row["host"] for row in of["clients"]] == ["array"]
        issued = of["client_ios"] * of["block_bytes"]
        found = {check["name"]: check["found"] for check in of["checks"] if check["name"].startswith("bytes")}
        assert found["bytes written to array"] == issued > 0
        assert found[f"bytes written to the members of the {level}"] == copies * issued
        # The models' counters, each beside the kernel's.
        assert sum(found[f"bytes written to {name}"] for name in MEMBERS) == copies * issued
        assert not any(each for name, each in found.items() if name.startswith("bytes read"))
    unchecked = [each["name"] for each in phases(devices)["raid5"]["unavailable"]]
    assert "bytes written to the members of the raid5" in unchecked


def test_an_array_goes_right_after_its_phase(devices: Finished) -> None:
    journal = (devices.run / "journal.jsonl").read_text()
    begin = journal.index('"phase raid0"')
    assert begin < journal.index('"undone": ', begin) < journal.index('"phase raid1"')


def test_stripes_are_beside_what_their_drives_do_alone(devices: Finished) -> None:
    alone = phases(devices)["alone-ssd0"]
    assert len(alone["in_order_ns"]) == alone["client_ios"] > 100
    notes = devices.summary["notes"]
    assert any(note.startswith("A stripe over 3 drives, one request at a time: ") for note in notes), notes
    report = (devices.run / "report.html").read_text()
    assert "Stripes by number of drives" in report and "raid0: how busy each drive is" in report


# --- Forced writes ---


def test_a_force_takes_what_the_model_says(devices: Finished) -> None:
    rows = forces(devices)
    for name, size in (("one", 8 << 10), ("whole", 16 << 10)):
        latencies = model_write_us("controller-battery", size)
        # The kernel and ublk: 5 us in tests/lab/test_slog.py, and the copy of 8 KiB or 16 KiB.
        assert 0 < rows[name]["mean_us"] - sum(latencies) / len(latencies) < 15, (name, rows[name])
    # pg_test_fsync: 752 : 49 us.
    assert 8 < rows["split"]["mean_us"] / rows["whole"]["mean_us"] < 16
    assert rows["split"]["forces"] == rows["split"]["records"]


def test_every_record_is_read_back_and_the_bytes_are_the_kernels(devices: Finished) -> None:
    rows = forces(devices)
    assert [*rows] == ["one", "whole", "split", "flushed", "dsync", "lazy", "on-raid0", "on-raid1"]
    for name, row in rows.items():
        assert row["recovered"] == row["records"] - row["overwritten"] > 0 and row["lost"] == 0, name
        phase = phases(devices)[name]
        checks = [each for each in phase["checks"] if each["name"].startswith("bytes written")]
        # Of a device: fio, the kernel and its model. Of an array: its members, too.
        assert len(checks) == {"lazy": 0, "on-raid0": 5, "on-raid1": 5}.get(name, 2), name
        assert all(each["expected"] == each["found"] for each in checks)
        assert all(each["found"] > 0 for each in checks[:2])


def test_an_array_is_judged_by_its_members(devices: Finished) -> None:
    first, *volatile = ARRAYS
    for level, copies, records in (("raid0", 1, 1), ("raid1", 3, 4)):
        row, of = forces(devices)[f"on-{level}"], phases(devices)[f"on-{level}"]
        assert row["recovered"] == row["records"] - row["overwritten"] > 20 and row["lost"] == 0
        assert row["forces"] == row["records"] == records * of["client_ios"]
        found = {check["name"]: check["found"] for check in of["checks"]}
        assert found["bytes written to array"] == row["records"] * (8 << 10)
        assert found[f"bytes written to the members of the {level}"] == copies * row["records"] * (8 << 10)
        flushes = {each["device"]: each["samples"][-1]["flushes"] for each in of["devices"]}
        reached = flushes[volatile[0]]
        assert flushes[first] == 0 and flushes[volatile[1]] == reached >= row["forces"]
        assert row["durable"] == "durable"
        assert row["why"].startswith(
            f"{reached:,} FLUSH commands reached each of {', '.join(volatile)}, whose"
        )


def test_what_nothing_forces_is_not_called_durable(devices: Finished) -> None:
    rows = forces(devices)
    worth = {name: row["durable"] for name, row in rows.items()}
    assert worth == {**dict.fromkeys(worth, "durable"), "lazy": "unforced"}
    assert "FLUSH commands reached volatile" in rows["flushed"]["why"]
    assert "no volatile write cache" in rows["one"]["why"]
    # As fast as memory, and said so.
    assert rows["lazy"]["mean_us"] < rows["flushed"]["mean_us"] / 20
    assert any(note.startswith("lazy: ") and "Not durable" in note for note in devices.summary["notes"])


# --- From a device to NFS ---


def test_devices_come_first_then_the_pool_on_them(dataset: Finished) -> None:
    check_valid(dataset)
    journal = (dataset.run / "journal.jsonl").read_text()
    order = [journal.index(f'"{step}"') for step in ("phase bare", "create pool", "phase read")]
    assert order == sorted(order)
    latency = read_latency(RunDir(dataset.run.resolve()))
    layers = {name: set(latency.filter(phase=name)["layer"]) for name in phases(dataset)}
    over_nfs = {"client", "nfs-server"}
    assert layers == {
        "bare": {"device"}, "read": {"client"}, "write": {"client"}, "remote": over_nfs,
        "group": {"client"}, "each": {"client"}, "one": over_nfs, "batch": over_nfs, "shared": over_nfs,
    }  # fmt: skip
    assert all(each["ok"] for each in dataset.summary["expect"])
    dataset.check_undone()


def test_counters_of_the_server_account_for_a_load_in_the_dataset(dataset: Finished) -> None:
    read, write = phases(dataset)["read"], phases(dataset)["write"]
    assert read["target"] == write["target"] == "dataset"
    assert read["server_ios"] is None
    assert read["shares"]["counts"]["dram"] == read["client_ios"]
    checks = {check["name"]: check for check in write["checks"]}
    commits = checks["synchronous writes"]
    assert abs(commits["found"] - write["client_ios"]) <= commits["tolerance"] and commits["found"] > 100
    assert checks["NFS WRITE calls"]["found"] == 0
    counts = write["shares"]["counts"]
    assert counts["slog"] >= write["client_ios"] and counts["pool"] == 0


def test_a_force_in_the_dataset_is_a_commit_of_the_zil(dataset: Finished) -> None:
    """With open_sync each record is one."""
    for name, commits_per_group in (("group", 1), ("each", 4)):
        phase = phases(dataset)[name]
        checks = {check["name"]: check for check in phase["checks"]}
        assert checks["synchronous writes"]["expected"] == commits_per_group * phase["client_ios"] > 100
        assert phase["forces"]["recovered"] > 0 and not phase["forces"]["damaged"]
    (rows,) = [[row for row in dataset.summary["rows"] if row["phase"] == "group"]]
    assert rows[0]["p50_us"] is not None


def test_nfs_costs_what_the_server_alone_does_not(dataset: Finished) -> None:
    rows = {
        (row["phase"], row["layer"]): row["p50_us"] for row in dataset.summary["rows"] if row["op"] == "write"
    }
    device, local, client = rows["bare", "device"], rows["write", "client"], rows["remote", "client"]
    assert device < local < client


def test_a_transaction_log_over_nfs_closes_all_sums(dataset: Finished) -> None:
    rows = {name: row for name, row in forces(dataset).items() if name in ("one", "batch", "shared")}
    assert len(rows) == 3
    assert all(row["durable"] == "durable" and row["recovered"] == row["records"] for row in rows.values())
    assert rows["one"]["forces"] == rows["one"]["records"]
    assert rows["batch"]["records_per_s"] > 8 * rows["one"]["records_per_s"]
    assert rows["shared"]["forces"] < rows["shared"]["records"]
    for name in rows:
        phase = phases(dataset)[name]
        calls = [each["found"] for each in phase["checks"] if each["name"] == "NFS WRITE calls"]
        assert calls == ([] if name == "shared" else [phase["client_ios"]]), name


def test_the_dataset_alone_is_not_exported_and_with_sync_disabled_is_a_baseline_in_memory(
    image: Image, tmp_path: Path
) -> None:
    done = run(FAMILIES / "in-memory.toml", tmp_path)
    check_valid(done)
    commands = (done.run / "raw" / "commands.jsonl").read_text()
    # The exports of others are looked at, by a shell.
    assert "zpool" in commands and '["exportfs"' not in commands and "mount.nfs" not in commands
    assert "/mnt/hsp-" not in commands and "bpftrace" not in commands
    memory = phases(done)["memory"]
    assert "synchronous writes" not in {check["name"] for check in memory["checks"]}
    assert any("A baseline in memory, not durable" in note for note in done.summary["notes"])


# --- Devices that fail during a load ---

HEAD = 'format = 1\nname = "failing"\ntitle = "Failing"\nprecondition = "none"\n'
LYING = """
[[phase]]
name = "lying"
title = "lying"
target = "device:log"
force = { record = "8KiB", method = "fdatasync" }
duration = "1s"
interval = "10ms"
"""
MIRROR = """
[[phase]]
name = "raid1"
title = "raid1"
target = "array"
array = { level = "raid1" }
job = "stripe.fio"
duration = "2s"
interval = "20ms"
"""
DEVICE = '\n[[device]]\nname = "{}"\nrole = "{}"\nsize = "64MiB"\npreset = "{}"\n'


def run_failing(
    folder: Path, text: str, devices: list[tuple[str, str, str]], act: Callable[[Host], object], when: str
) -> Finished:
    """A run to whose guest `act` is done, when the counts of its first phase have `when` in them."""
    (folder / "failing.toml").write_text(HEAD + text)
    (folder / "stripe.fio").write_text((FAMILIES / "stripe.fio").read_text())
    testbed = LAB_TESTBED.read_text().split("[[device]]")[0]
    (folder / "lab.toml").write_text(testbed + "".join(DEVICE.format(*each) for each in devices))
    words = "run", os.fspath(folder / "failing.toml"), "--testbed", os.fspath(folder / "lab.toml"), "--json"
    process = hsp(*words, results=folder)
    journal, counts = folder / "failing" / "latest" / "journal.jsonl", list[Path]()
    wait_for(lambda: journal.exists() and '"phase ' in journal.read_text(), 300, "the phase")
    (lab,) = running_labs()
    with open_host(Path(lab["state"]), free_port()) as guest:
        end = time.monotonic() + _DEADLINE_S
        while when and not any(when in path.read_text() for path in counts):
            assert process.poll() is None and time.monotonic() < end, f"no {when} arrived"
            counts = list(folder.glob("failing/2*/raw/*-counts.1.jsonl"))
            time.sleep(0.02)
        if when:
            # It does nothing more before that is done.
            process.send_signal(signal.SIGSTOP)
        try:
            act(guest)
        finally:
            process.send_signal(signal.SIGCONT)
    return finish(process, folder, "failing")


def test_records_that_a_lying_device_loses_make_the_run_invalid(image: Image, tmp_path: Path) -> None:
    """It answers FLUSH and does nothing. Its power goes after the load, before the records are read back.

    The load is so long that the device has not yet written what it holds by then.
    """

    def lose_power(guest: Host) -> None:
        ServedDevices(guest).tell("log0", "power-loss")

    done = run_failing(tmp_path, LYING, [("log0", "log", "ssd-lying")], lose_power, '"end":true')
    (row,) = done.summary["forces"]
    assert (done.code, done.summary["verdict"]) == (1, "invalid"), done.summary["reasons"]
    assert row["lost"] > 0 and row["durable"] == "durable"
    assert f"{row['lost']:,} are lost" in " ".join(done.summary["reasons"])


def test_a_member_that_fails_ends_the_run_and_everything_is_undone(image: Image, tmp_path: Path) -> None:
    """Of the mirror, which goes on without it: what was measured is partly another array."""

    def fail(guest: Host) -> None:
        under_load = 'until pgrep -x fio; do sleep 0.1; done; sleep 1; shift; exec "$@"'
        tell = ["/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket", "ssd1", "fail"]
        guest.run(["sh", "-c", under_load, "sh", "-", *tell], deadline_s=200)

    text = MIRROR + MIRROR.replace("raid1", "raid10")
    done = run_failing(tmp_path, text, [(name, "data", "ssd-2009-write") for name in MEMBERS], fail, "")
    assert done.summary["verdict"] == "unknown" and done.code == 3, done.stderr
    (measured,) = done.manifest["phases"]
    assert any("the array lost /dev/ublkb1 during the load" in each["text"] for each in measured["problems"])
    problems = done.manifest["problems"]
    assert any("stopped after phase raid1" in each["text"] for each in problems), problems
    assert "not-undone" not in [each["code"] for each in problems]
    assert measured["client_ios"] > 0, "what was measured until then is kept"
    assert read_journal(done.run.resolve() / "journal.jsonl").finished
