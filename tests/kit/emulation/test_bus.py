"""A bus that devices share: transfers one after another, in the order in which they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from kit.config.device_model import resolve
from tests.kit.emulation.loads import Latencies, together
from tests.kit.emulation.model_library import LATER_NS, ModelBus, ModelDevice, Op

SIZE = 64 << 20
S = 1_000_000_000
MB = 1_000_000
SECTORS = 1024  # 512 KiB, as workloads/drives.toml


@contextmanager
def drives(count: int, preset: str, bus_per_s: int, command_ns: int = 0) -> Iterator[list[ModelDevice]]:
    """`count` drives on one bus; without a rate each alone."""
    with ExitStack() as stack:
        bus = stack.enter_context(ModelBus(bus_per_s, command_ns)) if bus_per_s else None
        model = resolve(preset)
        yield [stack.enter_context(ModelDevice(model, SIZE, seed, bus)) for seed in range(1, count + 1)]


def loaded(devices: list[ModelDevice], op: int, count: int = 200, depth: int = 1) -> list[Latencies]:
    draw = np.random.default_rng(1)
    places = [draw.integers(0, SIZE // 512 // SECTORS, count) * SECTORS for _ in devices]
    return together(devices, op, SECTORS, places, depth)


def rate(rows: list[Latencies]) -> float:
    """Bytes a second of all, until the first has ended."""
    end_ns = min(int(each[:, 1].max()) for each in rows)
    done = sum(int((each[:, 1] <= end_ns).sum()) for each in rows)
    return done * SECTORS * 512 / end_ns * S


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE])
def test_one_device_alone_only_has_the_time_of_its_transfers(op: int) -> None:
    with drives(1, "ssd-2009-write", 0) as free, drives(1, "ssd-2009-write", 100 * MB) as on_bus:
        (alone,), (shared,) = loaded(free, op, 50), loaded(on_bus, op, 50)
    transfer_ns = SECTORS * 512 * S // (100 * MB)
    extra = shared[:, 0] - alone[:, 0]
    # Of writes the flash is in another state when they come later, by some microseconds.
    assert np.abs(extra - transfer_ns).max() <= (1 if op == Op.READ else transfer_ns // 200)


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE])
@pytest.mark.parametrize("preset", ["disk-7200", "nvme-datacentre"])
def test_drives_together_have_the_rate_of_the_bus_and_no_more(preset: str, op: int) -> None:
    with drives(1, preset, 0) as one, drives(4, preset, 0) as apart:
        alone, unshared = rate(loaded(one, op)), rate(loaded(apart, op))
    limit = 2.2 * alone
    with drives(1, preset, round(limit)) as one, drives(4, preset, round(limit)) as shared:
        alone_on_bus, together_on_bus = rate(loaded(one, op)), rate(loaded(shared, op))
    assert unshared == pytest.approx(4 * alone, rel=0.1)
    assert together_on_bus <= limit * 1.01
    # With one request a drive the bus has pauses; each drive alone is not limited by it.
    assert 0.6 * limit < together_on_bus < 0.9 * 4 * alone_on_bus


def test_the_bus_is_full_with_requests_enough() -> None:
    with drives(4, "nvme-datacentre", 100 * MB) as shared:
        assert rate(loaded(shared, Op.READ, 100, depth=8)) == pytest.approx(100 * MB, rel=0.02)


def test_data_that_is_ready_first_moves_first() -> None:
    """The one that came first is a read of the disk, ready last: it does not hold up the other."""
    with ModelBus(10 * MB) as bus:
        with (
            ModelDevice(resolve("disk-7200"), SIZE, 1, bus) as disk,
            ModelDevice(resolve("nvme-datacentre"), SIZE, 2, bus) as ssd,
            ModelDevice(resolve("nvme-datacentre"), SIZE, 2) as alone,
        ):
            assert disk.begin(0, Op.READ, 5000, 8, 7) == LATER_NS
            assert ssd.begin(1000, Op.READ, 0, 8, 3) == LATER_NS
            ready_ns = alone.begin(1000, Op.READ, 0, 8, 3)
            transfer_ns = 4096 * S // (10 * MB)
            assert ssd.next_ns == ready_ns
            assert ssd.collect(ready_ns - 1) == []
            assert ssd.collect(ready_ns) == [(3, ready_ns + transfer_ns)]
            ((tag, done_ns),) = disk.collect(disk.next_ns)
            assert tag == 7 and done_ns > ready_ns + 2 * transfer_ns


def test_writes_wait_for_the_bus_before_the_device_has_them() -> None:
    with drives(2, "nvme-datacentre", 10 * MB, command_ns=1000) as (first, second):
        transfer_ns = 1000 + SECTORS * 512 * S // (10 * MB)
        ends = [device.begin(0, Op.WRITE, 0, SECTORS, 0) for device in (first, second)]
        assert ends[0] > transfer_ns
        assert ends[1] > 2 * transfer_ns
        # A flush has no data, and waits for its command's turn.
        assert first.begin(0, Op.FLUSH, 0, 0, 1) > 2 * transfer_ns + 1000


def test_what_waits_at_the_bus_is_gone_after_a_power_loss() -> None:
    with drives(2, "disk-7200", 10 * MB) as (first, second):
        first.begin(0, Op.READ, 100, 8, 0)
        second.begin(0, Op.READ, 100, 8, 0)
        first.power_loss(1000)
        assert first.collect(10 * S) == []
        assert len(second.collect(10 * S)) == 1
        assert first.begin(11 * S, Op.READ, 100, 8, 0) == LATER_NS
