"""The observer effect of a run: latency with the tracer / without, by threads, with intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kit.store.manifest import ObserverEffect
from reports.statistics.bootstrap import t_critical

Json = dict[str, Any]
_ALPHA = 0.05


def describe(effect: ObserverEffect | None) -> list[Json]:
    """An object per number of threads; none where it was not measured.

    Stretches make pairs in their order. `ratio` is the geometric mean over pairs, `low` and `high` its 95 %
    interval by Student's t of the logarithms; None with one pair. `without_us`: the median stretch.
    """
    rows = []
    for threads in sorted({each.threads for each in effect.stretches}) if effect else ():
        assert effect is not None
        row: Json = {"threads": threads}
        for name in ("p50", "p99"):
            sides = [
                [
                    getattr(each, f"{name}_ns")
                    for each in effect.stretches
                    if each.threads == threads and each.traced is traced
                ]
                for traced in (False, True)
            ]
            without, beside = (np.array(side[: min(map(len, sides))], dtype=np.float64) for side in sides)
            if not without.size or min(without.min(), beside.min()) <= 0:
                break
            row["pairs"] = without.size
            row[name] = {"without_us": float(np.median(without)) / 1e3, **_ratio(np.log(beside / without))}
        else:
            rows.append(row)
    return rows


def _ratio(logs: np.ndarray[Any, np.dtype[np.float64]]) -> Json:
    mean, low, high = float(logs.mean()), None, None
    if logs.size > 1:
        half = t_critical(_ALPHA, logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
        low, high = math.exp(mean - half), math.exp(mean + half)
    return {"ratio": math.exp(mean), "low": low, "high": high}


def sentence(rows: list[Json] | tuple[Json, ...]) -> str:
    """The rows at p50 in one sentence, "" for none."""
    if not rows:
        return ""
    parts = []
    for row in rows:
        p50 = row["p50"]
        between = f" ({p50['low']:.3f} to {p50['high']:.3f})" if p50["low"] is not None else ""
        parts.append(f"{p50['ratio']:.3f}{between} by {row['threads']} thread{'s' * (row['threads'] != 1)}")
    return f"Observer effect: p50 of reads from DRAM with the tracer / without: {', '.join(parts)}."
