"""Phases on bare devices: in turn and together, to the byte, beside the C models alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import find_preset
from kit.config.testbed import LAB_TESTBED
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from kit.store.run_directory import RunDir
from kit.store.tables import read_latency
from tests.kit.emulation.model_library import ModelDevice, Op
from tests.lab.conftest import Finished, finish, hsp

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]
LOG_BYTES, DISK_BYTES, BLOCK = 64 << 20, 640 << 20, 4096

WORKLOAD = """\
format = 1
name = "devices"
title = "Devices"
precondition = "none"

[[phase]]
name = "disk"
title = "Reads of disks"
target = "device:data"
job = "read.fio"
duration = "1s"
interval = "50ms"

[[phase]]
name = "disks"
base = "disk"
title = "Reads of disks, together"
each = "together"

[[phase]]
name = "log"
title = "O_DSYNC writes"
target = "device:log"
job = "write.fio"
duration = "100ms"
interval = "10ms"

[[expect]]
phase = "disk"
op = "read"
tier = "all"
layer = "device"
p50_us_max = 15000
"""
JOB = """\
[job]
ioengine=psync
filename=${HSP_DEVICE}
size=${HSP_SIZE}
direct=1
norandommap
time_based
runtime=${HSP_RUNTIME}
"""


@pytest.fixture(scope="module")
def done(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("devices")
    (folder / "devices.toml").write_text(WORKLOAD)
    (folder / "read.fio").write_text(f"{JOB}rw=randread\nbs=64k\n")
    (folder / "write.fio").write_text(f"{JOB}rw=randwrite\nbs={BLOCK}\nsync=dsync\n")
    words = "run", os.fspath(folder / "devices.toml"), "--json"
    return finish(hsp(*words, results=folder), folder, "devices")


def phases(done: Finished) -> dict[str, dict[str, Any]]:
    return {phase["name"]: phase for phase in done.manifest["phases"]}


def test_each_device_in_turn_and_all_together(done: Finished) -> None:
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    hosts = {name: [row["host"] for row in phase["clients"]] for name, phase in phases(done).items()}
    assert hosts == {
        "disk-data0": ["data0"], "disk-data1": ["data1"], "disks": ["data0", "data1"], "log": ["log0"],
    }  # fmt: skip
    latency = read_latency(RunDir(done.run.resolve()))
    assert set(latency["layer"]) == {"device"}
    assert set(latency.filter(phase="disks")["host"]) == {"data0", "data1"}
    assert [each["ok"] for each in done.summary["expect"]] == [True, True]
    # A common start: within the 40 ms of a sleep of the slowest.
    assert all(row["skew_ns"] < 100_000_000 for row in phases(done)["disks"]["clients"])
    (note,) = [note for note in done.summary["notes"] if note.startswith("disks: all 2 devices at once read")]
    assert "of what each does alone" in note


def test_fio_the_kernel_and_the_model_agree_to_the_byte(done: Finished) -> None:
    for name, phase in phases(done).items():
        bytes_ = {check["name"]: check for check in phase["checks"] if check["name"].startswith("bytes")}
        devices = [row["host"] for row in phase["clients"]]
        assert len([c for c in phase["checks"] if c["name"].startswith("bytes")]) == 4 * len(devices), name
        assert all(
            check["expected"] == check["found"] for check in phase["checks"] if check in bytes_.values()
        )
        moved = sum(
            bytes_[f"bytes {op} {each}"]["found"] for op in ("read from", "written to") for each in devices
        )
        assert moved == phase["client_ios"] * phase["block_bytes"] > 0


def test_it_makes_no_pool_and_is_undone(done: Finished) -> None:
    assert done.manifest.get("pool") is None and done.manifest.get("mount") is None
    assert done.manifest["testbed"]["clients"] == [] and "zfs" not in done.manifest["versions"]
    assert read_journal(done.run.resolve() / "journal.jsonl").finished
    commands = (done.run / "raw" / "commands.jsonl").read_text()
    assert "zpool create" not in commands and "exportfs" not in commands


def model_write_us() -> float:
    """Median of O_DSYNC writes, by the model alone: one after another, all over the device."""
    with ModelDevice(find_preset("ssd-2009-write"), LOG_BYTES) as device:
        now_ns, latencies, sectors = 0, [], BLOCK // 512
        for number in range(400):
            sector = number * 7919 * sectors % device.sectors // sectors * sectors
            done_ns, _ = device.submit(now_ns, Op.WRITE, sector, sectors)
            latencies.append(done_ns - now_ns)
            now_ns = done_ns
    return sorted(latencies)[len(latencies) // 2] / 1e3


def test_a_device_takes_what_its_model_says(done: Finished) -> None:
    (row,) = [row for row in done.summary["rows"] if row["phase"] == "log"]
    kernel_us = row["interpolated"]["p50"]["us"] - model_write_us()
    # fio, the kernel and ublk: 5 us in tests/lab/test_slog.py, and the copy of 4 KiB.
    assert 0 < kernel_us < 15, (row["interpolated"]["p50"], model_write_us())


CACHES = """\
format = 1
name = "caches"
title = "Write cache on and off"
precondition = "none"

