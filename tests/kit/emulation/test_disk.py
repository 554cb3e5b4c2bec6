"""The disk model: what the issue asks of it, and what disks are known for."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from kit.config.device_model import find_preset, resolve
from tests.kit.emulation.loads import Load, shortest_range
from tests.kit.emulation.model_library import (
    LATER_NS,
    NEVER_NS,
    ROTATIONAL,
    VOLATILE_CACHE,
    ModelDevice,
    Op,
    requests,
)

SIZE = 512 << 20
MS = 1_000_000


def disk(name: str = "disk-7200", **overrides: object) -> ModelDevice:
    return ModelDevice(resolve(name, overrides=overrides), SIZE)


def test_random_reads_at_7200_rpm() -> None:
    """Of a wait that is uniform over a turn of 8.33 ms, no window of 7.8 ms holds more than 93.6 %.

    Seeks of different lengths make it less, so 95 % within 1.9 to 9.7 ms is beyond any such disk.
    """
    device = disk()
    latencies = Load(device).at_random(Op.READ, 1, 20_000)
    share = np.mean((latencies >= 1.9 * MS) & (latencies <= 9.7 * MS))
    assert 0.92 <= share <= 7.8 / (60_000 / 7200)
    counters = device.counters()
    assert counters["rotation_ns"] / counters["seeks"] == pytest.approx(4.17 * MS, rel=0.05)


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE])
def test_95_percent_at_10000_rpm_are_within_the_published_range(op: int) -> None:
    low, high = shortest_range(Load(disk("disk-10k")).at_random(op, 1, 20_000))
    assert 1.95 * MS < low < high < 9.17 * MS


@pytest.mark.parametrize("name", ["disk-7200", "disk-10k"])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_sequential_reads_have_the_rate_of_the_zone(name: str, part: float) -> None:
    table = find_preset(name).disk
    assert table
    device = ModelDevice(resolve(name, overrides={"stroke_percent": 100}), SIZE)
    load = Load(device)
    first = int(device.sectors * part) // 256 * 256
    load.in_order(Op.READ, 256, 300, first)
    rate = 300 * 256 * 512 / load.now_ns * 1e9
    # On the full stroke tracks get shorter inwards, and so hold less: half the sectors are not half the way.
    expected = [table.outer_per_s, table.inner_per_s]
    assert min(expected) * 0.9 < rate < max(expected) * 1.1
    if part == 0:
        zone = table.outer_per_s - (table.outer_per_s - table.inner_per_s) / (2 * table.zones)
        assert rate == pytest.approx(zone, rel=0.1)


def test_each_read_of_a_smooth_sequence_takes_about_as_long() -> None:
    latencies = Load(disk()).in_order(Op.READ, 256, 400)[10:]
    assert np.percentile(latencies, 99) < 3 * np.median(latencies)


def test_outer_tracks_are_faster() -> None:
    device = disk(stroke_percent=100)
    outer = Load(device).in_order(Op.READ, 256, 200).sum()
    inner = Load(disk(stroke_percent=100)).in_order(Op.READ, 256, 200, device.sectors - 200 * 256).sum()
    assert inner > 1.3 * outer


def test_the_wider_the_stroke_the_longer_the_seek() -> None:
    narrow, wide = (
        Load(disk(stroke_percent=stroke)).at_random(Op.READ, 1, 5000).mean() for stroke in (1, 100)
    )
    assert wide - narrow > 3 * MS


def test_sequential_writes_without_a_cache_miss_a_turn_each() -> None:
    latencies = Load(disk()).in_order(Op.WRITE, 8, 100)[1:]
    assert np.median(latencies) > 8 * MS


def test_a_write_cache_answers_at_once_and_a_flush_pays() -> None:
    device = disk(write_cache="8MiB")
    assert device.attributes == ROTATIONAL | VOLATILE_CACHE
    load = Load(device)
    assert load.at_random(Op.WRITE, 8, 200).max() < MS
    assert device.is_volatile(load.now_ns, 0) is False
    done_ns, _ = device.submit(load.now_ns, Op.FLUSH)
    assert 200 * 0.5 * MS < done_ns - load.now_ns
    assert not any(device.is_volatile(done_ns, sector) for sector in range(0, device.sectors, 8))


def test_a_cache_that_is_switched_off_is_written_out_and_comes_back() -> None:
    device = disk(write_cache="8MiB")
    load = Load(device)
    load.at_random(Op.WRITE, 8, 200)
    done_ns = device.set_write_cache(load.now_ns, on=False)
    assert 200 * 0.5 * MS < done_ns - load.now_ns
    assert not any(device.is_volatile(done_ns, sector) for sector in range(0, device.sectors, 8))
    load.now_ns = done_ns
    assert np.median(load.at_random(Op.WRITE, 8, 100)) > 2 * MS
    device.set_write_cache(load.now_ns, on=True)
    assert load.at_random(Op.WRITE, 8, 100).max() < MS
    assert disk().write_cache_is_on() == -1, "it has none"


def test_the_elevator_makes_destaging_cheaper_than_writing_through() -> None:
    cached = Load(disk("disk-7200", write_cache="8MiB", stroke_percent=100))
    cached.at_random(Op.WRITE, 8, 1000)
    flushed_ns, _ = cached.device.submit(cached.now_ns, Op.FLUSH)
    through = Load(disk("disk-7200", stroke_percent=100))
    through.at_random(Op.WRITE, 8, 1000)
    assert flushed_ns < 0.8 * through.now_ns


def test_a_full_cache_writes_as_fast_as_the_platter() -> None:
    device = disk(write_cache="1MiB")
    latencies = Load(device).at_random(Op.WRITE, 8, 3000)
    assert device.counters()["cache_waits"] > 0
    assert np.mean(latencies[1000:]) > 1 * MS


def test_what_was_read_ahead_comes_from_the_buffer() -> None:
    device = disk()
    done_ns, _ = device.submit(0, Op.READ, 0, 8)
    again_ns = done_ns + 5 * MS
    done_ns, _ = device.submit(again_ns, Op.READ, 8, 8)
    assert done_ns - again_ns < MS
    assert device.counters()["cache_hits"] == 1


# --- Command queue ---------------------------------------------------------------------------------------


def ios_per_s(depth: int, **overrides: object) -> float:
    load = Load(disk("disk-7200", **overrides))
    load.in_flight(Op.READ, 8, 4000, depth)
    return 4000e9 / load.now_ns


def test_a_queue_raises_random_reads_as_the_literature_says() -> None:
    """Over the whole stroke, by positioning time against in order, at 32 requests.

    Two to three times, as figures of Jacobson and Wilkes (1991) and Worthington et al. (1994) have it; drives
    with NCQ reach less, because they know the place of the arm less well.
    """
    for depth, least, most in ((4, 1.2, 1.6), (32, 1.8, 3.0)):
        in_order = ios_per_s(depth, stroke_percent=100)
        assert least < ios_per_s(depth, stroke_percent=100, queue_depth=32) / in_order < most
    assert ios_per_s(32, stroke_percent=100) < 1.1 * ios_per_s(1, stroke_percent=100)


@pytest.mark.parametrize("write_cache", ["0B", "1MiB"])
def test_a_single_request_takes_as_long_with_a_queue(write_cache: str) -> None:
    """Reads, writes and flushes, at random and in order, one after the other: not a nanosecond apart."""
    draw = np.random.default_rng(1)
    batch = requests(20_000)
    batch["op"] = draw.choice([Op.READ, Op.WRITE, Op.FLUSH], len(batch), p=[0.5, 0.45, 0.05])
    batch["sectors"], batch["fua"] = draw.choice([1, 8, 128, 1024], len(batch)), draw.random(len(batch)) < 0.1
    batch["sector"] = draw.integers(0, (SIZE >> 9) // 1024 - 1, len(batch)) * 1024
    batch["sector"][1::2] = batch["sector"][::2] + batch["sectors"][::2]  # every second one follows
    answers = [
        disk("disk-7200", write_cache=write_cache, **queue).submit_many(
            batch.copy(), closed_loop=True, think_ns=100_000
        )
        for queue in ({}, {"queue_depth": 32})
    ]
    assert (answers[0] == answers[1]).all()


def test_the_nearest_comes_first_and_no_request_waits_for_ever() -> None:
    """Writes near the arm keep coming, one for each that is done. One that is far waits, for 2 s at most."""
    device = disk("disk-7200", queue_depth=32, stroke_percent=100)
    far = 9
    near = np.random.default_rng(1).integers(0, 2000, 10**4) * 8
    for tag in range(8):
        device.begin(0, Op.WRITE, int(near[tag]), 8, tag)
    device.begin(0, Op.WRITE, device.sectors - 8, 8, far)
    done, count = dict[int, int](), 8
    while far not in done:
        for tag, done_ns in device.collect(device.next_ns):
            done[tag] = done_ns
            if tag != far:
                assert device.begin(done_ns, Op.WRITE, int(near[count]), 8, tag) == LATER_NS
                count += 1
    assert count > 300
    assert 500 * MS < done[far] < 2100 * MS


def test_a_write_and_a_read_of_the_same_sectors_keep_their_order() -> None:
    device = disk("disk-7200", queue_depth=32)
    device.begin(0, Op.WRITE, 500_000, 8, 0)
    waiting = [(Op.WRITE, 1000), (Op.READ, 1000), (Op.WRITE, 1004), (Op.READ, 900_000)]
    for tag, (op, sector) in enumerate(waiting, 1):
        assert device.begin(1, op, sector, 8, tag) == LATER_NS
    done = dict[int, int]()
    while device.next_ns != NEVER_NS:
        done |= device.collect(device.next_ns)
    assert done[1] < done[2] < done[3]


def test_a_flush_waits_for_the_queue() -> None:
    device = disk("disk-7200", queue_depth=32, write_cache="1MiB")
    for tag in range(4):
        device.begin(0, Op.READ, 200_000 * tag, 8, tag)
    flushed_ns = device.begin(1, Op.FLUSH, 0, 0, 9)
    assert max(done_ns for _, done_ns in device.collect(1)) <= flushed_ns + MS
    assert flushed_ns > 3 * MS


def test_only_the_read_of_a_bad_sector_fails() -> None:
    device = disk("disk-7200", queue_depth=32)
    device.fault(0, "error 400000 8 read")
    batch = requests(8)
    batch["sector"], batch["sectors"] = np.arange(8) * 100_000, 8
    answers = device.submit_many(batch)
    assert answers["error"].tolist() == [0, 0, 0, 0, errno.EIO, 0, 0, 0]
    assert (answers["done_ns"] > 0).all() and answers["done_ns"].max() < 100 * MS
    assert len(set(answers["done_ns"].tolist())) == 8


def test_a_tag_that_waits_is_not_given_to_another_request() -> None:
    device = disk("disk-7200", queue_depth=32)
    device.begin(0, Op.READ, 0, 8, 1)
    assert device.begin(0, Op.READ, 100_000, 8, 0) == LATER_NS
    with pytest.raises(AssertionError, match=str(errno.EBUSY)):
        device.begin(1, Op.READ, 200_000, 8, 0)
    assert len(device.collect(10**9)) == 1


def test_the_queue_is_empty_after_a_power_loss() -> None:
    device = disk("disk-7200", queue_depth=32)
    for tag in range(4):
        device.begin(0, Op.WRITE, 200_000 * tag, 8, tag)
    assert device.is_volatile(1, 600_000)
    device.power_loss(1)
    assert device.next_ns == NEVER_NS and not device.is_volatile(1, 600_000)
    assert device.begin(2, Op.READ, 0, 8, 0) < LATER_NS


def test_without_cache_only_a_write_under_way_is_volatile() -> None:
    device = disk()
    assert device.attributes == ROTATIONAL
    done_ns, _ = device.submit(0, Op.WRITE, 100, 1)
    assert device.is_volatile(done_ns - 1, 100)
    assert not device.is_volatile(done_ns, 100)
