"""Counts of a phase so far, by interval, op and tier: bounded, however long the phase is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from kit.core.bins import bin_edges
from kit.store.tables import LATENCY_SCHEMA
from reports.statistics.quantiles import percentiles_ns

Group = tuple[str, str]
"""(op, tier)."""

# Of the whole phase; with more, each two become one.
MOST_COLUMNS = 240
# Counts that are held at most, whatever a file says: some 50 MB.
_MOST_CELLS = 400_000
# I/Os of a phase, so that no sum of them is wider than 64 bits.
_MOST_IOS = 1 << 62


@dataclass(frozen=True)
class TierLine:
    """Of one op and tier so far: I/Os, share of all that are no commits, latencies (ns), I/Os per second of
    the last interval. A percentile is None where the sample is too small.
    """

    op: str
    tier: str
    ios: int
    share: float
    p50_ns: float | None
    p99_ns: float | None
    per_s: float


@dataclass
class LiveCounts:
    """`columns`: counts by bin of each group, by the number of the column, `merged` intervals wide."""

    interval_ns: int
    merged: int = 1
    columns: dict[int, dict[Group, Counter[int]]] = field(default_factory=dict)
    totals: dict[Group, Counter[int]] = field(default_factory=dict)
    last: int = -1
    last_ios: Counter[Group] = field(default_factory=Counter)
    _cells: int = 0
    _ios: int = 0

    def add(self, interval: int, group: Group, counts: Mapping[int, int]) -> None:
        """I/Os of one interval, from 0. Raises ValueError for more than a phase can have."""
        interval = max(interval, 0)
        self._ios += sum(counts.values())
        if self._ios > _MOST_IOS:
            raise ValueError("more I/Os than a phase can have")
        self.seen(interval)
        if interval == self.last:
            self.last_ios[group] += sum(counts.values())
        self.totals.setdefault(group, Counter()).update(counts)
        self._cells += len(counts)
        while interval // self.merged >= MOST_COLUMNS or (
            self._cells > _MOST_CELLS and len(self.columns) > 1
        ):
            self._merge()
        column = self.columns.setdefault(interval // self.merged, {})
        column.setdefault(group, Counter()).update(counts)

    def seen(self, interval: int) -> None:
        """An interval was measured, also if it has no I/O."""
        if interval > self.last:
            self.last, self.last_ios = interval, Counter()

    def _merge(self) -> None:
        before, self.columns, self.merged = self.columns, {}, 2 * self.merged
        for number, groups in before.items():
            column = self.columns.setdefault(number // 2, {})
            for group, counts in groups.items():
                column.setdefault(group, Counter()).update(counts)
        self._cells = sum(len(held) for groups in self.columns.values() for held in groups.values())

    def frame(self) -> pl.DataFrame:
        """Rows as latency.parquet has them, without names; times since the phase began."""
        rows = [
            (number * self.merged * self.interval_ns, *group, index, count)
            for number, groups in sorted(self.columns.items())
            for group, counts in groups.items()
            for index, count in sorted(counts.items())
        ]
        low, high = bin_edges([row[3] for row in rows])
        table = [
            (t, "", "", "", op, tier, lo, hi, count)
            for (t, op, tier, _, count), lo, hi in zip(rows, low.tolist(), high.tolist(), strict=True)
        ]
        return pl.DataFrame(table, schema=LATENCY_SCHEMA, orient="row")

    @property
    def measured_ns(self) -> int:
        """How long the phase has been measured, in time of the experiment."""
        return (self.last + 1) * self.interval_ns

    def lines(self, *, ended: bool = False) -> list[TierLine]:
        """Of each group, the fastest first. `ended`: rates are those of the whole phase."""
        everything = sum(sum(c.values()) for (op, _), c in self.totals.items() if op != "commit")
        made = []
        for (op, tier), counts in self.totals.items():
            used = sorted(counts)
            low, high = bin_edges(used)
            held = [counts[index] for index in used]
            bins = list(zip(low.tolist(), high.tolist(), held, strict=True))
            p50, p99 = percentiles_ns(bins, (0.5, 0.99), (int(low[0]), int(high[-1]) - 1))
            ios = sum(held)
            share = ios / everything if everything and op != "commit" else 0.0
            took_ns, now = (self.measured_ns, ios) if ended else (self.interval_ns, self.last_ios[(op, tier)])
            rate = now * 1e9 / took_ns
            made.append((int(low[len(low) // 2]), TierLine(op, tier, ios, share, p50, p99, rate)))
        return [line for _, line in sorted(made, key=lambda each: each[0])]
