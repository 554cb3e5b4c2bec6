"""Points of a trend with a known truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reports.statistics.ratios import Realisation
from reports.trend.check_history import Stand
from reports.trend.trend_point import FigureAtPoint, TrendPoint

P50 = ("read", "nfs-server", "read", "disk", "p50")
P99 = ("read", "nfs-server", "read", "disk", "p99")
RATE = ("read", "client", "read", "all", "ios_per_s")
DEVICE = "testbed.devices.log0."
BASE = {
    "workload": "w", "phases.read.duration": 10, "versions.hsp": "0.1.0", "versions.kernel": "6.12",
    f"{DEVICE}settings.firmware": "1.0", f"{DEVICE}size_bytes": 1 << 30, "clock.kind": "real",
    "host./sys/block/sda/queue/scheduler": "none", "nfs.version": "3", "nfs.transport": "tcp",
}  # fmt: skip


def point(
    number: int, factor: float = 1.0, *, trusted: bool = True, failed: bool = False, **changes: Any
) -> TrendPoint:
    """A run of day `number`, `factor` times slower than 5 ms, with a scatter of 1 %."""
    generator = np.random.default_rng(number)
    logs = math.log(5000 * factor) + 0.01 * generator.standard_normal(3)
    figures = {
        P50: FigureAtPoint((Realisation(logs[0], 0.005),), trusted, "" if trusted else "it was killed"),
        P99: FigureAtPoint((Realisation(logs[1] + 1, 0.02),), trusted),
        RATE: FigureAtPoint((Realisation(math.log(1e6) - logs[2], 0.005),), trusted),
    }
    outcome = Stand("failed" if failed else "met", "p50 is above its limit." if failed else "")
    settings = {**BASE, **changes.pop("settings", {})}
    return TrendPoint(
        **{
            "name": f"results/w/run{number}", "run": f"run{number}",
            "started_utc": f"2026-11-{number:02d}T05:00:00Z", "verdict": "valid" if trusted else "unknown",
            "reasons": (), "settings": {"": settings}, "figures": figures,
            "outcomes": {"expect read": outcome}, **changes,
        }
    )  # fmt: skip


def firmware(version: str) -> dict[str, Any]:
    return {f"{DEVICE}settings.firmware": version}


# Three firmware versions, three runs each; the second is a third slower.
VERSIONS = [
    *(point(n) for n in (1, 2, 3)),
    *(point(n, 1.33, settings=firmware("1.1"), failed=True) for n in (4, 5, 6)),
    *(point(n, settings=firmware("1.2")) for n in (7, 8, 9)),
]
