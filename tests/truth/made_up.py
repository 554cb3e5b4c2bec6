"""Made-up phases and latencies of simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from kit.store.phase import Phase
from reports.statistics.quantiles import Floats
from tests.reports.synthetic import binned

SECOND, MS = 10**9, 10**6


def state_of(random: np.random.Generator, count: int, lasts: float, spread: float) -> Floats:
    """Logarithms of a state that lasts for so many steps (Ornstein-Uhlenbeck; AR 0.9: 9.5 steps)."""
    if not spread:
        return np.zeros(count)
    keep = np.exp(-1 / lasts) if lasts else 0.0
    made, steps = np.empty(count), random.standard_normal(count) * np.sqrt(1 - keep**2)
    made[0] = random.standard_normal()
    for at in range(1, count):
        made[at] = keep * made[at - 1] + steps[at]
    return spread * made


def phase_of(name: str, start_ns: int, end_ns: int, interval_ns: int, **more: Any) -> Phase:
    values = {
        "name": name, "interval_ns": interval_ns, "client_ios": 1, "server_ios": 1, "lost_events": 0,
        "start_ns": start_ns, "end_ns": end_ns, "expected_tiers": ["slog"], **more,
    }  # fmt: skip
    return Phase.from_json(values, name)


def frame_of(phase: str, time_ns: Any, latency_us: Floats, **more: str) -> pl.DataFrame:
    labels = {"layer": "nfs-server", "host": "lab", "op": "write", "tier": "slog", **more}
    return binned(np.asarray(time_ns), (latency_us * 1000).astype(np.int64), phase=phase, **labels)
