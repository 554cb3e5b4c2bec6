"""The observer effect in summary.json: latency with the tracer / without."""

from __future__ import annotations

from kit.store.stored import Count, Stored


class ObserverRatio(Stored):
    """Of a percentile: with the tracer / without, with its 95 % interval; None of one pair."""

    without_us: float
    ratio: float
    low: float | None
    high: float | None


class ObserverRow(Stored):
    """A number of threads, with pairs of stretches."""

    threads: Count
    pairs: Count
    p50: ObserverRatio
    p99: ObserverRatio
