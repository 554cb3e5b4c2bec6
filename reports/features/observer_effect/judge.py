"""The observer effect of a run: latency with the tracer / without, by threads, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from kit.store.manifest import ObserverEffect
from kit.store.parts.split import ObserverRatio, ObserverRow
from reports.features.feature import Feature, Judged
from reports.statistics.ratios import Realisation, paired


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
            _ratio([(getattr(a, name), getattr(b, name)) for a, b in pairs]) for name in ("p50_ns", "p99_ns")
        )
        if p50 and p99:
            rows.append(ObserverRow(threads=threads, pairs=len(pairs), p50=p50, p99=p99))
    return rows


def _ratio(pairs_ns: Sequence[tuple[float, float]]) -> ObserverRatio | None:
    """Of times without and with the tracer; None if there is none, or a time of 0."""
    if not pairs_ns or min(map(min, pairs_ns)) <= 0:
        return None
    found = paired([Realisation(math.log(beside / without), None) for without, beside in pairs_ns])
    low, high = found.range or (None, None)
    without_us = median(without for without, _ in pairs_ns) / 1e3
    return ObserverRatio(without_us=without_us, ratio=found.value, low=low, high=high)


def sentences(rows: Sequence[ObserverRow]) -> Iterator[str]:
    """The rows at p50 in one sentence."""
    if not rows:
        return
    parts = []
    for row in rows:
        p50 = row.p50
        between = "" if p50.low is None else f" ({p50.low:.3f} to {p50.high:.3f})"
        parts.append(f"{p50.ratio:.3f}{between} by {row.threads} thread{'s' * (row.threads != 1)}")
    yield f"Observer effect: p50 of reads from DRAM with the tracer / without: {', '.join(parts)}."


FEATURE = Feature(
    lambda manifest, _, __: Judged({"observer_effect": describe(manifest.observer_effect)}),
    lines=lambda summary: sentences(summary.observer_effect),
)