[[phase]]
name = "fill"
title = "The device is written in order, at least twice"
target = "device:log"
job = "write-in-order.fio"
duration = "1200ms"
interval = "50ms"

[[phase]]
name = "write"
title = "Writes in order"
target = "device:log"
job = "write-in-order.fio"
duration = "300ms"
interval = "10ms"

[[phase]]
name = "read"
base = "write"
title = "Reads in order"
job = "read-in-order.fio"
"""
DEVICE = """
[[device]]
name = "slc-{cache}"
role = "log"
size = "64MiB"
preset = "ssd-2009-write"
set = {{ power_loss_protection = false, write_cache = "{cache}" }}
"""


def test_the_write_cache_doubles_writes_in_order_and_not_reads(image: Image, tmp_path: Path) -> None:
    """Published for an Intel X25-E: 220 and 114 MB/s, reads 260 MB/s both ways. Nothing is fitted.

    A drive that was only written in order, as there. After random writes all over it, collection of garbage
    takes part of the rate of the first pass: 2.45 : 1.
    """
    (tmp_path / "caches.toml").write_text(CACHES)
    for op in ("read", "write"):
        (tmp_path / f"{op}-in-order.fio").write_text(f"{JOB.replace('norandommap', '')}rw={op}\nbs=128k\n")
    testbed = LAB_TESTBED.read_text().split("[[device]]")[0]
    (tmp_path / "slc.toml").write_text(testbed + DEVICE.format(cache="on") + DEVICE.format(cache="off"))
    words = (
        "run",
        os.fspath(tmp_path / "caches.toml"),
        "--testbed",
        os.fspath(tmp_path / "slc.toml"),
        "--json",
    )
    done = finish(hsp(*words, results=tmp_path), tmp_path, "caches")
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    rates = {use["phase"]: use["bytes_per_s"] for use in done.summary["use"]}
    assert 1.6 <= rates["write-slc-on"] / rates["write-slc-off"] <= 2.4, rates
    assert rates["read-slc-on"] == pytest.approx(rates["read-slc-off"], rel=0.05)
    caches = {each["name"]: each["settings"]["write_cache"] for each in done.manifest["testbed"]["devices"]}
    assert caches == {"slc-on": "write back", "slc-off": "write through"}


SHARED = """\
format = 1
name = "shared"
title = "Drives that share a bus, and a drive that chooses its order"
precondition = "none"

[[phase]]
name = "read"
title = "Reads of 512 KiB"
target = "device:data"
job = "read.fio"
duration = "800ms"
interval = "50ms"

[[phase]]
name = "read-all"
base = "read"
title = "Reads of 512 KiB, all at once"
each = "together"

[[phase]]
name = "queue"
base = "read"
title = "32 reads of 4 KiB at a time"
target = "device:cache"
job = "queue.fio"
duration = "400ms"
"""
BUS_PER_S = 60_000_000
DISKS = """
[bus.hba0]
per_s = "{per_s}B"

[[device]]
name = "disk0"
role = "data"
size = "128MiB"
preset = "disk-7200"
bus = "hba0"

[[device]]
name = "disk1"
role = "data"
size = "128MiB"
preset = "disk-7200"
bus = "hba0"

[[device]]
name = "disk2"
role = "data"
size = "128MiB"
preset = "disk-7200"
bus = "hba0"

[[device]]
name = "in-order"
role = "cache"
size = "512MiB"
preset = "disk-7200"

[[device]]
name = "nearest-first"
role = "cache"
size = "512MiB"
preset = "disk-7200"
set = {{ queue_depth = 32 }}
"""


def test_drives_of_one_bus_fall_short_together_and_a_queue_reads_nearest_first(
    image: Image, tmp_path: Path
) -> None:
    (tmp_path / "shared.toml").write_text(SHARED)
    (tmp_path / "read.fio").write_text(f"{JOB}rw=randread\nbs=512k\n")
    job = JOB.replace("psync", "libaio")
    (tmp_path / "queue.fio").write_text(f"{job}rw=randread\nbs=4k\niodepth=32\n")
    testbed = LAB_TESTBED.read_text().split("[[device]]")[0] + DISKS.format(per_s=BUS_PER_S)
    (tmp_path / "bus.toml").write_text(testbed)
    words = (
        "run",
        os.fspath(tmp_path / "shared.toml"),
        "--testbed",
        os.fspath(tmp_path / "bus.toml"),
        "--json",
    )
    done = finish(hsp(*words, results=tmp_path), tmp_path, "shared")
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    (note,) = [note for note in done.summary["notes"] if note.startswith("read-all: ")]
    assert "They share something that limits them, which the testbed has: the bus hba0 of 60 MB/s" in note
    rates = {use["phase"]: use["bytes_per_s"] for use in done.summary["use"]}
    alone = sum(rates[f"read-disk{number}"] for number in range(3))
    assert 0.9 * BUS_PER_S < rates["read-all"] < min(1.02 * BUS_PER_S, 0.9 * alone), rates
    # 3.4 by the model alone, at a longer run (tests/kit/emulation/test_disk.py has it over the whole stroke).
    assert 2 < rates["queue-nearest-first"] / rates["queue-in-order"] < 4.5, rates
