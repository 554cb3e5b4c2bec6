"""Made-up phases and latencies of simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from scipy.signal import lfilter

from kit.core.bins import bin_edges, bin_index
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


# Of latencies that are made by `stretch`.
SIGMA, MEDIAN_NS = 0.3, 2e5
Cells = tuple[pl.DataFrame, tuple[int, int], int]


def stretch(random: np.random.Generator, ios: int, intervals: int, correlation: float) -> Cells:
    """Latencies of one thread that depend on one another, one after the other, in intervals."""
    steps = lfilter([1], [1, -correlation], random.standard_normal(ios + 300))[300:]
    latency = MEDIAN_NS * np.exp(SIGMA * math.sqrt(1 - correlation**2) * steps)
    ends = np.cumsum(latency).astype(np.int64)
    width = int(ends[-1]) // intervals + 1
    low, high = bin_edges(bin_index(latency.astype(np.int64)))
    frame = pl.DataFrame({"time_ns": ends // width * width, "lo_ns": low, "hi_ns": high})
    counted = frame.group_by("time_ns", "lo_ns", "hi_ns").agg(count=pl.len().cast(pl.Int64))
    return counted, (0, int(ends[-1]) + 1), width
