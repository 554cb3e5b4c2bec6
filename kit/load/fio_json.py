"""fio's json+ output: the documents in a text, and their jobs. For own runs and imports.

fio prints warnings before the JSON, and its servers print lines around it. With --status-interval it prints
several documents, each with all I/Os so far. `client_stats` of several clients has their sum, "All clients".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kit.core.errors import MeasurementUnknown
from kit.load.fio_bins import BINS, IntArray, index_of_midpoint

Json = dict[str, Any]
ALL_CLIENTS = "All clients"  # no job of a checked job file can have this name
_MAX_STARTS = 10_000
LIMIT_BYTES = 64 << 20
"""Of the output of an own run: some hundred kB per job."""


@dataclass
class Documents:
    """The documents of a text: begin of the first, end of the last, their number, and the last one.

    `failure`: line and message of damage after the last document.
    """

    begin: int = 0
    end: int = 0
    number: int = 0
    last: Json | None = None
    failure: tuple[int, str] | None = None


def documents(text: str) -> Documents:
    """Find the JSON objects with jobs that begin at the start of a line."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    result = Documents()
    at = 0
    for number, brace in enumerate(re.finditer(r"^\{", text, re.MULTILINE)):
        if (start := brace.start()) < at:
            continue
        if number == _MAX_STARTS:
            result.failure = text.count("\n", 0, start) + 1, f"more than {_MAX_STARTS} documents"
            break
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            result.failure = text.count("\n", 0, getattr(error, "pos", start)) + 1, str(error)
            continue
        if isinstance(value, dict) and ("jobs" in value or "client_stats" in value):
            begin = result.begin if result.number else start
            result = Documents(begin, at, result.number + 1, value)
    return result


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def jobs(document: Json, key: str) -> list[Json] | None:
    """The entries of `jobs` or `client_stats`, without the sum of all clients. None for any other value."""
    listed = document.get(key)
    if not isinstance(listed, list) or not all(isinstance(job, dict) for job in listed):
        return None
    return [job for job in listed if job.get("jobname") != ALL_CLIENTS]


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
