"""Loads that read blocks in turn, as a scan does: a sample says less of what a cache keeps. Pure."""

from __future__ import annotations

import numpy as np

from reports.size.trace import WARM_PART, BlockTrace

# Intervals are counted in so many classes; standard errors of a class are no excess.
_CLASSES, _NOISE = 20, 3


def in_turn(trace: BlockTrace) -> float:
    """The part of the reads that count whose blocks are asked for at equal intervals, as by a scan.

    Blocks that are asked for independently of each other, each at a rate of its own, have intervals with a
    density that falls (a mixture of exponentials: the independent reference model). What is above that.
    """
    by_block = np.argsort(trace.block, kind="stable")
    again = by_block[1:][np.diff(trace.block[by_block]) == 0]
    before = by_block[:-1][np.diff(trace.block[by_block]) == 0]
    intervals = (trace.place[again] - trace.place[before])[trace.counts[again]]
    found = np.histogram(intervals, _CLASSES, (0, 1))[0].astype(np.float64)
    least = np.minimum.accumulate(found)
    above = np.clip(found - least - _NOISE * np.sqrt(least), 0, None)
    return float(above.sum() / max(trace.counts.sum(), 1))


def most_read(trace: BlockTrace, room_bytes: float) -> float:
    """Of the reads that count, those of the blocks that were read most before, as many as have room."""
    before = trace.is_read & (trace.place < WARM_PART)
    reads_of = np.bincount(trace.block[before], minlength=trace.bytes_of.size)
    order = np.argsort(-reads_of, kind="stable")
    kept = np.zeros(order.size, bool)
    kept[order[np.cumsum(trace.bytes_of[order]) <= room_bytes / trace.one_in]] = True
    return float(kept[trace.block[trace.counts]].mean()) if trace.counts.any() else 0.0
