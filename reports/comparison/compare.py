"""A against B, over runs: ratios of means, percentiles and shares with intervals; latencies in us."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from kit.core.sample_size import sample_needed
from kit.store.parts.comparison import ComparedRow, Comparison
from kit.store.summary import Row, Summary
from reports.statistics import bootstrap

Key = tuple[str, str, str, str]  # phase, layer, op, tier
NO_DIFFERENCE = "no difference shown"
DIFFERENCE = "difference shown"
# What people read for the words of a row.
SHOWN = {"no statement": "not judged", "withheld": "n/a"}
_PERCENTILES = (("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p99.9", "p999", 0.999))
# Latencies are whole nanoseconds.
_TICK_US = 1e-3
# Fewer I/Os than for a median in every run: their share says nothing.
_LEAST_IOS = sample_needed(0.5)


@dataclass(frozen=True)
class _Figure:
    """One figure of one row in every run: logarithms, and their least variance. `smallest` ratio told."""

    key: Key
    name: str
    a: list[float]
    b: list[float]
    a_floor: list[float]
    b_floor: list[float]
    smallest: float


def compare(a: Sequence[Summary], b: Sequence[Summary]) -> Comparison:
    """Summaries of runs of A and of B, at least one each (docs/formats.md, "Comparison").

    `rows` has one per phase x layer x op x tier x figure. A figure that cannot be told is `withheld`,
    with the reason; a difference of less than the errors of two interpolated percentiles is none.
    """
    tables = [[_by_key(s) for s in side] for side in (a, b)]
    keys = list(dict.fromkeys(key for side in tables for table in side for key in table))
    totals = [[_totals(table) for table in side] for side in tables]
    made: list[tuple[Key, str, _Figure | str]] = []
    for key in keys:
        of_key = {name: _percentile(key, name, field, q, tables) for name, field, q in _PERCENTILES}
        if any(table[key].mean_us is not None for side in tables for table in side if key in table):
            of_key = {"mean": _mean(key, tables), **of_key}
        of_key["share"] = _share(key, tables, totals)
        made += [(key, name, figure) for name, figure in of_key.items()]
    figures = [figure for *_, figure in made if isinstance(figure, _Figure)]
    intervals = iter(_intervals(figures) or ())
    rows = tuple(
        _withheld(key, name, figure) if isinstance(figure, str) else _row(key, figure, next(intervals, None))
        for key, name, figure in made
    )
    different = sum(row.words == DIFFERENCE for row in rows)
    return Comparison(
        format=1,
        runs={"a": tuple(s.run for s in a), "b": tuple(s.run for s in b)},
        level=bootstrap.LEVEL,
        unit="run",
        method=bootstrap.method(len(a), len(b)),
        compared=len(figures),
        different=different,
        conclusion=_conclusion(len(a), len(b), len(figures), different),
        rows=rows,
    )


def _conclusion(runs_a: int, runs_b: int, figures: int, different: int) -> str:
    if not figures:
        return "nothing that both sides have could be compared"
    if min(runs_a, runs_b) < 2:
        few = "1 run each" if runs_a == runs_b else "1 run on a side"
        return f"{few}: too few to compare"
    return f"{DIFFERENCE} in {different} of {figures} figures" if different else NO_DIFFERENCE


def _by_key(summary: Summary) -> dict[Key, Row]:
    return {(r.phase, r.layer, r.op, r.tier): r for r in summary.rows}


def _totals(table: Mapping[Key, Row]) -> dict[tuple[str, str], int]:
    """I/Os per phase and layer: what a share is of."""
    totals: dict[tuple[str, str], int] = {}
    for (phase, layer, _, _), row in table.items():
        totals[phase, layer] = totals.get((phase, layer), 0) + row.count
    return totals


def _withheld(key: Key, name: str, why: str) -> ComparedRow:
    phase, layer, op, tier = key
    return ComparedRow(
        phase=phase, layer=layer, op=op, tier=tier, figure=name, a=None, b=None, ratio=None, interval=None,
        words="withheld", withheld=why,
    )  # fmt: skip


def _row(key: Key, figure: _Figure, interval: bootstrap.Interval | None) -> ComparedRow:
    phase, layer, op, tier = key
    mean_a, mean_b = float(np.mean(figure.a)), float(np.mean(figure.b))
    words = "no statement"
    if interval:
        clear = interval.excludes_one and abs(mean_b - mean_a) > math.log1p(figure.smallest)
        words = DIFFERENCE if clear else NO_DIFFERENCE
    return ComparedRow(
        phase=phase, layer=layer, op=op, tier=tier, figure=figure.name, a=math.exp(mean_a),
        b=math.exp(mean_b), ratio=math.exp(mean_b - mean_a),
        interval=(interval.low, min(interval.high, 1e300)) if interval else None, words=words, withheld=None,
    )  # fmt: skip


def _mean(key: Key, tables: Sequence[Sequence[Mapping[Key, Row]]]) -> _Figure | str:
    """The mean, which has no bins: sums are exact."""
    sides = []
    for letter, side in zip("AB", tables, strict=True):
        found = [table.get(key) for table in side]
        if not all(found):
            return f"{letter}: {_absent(found)}"
        means = [row.mean_us for row in found if row]
        known = [(mean, _TICK_US) for mean in means if mean is not None]
        if len(known) < len(means):
            return f"{letter}: {len(means) - len(known)} of {len(means)} runs have no sum of latencies"
        sides.append(known)
    return _figure(key, "mean", sides)


def _percentile(
    key: Key, name: str, field: str, q: float, tables: Sequence[Sequence[Mapping[Key, Row]]]
) -> _Figure | str:
    """The interpolated percentile."""
    sides = []
    for letter, side in zip("AB", tables, strict=True):
        found = [table.get(key) for table in side]
        if not all(found):
            return f"{letter}: {_absent(found)}"
        values = [row.interpolated.get(field) for row in found if row]
        known = [(value.us, max(value.error_us, _TICK_US)) for value in values if value]
        if len(known) < len(values):
            fewest = min(row.count for row in found if row)
            return f"{letter}: a run has {fewest} I/Os, {name} needs {sample_needed(q)}"
        sides.append(known)
    return _figure(key, name, sides)


def _figure(key: Key, name: str, sides: Sequence[Sequence[tuple[float, float]]]) -> _Figure | str:
    """`sides`: value and error (us) of each run of A and of B."""
    for letter, side in zip("AB", sides, strict=True):
        if any(value <= 0 for value, _ in side):
            return f"{letter}: {name} is below the clock's resolution"
    logs = [[math.log(value) for value, _ in side] for side in sides]
    errors = [[math.log1p(error / value) for value, error in side] for side in sides]
    # What an even spread over twice the error leaves open.
    floors = [[error**2 / 3 for error in side] for side in errors]
    smallest = math.expm1(sum(map(fmean, errors)))
    return _Figure(key, name, logs[0], logs[1], floors[0], floors[1], smallest)


def _absent(found: Sequence[Row | None]) -> str:
    missing = sum(row is None for row in found)
    return f"no I/O in {missing} of {len(found)} runs: missing there"


def _share(
    key: Key,
    tables: Sequence[Sequence[Mapping[Key, Row]]],
    totals: Sequence[Sequence[Mapping[tuple[str, str], int]]],
) -> _Figure | str:
    """The share of a tier; a run without it counts as one with half an I/O."""
    counts = [[(t[key].count if key in t else 0) for t in side] for side in tables]
    wholes = [[t.get(key[:2], 0) for t in side] for side in totals]
    for letter, side in zip("AB", wholes, strict=True):
        if not all(side):
            return f"{letter}: a run has no I/O in that phase and layer"
    if counts == wholes:
        return "only tier"
    if max(n for side in counts for n in side) < _LEAST_IOS:
        return f"no run has {_LEAST_IOS} I/Os of it"
    add = 0.0 if all(n for side in counts for n in side) else 0.5
    logs, floors = [], []
    for held, whole in zip(counts, wholes, strict=True):
        share = [(n + add) / (w + 2 * add) for n, w in zip(held, whole, strict=True)]
        logs.append([math.log(p) for p in share])
        # Binomial, and one I/O more or less.
        floors.append([(1 - p) / (w * p) + 1 / (w * p) ** 2 for p, w in zip(share, whole, strict=True)])
    return _Figure(key, "share", logs[0], logs[1], floors[0], floors[1], 0.0)


def _intervals(figures: Sequence[_Figure]) -> list[bootstrap.Interval] | None:
    if not figures:
        return None
    parts = [np.array([getattr(f, part) for f in figures]).T for part in ("a", "b", "a_floor", "b_floor")]
    return bootstrap.intervals(*parts)
