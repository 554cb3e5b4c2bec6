"""A part of I/Os, such as those that took longer than a limit, and the range that one run leaves open for it.

I/Os one after another depend on each other, so the variance is that of windows of the run, not of I/Os (batch
means; Law and Kelton, "Simulation Modeling and Analysis", section 9.5.3). The range is Wilson's (1927) with
the number of independent I/Os that would vary as much. Bins that hold the limit may be above it or not.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from reports.statistics.quantiles import Floats
from reports.statistics.student import t_critical

_WINDOWS = 20
# Beyond Student's t: for counts that are skew, by simulation.
_WIDER = 1.2
# Fewer say nothing of how the part varies.
_FEWEST_WINDOWS = 3
_ALPHA = 0.025


def above(cells: pl.DataFrame, limit_ns: float) -> tuple[float, float]:
    """The least and the largest part (of 1) above `limit_ns` that the run leaves open, each at about 97.5 %.

    `cells`: `time_ns`, `lo_ns`, `hi_ns` and `count`, at least one I/O.
    """
    certain, possible = pl.col("lo_ns") > limit_ns, pl.col("hi_ns") - 1 > limit_ns
    return part(cells, certain, possible)


def part(cells: pl.DataFrame, certain: pl.Expr, possible: pl.Expr) -> tuple[float, float]:
    """The same of the part of the I/Os of `cells` for which something holds: for certain, and possibly."""
    each = cells.group_by("time_ns").agg(
        ios=pl.col("count").sum(),
        certain=pl.col("count").filter(certain).sum(),
        possible=pl.col("count").filter(possible).sum(),
    )
    table: Floats = each.sort("time_ns").to_numpy()[:, 1:].astype(np.float64)
    ios = table[:, 0]
    upto = np.cumsum(ios)
    window = np.minimum((upto - ios / 2) * _WINDOWS / upto[-1], _WINDOWS - 1).astype(np.int64)
    held = np.zeros((_WINDOWS, 3))
    np.add.at(held, window, table)
    return _range(held[:, 1], held[:, 0])[0], _range(held[:, 2], held[:, 0])[1]


def _range(held: Floats, ios: Floats) -> tuple[float, float]:
    n = float(ios.sum())
    part = float(held.sum()) / n
    if part in (0.0, 1.0):
        open_ = 1 - _ALPHA ** (1 / n)
        return (0.0, open_) if part == 0 else (1 - open_, 1.0)
    used = ios > 0
    windows = int(np.count_nonzero(used))
    if windows < _FEWEST_WINDOWS:
        return 0.0, 1.0
    t = _WIDER * t_critical(0.05, windows - 1)
    varies = float(((held - part * ios) ** 2).sum()) * windows / max(windows - 1, 1) / n**2
    independent = n * min(1.0, part * (1 - part) / n / varies) if varies else n
    centre = part + t**2 / (2 * independent)
    spread = t * math.sqrt(part * (1 - part) / independent + t**2 / (4 * independent**2))
    scale = 1 + t**2 / independent
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)
