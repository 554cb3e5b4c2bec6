"""Where the time of requests went, at the server and before it (docs/why-slow.md); what the tracer costs."""

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


class NullCalls(Stored):
    """Calls of NULL, one after the other over a connection of their own, in ns of the experiment.

    `own_ns`: the median part of each that is of the program that calls. `p99_ns`: None of too few.
    """

    calls: Count
    mean_ns: Nanoseconds
    least_ns: Nanoseconds
    p50_ns: Nanoseconds
    p99_ns: Nanoseconds | None
    own_ns: Nanoseconds


class ClientNetwork(Stored):
    """Of a client in a phase. `transport`: "tcp" or "rdma"; `connections` of its mount.

    `before`, `after`: the load; None: not measured, and `why`.
    """

    host: str
    transport: str = ""
    connections: Count = 0
    before: NullCalls | None = None
    after: NullCalls | None = None
    why: str = ""

    @property
    def measured(self) -> tuple[NullCalls, ...]:
        return tuple(each for each in (self.before, self.after) if each)


class LatencyParts(Stored):
    """The mean latency of an op at the clients, in us, as a sum: network + nfsd + rest.

    `network_us`: the mean of NULL; `network_p50_us`: the smaller median, of before and after. `rest_us`: the
    wait for a thread of nfsd, bytes of data on the wire, and the client itself; less than 0 where the network
    was slower idle than under the load. None: not known, and `why`.
    """

    op: str
    ios: Count
    client_us: float
    network_us: float | None = None
    network_p50_us: float | None = None
    nfsd_us: float | None = None
    rest_us: float | None = None
    why: str = ""

    @property
    def network_share(self) -> float:
        """Of the client's mean, of 1, at least: no more than what nfsd leaves. 0: not known."""
        if self.network_p50_us is None or not self.client_us:
            return 0.0
        left_us = self.client_us - (self.nfsd_us or 0.0)
        return max(0.0, min(self.network_p50_us, left_us)) / self.client_us


class NetworkPhase(Stored):
    """A phase over mounts: each client's calls of NULL, and what they are of its operations."""

    phase: str
    clients: Many[ClientNetwork]
    ops: Many[LatencyParts]


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
