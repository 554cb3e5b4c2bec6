"""What each of several clients saw, and all of them together (`clients` of summary.json)."""

from __future__ import annotations

from kit.store.stored import Count, Stored


class ClientFigures(Stored):
    """A phase x op x client, or all clients (`merged`). A percentile is None where the I/Os are too few.

    `range_us`: the shortest range that holds 95 % of the I/Os. `skew_us`: after the first I/O of any client;
    None: not known.
    """

    phase: str
    op: str
    host: str
    merged: bool
    count: Count
    iops: float | None
    min_us: float
    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    p999_us: float | None
    max_us: float
    range_us: tuple[float, float]
    skew_us: float | None
    clock_error_us: float | None
