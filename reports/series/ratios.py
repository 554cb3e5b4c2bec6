"""Ratios of cells to the base, and those that a workload expects. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kit.store.series import CellRun, JudgedRatio, Ratio, Series, SeriesCell
from kit.store.summary import Range
from reports.series.figures import Key, figures_of
from reports.statistics.bootstrap import t_critical
from reports.statistics.ratios import Figure, around, mean


def ratios_of(series: Series, cells: Sequence[SeriesCell]) -> Iterator[Ratio]:
    """Each cell to the one that has the base's value on one axis more."""
    used = [cell for cell in cells if not cell.excluded]
    for cell in used:
        for axis, value in cell.at.items():
            beside = {name: other for name, other in cell.at.items() if name != axis}
            bases = [b for b in used if b.at == beside and b.phase == cell.phase]
            if cell.again or not bases:
                continue
            labels = {"axis": axis, "from": series.axis(axis).values[0], "to": value, "beside": beside}
            yield from _ratios_to(cell, bases, {**labels, "phase": cell.phase})


def _ratios_to(
    cell: SeriesCell, bases: Sequence[SeriesCell], labels: Mapping[str, object]
) -> Iterator[Ratio]:
    """The ratios of a cell's figures. `bases`: the base, measured once or more."""
    rounds = list(_rounds(cell, bases))
    for key in dict.fromkeys(key for found in rounds for key in found):
        layer, op, tier, figure = key
        named = {"layer": layer, "op": op, "tier": tier, "figure": figure}
        found = [each[key] for each in rounds if key in each]
        ratio = mean(found)
        values = {
            "ratio": ratio.value, "interval": interval_over_rounds(found), "range": ratio.range,
            "rounds": len(found),
        }  # fmt: skip
        yield Ratio.model_validate({**labels, **named, **values}, strict=False)


def _rounds(cell: SeriesCell, bases: Sequence[SeriesCell]) -> Iterator[dict[Key, Figure]]:
    """Cell over base in each round. Of a base that was measured twice the mean counts."""
    for run in cell.runs:
        mine = figures_of(run)
        theirs = [figures_of(other) for base in bases for other in _of_round(base, run.round)]
        known = {key: [each[key] for each in theirs if key in each] for key in mine}
        yield {key: mine[key].minus(mean(found)) for key, found in known.items() if found}


def _of_round(cell: SeriesCell, number: int) -> list[CellRun]:
    return [run for run in cell.runs if run.round == number]


def interval_over_rounds(rounds: Sequence[Figure]) -> Range | None:
    """Of the mean, with 95 % confidence (Student's t over the logarithms); None of one round."""
    if len(rounds) < 2:
        return None
    log = sum(each.log for each in rounds) / len(rounds)
    variance = sum((each.log - log) ** 2 for each in rounds) / (len(rounds) - 1)
    return around(log, t_critical(0.05, len(rounds) - 1) * math.sqrt(variance / len(rounds)))


def judged(expected: JudgedRatio, ratios: Sequence[Ratio], cells: Sequence[SeriesCell]) -> JudgedRatio:
    """An expectation on an axis. A ratio between two values that are not the base is that of their ratios.

    A limit is broken where the interval of the ratio is wholly outside of it.
    """
    by_value = {
        ratio.to: ratio.ratio
        for ratio in ratios
        if (ratio.axis, ratio.phase, ratio.layer, ratio.op, ratio.tier)
        == (expected.axis, expected.phase, expected.layer, expected.op, expected.tier)
        and ratio.figure == "p50"
        and not ratio.beside
    }
    base = next((ratio.from_ for ratio in ratios if ratio.axis == expected.axis), None)
    if base is not None:
        by_value[base] = 1.0
    if expected.from_ not in by_value or expected.to not in by_value:
        why = [
            f"{cell.name}: {cell.excluded}"
            for cell in cells
            if cell.excluded
            and cell.phase == expected.phase
            and cell.at.get(expected.axis) in (expected.from_, expected.to)
        ]
        reason = "; ".join(why) or "there are no two such rows with enough I/Os"
        return expected.model_copy(update={"ratio": None, "ok": None, "reason": reason})
    ratio = by_value[expected.to] / by_value[expected.from_]
    at = [{} if value == base else {expected.axis: value} for value in (expected.from_, expected.to)]
    used = [cell for cell in cells if not cell.excluded and cell.phase == expected.phase]
    reach = math.hypot(*(_reach(expected, [cell for cell in used if cell.at == each]) for each in at))
    interval = around(math.log(ratio), reach)
    low, high = expected.ratio_min or 0.0, expected.ratio_max or math.inf
    ok = interval[1] >= low and interval[0] <= high
    limits = " to ".join(
        f"{limit:g}" for limit in (expected.ratio_min, expected.ratio_max) if limit is not None
    )
    kind = (
        "" if expected.ratio_min and expected.ratio_max else "at least " if expected.ratio_min else "at most "
    )
    found = f"{ratio:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"
    reason = "" if ok else f"{found}, expected {kind}{limits}"
    return expected.model_copy(update={"ratio": ratio, "interval": interval, "ok": ok, "reason": reason})


def _reach(expected: JudgedRatio, cells: Sequence[SeriesCell]) -> float:
    """How far the mean of the medians of `cells` may be off, as a logarithm, with 95 % confidence."""
    key = expected.layer, expected.op, expected.tier, "p50"
    found = [figures[key] for cell in cells for figures in map(figures_of, cell.runs) if key in figures]
    return (mean(found).reach or 0.0) if found else 0.0
