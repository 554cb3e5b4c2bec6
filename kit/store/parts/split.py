"""Where the time of requests went (docs/why-slow.md), and what the tracer that says so costs."""

from __future__ import annotations

from typing import Literal

from kit.store.stored import Count, Many, Nanoseconds, Stored

Part = Literal[
    "nfs", "zfs", "zil", "log_wait", "log_write", "flush", "wake_up", "read", "verify", "unknown"
]  # fmt: skip

Device = Literal["log device", "special vdev", "pool disk", "cache device"]


class SplitRow(Stored):
    """Requests of one op and tier. `parts` are sums whose sum is `sum_ns`.

    `unjoined`: requests of which not all parts are known; what is not is in the part "unknown".
    """

    op: str
    tier: str
    ios: Count
    unjoined: Count
    sum_ns: Nanoseconds
    parts: dict[Part, Nanoseconds]


class PhaseSplit(Stored):
    """Of a phase that repeats the phase `of`. `why`: it was not measured, and why; else ""."""

    of: str
    why: str = ""
    rows: Many[SplitRow] = ()


class SplitPart(Stored):
    """The mean of a part, and its share of the mean latency (of 1)."""

    part: Part
    mean_us: float
    share: float


class SplitTier(Stored):
    """Requests of one op and tier. `joined`: the share of them of which all parts are known.

    `parts` is empty where it is too small. `p50_ratio`: to the p50 of the phase that was repeated, which had
    the probes of every phase alone; None where a p50 is missing.
    """

    op: str
    tier: str
    ios: Count
    joined: float
    mean_us: float
    p50_ratio: float | None
    parts: Many[SplitPart]


class SplitSaving(Stored):
    """What a faster device would save at most: `share` of the time of the requests that it answered.

    `own_share`: what it took itself; the rest can become shorter with it. `of_all`: as `share`, of the time
    of all requests of the op in the phase. None: not known, too few were joined.
    """

    op: str
    device: Device
    own_share: float | None = None
    share: float | None
    of_all: float | None
    saved_us: float | None
    mean_us: float


class SplitPhase(Stored):
    """A phase with split_of. `why`: it was not measured, and why; else ""."""

    phase: str
    of: str
    why: str
    tiers: Many[SplitTier]
    savings: Many[SplitSaving]


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
