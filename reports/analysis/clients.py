"""What each of several clients saw, or each of several devices that a load went to, and all together.

All together are the counts of the clients' histograms, added bin by bin, and percentiles of the sum: a
percentile is never an average of percentiles. Rates are all over the same time, from the first I/O of any
client to the last of any, so that they add up as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from kit.store.parts.client_figures import ClientFigures
from kit.store.phase import Phase
from kit.store.tables import ISSUERS
from reports.statistics.quantiles import Bins, figures_us, limits_ns

ALL = "all"


def describe(latency: pl.DataFrame, phases: Sequence[Phase]) -> list[ClientFigures]:
    """One object per phase, op and client, after one of them all (`merged`); none where one client is all.

    Latencies in microseconds, rates in I/O/s of the experiment's time, the skew in microseconds after the
    first I/O of any client. Raises ValueError if the exact extremes of a row are not in its outermost bins.
    """
    mine = latency.filter((pl.col("layer").is_in(ISSUERS)) & (pl.col("count") > 0))
    rows: list[ClientFigures] = []
    for phase in phases:
        named = mine.filter(pl.col("phase") == phase.name)
        if named["host"].n_unique() > 1:
            rows += _of_phase(named, phase)
    return rows


def _of_phase(frame: pl.DataFrame, phase: Phase) -> Iterator[ClientFigures]:
    by_host = {row.host: row for row in phase.clients}
    begun = [row.first_ns for row in phase.clients if row.first_ns is not None]
    ended = [row.last_ns for row in phase.clients if row.last_ns is not None]
    seconds = (max(ended) - min(begun)) / 1e9 if begun and ended else 0.0
    for (op,), of_op in sorted(frame.group_by("op")):
        hosts: list[str] = of_op["host"].unique().sort().to_list()
        for host in (None, *hosts):
            chosen = of_op if host is None else of_op.filter(pl.col("host") == host)
            named = hosts if host is None else [host]
            rows, extremes = [by_host.get(name) for name in named], _extremes(phase, str(op), named)
            bins = _bins(chosen)
            count = sum(b[2] for b in bins)
            yield ClientFigures(
                phase=phase.name, op=str(op), host=ALL if host is None else host, merged=host is None,
                count=count, iops=count / seconds if seconds > 0 else None,
                skew_us=_largest_us([row.skew_ns if row else None for row in rows]),
                clock_error_us=_largest_us([row.clock_error_ns if row else None for row in rows]),
                **figures_us(bins, _limits_ns(bins, extremes)),
            )  # fmt: skip


def _bins(frame: pl.DataFrame) -> list[tuple[int, int, int]]:
    summed = frame.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns", "hi_ns")
    return [(low, high, count) for low, high, count in summed.iter_rows()]


def _limits_ns(bins: Bins, extremes: list[tuple[int, int]]) -> tuple[int, int]:
    overlap = any(b[0] < a[1] for a, b in itertools.pairwise(bins))
    return (bins[0][0], bins[-1][1]) if overlap else limits_ns(bins, extremes)


def _extremes(phase: Phase, op: str, hosts: list[str]) -> list[tuple[int, int]]:
    """The exact extremes of these clients; none unless each of them has some."""
    mine = [e for e in phase.extremes if e.layer in ISSUERS and e.op == op and e.host in hosts]
    return [(e.min_ns, e.max_ns) for e in mine] if {e.host for e in mine} == set(hosts) else []


def _largest_us(values_ns: Sequence[int | None]) -> float | None:
    """None unless every value is known."""
    known = [value for value in values_ns if value is not None]
    return max(known) / 1e3 if len(known) == len(values_ns) else None
