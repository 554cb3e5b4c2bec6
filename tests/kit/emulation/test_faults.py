"""Faults, hostile requests and saved state, on every preset."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from kit.config.device_model import find_preset, preset_names
from kit.core.errors import ConfigError
from tests.kit.emulation.loads import Latencies, Load
from tests.kit.emulation.model_library import NEVER_NS, ModelDevice, Op, requests

MIB = 1 << 20
S = 1_000_000_000
ALL = pytest.mark.parametrize("name", preset_names())


def new_device(name: str) -> ModelDevice:
    return ModelDevice(find_preset(name), 32 * MIB)


@ALL
def test_a_stall_answers_nothing_for_so_long(name: str) -> None:
    device = new_device(name)
    device.fault(S, "stall 500000000")
    for op in (Op.READ, Op.WRITE, Op.FLUSH):
        assert device.submit(S + 1, op, 0, 8 if op != Op.FLUSH else 0)[0] >= S + 500_000_000
    after_ns = 10 * S
    assert device.submit(after_ns, Op.READ, 0, 8)[0] < after_ns + S // 10


@ALL
def test_a_device_that_is_gone_never_answers(name: str) -> None:
    device = new_device(name)
    device.submit(0, Op.WRITE, 0, 8)
    device.fault(S, "fail")
    assert device.submit(S, Op.READ, 0, 8) == (NEVER_NS, errno.ENODEV)
    device.power_loss(2 * S)
    assert device.submit(2 * S, Op.FLUSH) == (NEVER_NS, errno.ENODEV)
    device.fault(3 * S, "heal")
    assert device.submit(3 * S, Op.READ, 0, 8)[1] == 0


@pytest.mark.parametrize(
    ("kind", "failing"),
    [
        ("read", {Op.READ}),
        ("write", {Op.WRITE, Op.WRITE_ZEROES}),
        ("any", {Op.READ, Op.WRITE, Op.WRITE_ZEROES}),
    ],
)
def test_errors_are_in_their_range_and_of_their_kind(kind: str, failing: set[int]) -> None:
    device = new_device("nvme-datacentre")
    device.fault(0, f"error 100 10 {kind}")
    for sector, count, touches in (
        (92, 8, False),
        (93, 8, True),
        (105, 1, True),
        (109, 8, True),
        (110, 8, False),
    ):
        for op in (Op.READ, Op.WRITE, Op.WRITE_ZEROES, Op.DISCARD):
            done_ns, error = device.submit(0, op, sector, count)
            assert error == (errno.EIO if touches and op in failing else 0)
            assert done_ns > 0
    written = device.counters()["host_bytes_written"]
    device.fault(0, "heal")
    assert device.submit(0, Op.WRITE, 100, 10)[1] == 0
    assert device.counters()["host_bytes_written"] == written + 5120


@pytest.mark.parametrize(
    "text",
    [
        *("", "stall", "stall ", "stall -1", "stall x", "stall 5 5", "stall 99999999999999999999"),
        *("error", "error 1", "error 1 1", "error 1 1 both", "error 1 0 any", "error -1 2 any"),
        *("error 65536 1 any", "error 65535 2 any", "error 18446744073709551615 2 any"),
        *("explode", "fail now", "heal x"),
    ],
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    device = new_device("disk-10k")
    with pytest.raises(ConfigError, match=r"."):
        device.fault(0, text)
    assert device.submit(0, Op.READ, 0, 1)[1] == 0


def test_ranges_of_errors_are_bounded() -> None:
    device = new_device("disk-10k")
    for sector in range(64):
        device.fault(0, f"error {sector} 1 read")
    with pytest.raises(ConfigError, match="heal"):
        device.fault(0, "error 64 1 read")


@ALL
def test_requests_that_no_device_can_serve_are_errors(name: str) -> None:
    device = new_device(name)
    assert device.submit(5, Op.READ, device.sectors - 1, 2) == (5, errno.EIO)
    assert device.submit(5, Op.WRITE, 2**64 - 1, 8) == (5, errno.EIO)
    assert device.submit(5, 17, 0, 8) == (5, errno.EOPNOTSUPP)
    assert device.submit(2**63, Op.READ, 0, 8)[1] == errno.EINVAL
    assert device.submit(5, Op.WRITE, device.sectors, 0) == (5, 0)
    assert not device.is_volatile(0, 2**64 - 1)
    assert device.submit(5, Op.READ, device.sectors - 1, 1)[1] == 0


@ALL
def test_time_that_goes_back_does_not(name: str) -> None:
    device = new_device(name)
    device.submit(S, Op.WRITE, 0, 8)
    assert device.submit(0, Op.READ, 64, 8)[0] >= S


@ALL
def test_equal_requests_get_equal_answers_and_another_seed_others(name: str) -> None:
    def answers(seed: int) -> Latencies:
        load = Load(ModelDevice(find_preset(name), 32 * MIB, seed))
        return np.concatenate(
            [load.at_random(Op.WRITE, 8, 300), load.at_random(Op.READ, 1, 300), load.sync_writes(8, 50)]
        )

    assert np.array_equal(answers(1), answers(1))
    assert not np.array_equal(answers(1), answers(2))


@ALL
def test_an_aged_device_can_be_kept(name: str) -> None:
    old = Load(new_device(name), seed=2)
    old.at_random(Op.WRITE, 8, 3000)
    saved = old.device.save(old.now_ns)
    new = Load(new_device(name), seed=3)
    new.device.load(saved)
    old.device.power_loss(old.now_ns)
    # save moves time on to now, as a power loss does, so that counters agree too.
    assert new.device.counters() == old.device.counters()
    old.random = np.random.default_rng(3)
    assert np.array_equal(new.at_random(Op.READ, 8, 500), old.at_random(Op.READ, 8, 500))
    assert np.array_equal(new.at_random(Op.WRITE, 8, 500), old.at_random(Op.WRITE, 8, 500))


def test_state_that_does_not_fit_is_refused() -> None:
    saved = new_device("nvme-consumer").save(0)
    for other, why in (
        (new_device("ssd-2009-read"), "different parameters"),
        (ModelDevice(find_preset("nvme-consumer"), 16 * MIB), "a different size"),
        (ModelDevice(find_preset("nvme-consumer"), 32 * MIB, seed=2), "different parameters"),
    ):
        with pytest.raises(ConfigError, match=why):
            other.load(saved)
    used = new_device("nvme-consumer")
    used.submit(1, Op.READ, 0, 8)
    with pytest.raises(ConfigError, match="new device"):
        used.load(saved)


@ALL
def test_damaged_state_is_refused(name: str) -> None:
    old = Load(new_device(name))
    old.at_random(Op.WRITE, 8, 100)
    saved = old.device.save(old.now_ns)
    draw = np.random.default_rng(1)
    for _ in range(20):
        bytes_ = bytearray(saved)
        bytes_[int(draw.integers(0, len(bytes_)))] ^= 1 << int(draw.integers(0, 8))
        with pytest.raises(ConfigError):
            new_device(name).load(bytes(bytes_))
    for cut in (0, 7, 31, 32, len(saved) // 2, len(saved) - 1):
        with pytest.raises(ConfigError):
            new_device(name).load(saved[:cut])
    with pytest.raises(ConfigError):
        new_device(name).load(saved + b"\0")


def test_an_open_loop_beyond_what_the_device_can_do_ends() -> None:
    device = new_device("nvme-consumer")
    batch = requests(2000)
    batch["op"], batch["sectors"] = Op.WRITE, 8
    batch["sector"] = np.random.default_rng(1).integers(0, device.sectors // 8, 2000) * 8
    done = device.submit_many(batch)["done_ns"]
    assert done.max() > 10_000_000
