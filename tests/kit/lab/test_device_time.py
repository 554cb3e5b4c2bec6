"""kit.lab.device_time: how many I/Os a load on devices gets, and what they cost, as a plan expects it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kit.config.fio_job import FioJob, read_job
from kit.config.tables.phase_table import ArrayLayout
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.testbed_devices import Device
from kit.lab.device_time import ModelledLoad, array_pace, pace
from tests.kit.emulation.model_library import ModelDevice, Op

SECOND = 10**9
RAID0 = ArrayLayout.model_validate({"level": "raid0", "chunk": "128KiB"})


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    stripes = read_testbed(LAB_TESTBED.with_name("stripes-testbed.toml"))
    return {device.name: device for each in (stripes, read_testbed(LAB_TESTBED)) for device in each.device}


def job_of(folder: Path, rw: str, bs: str, depth: int = 1, more: str = "") -> FioJob:
    path = folder / f"{rw}-{bs}-{depth}-{len(more)}.fio"
    path.write_text(
        f"[a]\nioengine=libaio\nrw={rw}\nbs={bs}\ndirect=1\niodepth={depth}\nfilename=${{HSP_DEVICE}}\n"
        f"size=${{HSP_SIZE}}\ntime_based\nruntime=${{HSP_RUNTIME}}\n{more}"
    )
    return read_job(path)


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


@pytest.mark.parametrize(("rw", "bs"), [("randread", "4k"), ("write", "128k"), ("read", "1m")])
@pytest.mark.parametrize("name", ["data0", "cache0", "log0", "slc", "disk"])
def test_a_device_answers_about_as_many_as_its_model(
    devices: dict[str, Device], tmp_path: Path, name: str, rw: str, bs: str
) -> None:
    """A plan's time is rough: within a factor of 2, from parameters alone."""
    load = ModelledLoad(job_of(tmp_path, rw, bs))
    # Without what the guest's CPU takes, which the model does not know.
    without = ModelledLoad(load.job, dilation=10**9)
    ratio = pace(devices[name], without).ios_per_s / modelled(devices[name], rw, load.block)
    assert 0.5 < ratio < 2, ratio


@pytest.mark.parametrize(
    ("members", "depth", "ios", "busy_s"),
    [
        (1, 1, 352, 0.53), (7, 1, 349, 2.00), (1, 4, 361, 0.42), (7, 4, 346, 2.22),
    ],
)  # fmt: skip
def test_arrays_answer_and_cost_what_they_did_in_the_lab(
    devices: dict[str, Device], tmp_path: Path, members: int, depth: int, ios: int, busy_s: float
) -> None:
    """`hsp run stripes`: I/Os of phases of 2 s, and the guest's CPU time, in which a fio starts (0.22 s)."""
    load = ModelledLoad(job_of(tmp_path, "randwrite", f"{128 * members}k", depth), dilation=8)
    found = array_pace(RAID0, [devices[f"ssd{number}"] for number in range(members)], load)
    assert 2 * found.ios_per_s == pytest.approx(ios, rel=0.2)
    assert 0.22 + 2 * found.ios_per_s * found.io_ns / 1e9 == pytest.approx(busy_s, rel=0.3)


@pytest.mark.parametrize(("rw", "depth", "ios"), [("read", 1, 875), ("write", 4, 877)])
def test_disks_answer_what_they_did_in_the_lab(
    devices: dict[str, Device], tmp_path: Path, rw: str, depth: int, ios: int
) -> None:
    """`hsp run addresses`: 128 KiB in order at the outer tracks, for a second."""
    load = ModelledLoad(job_of(tmp_path, rw, "128k", depth), dilation=4)
    assert pace(devices["data0"], load).ios_per_s == pytest.approx(ios, rel=0.2)


@pytest.mark.parametrize(
    ("rw", "bs", "depth", "cached", "ios_per_s", "busy_s"),
    [
        ("write", "4k", 1, True, 7075, 0.47), ("write", "1m", 1, True, 250, 1.06),
        ("write", "128k", 32, True, 2296, 1.51), ("write", "4k", 1, False, 2202, 0.27),
        ("read", "128k", 1, True, 1475, 0.25),
    ],
)  # fmt: skip
def test_an_ssd_answers_and_costs_what_it_did_in_the_lab(
    devices: dict[str, Device], tmp_path: Path, rw: str, bs: str, depth: int, cached: bool,
    ios_per_s: float, busy_s: float,
) -> None:  # fmt: skip
    """`hsp run write-cache`: I/Os a second, and the guest's CPU time in phases of 0.8 s (reads: 0.4 s)."""
    load = ModelledLoad(job_of(tmp_path, rw, bs, depth, "refill_buffers\n" * (rw == "write")), cached, 4)
    found, duration_s = pace(devices["slc"], load), 0.8 if load.writes else 0.4
    assert found.ios_per_s == pytest.approx(ios_per_s, rel=0.35)
    assert 0.22 + duration_s * found.ios_per_s * found.io_ns / 1e9 == pytest.approx(busy_s, rel=0.4)


