"""The observer effect of a run: latency with the tracer / without, by threads, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.store.manifest import ObserverEffect
from kit.store.parts.observer_effect import ObserverRatio, ObserverRow
from reports.statistics.bootstrap import t_critical

_ALPHA = 0.05


def describe(effect: ObserverEffect | None) -> list[ObserverRow]:
    """A row per number of threads; none where it was not measured.

    Stretches make pairs in their order. `ratio` is the geometric mean over pairs, `low` and `high` its 95 %
    interval by Student's t of the logarithms; None with one pair. `without_us`: the median stretch.
    """
    if effect is None:
        return []
    rows = []
    for threads in sorted({each.threads for each in effect.stretches}):
        sides = [
            [each for each in effect.stretches if each.threads == threads and each.traced is traced]
            for traced in (False, True)
        ]
        pairs = list(zip(*sides, strict=False))
        p50, p99 = (
            _ratio(np.array([[getattr(each, name) for each in pair] for pair in pairs], dtype=np.float64))
            for name in ("p50_ns", "p99_ns")
        )
        if p50 and p99:
            rows.append(ObserverRow(threads=threads, pairs=len(pairs), p50=p50, p99=p99))
    return rows


def _ratio(pairs_ns: np.ndarray[Any, np.dtype[np.float64]]) -> ObserverRatio | None:
    """Of rows without and with the tracer; None if there is none, or a time of 0."""
    if not pairs_ns.size or pairs_ns.min() <= 0:
        return None
    without, beside = pairs_ns.T
    logs = np.log(beside / without)
    mean, low, high = float(logs.mean()), None, None
    if logs.size > 1:
        half = t_critical(_ALPHA, logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
        low, high = math.exp(mean - half), math.exp(mean + half)
    return ObserverRatio(without_us=float(np.median(without)) / 1e3, ratio=math.exp(mean), low=low, high=high)


def sentence(rows: Sequence[ObserverRow]) -> str:
    """The rows at p50 in one sentence, "" for none."""
    if not rows:
        return ""
    parts = []
    for row in rows:
        p50 = row.p50
        between = "" if p50.low is None else f" ({p50.low:.3f} to {p50.high:.3f})"
        parts.append(f"{p50.ratio:.3f}{between} by {row.threads} thread{'s' * (row.threads != 1)}")
    return f"Observer effect: p50 of reads from DRAM with the tracer / without: {', '.join(parts)}."
