"""kit.setup.device_dram: the C models in this process are behind the scripted host."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kit.config.device_model import DeviceModel, resolve
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.core.errors import ConfigError
from kit.core.progress import Progress
from kit.plan.plan import make_plan
from kit.setup import device_dram
from kit.setup.context import Context
from kit.setup.device_dram import ProbedDevice
from kit.setup.manifest import planned
from kit.setup.record import RunRecord
from kit.store.manifest import Manifest
from kit.store.parts.machine import DramProbe
from reports.analysis.disclosure import describe
from tests.fakes import Answer, Command, ScriptedHost
from tests.kit.emulation.model_library import ModelDevice, Op, requests

MIB = 1 << 20
SIZE = 1024 * MIB
DILATION = 4


def disk(**changes: Any) -> DeviceModel:
    return resolve("disk-7200", overrides={"track_buffer": "0B", "read_ahead": "0B", **changes})


def controller(cache_size: str) -> DeviceModel:
    """That keeps what was read, in front of a disk without a buffer."""
    model = resolve("controller-bypass", overrides={"cache": "write-through", "cache_size": cache_size})
    assert model.controller
    return model


class HostWithReads(ScriptedHost):
    """fio's reads go to the model, one after another."""

    def __init__(self, device: ModelDevice, seed: int = 1) -> None:
        super().__init__()
        self.device, self.now_ns, self.places = device, 0, np.random.default_rng(seed)

    def answer(self, command: Command) -> Answer:
        options = dict(word[2:].split("=", 1) for word in command.argv if word.startswith("--"))
        size, total = int(options["bs"]), int(options["io_size"])
        assert options["rw"] in ("read", "randread")
        order = np.arange(total // size)
        if options["rw"] == "randread":
            order = self.places.integers(0, int(options["size"]) // size, total // size)
        batch = requests(len(order))
        batch["op"] = Op.READ
        batch["sector"] = (int(options["offset"]) + order * size) // 512
        batch["sectors"] = size // 512
        batch["arrival_ns"][0] = begin_ns = self.now_ns
        ends = self.device.submit_many(batch, closed_loop=True)["done_ns"].astype(np.int64)
        spent_ns, latencies = ends - begin_ns, ends - batch["arrival_ns"].astype(np.int64)
        limit_ns = int(options["runtime"].removesuffix("us")) * 1000 // DILATION
        done = int(np.searchsorted(spent_ns, limit_ns))
        self.now_ns = int(ends[-1])
        percentiles = {f"{at}.000000": int(np.percentile(latencies, at)) * DILATION for at in (10, 50, 80)}
        took_ns = min(int(spent_ns[-1]), limit_ns)
        job = {
            "io_bytes": done * size, "runtime": took_ns * DILATION // 10**6,
            "clat_ns": {"percentile": percentiles},
        }  # fmt: skip
        document = {"jobs": [{"jobname": "device", "read": job}]}
        self.files[options["output"]] = repr(document).replace("'", '"').encode()
        return ""


def probed(host: HostWithReads) -> DramProbe:
    target = ProbedDevice(
        host, "/dev/x", None, host.device.sectors * 512, Clock("virtual", DILATION), "/run/hsp/dram.json"
    )
    return device_dram.probe(target)


@pytest.mark.parametrize(
    ("model", "answered", "beyond"),
    [
        (controller("64MiB"), 64 * MIB, 128 * MIB),
        (controller("24MiB"), 16 * MIB, 32 * MIB),
        (controller("512MiB"), 256 * MIB, None),
        (disk(track_buffer="64MiB", read_ahead="1MiB"), 64 * MIB, 128 * MIB),
        (disk(), 0, 8 * MIB),
        (resolve("ssd-2009-read"), 0, 8 * MIB),
        (resolve("nvme-consumer"), 0, 8 * MIB),
    ],
)
def test_the_largest_set_that_dram_answers_is_found(
    model: DeviceModel, answered: int, beyond: int | None
) -> None:
    with ModelDevice(model, SIZE) as device:
        probe = probed(host := HostWithReads(device))
    assert (probe.answered_bytes, probe.beyond_bytes) == (answered, beyond)
    assert (probe.again_p50_ns < probe.whole_p50_ns / 4) == (answered > 0)
    assert host.now_ns < 20 * 10**9


@pytest.mark.parametrize(
    "model",
    [
        disk(stroke_percent=100),
        disk(rpm=15000, stroke_percent=100, average_seek="3.5ms", full_seek="7ms"),
        disk(rpm=5400, stroke_percent=100, average_seek="15ms", full_seek="28ms"),
    ],
)
def test_short_seeks_are_not_taken_for_dram(model: DeviceModel) -> None:
    """The error rate: none of 100 probes, although reads of a small set are faster."""
    with ModelDevice(model, SIZE) as device:
        host = HostWithReads(device)
        probes = [probed(host) for _ in range(100)]
    assert [probe.answered_bytes for probe in probes] == [0] * 100
    assert np.median([probe.again_p50_ns / probe.whole_p50_ns for probe in probes]) < 0.65


def test_a_part_of_an_ssd_that_was_never_written_is_not_taken_for_dram() -> None:
    """Its reads need no flash, wherever the set lies."""
    with ModelDevice(resolve("nvme-datacentre"), SIZE // 4) as device:
        now_ns, step = 0, 2048
        for sector in range(0, device.sectors, step):
            if not device.sectors * 4 // 10 <= sector < device.sectors * 8 // 10:
                now_ns, error = device.submit(now_ns, Op.WRITE, sector, step)
                assert not error
        host = HostWithReads(device)
        host.now_ns = now_ns + 10**10
        probe = probed(host)
    assert probe.answered_bytes == 0 and probe.again_p50_ns < probe.whole_p50_ns / 2


# --- What is made of it ---


def recorded(tmp_path: Path, changes: dict[str, str], host: ScriptedHost) -> Manifest:
    """The main job on the lab's testbed with `changes`, after the probe."""
    path, testbed, text = WORKLOADS / "top-speeds.toml", tmp_path / "lab.toml", LAB_TESTBED.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    testbed.write_text(text)
    plan = make_plan(read_workload(path), read_testbed(testbed), path, testbed)
    run = SimpleNamespace(
        plan=plan,
        site=SimpleNamespace(
            guard=None, clock=plan.testbed.clock, device_paths=defaultdict(lambda: "/dev/x")
        ),
        record=RunRecord(planned(plan)),
        names=SimpleNamespace(work_dir="/run/hsp/x"),
        progress=Progress(quiet=True),
    )
    device_dram.probe_all(cast(Context, run), host)
    return run.record.manifest


UNKNOWN = {'set = { track_buffer = "1MiB"': 'probe_dram = true\nset = { track_buffer = "64MiB"'}


def test_dram_that_the_plan_does_not_know_of_makes_a_problem(tmp_path: Path) -> None:
    with ModelDevice(disk(track_buffer="64MiB", read_ahead="512KiB"), 384 * MIB) as device:
        manifest = recorded(tmp_path, UNKNOWN, HostWithReads(device))
    probes = {each.name: each.dram_probe for each in manifest.testbed.devices if each.dram_probe}
    assert [*probes] == ["data0", "data1"]
    assert [each.code for each in manifest.problems] == ["device-dram"] * 2
    assert "data0 answers reads from DRAM of its own (64 MiB or more" in manifest.problems[0].text
    assert "tier disk" in manifest.problems[0].text
    assert Manifest.from_json(manifest.as_json(), "manifest.json") == manifest
    (row,) = [text for name, text in describe(manifest).materials if name == "DRAM of data0"]
    assert row.startswith("It answers 64 MiB that was read before: p50 ")


def test_a_device_whose_dram_is_known_is_not_read(tmp_path: Path) -> None:
    host = ScriptedHost()
    manifest = recorded(tmp_path, {}, host)
    assert (manifest.problems, host.commands) == ((), [])
    assert all("dram_probe" not in each for each in manifest.as_json()["testbed"]["devices"])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((1, "", "No such device"), "No such device"),
        ("", "is not JSON with jobs alone"),
    ],
)
def test_a_device_that_cannot_be_read_leaves_a_note(tmp_path: Path, answer: Answer, why: str) -> None:
    host = ScriptedHost({"fio": answer}, files={"/run/hsp/x/dram.json": ""})
    manifest = recorded(tmp_path, UNKNOWN, host)
    assert manifest.problems == () and len(manifest.notes) == 2
    assert manifest.notes[0].startswith("data0: DRAM of its own is not known") and why in manifest.notes[0]


@pytest.mark.parametrize(
    "key", ['path = "/dev/disk/by-id/x"\nserial = "S"', 'model = "null_blk"\nlatency = "1ms"']
)
def test_only_a_model_may_hide_its_dram(tmp_path: Path, key: str) -> None:
    path = tmp_path / "bed.toml"
    device = f'[[device]]\nname = "d0"\nrole = "data"\nsize = "1GiB"\nprobe_dram = true\n{key}\n'
    path.write_text(f'name = "bed"\n[server]\nhost = "lab"\n[[client]]\nhost = "lab"\n{device}')
    with pytest.raises(ConfigError, match="probe_dram: 'd0': is for a device with a model"):
        read_testbed(path)
