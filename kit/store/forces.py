"""Latencies of writes and of their forces, as counts: the output of kit/load/forces.c. Times in ns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kit.store.stored import Count, Many, Stored

Method = Literal["none", "open_dsync", "open_sync", "fdatasync", "fsync", "fsync_other"]
Positive = Annotated[int, Field(ge=1, le=1 << 53)]


class Latencies(Stored):
    """`bins`: (bin of kit.core.bins, how many), ascending."""

    sum_ns: Count
    min_ns: Count
    max_ns: Count
    bins: Annotated[Many[tuple[Count, Positive]], Field(min_length=1, max_length=2048)]

    @property
    def ios(self) -> int:
        return sum(count for _, count in self.bins)

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.ios


class Forces(Stored):
    """A test: writes of `block_bytes` by `threads`, each forced with `method`.

    `write`: of the write call. `force`: of the call that forces it, `both`: of both together; None where the
    write itself forces, or nothing does. `elapsed_ns`: of all writes of all threads.
    """

    method: Method
    block_bytes: Positive
    threads: Positive
    elapsed_ns: Positive
    write: Latencies
    force: Latencies | None = None
    both: Latencies | None = None

    @property
    def durable(self) -> Latencies:
        """Of a write until it is on stable storage."""
        return self.both or self.write

    @property
    def forces_per_s(self) -> float:
        return self.durable.ios * 1e9 / self.elapsed_ns
