"""Preconditioning a block device in the guest: purge, proof, incompressible data, resume, use by others.

Drives that age, and each way in which preconditioning can end: tests/kit/precondition.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.config.testbed_devices import Device, resolve_devices
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown, SafetyRefusal
from kit.core.progress import Progress
from kit.devices import block_device
from kit.devices.block_device import find_unused, read_written
from kit.emulation import compilation
from kit.emulation.devices_file import served_devices
from kit.emulation.served import ServedDevices
from kit.hosts.ssh import SshHost
from kit.lab import aged_devices as aged
from kit.lab.site import make_devices
from kit.precondition import stage as preconditionstage
from kit.precondition.device import Preconditioned, Target, precondition
from kit.precondition.purge import purge
from kit.precondition.stage_loads import Stage
from tests.lab.conftest import RunningLab

PROTECTS = ("kit/precondition", "kit/emulation")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

CLOCK = Clock("virtual", 4)
MIB = 1 << 20
SIZE = 64 * MIB
REMOVE = 'echo 0 >"$1/power" && rmdir "$1"'


@pytest.fixture
def target(running_lab: RunningLab) -> Iterator[Target]:
    device = Device.model_validate(
        {"name": "worn0", "role": "log", "model": "null_blk", "size": "64MiB", "latency": "100us"}
    )
    make_devices(running_lab.guest, (device,), CLOCK)
    yield Target("worn0", "log", "/dev/worn0", SIZE)
    running_lab.guest.run(["sh", "-c", REMOVE, "sh", "/sys/kernel/config/nullb/worn0"])


def settings(**values: object) -> Precondition:
    return Precondition.model_validate({"method": "fills", "fills": 1, "ios": 400, **values})


class Bench:
    def __init__(self, guest: SshHost, target: Target, folder: Path) -> None:
        self.guest, self.target = guest, target
        self.state = folder / "state.json"
        self.told = io.StringIO()

    def run(self, wanted: Precondition) -> Preconditioned:
        return precondition(
            self.guest, self.target, wanted, CLOCK,
            work_dir="/run/hsp/precondition-test", state_path=self.state, progress=Progress(stream=self.told),
        )  # fmt: skip

    def content(self, at_mib: int, mib: int = 1) -> bytes:
        text = self.guest.run(
            ["sh", "-c", 'dd if="$1" bs=1M skip="$2" count="$3" status=none | base64 -w0', "sh",
             self.target.path, str(at_mib), str(mib)]
        ).stdout  # fmt: skip
        return base64.b64decode(text)


@pytest.fixture
def bench(running_lab: RunningLab, target: Target, tmp_path: Path) -> Bench:
    return Bench(running_lab.guest, target, tmp_path)


def test_a_fill_is_proven_by_the_counter_and_does_not_compress(bench: Bench) -> None:
    before = read_written(bench.guest, find_unused(bench.guest, bench.target.path)).kernel_bytes
    done = bench.run(settings(fills=2))
    after = read_written(bench.guest, find_unused(bench.guest, bench.target.path)).kernel_bytes
    assert done.problems == []
    assert [stage["stage"] for stage in done.entry["stages"]] == ["purge", "fill 1", "fill 2"]
    for stage in done.entry["stages"][1:]:
        assert stage["intended_bytes"] == stage["fio_bytes"] == stage["proven_bytes"] == SIZE
        assert stage["counter"] == "/sys/block/worn0/stat"
    assert after - before == done.entry["spent_bytes"]
    assert done.entry["purge"]["method"] == "blkdiscard"
    found = bench.content(30)
    # Of 64 bits, fio's generator leaves three alone: what a deflate of its best level gets is 2 %.
    assert len(zlib.compress(found, 9)) > 0.97 * len(found)
    assert len({found[at : at + 4096] for at in range(0, MIB, 4096)}) == 256
    assert not bench.state.exists()
    ops = {(point.stage, point.op): point for point in done.points}
    assert len(ops) == 6 and all(point.ios == 400 for point in done.points)
    # 100 us of the experiment on a clock that is dilated four times, and what the kernel adds.
    assert all(95_000 < (point.p99_ns or 0) < 300_000 for point in done.points)
    assert ops["purge", "write"].written_bytes == 0
    assert ops["fill 2", "write"].written_bytes > 2 * SIZE


def test_the_purge_forgets_and_is_not_counted_as_written(bench: Bench) -> None:
    device = find_unused(bench.guest, bench.target.path)
    bench.guest.run(["sh", "-c", 'head -c 1M /dev/urandom >"$1"', "sh", device.path])
    before = read_written(bench.guest, device)
    assert bench.content(0) != bytes(MIB)
    assert purge(bench.guest, device).method == "blkdiscard"
    bench.guest.run(["sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"])
    assert bench.content(0) == bytes(MIB)
    assert read_written(bench.guest, device) == before


def test_an_interrupted_one_goes_on_at_its_stage_until_the_device_is_steady(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = preconditionstage._measure, []
    wanted = settings(method="snia", fills=None, round_size="2MiB")

    def interrupted(work: preconditionstage.Work, stage: Stage, op: str, *rest: object) -> object:
        seen.append(str(stage))
        if seen.count("fill 2"):
            raise KeyboardInterrupt
        return real(work, stage, op, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(preconditionstage, "_measure", interrupted)
        bench.run(wanted)
    kept = json.loads(bench.state.read_text())
    assert [stage["stage"] for stage in kept["stages"]] == ["purge", "fill 1"]
    done = bench.run(wanted)
    assert done.entry["resumed_after"] == ["fill 1"]
    stages = [stage["stage"] for stage in done.entry["stages"]]
    assert stages[:4] == ["purge", "fill 1", "fill 2", "round 1"] and len(stages) >= 8
    # The stage that was interrupted was written twice, and that is in the account.
    assert done.entry["written_bytes"] > 3 * SIZE + (len(stages) - 3) * 2 * MIB
    assert done.entry["attained"] is True and done.problems == []
    assert all(len(values) == len(stages) - 3 for values in done.entry["tracked"].values())
    assert done.entry["criteria"][-1]["write p99"]["attained"]
    told = bench.told.getvalue()
    assert "round 5 of at most 25" in told and "write iops: steady, range" in told


def test_a_time_budget_ends_a_fill_in_its_middle(bench: Bench) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kit.precondition.budget.refuse_beyond_time", lambda *_: None)
        with pytest.raises(MeasurementUnknown, match="not filled once"):
            bench.run(settings(fills=1, ios=400, budget={"time": "20ms"}))


def test_devices_in_use_are_refused(bench: Bench) -> None:
    guest, path = bench.guest, bench.target.path
    guest.run(["zpool", "create", "-o", "cachefile=none", "worn", path])
    try:
        with pytest.raises(SafetyRefusal, match="belongs to the imported pool 'worn'"):
            bench.run(settings())
    finally:
        guest.run(["zpool", "destroy", "worn"])
    # The label of a destroyed pool is nobody's.
    assert block_device.find_unused(guest, path).size_bytes == SIZE
    guest.run(["blkdiscard", path])
    guest.run(["mkswap", path])
    with pytest.raises(SafetyRefusal, match="signature on /dev/worn0: swap"):
        bench.run(settings())
    guest.run(["swapon", path])
    try:
        with pytest.raises(SafetyRefusal, match="/dev/worn0 is swap space"):
            bench.run(settings())
    finally:
        guest.run(["swapoff", path])
    with pytest.raises(SafetyRefusal, match="no such block device"):
        block_device.find_unused(guest, "/dev/nothing")
    with pytest.raises(SafetyRefusal, match="the testbed says"):
        block_device.find_unused(guest, path, SIZE + 1)


def test_what_was_aged_once_is_given_to_the_next_device_with_its_proof(
    running_lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aged, "cache_dir", lambda: tmp_path)
    guest = running_lab.guest
    plain = {"name": "log0", "role": "log", "size": "64MiB", "preset": "ssd-2009-write"}
    devices = resolve_devices((Device.model_validate(plain),), Path(__file__))
    wanted, told = settings(), io.StringIO()

    def with_device(work: Callable[[Target, aged.AgedStates], None], age_again: bool = False) -> None:
        served = ServedDevices(guest)
        path = served.start(compilation.server(), served_devices(devices), CLOCK.dilation)["log0"]
        states = aged.AgedStates(
            running_lab.lab, served, devices, CLOCK.dilation, Progress(stream=told), age_again
        )
        try:
            work(Target("log0", "log", path, SIZE), states)
        finally:
            served.stop()

    def digest(target: Target) -> str:
        return guest.run(["sha256sum", target.path]).stdout.split()[0]

    found: dict[str, Preconditioned] = {}
    content = []

    def age(target: Target, states: aged.AgedStates) -> None:
        assert states.restore(target, wanted) is None
        found["aged"] = Bench(guest, target, tmp_path).run(wanted)
        states.keep(target, wanted, found["aged"], "the-first-run")
        content.append(digest(target))

    def take(target: Target, states: aged.AgedStates) -> None:
        taken = states.restore(target, wanted)
        assert taken is not None
        content.append(digest(target))
        assert taken.points == found["aged"].points
        assert taken.entry["aged_in"]["run"] == "the-first-run"
        assert taken.entry["aged_in"]["compressed_share"] > 0.9
        assert taken.entry["proven_bytes"] == found["aged"].entry["proven_bytes"]
        assert taken.problems == []
        # Other settings, another state; and the device may be aged further.
        assert states.restore(target, settings(fills=2)) is None
        assert states.restore(target, settings(ios=500)) is None
        assert states.restore(target, settings(budget={"write": "1GiB"})) is not None

    def ask(target: Target, states: aged.AgedStates) -> None:
        assert states.restore(target, wanted) is None

    with_device(age)
    with_device(take)
    assert content[0] == content[1]
    assert "loading the aged state of run the-first-run" in told.getvalue()
    with_device(ask, age_again=True)
    [state] = tmp_path.glob("aged/*/state")
    assert aged.current(state.parent)
    state.write_bytes(state.read_bytes()[:-1])
    with_device(ask)
