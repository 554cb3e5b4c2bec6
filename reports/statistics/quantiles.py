"""Quantiles, extremes and ranges of latency histograms, in nanoseconds; also of each interval of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.bins import IntArray
from kit.core.sample_size import sample_needed
from kit.core.units import format_latency, format_latency_range
from kit.store.summary import Interpolated, Row

COVERAGE = 0.95
# A bin of the kit is 1 ns wide, or at most this part of its lower edge.
NARROW = 1 / 32
Bins = Sequence[tuple[int, int, int]]  # lo_ns, hi_ns, count; ascending
Floats = npt.NDArray[np.float64]
# Limits (ns) that no latency is beyond.
ANY = (0, np.iinfo(np.int64).max)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_SERIES = ["phase", "layer", "op"]


def percentile_ns(bins: Bins, q: float, limits: tuple[int, int]) -> float | None:
    """The q-quantile in ns, kept inside `limits` (min, max in ns); None where the sample is too small."""
    return percentiles_ns(bins, (q,), limits)[0]


def percentiles_ns(bins: Bins, quantiles: Sequence[float], limits: tuple[int, int]) -> list[float | None]:
    """percentile_ns() of each of `quantiles`; the counts are summed up once for all."""
    table = np.array(bins, dtype=np.int64).reshape(-1, 3)
    first = np.zeros(min(len(table), 1), dtype=np.int64)
    _, values = percentiles_of_each(table, first, quantiles, limits)
    return [None if not value.size or np.isnan(value[0]) else float(value[0]) for value in values]


def percentiles_of_each(
    bins: IntArray, first: IntArray, quantiles: Sequence[float], limits: tuple[int, int] = ANY
) -> tuple[IntArray, list[Floats]]:
    """The I/Os of each of several histograms, and for each of `quantiles` its value (ns) in each of them.

    `bins` has the columns lo, hi (ns) and count. The bins [lo, hi) of all histograms lie end to end,
    ascending in each; `first` has where each begins. A value is nan where the sample is too small
    (kit.core.sample_size).

    Of a bin as narrow as the kit's it is the middle, which is at most 1/64 (1.6 %) from any latency in it. A
    value interpolated there would be nearer where latencies are spread evenly, but up to twice as far off at
    the edge of a gap or where a clock ticks. Wider bins of imported data (zpool iostat) are interpolated.
    """
    lo, hi, count = bins.T
    upto = np.cumsum(count)
    before = upto[first] - count[first]
    ios: IntArray = np.diff(before, append=upto[-1:])
    values = []
    for q in quantiles:
        # The first bin up to whose end there are enough I/Os; it has an I/O itself.
        at = np.searchsorted(upto, before + np.ceil(q * ios).astype(np.int64))
        low, high = np.maximum(lo[at], limits[0]), np.minimum(hi[at], limits[1])
        narrow = hi[at] - lo[at] <= np.maximum(1, lo[at] * NARROW)
        within = (high - low) * (q * ios - (upto[at] - before) + count[at]) / count[at]
        # Latencies are whole nanoseconds: the last one of a bin is hi - 1.
        value = np.where(narrow, (low + np.minimum(hi[at] - 1, limits[1])) / 2, low + within)
        values.append(np.where(ios >= sample_needed(q), np.clip(value, *limits), np.nan))
    return ios, values


def interpolated_us(bins: Bins, limits: tuple[int, int]) -> dict[str, Interpolated | None]:
    """Each of QUANTILES in us, interpolated in its bin; None where the sample is too small.

    `us`: as if latencies were spread evenly in the bin. `bound_us`: the exact quantile is in it, for certain.
    `error_us`: how far `us` may be off, judged by the counts (see _unevenness).
    """
    table = np.array([b for b in bins if b[2]], dtype=np.int64)
    lo, hi, count = table.T
    upto = np.cumsum(count)
    ios = int(upto[-1])
    values: dict[str, Interpolated | None] = {}
    for name, q in QUANTILES.items():
        if ios < sample_needed(q):
            values[name] = None
            continue
        at = int(np.searchsorted(upto, math.ceil(q * ios)))
        low, high = max(int(lo[at]), limits[0]), min(int(hi[at]) - 1, limits[1])
        value = low + (high - low) * (q * ios - int(upto[at] - count[at])) / int(count[at])
        error = min(_unevenness(table, at) * int(hi[at] - lo[at]), max(value - low, high - value))
        values[name] = Interpolated(us=value / 1e3, bound_us=(low / 1e3, high / 1e3), error_us=error / 1e3)
    return values


def percentile_text(row: Row, name: str) -> str:
    """A percentile ("p50") for people. Of a wide bin: the range that it is in, for certain."""
    value, exact = getattr(row, f"{name}_us"), row.interpolated.get(name)
    if value is None:
        return ""
    low, high = exact.bound_us if exact else (value, value)
    # A bin of a few ns is as exact as the clock.
    is_narrow = high - low <= max(low * NARROW, 1e-2)
    return format_latency(value) if is_narrow else format_latency_range(low, high)


def summed(frame: pl.DataFrame) -> list[tuple[int, int, int]]:
    """The bins of all rows of `frame` (`lo_ns`, `hi_ns`, `count`) together, ascending."""
    return frame.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns", "hi_ns").rows()


def rank_ns(bins: Bins, rank: float) -> float:
    """The latency (ns) of the I/O of this rank, from 0, as if those of a bin were spread evenly."""
    upto = 0
    for low, high, count in bins:
        if upto + count >= rank:
            return low + (high - low) * (rank - upto) / count
        upto += count
    return float(bins[-1][1])


def _unevenness(table: IntArray, at: int) -> float:
    """How far a quantile may be from where an even spread has it, in bins: by the counts in and beside `at`.

    `table`: lo, hi and count of the bins with I/Os. A density that rises over the bin by `slope` of its mean
    moves a quantile by slope / 8 at most; twice that is allowed. I/Os at random places move it by one part
    in the root of their number (two standard errors). A bin between empty ones may have all its I/Os at one
    place: its `bend` is -2, and all of it is open; smooth densities have bends near 0.
    """
    lo, hi, count = table.T
    density = count / (hi - lo)
    before = density[at - 1] if at and hi[at - 1] == lo[at] else 0.0
    after = density[at + 1] if at + 1 < len(table) and lo[at + 1] == hi[at] else 0.0
    slope, bend = (after - before) / 2 / density[at], (after + before) / density[at] - 2
    return float(abs(slope) / 4 + bend**2 / 4 + 1 / math.sqrt(count[at]))


def shortest_range_ns(bins: Bins, limits: tuple[int, int], coverage: float = COVERAGE) -> tuple[int, int]:
    """The shortest stretch of whole bins, in ns, that holds `coverage` of the I/Os; inside `limits`."""
    used = [b for b in bins if b[2]]
    if not used:
        raise ValueError("no I/O, no range")
    needed = coverage * sum(b[2] for b in used)
    best = (used[0][0], used[-1][1])
    first, held = 0, 0
    for _, hi, count in used:
        held += count
        while held - used[first][2] >= needed:
            held -= used[first][2]
            first += 1
        if held >= needed and hi - used[first][0] < best[1] - best[0]:
            best = (used[first][0], hi)
    return max(best[0], limits[0]), min(best[1], limits[1])


def figures_us(bins: Bins, limits: tuple[int, int]) -> dict[str, Any]:
    """Extremes, QUANTILES (None where the I/Os are too few) and range_us, the shortest that holds 95 %."""
    values = zip(QUANTILES, percentiles_ns(bins, list(QUANTILES.values()), limits), strict=True)
    return {
        "min_us": limits[0] / 1e3,
        **{f"{name}_us": None if ns is None else ns / 1e3 for name, ns in values},
        "max_us": limits[1] / 1e3,
        "range_us": tuple(edge / 1e3 for edge in shortest_range_ns(bins, limits)),
    }


def interpolated_figures_us(
    bins: Bins, limits: tuple[int, int]
) -> tuple[dict[str, Any], dict[str, Interpolated | None]]:
    """figures_us() with interpolated percentiles, as comparisons take them, and how exact these are."""
    exact = interpolated_us(bins, limits)
    return figures_us(bins, limits) | {f"{name}_us": at.us for name, at in exact.items() if at}, exact


def limits_ns(bins: Bins, extremes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(min, max) in ns: the exact ones if the run kept them, else the outer bin edges.

    `extremes`: (min, max) of each host.

    Raises ValueError if the exact ones are not in the outermost bins.
    """
    used = [b for b in bins if b[2]]
    if not extremes:
        return used[0][0], used[-1][1]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    if not (used[0][0] <= low <= used[0][1] and used[-1][0] <= high <= used[-1][1]):
        raise ValueError(f"extremes {low} and {high} ns are not in the outermost bins")
    return low, high


