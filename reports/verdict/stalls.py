"""When a closed loop waited: intervals in which no I/O ended because the next one was still on its way.

Such an interval is a result, unlike one for which nothing was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kit.store.latency import Latency
from kit.store.phase import Phase
from kit.store.tables import SERVER

# A phase whose intervals are shorter than its latencies has a gap before each I/O: the longest are kept.
MOST = 1000


@dataclass(frozen=True)
class Stall:
    """No I/O ended from `from_s` to `to_s`, seconds since the phase began; the next took up to `high_us`."""

    from_s: float
    to_s: float
    high_us: float


def stalls(intervals: pl.DataFrame, phase: Phase) -> tuple[Stall, ...]:
    """The stalls of a phase at the server, or at the clients if it was not traced; by time, at most MOST.

    In a closed loop the I/O that ends a gap was on its way all through it, so it took as long as the gap or
    longer. A gap that its I/Os do not explain is no stall: rows are missing for another reason. The first gap
    begins with the first I/O of a client. None if it is not known how many I/Os were outstanding.
    `intervals`: kit.store.latency, of this phase or all.
    """
    if not phase.outstanding:
        return ()
    used = intervals.filter((pl.col("phase") == phase.name) & (pl.col("count") > 0))
    at_server = used.filter(pl.col("layer") == SERVER)
    ended = (
        (used if at_server.is_empty() else at_server)
        .group_by("time_ns")
        .agg(pl.col("hi_ns").max().cast(pl.Float64))
        .sort("time_ns")
        .select("hi_ns", to_ns=pl.col("time_ns").cast(pl.Float64) - phase.start_ns)
        .with_columns(from_ns=pl.col("to_ns").shift(1) + phase.interval_ns)
    )
    first = min((each.first_ns for each in phase.clients if each.first_ns is not None), default=None)
    begin = pl.col("to_ns") - pl.col("hi_ns") if first is None else pl.lit(float(first - phase.start_ns))
    gaps = (
        ended.with_columns(pl.col("from_ns").fill_null(begin).clip(0))
        .with_columns(gap_ns=pl.col("to_ns") - pl.col("from_ns"))
        .filter((pl.col("gap_ns") > 0) & (pl.col("hi_ns") >= pl.col("gap_ns")))
        .top_k(MOST, by="gap_ns")
        .sort("to_ns")
    )
    rows = gaps.select("from_ns", "to_ns", "hi_ns").iter_rows()
    return tuple(Stall(low / 1e9, high / 1e9, longest / 1e3) for low, high, longest in rows)


def longest_gap_ns(latency: Latency, phase: Phase, layer: str) -> tuple[float, float] | None:
    """The longest time (ns) in which no I/O of `phase` ended at `layer`: at least, and less than.

    The first begins with the first I/O of a client, or with the phase. Counts have the interval in which an
    I/O ended, so a gap is known to within an interval at each end; it is known to have been one if the I/O
    that ended it took as long. Histograms of clients know the times less well. With one I/O on its way at a
    time it is not shorter than the longest latency. None without an I/O.
    """
    of_phase = (pl.col("phase") == phase.name) & (pl.col("layer") == layer) & (pl.col("count") > 0)
    ended = latency.intervals.filter(of_phase).group_by("time_ns").agg(pl.col("hi_ns").max()).sort("time_ns")
    if ended.is_empty():
        return None
    low, high = 0.0, 0.0
    # From when on an I/O may have ended last, and until when it has.
    from_ns = until_ns = phase.load_span_ns[0]
    for time_ns, longest_ns in ended.iter_rows():
        empty_ns = max(time_ns - until_ns, 0)
        high = max(high, time_ns + phase.interval_ns - from_ns)
        if longest_ns >= empty_ns:
            low, from_ns = max(low, empty_ns), time_ns
        else:
            # The tracer's reading of an interval was skipped: its I/Os stand in the next one.
            from_ns = until_ns
        until_ns = time_ns + phase.interval_ns
    if layer != SERVER and phase.client_log:
        # Both ends of a gap may be as far outside of their intervals.
        low = max(low - 2 * phase.client_log.time_error_ns, 0.0)
        high += 2 * phase.client_log.time_error_ns
    if phase.outstanding == 1 and len(phase.clients) == 1:
        exact = [each.max_ns for each in phase.extremes if each.layer == layer]
        low = max(low, *exact, int(latency.bins.filter(of_phase)["lo_ns"].max()))  # type: ignore[arg-type]
    return low, max(high, low)
