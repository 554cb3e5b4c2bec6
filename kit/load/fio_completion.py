"""Completion latencies (clat) of fio's json+, in its bins. Apart from fio_json: plans do not need NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from kit.core.errors import MeasurementUnknown
from kit.load.fio_bins import BINS, IntArray, index_of_midpoint
from kit.load.fio_json import Json


@dataclass(frozen=True)
class Completion:
    """Completion latencies of one job and op: I/Os in each of fio's bins, exact extremes, and fio's time."""

    counts: IntArray
    min_ns: int
    max_ns: int
    runtime_ms: int

    def plus(self, other: Self) -> Self:
        """Of both jobs, which ran at the same time."""
        return type(self)(
            self.counts + other.counts,
            min(self.min_ns, other.min_ns),
            max(self.max_ns, other.max_ns),
            max(self.runtime_ms, other.runtime_ms),
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
    return Completion(counts, int(timed["min"]), int(timed["max"]), int(mine.get("runtime", 0)))
