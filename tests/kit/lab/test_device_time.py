"""kit.lab.device_time: how many I/Os a load on devices gets, as a plan expects it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kit.config.fio_job import FioJob, read_job
from kit.config.tables.phase_table import ArrayLayout
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.testbed_devices import Device
from kit.lab.device_time import Load, array_ios_per_s, ios_per_s
from tests.kit.emulation.model_library import ModelDevice, Op

SECOND = 10**9


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    found: Testbed = read_testbed(LAB_TESTBED)
    return {device.name: device for device in found.device}


def job_of(folder: Path, rw: str, bs: str, depth: int = 1) -> FioJob:
    path = folder / f"{rw}-{bs}-{depth}.fio"
    engine = "libaio" if depth > 1 else "psync"
    path.write_text(
        f"[a]\nioengine={engine}\nrw={rw}\nbs={bs}\ndirect=1\niodepth={depth}\nfilename=${{HSP_DEVICE}}\n"
        "size=${HSP_SIZE}\ntime_based\nruntime=${HSP_RUNTIME}\n"
    )
    return read_job(path)


def test_a_disk_waits_for_its_arm_and_an_ssd_does_not(devices: dict[str, Device], tmp_path: Path) -> None:
    load = Load(job_of(tmp_path, "randread", "4k"))
    assert 150 < ios_per_s(devices["data0"], load) < 200
    assert ios_per_s(devices["cache0"], load) > 3000


def modelled(device: Device, rw: str, bs: int) -> float:
    """What the C model answers in half a second, one request after another, once it is filled."""
    assert device.emulated
    sectors, generator, number = bs // 512, random.Random(1), 0
    with ModelDevice(device.emulated, device.size) as model:
        now_ns = 0
        for at in range(0, device.size // 512, 256):
            now_ns, _ = model.submit(now_ns, Op.WRITE, at, 256)
        begin_ns, places = now_ns, device.size // bs
        while now_ns - begin_ns < SECOND // 2:
            place = generator.randrange(places) if "rand" in rw else number % places
            now_ns, _ = model.submit(now_ns, Op.WRITE if "write" in rw else Op.READ, place * sectors, sectors)
            number += 1
        return number * SECOND / (now_ns - begin_ns)


@pytest.mark.parametrize("bs", ["4k", "128k", "1m"])
@pytest.mark.parametrize("rw", ["read", "write", "randread"])
@pytest.mark.parametrize("name", ["data0", "cache0", "log0", "slc", "disk"])
def test_a_device_answers_about_as_many_as_its_model(
    devices: dict[str, Device], tmp_path: Path, name: str, rw: str, bs: str
) -> None:
    """A plan's time is rough: within a factor of 2.5, from parameters alone."""
    load = Load(job_of(tmp_path, rw, bs))
    assert load.job.block_bytes
    ratio = ios_per_s(devices[name], load) / modelled(devices[name], rw, load.job.block_bytes)
    assert 0.4 < ratio < 2.5, ratio


def test_a_write_in_order_waits_for_a_turn_without_a_cache(
    devices: dict[str, Device], tmp_path: Path
) -> None:
    job = job_of(tmp_path, "write", "4k")
    assert ios_per_s(devices["disk"], Load(job)) > 20 * ios_per_s(devices["disk"], Load(job, cached=False))
    assert ios_per_s(devices["disk"], Load(job, cached=False)) == pytest.approx(120, rel=0.02)


def test_a_deep_queue_gets_no_more_than_the_device_can(devices: dict[str, Device], tmp_path: Path) -> None:
    """Of 1 MiB its bytes take the time: 32 at once are hardly more."""

    def rate(rw: str, bs: str, depth: int) -> float:
        return ios_per_s(devices["cache0"], Load(job_of(tmp_path, rw, bs, depth)))

    assert rate("write", "1m", 1) <= rate("write", "1m", 32) < 1.1 * rate("write", "1m", 1)
    assert rate("randread", "4k", 4) == pytest.approx(4 * rate("randread", "4k", 1))


def test_random_writes_of_a_full_ssd_are_written_several_times(
    devices: dict[str, Device], tmp_path: Path
) -> None:
    in_order, at_random = (
        ios_per_s(devices["cache0"], Load(job_of(tmp_path, rw, "128k"))) for rw in ("write", "randwrite")
    )
    assert 3 < in_order / at_random < 8


@pytest.mark.parametrize(
    ("level", "members", "bs"), [("raid0", 7, "896k"), ("raid1", 2, "128k"), ("raid10", 4, "256k")]
)
def test_an_io_of_an_array_takes_about_what_that_of_a_member_does(
    devices: dict[str, Device], tmp_path: Path, level: str, members: int, bs: str
) -> None:
    """One load, however many members: not one for each."""
    layout = ArrayLayout.model_validate({"level": level, **({} if level == "raid1" else {"chunk": "128KiB"})})
    alone = ios_per_s(devices["cache0"], Load(job_of(tmp_path, "randwrite", "128k")))
    whole = array_ios_per_s(layout, [devices["cache0"]] * members, Load(job_of(tmp_path, "randwrite", bs)))
    assert whole == pytest.approx(alone)


def test_a_guest_that_is_busy_with_each_io_gets_fewer(devices: dict[str, Device], tmp_path: Path) -> None:
    load = Load(job_of(tmp_path, "randread", "4k", 32), cpu_ns=1_000_000)
    assert ios_per_s(devices["cache0"], load) == pytest.approx(1000)
