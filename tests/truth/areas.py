"""Simulations of what the kit concludes; each area is a module with its TRIALS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.truth import (
    bands,
    buying,
    caches,
    capacity,
    compare,
    durability,
    limits,
    network,
    series,
    sizing,
    soak,
    trend,
)
from tests.truth.trials import Trial

AREAS: Mapping[str, Sequence[Trial]] = {
    "trend": trend.TRIALS,
    "compare": compare.TRIALS,
    "series": series.TRIALS,
    "soak": soak.TRIALS,
    "buying": buying.TRIALS,
    "durability": durability.TRIALS,
    "bands": bands.TRIALS,
    "limits": limits.TRIALS,
    "caches": caches.TRIALS,
    "capacity": capacity.TRIALS,
    "sizing": sizing.TRIALS,
    "network": network.TRIALS,
}
