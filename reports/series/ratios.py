"""Ratios of cells to the base, and those that a workload expects. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kit.store.series import JudgedRatio, Ratio, Series, SeriesCell
from reports.series.figures import Key, figures_of
from reports.statistics.ratios import Figure, mean, paired

# What a ratio is of: axis, value, values of other axes, phase, layer, op, tier, figure.
Identity = tuple[str, str, tuple[tuple[str, str], ...], str, str, str, str, str]


def ratios_of(series: Series, cells: Sequence[SeriesCell]) -> Iterator[Ratio]:
    """Each cell to the one that has the base's value on one axis more."""
    for (axis, to, beside, phase, layer, op, tier, figure), found in rounds_of(cells).items():
        within, over = mean(found), paired(found)
        yield Ratio.model_validate(
            {
                "axis": axis, "from": series.axis(axis).values[0], "to": to, "beside": dict(beside),
                "phase": phase, "layer": layer, "op": op, "tier": tier, "figure": figure,
                "ratio": within.value, "range": within.range, "rounds": len(found),
                "interval": over.range if over.decides else None,
            },
            strict=False,
        )  # fmt: skip


def rounds_of(cells: Sequence[SeriesCell]) -> dict[Identity, list[Figure]]:
    """The ratios of cells to the base, in each round."""
    made: dict[Identity, list[Figure]] = {}
    used = [cell for cell in cells if not cell.excluded]
    for cell in used:
        for axis, value in cell.at.items():
            beside = {name: other for name, other in cell.at.items() if name != axis}
            bases = [b for b in used if b.at == beside and b.phase == cell.phase]
            if cell.again or not bases:
                continue
            for found in _rounds(cell, bases):
                for key, figure in found.items():
                    identity = (axis, value, tuple(beside.items()), cell.phase, *key)
                    made.setdefault(identity, []).append(figure)
    return made


def _rounds(cell: SeriesCell, bases: Sequence[SeriesCell]) -> Iterator[dict[Key, Figure]]:
    """Cell over base in each round. Of a base that was measured twice the mean counts."""
    for run in cell.runs:
        mine = figures_of(run)
        theirs = [figures_of(each) for base in bases for each in base.runs if each.round == run.round]
        known = {key: [each[key] for each in theirs if key in each] for key in mine}
        yield {key: mine[key].minus(mean(found)) for key, found in known.items() if found}


def judged(expected: JudgedRatio, series: Series, cells: Sequence[SeriesCell]) -> JudgedRatio:
    """An expectation on an axis, of this series: by the scatter of its rounds, or within its one round.

    It holds where the whole range is inside the limits, and fails where all of it is outside.
    """
    base = series.axis(expected.axis).values[0]
    before, after = (
        _by_round(expected, cells, {} if value == base else {expected.axis: value})
        for value in (expected.from_, expected.to)
    )
    rounds = sorted(before.keys() & after.keys())
    if not rounds:
        why = [
            f"{cell.name}: {cell.excluded}"
            for cell in cells
            if cell.excluded
            and cell.phase == expected.phase
            and cell.at.get(expected.axis) in (expected.from_, expected.to)
        ]
        reason = "; ".join(why) or "there are no two such rows with enough I/Os"
        return expected.model_copy(update={"ratio": None, "ok": None, "reason": reason})
    found = paired([after[each].minus(before[each]) for each in rounds])
    ok = found.inside(expected.ratio_min or 0.0, expected.ratio_max or math.inf, of_this_run=True)
    known = found.words("round" if found.decides else "run")
    reason = "" if ok else f"{found.value:.3f} ({known}), expected {_limits(expected)}"
    if ok is None:
        reason += ": not known well enough; more rounds (--repeat), or longer phases in 8 intervals or more, "
        reason += "tell it"
    update = {"ratio": found.value, "interval": found.range, "ok": ok, "reason": reason}
    return expected.model_copy(update=update)


def _by_round(expected: JudgedRatio, cells: Sequence[SeriesCell], at: Mapping[str, str]) -> dict[int, Figure]:
    """The median by round; of a base that was measured twice the mean."""
    key = expected.layer, expected.op, expected.tier, "p50"
    found: dict[int, list[Figure]] = {}
    for cell in cells:
        if cell.phase == expected.phase and cell.at == at and not cell.excluded:
            for run in cell.runs:
                found.setdefault(run.round, []).extend(filter(None, [figures_of(run).get(key)]))
    return {number: mean(each) for number, each in found.items() if each}


def _limits(expected: JudgedRatio) -> str:
    low, high = expected.ratio_min, expected.ratio_max
    if low and high:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low else f"at most {high:g}"
