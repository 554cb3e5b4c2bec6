"""Latencies of writes and of their forces in a phase, as counts. Times in ns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from kit.store.stored import Count, Many, Stored, contradiction

Positive = Annotated[int, Field(ge=1, le=1 << 53)]
_BINS = 2048
# Of the program of a phase, in the time of a lab that is slowed down by at most 100.
_MOST_EXACT_NS = 10**8
# Methods without a write: what a command takes where there is nothing to bring to the medium.
FLUSH_IDLE, READ_CACHED = WITHOUT_WRITES = ("flush_idle", "read_cached")
_Bin = Annotated[int, Field(ge=0, lt=_BINS)]


class Latencies(Stored):
    """`bins`: (bin of kit.core.bins, how many), ascending.

    Above 17 s of the host the last bin has longer ones, too: the program of a phase has no more bins. A bin
    may be off by half of its width where the clock of the lab is slowed down by no power of two.
    """

    sum_ns: Count
    min_ns: Count
    max_ns: Count
    bins: Annotated[Many[tuple[_Bin, Positive]], Field(min_length=1, max_length=_BINS)]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if any(one >= other for (one, _), (other, _) in pairwise(self.bins)):
            raise contradiction("the bins do not ascend")
        if self.min_ns > self.max_ns:
            raise contradiction(f"min_ns is {self.min_ns}, above max_ns, {self.max_ns}")
        least, most = self._bounds_ns()
        if not least <= self.sum_ns <= most:
            raise contradiction(
                f"sum_ns is {self.sum_ns}, but {self.ios} latencies with these bins, min_ns and max_ns are "
                f"{least} to {most} ns together"
            )
        return self

    def _bounds_ns(self) -> tuple[int, int]:
        """Between which the sum is. Each time is rounded down to a ns."""
        low, edges, counts = zip(*self.edges, strict=True)
        high = [edge + edge // 32 + 1 for edge in edges]
        if low[-1] > _MOST_EXACT_NS:
            high[-1] = max(high[-1], self.max_ns + 1)
        least, most = (sum(n * edge for n, edge in zip(counts, edges, strict=True)) for edges in (low, high))
        return max(least, self.ios * self.min_ns), min(most, self.ios * (self.max_ns + 1))

    @property
    def edges(self) -> list[tuple[int, int, int]]:
        """Low and high edge in ns and count of each bin."""
        # It brings numpy, which nothing else here needs: `hsp plan` starts without it.
        from kit.core.bins import bin_edges

        low, high = (edges.tolist() for edges in bin_edges([index for index, _ in self.bins]))
        return list(zip(low, high, (count for _, count in self.bins), strict=True))

    @property
    def ios(self) -> int:
        return sum(count for _, count in self.bins)

    def rank_ns(self, rank: int) -> float | None:
        """The latency of that rank, from 1: the middle of its bin. None beyond the last."""
        upto = 0
        for low, high, count in self.edges:
            upto += count
            if upto >= rank:
                return min(max((low + high - 1) / 2, self.min_ns), self.max_ns)
        return None

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.ios


_SUMMED = ("files", "threads", "forces", "records", "overwritten")


def together(parts: Sequence[Latencies]) -> Latencies | None:
    if not parts:
        return None
    counts: Counter[int] = Counter()
    for each in parts:
        counts.update(dict(each.bins))
    return Latencies(
        sum_ns=sum(each.sum_ns for each in parts),
        min_ns=min(each.min_ns for each in parts),
        max_ns=max(each.max_ns for each in parts),
        bins=tuple(sorted(counts.items())),
    )


class Forces(Stored):
    """Forced writes of a phase (kit.config.tables.force_table).

    `forces` calls that force, for `records`; of a method without a write, its commands.

    `group`: the writes of a force and the force, until all is safe; `write`: those writes alone; `force`: the
    call that forces, None where each write is forced itself, or nothing is. `files`, `threads`: of all
    clients. `overwritten`: records that a later one has replaced. Of the others `recovered` were read back as
    they were written, and `damaged` with another checksum; None: they were not read back. `writes_per_group`:
    that the storage gets; None: not known.
    """

    record_bytes: Positive
    per_force: Positive
    method: str
    direct: bool
    append: bool
    files: Positive
    threads: Positive
    group_commit: bool = False
    writes_per_group: Count | None = None
    elapsed_ns: Positive
    forces: Count
    records: Count
    overwritten: Count = 0
    recovered: Count | None = None
    damaged: Count | None = None
    group: Latencies
    write: Latencies
    force: Latencies | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        """What holds of each run, also of one that was killed: there, records may be ahead of groups."""
        if self.write.ios != self.group.ios:
            raise contradiction(f"write has {self.write.ios} latencies, group has {self.group.ios}")
        if self.force and self.force.ios != self.forces:
            raise contradiction(f"forces is {self.forces}, but force has {self.force.ios} latencies")
        groups = self.group.ios
        if self.records < groups * self.per_force:
            raise contradiction(
                f"records is {self.records}, but group has {groups} latencies of {self.per_force} each"
            )
        if self.overwritten > self.records:
            raise contradiction(f"overwritten is {self.overwritten}, more than records, {self.records}")
        if self.lost < 0:
            raise contradiction(
                f"recovered and damaged are {self.recovered} and {self.damaged or 0}, more than the "
                f"{self.records - self.overwritten} of records that no later one has overwritten"
            )
        return self

    @classmethod
    def together(cls, parts: Sequence[Forces]) -> Forces:
        """Of several clients with one load: counts, files and threads of all of them."""
        first = parts[0]
        if len(parts) == 1:
            return first
        sums = {name: sum(getattr(each, name) for each in parts) for name in _SUMMED}
        read = [(each.recovered, each.damaged) for each in parts]
        known = all(recovered is not None for recovered, _ in read)
        latencies = {
            name: together([each for part in parts if (each := getattr(part, name)) is not None])
            for name in ("group", "write", "force")
        }
        return first.model_copy(
            update={
                **sums,
                **latencies,
                "elapsed_ns": max(each.elapsed_ns for each in parts),
                "recovered": sum(recovered or 0 for recovered, _ in read) if known else None,
                "damaged": sum(damaged or 0 for _, damaged in read) if known else None,
            }
        )

    @property
    def writes(self) -> bool:
        return self.method not in WITHOUT_WRITES

    @property
    def lost(self) -> int:
        """Records that were acknowledged and are not there."""
        if self.recovered is None:
            return 0
        return self.records - self.overwritten - self.recovered - (self.damaged or 0)

    @property
    def records_per_s(self) -> float:
        """Transactions: records that are safe, each a second."""
        return self.records * 1e9 / self.elapsed_ns

    @property
    def forces_per_s(self) -> float:
        return self.forces * 1e9 / self.elapsed_ns

    @property
    def bytes_per_s(self) -> float:
        return self.records * self.record_bytes * 1e9 / self.elapsed_ns
