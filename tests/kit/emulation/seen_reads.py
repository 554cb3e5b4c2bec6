"""Reads that the kernel of a guest saw at the SSD of the cache, and what the model of that SSD does alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kit.config.device_model import find_preset
from tests.kit.emulation.loads import Load
from tests.kit.emulation.model_library import ModelDevice, Op

_SIZE_BYTES = 128 << 20


@dataclass(frozen=True)
class SeenReads:
    """Counters of a phase. `read_ns`: of all reads together; `load_s`: how long the load was there."""

    phase: str
    reads: int
    read_bytes: int
    read_ns: int
    load_s: float

    @property
    def device_us(self) -> float:
        """Mean latency."""
        return self.read_ns / self.reads / 1e3

    @property
    def queue(self) -> float:
        """Reads in flight on average: Little's law, over the time of the load alone."""
        return self.read_ns / (self.load_s * 1e9)

    def model_us(self, queue: float | None = None) -> float:
        """Mean latency of random reads at the model, alone, with so many in flight on average."""
        queue = self.queue if queue is None else queue
        sectors = round(self.read_bytes / self.reads / 512)
        depths = [int(np.floor(queue)), int(np.floor(queue)) + 1]
        means = []
        for depth in depths:
            with ModelDevice(find_preset("ssd-2009-read"), _SIZE_BYTES) as device:
                load = Load(device)
                load.in_order(Op.WRITE, 256)
                # OpenZFS puts records one after another, each with its header: they are not aligned to pages.
                latencies_ns = load.in_flight(Op.READ, sectors, 4000, max(1, depth), align=1)
                means.append(float(latencies_ns.mean()) / 1e3)
        return float(np.interp(queue, depths, means))

    def check(self) -> None:
        assert self.device_us == pytest.approx(self.model_us(), rel=0.1), self
