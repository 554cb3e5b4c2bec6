"""Completion latencies (clat) of fio's json+, in its bins. Apart from fio_json: plans do not need NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kit.core.errors import MeasurementUnknown
from kit.load.fio_bins import BINS, IntArray, index_of_midpoint, lower_edge
from kit.load.fio_json import Json
from kit.load.fio_latency_log import MAX_LATENCY_NS


@dataclass(frozen=True)
class Completion:
    """Completion latencies of one job and op: I/Os in each of fio's bins, exact extremes, and fio's time.

    `sum_ns`: see sum_from_mean.
    """

    counts: IntArray
    min_ns: int
    max_ns: int
    runtime_ms: int
    sum_ns: int | None

    def plus(self, other: Self) -> Self:
        """Of both jobs, which ran at the same time."""
        return type(self)(
            self.counts + other.counts,
            min(self.min_ns, other.min_ns),
            max(self.max_ns, other.max_ns),
            max(self.runtime_ms, other.runtime_ms),
            None if self.sum_ns is None or other.sum_ns is None else self.sum_ns + other.sum_ns,
        )


def completion(job: Json, op: str) -> Completion | None:
    """None without an I/O. Raises MeasurementUnknown unless the bins hold each of the job's I/Os of `op`."""
    mine = job.get(op) or {}
    timed = mine.get("clat_ns") or {}
    bins, ios = timed.get("bins") or {}, int(mine.get("total_ios", 0))
    if not ios and not bins:
        return None
    counts = np.zeros(BINS, dtype=np.int64)
    for key, count in bins.items():
        index = index_of_midpoint(key)
        if index is None:
            raise MeasurementUnknown(f"fio's json+ has {key[:40]!r}, which is none of fio's bins")
        counts[index] += int(count)
    if int(counts.sum()) != ios:
        raise MeasurementUnknown(
            f"fio counted {ios} {op}s of job {str(job.get('jobname'))!r}, but the bins of its json+ hold "
            f"{int(counts.sum())}"
        )
    sum_ns = sum_from_mean(timed.get("mean"), np.arange(BINS), counts)
    return Completion(counts, int(timed["min"]), int(timed["max"]), int(mine.get("runtime", 0)), sum_ns)


def sum_from_mean(mean_ns: Any, columns: IntArray, counts: IntArray) -> int | None:
    """The sum of latencies (`counts` in `columns` of fio's bins) from fio's mean; None if not in the bins.

    fio prints the mean with six decimals, and keeps it as a running average in double precision
    (add_stat_sample of stat.c): of N I/Os it is off by up to 5e-7 ns and N / 2**54 of itself.
    """
    if not (isinstance(mean_ns, int | float) and 0 <= mean_ns < MAX_LATENCY_NS):
        return None
    held = counts.tolist()
    edges = lower_edge(columns), lower_edge(columns + 1)
    low, high = (sum(edge * n for edge, n in zip(e.tolist(), held, strict=True)) for e in edges)
    sum_ns = round(mean_ns * sum(held))
    return sum_ns if low <= sum_ns <= high else None
