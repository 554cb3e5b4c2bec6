"""Latencies of writes and of their forces, as counts: of `hsp slog` and of phases. Times in ns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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


_SUMMED = ("files", "threads", "forces", "records", "overwritten")


def _together(parts: Sequence[Latencies]) -> Latencies | None:
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


class PhaseForces(Stored):
    """The forced writes of a phase (kit.config.tables.force_table): `forces` calls that force, for `records`.

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

    @classmethod
    def together(cls, parts: Sequence[PhaseForces]) -> PhaseForces:
        """Of several clients with one load: counts, files and threads of all of them."""
        first = parts[0]
        if len(parts) == 1:
            return first
        sums = {name: sum(getattr(each, name) for each in parts) for name in _SUMMED}
        read = [(each.recovered, each.damaged) for each in parts]
        known = all(recovered is not None for recovered, _ in read)
        latencies = {
            name: _together([each for part in parts if (each := getattr(part, name)) is not None])
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
