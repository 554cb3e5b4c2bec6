"""fio's plain JSON (--output-format=json): percentiles, least, mean and largest of each job and direction.

What fio calls a percentile is the middle of the bin of one I/O, the first up to which there are so many
(stat.c, calc_clat_percentiles). So of that I/O the bin is known, and of those between two percentiles only
that they are between them; which of these are in the two bins themselves is not (1.6 % of the latency).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from kit.importers.base import TRIMS
from kit.importers.fio_json import add_jobs, is_count, timed_of
from kit.importers.summaries.summary_file import Bin, SummaryFile, summary_format
from kit.load import fio_bins
from kit.load.fio_json import Json
from kit.load.fio_latency_log import MAX_LATENCY_NS

_EDGES = fio_bins.HistogramColumns(0).edges
_KEY = re.compile(r"[0-9]{1,3}\.[0-9]{1,12}")
# Nothing comes after the percentiles; in json+ the bins do.
_PLAIN = re.compile(rb'"c?lat_ns"\s*:\s*\{[^{}]*"percentile"\s*:\s*\{[^{}]*\}\s*\}')
_ALONE = (
    "fio printed percentiles and no bins: of the I/Os between two of them nothing else is known; json+ "
    "(--output-format=json+) of the same job has all"
)


def read(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError."""
    add_jobs(file.source, file.account, lambda job, op: _add(file, job, op))


def _add(file: SummaryFile, job: Json, op: str) -> int:
    """Add one direction of one job: how many I/Os of it are counted."""
    part, where = job.get(op), f"job {str(job.get('jobname', ''))!r}, {op}"
    ios, timed = timed_of(file.source, file.account, where, op, part, "percentile")
    if timed is None:
        return 0
    counted = timed.get("N", ios)
    least, most = timed.get("min"), timed.get("max")
    if not (is_count(counted) and is_count(least) and is_count(most) and counted and least <= most):
        raise file.fail(None, f"{where}: N, min and max are {counted!r:.40}, {least!r:.40} and {most!r:.40}")
    if op == "trim":
        file.leave_out(TRIMS, counted)
        return int(counted)
    ranks = _ranks(file, where, timed["percentile"], counted)
    bins = list(_bins(ranks, least, most, counted))
    job_name, host = str(job.get("jobname", "")), str(job.get("hostname") or "")
    title = f"{host + '/' if host else ''}{job_name} {op}"
    file.add(title, "commit" if op == "sync" else op, bins, sum_ns=_sum_ns(bins, timed.get("mean"), counted))
    file.warn(_ALONE)
    if ios and ios > counted:
        file.leave_out(f"without a latency: {op}", ios - counted)
    return int(counted)


def _ranks(file: SummaryFile, where: str, percentiles: Any, counted: int) -> dict[int, int]:
    """fio's bin of the I/O of each rank, from 1, that a percentile names; ascending. Raises ConfigError."""
    ranks: dict[int, int] = {}
    given = percentiles.items() if isinstance(percentiles, dict) else [("", None)]
    for key, value in sorted(given, key=lambda each: (len(each[0]), each[0])):
        part = Fraction(float(key)) if _KEY.fullmatch(key) else Fraction(0)
        number = fio_bins.index_of_midpoint(str(value)) if is_count(value) else None
        if number is None or not 0 < part <= 100 or number < max(ranks.values(), default=0):
            raise file.fail(None, f"{where}: percentile {key[:20]!r} is {str(value)[:40]!r}")
        rank = math.ceil(part * counted / 100)
        if ranks.setdefault(rank, number) != number:
            raise file.fail(None, f"{where}: two percentiles are one I/O of the {counted}, and differ")
    return ranks


def _bins(ranks: dict[int, int], least: int, most: int, counted: int) -> Iterator[Bin]:
    """One I/O in the bin of each percentile, and the others between two of them, from least to most."""
    before, end = 0, least
    lows, highs = (each.tolist() for each in _EDGES(np.array([*ranks.values()], dtype=np.int64)))
    for rank, low, high in zip(ranks, lows, highs, strict=True):
        low, high = max(low, least), min(high, most + 1)
        yield (end, low, rank - before - 1) if end < low else (low, high, rank - before - 1)
        yield low, high, 1
        before, end = rank, high
    yield (end, most + 1, counted - before) if end <= most else (low, high, counted - before)


def _sum_ns(bins: Sequence[Bin], mean_ns: Any, counted: int) -> int | None:
    """From fio's mean, where it can be that of the bins, whose I/Os may be in a bin beside theirs."""
    if not isinstance(mean_ns, int | float) or not 0 <= mean_ns < MAX_LATENCY_NS:
        return None
    sum_ns = round(mean_ns * counted)
    is_of_bins = sum(low * n for low, _, n in bins) <= sum_ns <= sum((high or 0) * n for _, high, n in bins)
    return sum_ns if is_of_bins else None


def _recognises(lines: Sequence[bytes]) -> bool:
    return bool(_PLAIN.search(b"\n".join(lines)))


FORMAT = replace(
    summary_format(
        "fio-percentiles", rb"", read, files="fio JSON", program="fio",
        latency="as the percentiles that fio printed of the whole job; what lies between them is not in it",
    ),
    recognises=_recognises,
)  # fmt: skip
