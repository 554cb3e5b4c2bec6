"""The presets give what they gave: a digest of their answers to 20,000 requests, alone and in an open loop.

What is added to a model is off unless a device file asks for it. A digest here changes only with a preset.
"""

from __future__ import annotations

import hashlib
import random

import pytest

from kit.config.device_model import find_preset, preset_names
from tests.kit.emulation.model_library import ModelDevice, Op, requests

SIZE, COUNT = 64 << 20, 20_000

GIVEN = {
    "controller-battery": ("57463188fa5ca656", "92ee2aa802121553"),
    "controller-bypass": ("f3763ad99407e08e", "7fb9f1436b5ebd4b"),
    "disk-10k": ("81f72ff8c3bc3e69", "dc6d8cb1cc2a44f8"),
    "disk-7200": ("183fac241cde54f7", "7ca1876254cbaed2"),
    "nvme-consumer": ("d02e9ab6b32b7221", "1f049263a786bb37"),
    "nvme-datacentre": ("9e8faac843a64489", "0eda3d65a5cbd354"),
    "ssd-2009-read": ("68bdd4d30298403c", "6950261d991418bd"),
    "ssd-2009-write": ("882ba5c81b1c471c", "c17e74bfa48cb2cf"),
    "ssd-lying": ("d805adc5ee10f1be", "7c511582baf6e16b"),
}


def answers(name: str, closed_loop: bool) -> str:
    draw, batch = random.Random(5), requests(COUNT)
    arrival_ns, sector, sectors = 0, 0, 8
    for row in batch:
        op = draw.choice([Op.READ] * 8 + [Op.WRITE] * 9 + [Op.FLUSH, Op.DISCARD, Op.WRITE_ZEROES])
        sector = sector + sectors if draw.random() < 0.3 else draw.randrange(SIZE // 512 - 2048)
        sector, sectors = min(sector, SIZE // 512 - 1024), draw.choice([1, 8, 8, 8, 16, 128, 1024])
        arrival_ns += draw.choice([0, 0, draw.randrange(2_000_000)])
        fua = op == Op.WRITE and draw.random() < 0.1
        row["arrival_ns"], row["op"], row["fua"] = arrival_ns * (not closed_loop), op, fua
        row["sector"], row["sectors"] = sector, sectors
    with ModelDevice(find_preset(name), SIZE) as device:
        given = device.submit_many(batch, closed_loop=closed_loop)
        end_ns = int(max(given["done_ns"].max(), batch["arrival_ns"].max()))
        counters = sorted(device.counters().items())
        state = device.save(end_ns)
    parts = given["done_ns"].tobytes(), given["error"].tobytes(), repr(counters).encode(), state
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_gives_what_it_gave(name: str) -> None:
    assert (answers(name, True), answers(name, False)) == GIVEN[name]