def test_a_write_in_order_waits_for_a_turn_without_a_cache(
    devices: dict[str, Device], tmp_path: Path
) -> None:
    job = job_of(tmp_path, "write", "4k")
    cached, through = (pace(devices["disk"], ModelledLoad(job, each, 4)).ios_per_s for each in (True, False))
    assert cached > 20 * through
    assert through == pytest.approx(120, rel=0.02)
    # The next one is there before its place has passed.
    assert (
        pace(devices["disk"], ModelledLoad(job_of(tmp_path, "write", "4k", 4), False, 4)).ios_per_s
        > 20 * through
    )


def test_a_deep_queue_gets_no_more_than_the_device_can(devices: dict[str, Device], tmp_path: Path) -> None:
    """Of 1 MiB its bytes take the time: 32 at once are hardly more."""

    def rate(rw: str, bs: str, depth: int) -> float:
        return pace(devices["cache0"], ModelledLoad(job_of(tmp_path, rw, bs, depth), dilation=8)).ios_per_s

    assert rate("write", "1m", 1) <= rate("write", "1m", 32) < 1.2 * rate("write", "1m", 1)
    assert rate("randread", "4k", 4) == pytest.approx(4 * rate("randread", "4k", 1))


def test_random_writes_of_a_full_ssd_are_written_several_times(
    devices: dict[str, Device], tmp_path: Path
) -> None:
    in_order, at_random = (
        pace(devices["cache0"], ModelledLoad(job_of(tmp_path, rw, "128k"), dilation=8))
        for rw in ("write", "randwrite")
    )
    assert 3 < in_order.ios_per_s / at_random.ios_per_s < 8
    assert 3 < at_random.io_ns / in_order.io_ns < 8


@pytest.mark.parametrize(
    ("level", "members", "bs", "copies"),
    [("raid0", 7, "896k", 7), ("raid1", 2, "128k", 2), ("raid10", 4, "256k", 4), ("raid5", 3, "256k", 3)],
)
def test_an_io_of_an_array_takes_about_what_that_of_a_member_does(
    devices: dict[str, Device], tmp_path: Path, level: str, members: int, bs: str, copies: int
) -> None:
    """One load, however many members: not one for each. The guest writes each copy."""
    layout = ArrayLayout.model_validate({"level": level, **({} if level == "raid1" else {"chunk": "128KiB"})})
    dilation = 10**6
    alone = pace(devices["ssd0"], ModelledLoad(job_of(tmp_path, "randwrite", "128k"), dilation=dilation))
    load = ModelledLoad(job_of(tmp_path, "randwrite", bs), dilation=dilation)
    whole = array_pace(layout, [devices["ssd0"]] * members, load)
    assert whole.ios_per_s == pytest.approx(alone.ios_per_s, rel=0.001)
    assert whole.io_ns == pytest.approx(copies * alone.io_ns)


def test_a_small_read_of_an_array_is_of_one_member(devices: dict[str, Device], tmp_path: Path) -> None:
    load = ModelledLoad(job_of(tmp_path, "randread", "4k"), dilation=8)
    alone = pace(devices["ssd0"], load)
    for level in ("raid0", "raid5", "raid10"):
        layout = ArrayLayout.model_validate({"level": level, "chunk": "128KiB"})
        assert array_pace(layout, [devices["ssd0"]] * 4, load) == alone


def test_a_guest_that_is_busy_with_each_io_gets_fewer(devices: dict[str, Device], tmp_path: Path) -> None:
    deep = job_of(tmp_path, "randread", "4k", 32)
    undilated = pace(devices["cache1"], ModelledLoad(deep))
    assert undilated.ios_per_s == pytest.approx(1e9 / undilated.io_ns)
    assert pace(devices["cache1"], ModelledLoad(deep, dilation=4)).ios_per_s > 3 * undilated.ios_per_s


def test_content_that_is_made_for_each_write_costs_more(devices: dict[str, Device], tmp_path: Path) -> None:
    plain, filled = (
        pace(devices["disk"], ModelledLoad(job_of(tmp_path, "write", "128k", 1, more), dilation=4)).io_ns
        for more in ("", "refill_buffers\n")
    )
    assert filled > 2 * plain


def test_a_mix_waits_as_reads_do(devices: dict[str, Device], tmp_path: Path) -> None:
    """`hsp run write-cache`: seeks of 8 KiB, of which one in ten is a write, 4,063 a second."""
    mixed, reads = (
        pace(devices["slc"], ModelledLoad(job_of(tmp_path, rw, "8k"), dilation=4))
        for rw in ("randrw", "randread")
    )
    assert mixed == reads
    assert mixed.ios_per_s == pytest.approx(4063, rel=0.2)


def test_a_cache_that_the_model_has_off_is_no_cache(devices: dict[str, Device], tmp_path: Path) -> None:
    slc = devices["slc"]
    assert slc.emulated and slc.emulated.ssd
    off = slc.emulated.model_copy(update={"ssd": slc.emulated.ssd.model_copy(update={"write_cache": "off"})})
    job = job_of(tmp_path, "write", "4k")
    switched = pace(slc, ModelledLoad(job, cached=False, dilation=4))
    assert pace(slc.model_copy(update={"emulated": off}), ModelledLoad(job, dilation=4)) == switched
    assert switched.ios_per_s < pace(slc, ModelledLoad(job, dilation=4)).ios_per_s / 2
    # Power-loss protection keeps it on.
    assert pace(devices["log0"], ModelledLoad(job, cached=False)) == pace(devices["log0"], ModelledLoad(job))
