"""Requests a second of host time that each device model answers on one core. Asserts what a run needs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from kit.lab.devices.library import FLUSH, READ, WRITE, EmulatedDevice, requests
from kit.lab.devices.spec import find_preset, preset_names

pytestmark = pytest.mark.bench

MIB = 1 << 20
COUNT = 200_000
NEEDED_PER_S = 30_000


def aged(name: str) -> tuple[EmulatedDevice, int]:
    device = EmulatedDevice(find_preset(name), 128 * MIB)
    fill = requests(2 * device.sectors // 256)
    fill["op"], fill["sectors"] = WRITE, 256
    fill["sector"] = np.arange(len(fill)) * 256 % device.sectors
    return device, int(device.submit_many(fill, closed_loop=True)["done_ns"][-1])


@pytest.mark.parametrize("name", preset_names())
def test_requests_a_second(name: str, tmp_path: Path) -> None:
    device, now_ns = aged(name)
    rates = {}
    for load in ("512 B reads", "4 KiB writes", "4 KiB sync writes"):
        asked = requests(COUNT)
        asked["op"] = READ if "read" in load else WRITE
        asked["sectors"] = 1 if "512" in load else 8
        asked["sector"] = np.random.default_rng(1).integers(0, device.sectors // 8, COUNT) * 8
        if "sync" in load:
            asked["op"][1::2], asked["sectors"][1::2], asked["sector"][1::2] = FLUSH, 0, 0
        asked["arrival_ns"][0] = now_ns
        started = time.perf_counter()
        answers = device.submit_many(asked, closed_loop=True)
        rates[load] = COUNT / (time.perf_counter() - started)
        now_ns = int(answers["done_ns"][-1])
    told = ", ".join(f"{load}: {rate / 1e6:.2f} M/s" for load, rate in rates.items())
    print(f"\n{name}: {told}")
    (tmp_path / "bench.json").write_text(json.dumps({"model": name, "per_s": rates}))
    assert min(rates.values()) >= NEEDED_PER_S
