"""Ratios of cells to the base, and those that a workload expects. Pure.

A round is one realisation: what a cell and its base share in it cancels out (reports.statistics.ratios).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.store.series import JudgedRatio, Ratio, Series, SeriesCell
from kit.store.tables import deciding_layer
from reports.series.figures import Key, figures_of
from reports.statistics import ratios
from reports.statistics.ratios import ALPHA, Realisation, mean, paired

# What a ratio is of: axis, value, values of other axes, phase, layer, op, tier, figure.
Identity = tuple[str, str, tuple[tuple[str, str], ...], str, str, str, str, str]


def ratios_of(
    series: Series, cells: Sequence[SeriesCell]
) -> tuple[tuple[Ratio, ...], tuple[JudgedRatio, ...]]:
    """Each cell to the one that has the base's value on one axis more; and the ratios that are expected."""
    to_base = rounds_of(cells)
    expected = [_expected(each, series, cells) for each in series.expect]
    judged = (
        _judged(each, paired(pairs)) if pairs else _unknown(each, cells)
        for each, pairs in zip(series.expect, expected, strict=True)
    )
    return tuple(_ratio(series, *each) for each in to_base.items()), tuple(judged)


def largest_change(cells: Sequence[SeriesCell]) -> tuple[Identity, ratios.RatioRange, int] | None:
    """The largest change of a median along one axis, and of how many; its range holds for all together.

    Of the layer that decides alone: another layer shows the same I/Os once more.
    """
    found = {key: each for key, each in rounds_of(cells).items() if key[-1] == "p50" and not key[2]}
    layers: dict[str, set[str]] = {}
    for _, _, _, phase, layer, *_ in found:
        layers.setdefault(phase, set()).add(layer)
    found = {key: each for key, each in found.items() if key[4] == deciding_layer(layers[key[3]])}
    known = ratios.ratios([[each] for each in found.values()], ALPHA / max(len(found), 1))
    pairs = [(key, each, len(found)) for key, each in zip(found, known, strict=True)]
    return max(pairs, key=lambda each: abs(each[1].log), default=None)


def named(series: Series, identity: Identity) -> dict[str, Any]:
    """What a ratio is of, as it is stored."""
    axis, to, beside, phase, layer, op, tier, figure = identity
    return {
        "axis": axis, "from": series.axis(axis).values[0], "to": to, "beside": dict(beside), "phase": phase,
        "layer": layer, "op": op, "tier": tier, "figure": figure,
    }  # fmt: skip


def _ratio(series: Series, identity: Identity, rounds: Sequence[Realisation]) -> Ratio:
    known = paired(rounds)
    values = {
        **named(series, identity), "ratio": known.value, "range": mean(rounds).range, "rounds": len(rounds),
        "interval": known.range if known.decides else None,
    }  # fmt: skip
    return Ratio.model_validate(values, strict=False)


def rounds_of(cells: Sequence[SeriesCell]) -> dict[Identity, list[Realisation]]:
    """The ratios of cells to the base, in each round."""
    made: dict[Identity, list[Realisation]] = {}
    for cell in cells:
        for axis, value in cell.at.items() if not cell.again else ():
            beside = {name: other for name, other in cell.at.items() if name != axis}
            mine, base = (_by_round(cells, cell.phase, at) for at in (cell.at, beside))
            for key, found in _pairs(base, mine):
                made[axis, value, tuple(beside.items()), cell.phase, *key] = found
    return made


def _by_round(
    cells: Sequence[SeriesCell], phase: str, at: Mapping[str, str]
) -> dict[int, dict[Key, Realisation]]:
    """The figures by round; of a base that was measured twice the mean."""
    found: dict[int, dict[Key, list[Realisation]]] = {}
    for cell in cells:
        if cell.phase == phase and cell.at == at and not cell.excluded:
            for run in cell.runs:
                of_round = found.setdefault(run.round, {})
                for key, figure in figures_of(run).items():
                    of_round.setdefault(key, []).append(figure)
    return {number: {key: mean(each) for key, each in keys.items()} for number, keys in found.items()}


def _pairs(
    base: Mapping[int, Mapping[Key, Realisation]], mine: Mapping[int, Mapping[Key, Realisation]]
) -> Iterator[tuple[Key, list[Realisation]]]:
    """Each figure over that of the base, in the rounds that have both."""
    both = [(figures, base[number]) for number, figures in mine.items() if number in base]
    for key in dict.fromkeys(key for figures, _ in both for key in figures):
        found = [a[key].minus(b[key]) for a, b in both if key in a and key in b]
        if found:
            yield key, found


def _expected(expected: JudgedRatio, series: Series, cells: Sequence[SeriesCell]) -> list[Realisation]:
    """The medians of an expectation on an axis, in each round; none where a side has none."""
    base = series.axis(expected.axis).values[0]
    before, after = (
        _by_round(cells, expected.phase, {} if value == base else {expected.axis: value})
        for value in (expected.from_, expected.to)
    )
    return dict(_pairs(before, after)).get((expected.layer, expected.op, expected.tier, "p50"), [])


def _unknown(expected: JudgedRatio, cells: Sequence[SeriesCell]) -> JudgedRatio:
    """Of what is not measured, or excluded."""
    why = [
        f"{cell.name}: {cell.excluded}"
        for cell in cells
        if cell.excluded
        and cell.phase == expected.phase
        and cell.at.get(expected.axis) in (expected.from_, expected.to)
    ]
    reason = "; ".join(why) or "there are no two such rows with enough I/Os"
    return expected.model_copy(update={"ratio": None, "ok": None, "reason": reason})


def _judged(expected: JudgedRatio, found: ratios.RatioRange) -> JudgedRatio:
    """An expectation of this series: by the scatter of its rounds, or within its one round.

    It holds where the whole range is inside the limits, and fails where all of it is outside.
    """
    ok = found.inside(expected.ratio_min or 0.0, expected.ratio_max or math.inf, of_this_run=True)
    known = found.words("round" if found.decides else "run")
    reason = "" if ok else f"{found.value:.3f} ({known}), expected {_limits(expected)}"
    if ok is None:
        reason += ": not known well enough; more rounds (--repeat), or longer phases in 8 intervals or more, "
        reason += "tell it"
    update = {"ratio": found.value, "interval": found.range, "ok": ok, "reason": reason}
    return expected.model_copy(update=update)


def _limits(expected: JudgedRatio) -> str:
    low, high = expected.ratio_min, expected.ratio_max
    if low and high:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low else f"at most {high:g}"
