"""Percentiles of a phase by interval, the band in which they usually are, and what leaves it by chance.

Of L intervals of the same kind as n before, k or more exceed the largest of those n with the probability
C(L, k) / C(n + L, k) (of exceedances; Gumbel and von Schelling, Annals of Mathematical Statistics 21, 1950).
Intervals that depend on their neighbours count as fewer, by the lag-1 correlation of those before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.store.labels import SYNCS
from kit.store.latency import Latency
from kit.store.phase import Phase
from kit.store.tables import CLIENT, SERVER
from reports.statistics.batch_means import worth
from reports.statistics.quantiles import NARROW

Key = tuple[str, str]
# Of all figures of a band together.
CHANCE = 1 / 40


@dataclass(frozen=True)
class IntervalFigures:
    """Of one layer and op, by interval: I/Os, p50 and p99 and slowest (ns), 0 where there is no I/O."""

    ios: np.ndarray
    p50: np.ndarray
    p99: np.ndarray
    longest: np.ndarray


@dataclass(frozen=True)
class Timeline:
    """Intervals of `width_ns` from `start_ns` on; the end of the phase may cut the last one short."""

    start_ns: int
    width_ns: int
    count: int
    series: Mapping[Key, IntervalFigures]

    def index(self, time_ns: int) -> int:
        return min(max((time_ns - self.start_ns) // self.width_ns, 0), self.count)

    def begin_ns(self, index: int) -> int:
        return self.start_ns + index * self.width_ns


def timeline(latency: Latency, phase: Phase, together: int = 1) -> Timeline:
    """At the server and the clients; one without rows is left out. `together`: intervals in one of it."""
    (start, end), width = latency.stretch(phase)
    width *= together
    count = max(1, -(-(end - start) // width))
    rows = latency.cells.filter(
        (pl.col("phase") == phase.name)
        & pl.col("layer").is_in([SERVER, CLIENT])
        & ~pl.col("op").is_in(SYNCS)
        & (pl.col("count") > 0)
    ).with_columns(column=(pl.col("time_ns") - phase.start_ns) // width)
    rows = rows.filter((pl.col("column") >= 0) & (pl.col("column") < count))
    made = {}
    for (layer, op), part in rows.partition_by("layer", "op", as_dict=True).items():
        bins = part.group_by("column", "lo_ns", "hi_ns").agg(pl.col("count").sum())
        made[str(layer), str(op)] = _series(bins.sort("column", "lo_ns"), count)
    return Timeline(phase.start_ns, width, count, made)


def _series(bins: pl.DataFrame, count: int) -> IntervalFigures:
    ios, p50, p99, longest = (np.zeros(count) for _ in range(4))
    for (column,), part in bins.partition_by("column", as_dict=True, maintain_order=True).items():
        upto = part["count"].cum_sum().to_numpy()
        middle = ((part["lo_ns"] + part["hi_ns"] - 1) / 2).to_numpy()
        at, total = int(column), int(upto[-1])
        ios[at] = total
        p50[at], p99[at] = (middle[int(np.searchsorted(upto, np.ceil(q * total)))] for q in (0.5, 0.99))
        longest[at] = float(part["hi_ns"].max())  # type: ignore[arg-type]
    return IntervalFigures(ios, p50, p99, longest)


@dataclass(frozen=True)
class Largest:
    """A percentile of one layer and op: the largest of `number` intervals before, which are worth fewer."""

    largest: float
    number: int
    worth: float

    @classmethod
    def of(cls, before: np.ndarray) -> Largest:
        return cls(float(before.max()), len(before), worth(np.log(before)))

    def by_chance(self, above: int, of: int) -> float:
        """The probability that so many, or more, of so many intervals are above by chance."""
        n, k, few = (max(each, 0) * self.worth for each in (self.number, above, of))
        few_log, all_log = (math.lgamma(m + 1) - math.lgamma(m - k + 1) for m in (few, n + few))
        return math.exp(few_log - all_log)


@dataclass(frozen=True)
class UsualBand:
    """p50 and p99 (ns) of before, by layer and op."""

    figures: Mapping[Key, tuple[Largest, Largest]]

    def above(self, line: Timeline) -> list[tuple[Largest, np.ndarray]]:
        """Of each figure whether each interval is not in the band."""
        return [
            (figure, (series.ios == 0) | (found > figure.largest * (1 + NARROW)))
            for key, figures in self.figures.items()
            for series in (line.series[key],)
            for figure, found in zip(figures, (series.p50, series.p99), strict=True)
        ]

    def is_chance(self, line: Timeline, first: int, until: int, *, all_of_them: bool = False) -> bool:
        """Whether those from `first` to before `until` that are above, or all, could be so by chance."""
        above, of = self.above(line), until - first
        counts = [(each, of if all_of_them else int(out[first:until].sum())) for each, out in above]
        return all(each.by_chance(count, of) >= CHANCE / len(above) for each, count in counts)
