"""The model of an SSD with several reads in flight, against what the kernel of a guest saw of it.

data/l2arc-queue.json says how the run was made. The same check runs on a new run in
tests/lab/test_l2arc_queue.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.config.device_model import find_preset
from tests.kit.emulation.loads import Load
from tests.kit.emulation.model_library import ModelDevice, Op

pytestmark = pytest.mark.one_python

STORED = json.loads((Path(__file__).parent / "data" / "l2arc-queue.json").read_text())["phases"]


def model_mean_us(queue: float, sectors: int, size_bytes: int) -> float:
    """Mean latency of random reads at the SSD of the cache, alone, with so many in flight on average."""
    depths = [int(np.floor(queue)), int(np.floor(queue)) + 1]
    means = []
    for depth in depths:
        with ModelDevice(find_preset("ssd-2009-read"), size_bytes) as device:
            load = Load(device)
            load.in_order(Op.WRITE, 256)
            # OpenZFS puts records one after another, each with its header: they are not aligned to pages.
            latencies_ns = load.in_flight(Op.READ, sectors, 4000, max(1, depth), align=1)
            means.append(float(latencies_ns.mean()) / 1e3)
    return float(np.interp(queue, depths, means))


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["phase"])
def test_the_model_waits_as_long_as_the_kernel_saw(stored: dict[str, Any]) -> None:
    model_us = model_mean_us(stored["queue"], stored["sectors"], 128 << 20)
    assert stored["device_us"] == pytest.approx(model_us, rel=0.1)


def test_the_figures_tell_a_model_without_a_queue() -> None:
    longest = STORED[-1]
    alone_us = model_mean_us(1, longest["sectors"], 128 << 20)
    assert longest["device_us"] > 1.1 * alone_us
