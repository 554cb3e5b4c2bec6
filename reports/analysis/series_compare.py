"""Two series cell by cell: B over A for each cell, layer, op and tier. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kit.core.errors import ConfigError
from kit.store.series import CellRow, Series, SeriesCell
from kit.store.stored import Json
from reports.statistics.bootstrap import intervals

_FIGURES = ("p50_us", "p99_us")


def compare_series(a: Series, b: Series) -> Json:
    """Cells that both have. Raises ConfigError if they have none in common.

    `interval`: of B/A with 95 % confidence, over the rounds of both (Welch); None where a side has one round.
    """
    if a.id == b.id:
        raise ConfigError(f"{a.id} on both sides", "compare a series with another one")
    named = {(cell.phase, cell.name): cell for cell in b.cells if not cell.again}
    rows: list[Json] = []
    missing = []
    for cell in a.cells:
        other = named.get((cell.phase, cell.name))
        if cell.again:
            continue
        if other is None:
            missing.append(f"{cell.phase} {cell.name}")
            continue
        rows += _rows(cell, other)
    if not rows:
        raise ConfigError(
            f"{a.id} and {b.id} have no cell in common",
            "compare series of the same workload, or of alike ones",
        )
    return {
        "format": 1,
        "a": a.id,
        "b": b.id,
        "rows": rows,
        "only_a": missing,
        "only_b": sorted({f"{p} {n}" for p, n in named} - {f"{c.phase} {c.name}" for c in a.cells}),
    }


def _rows(a: SeriesCell, b: SeriesCell) -> Iterator[Json]:
    excluded = "; ".join(dict.fromkeys(filter(None, (a.excluded, b.excluded))))
    keys = dict.fromkeys((row.layer, row.op, row.tier) for run in a.runs for row in run.rows)
    for key in keys:
        for figure in _FIGURES:
            sides = [_values(cell, key, figure) for cell in (a, b)]
            if all(sides):
                yield {
                    "cell": a.name, "at": a.at, "phase": a.phase, "layer": key[0], "op": key[1],
                    "tier": key[2], "figure": figure.removesuffix("_us"), "a": _mean(sides[0]),
                    "b": _mean(sides[1]),
                    "excluded": excluded or None, **_ratio(*sides),
                }  # fmt: skip
    rates = [[run.ios_per_s for run in cell.runs if run.ios_per_s] for cell in (a, b)]
    if all(rates):
        known = [[rate for rate in side if rate] for side in rates]
        yield {
            "cell": a.name, "at": a.at, "phase": a.phase, "layer": "client", "op": "", "tier": "all",
            "figure": "ios_per_s", "a": _mean(known[0]), "b": _mean(known[1]), "excluded": excluded or None,
            **_ratio(*known),
        }  # fmt: skip


def _values(cell: SeriesCell, key: tuple[str, str, str], figure: str) -> list[float]:
    rows: list[CellRow] = [r for run in cell.runs for r in run.rows if (r.layer, r.op, r.tier) == key]
    values: list[Any] = [getattr(row, figure) for row in rows]
    return [float(value) for value in values if value]


def _mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _ratio(a: Sequence[float], b: Sequence[float]) -> Json:
    logs = [np.log(np.array(values)).reshape(-1, 1) for values in (a, b)]
    known = intervals(*logs, *(np.zeros_like(values) for values in logs))
    return {"ratio": _mean(b) / _mean(a), "interval": [known[0].low, known[0].high] if known else None}