def over_time(frame: pl.DataFrame, quantiles: Mapping[str, float] = QUANTILES) -> pl.DataFrame:
    """Of `frame` (columns of latency.parquet): a row per phase, layer, op and interval, all hosts together.

    Columns: `phase`, `layer`, `op`, `time_ns`, `ios` (how many) and one per entry of `quantiles`, in ns,
    with `_ns` after its name: the same to the bit as percentiles_ns() gives for the interval's bins; null
    where it has too few I/Os. An interval without I/O has no row. One pass over all intervals, as an hour
    has thousands.
    """
    counted = frame.filter(pl.col("count") > 0)
    # Numbers for the names: to sort 200,000 rows by three strings takes a hundred times as long.
    names = counted.select(_SERIES).unique().sort(_SERIES).with_row_index("series")
    keys = ["series", "time_ns", "lo_ns", "hi_ns"]
    # A cell may come more than once, of several hosts and tiers.
    cells = counted.join(names, on=_SERIES).group_by(keys).agg(pl.col("count").sum()).sort(keys)
    begins = (pl.col("series").diff() != 0) | (pl.col("time_ns").diff() != 0)
    first = cells.select(begins.fill_null(True).arg_true()).to_series().to_numpy().astype(np.int64)
    bins = cells.select("lo_ns", "hi_ns", "count").to_numpy()
    ios, values = percentiles_of_each(bins, first, list(quantiles.values()))
    columns = [pl.Series("ios", ios, dtype=pl.Int64)]
    columns += [pl.Series(f"{name}_ns", v).fill_nan(None) for name, v in zip(quantiles, values, strict=True)]
    named = cells[first].join(names, on="series", maintain_order="left")
    return named.select(*_SERIES, "time_ns").with_columns(columns)
