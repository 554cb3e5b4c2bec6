"""The ratio of a percentile between two stretches of time of one run, and its interval.

I/Os one after another depend on each other: caches fill, buffers drain, the disk's arm is where the last I/O
left it. So the unit is a block of time, never the I/O (batch means; Law and Kelton, "Simulation Modeling and
Analysis", section 9.5.3). Each stretch is cut into blocks: what differs between the blocks of a stretch could
differ between the stretches by chance. The interval of two sets of blocks is that of
`reports.statistics.ratios`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from kit.core.sample_size import sample_needed
from reports.statistics import ratios
from reports.statistics.quantiles import rank_ns

BLOCKS = 12
# With fewer blocks that have enough I/Os nothing is known of how they vary.
_FEWEST = 6


@dataclass(frozen=True)
class Ratio:
    """B : A of a percentile, and its 95 % interval."""

    ratio: float
    low: float
    high: float


def ratio(
    a: pl.DataFrame, b: pl.DataFrame, a_ns: tuple[int, int], b_ns: tuple[int, int], q: float
) -> Ratio | None:
    """Of the q-quantile of `b` to that of `a`; None where the I/Os are too few.

    The frames have `time_ns`, `lo_ns`, `hi_ns`, `count`; `a_ns` and `b_ns` are the stretches, [from, to).
    """
    blocks = [_log_quantiles(frame, span, q) for frame, span in ((a, a_ns), (b, b_ns))]
    if any(len(values) < _FEWEST for values in blocks):
        return None
    known = ratios.ratio(blocks[0], blocks[1])
    return Ratio(known.value, *known.range) if known.range else None


def _log_quantiles(frame: pl.DataFrame, span: tuple[int, int], q: float) -> list[ratios.Figure]:
    """The logarithm of the quantile of each block, and what its bin leaves open."""
    begin, end = span
    values = []
    used = frame.filter(pl.col("count") > 0).with_columns(
        block=((pl.col("time_ns") - begin) * BLOCKS // max(end - begin, 1)).clip(0, BLOCKS - 1)
    )
    for _, block in used.sort("block").group_by("block", maintain_order=True):
        bins = block.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
        ios = sum(count for _, _, count in bins)
        if ios < sample_needed(q):
            continue
        at = max(rank_ns(bins, q * ios), 1.0)
        low, high, count = next(each for each in bins if each[1] >= at)
        # The quantile may lie anywhere in its bin; where that has many I/Os, it is known better.
        reach = ratios.ERRORS_95 * (high - low) / at / math.sqrt(12 * count)
        values.append(ratios.Figure(math.log(at), reach))
    return values
