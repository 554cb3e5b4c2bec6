"""What another load does to the I/Os of phases: each tier's percentiles beside it and alone. Pure.

A phase is one realisation: its moment may differ from that of another phase by more than its I/Os tell. So a
limit is judged where several phases are on each side, by their scatter (reports.statistics.ratios).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from kit.core.units import format_factor
from kit.store.checks.outcome import Outcome
from kit.store.labels import ios_words
from kit.store.latency import Latency
from kit.store.manifest import Impact, Manifest
from kit.store.parts.soak import ImpactRow
from kit.store.phase import Phase
from kit.store.tables import deciding_layer
from reports.statistics import batch_means
from reports.statistics.ratios import RatioRange, Realisation, half_width, is_too_wide, ratio

_QUANTILES = {"p50": 0.5, "p99": 0.99}


def describe(manifest: Manifest, latency: Latency) -> list[ImpactRow]:
    """A row per `[[impact]]`, tier and figure."""
    phases = {phase.name: phase for phase in manifest.phases}
    rows: list[ImpactRow] = []
    for impact in manifest.impact:
        if all(name in phases for side in impact.sides for name in side):
            alone, beside = ([phases[name] for name in side] for side in impact.sides)
            rows += _of_sides(impact, (alone, beside), latency)
    return rows


def _of_sides(
    impact: Impact, sides: tuple[list[Phase], list[Phase]], latency: Latency
) -> Iterator[ImpactRow]:
    every = [phase for side in sides for phase in side]
    mine = latency.cells.filter(
        pl.col("phase").is_in([phase.name for phase in every])
        & (pl.col("op") == impact.op)
        & (pl.col("count") > 0)
    )
    mine = mine.filter(pl.col("layer") == deciding_layer(mine["layer"].unique().to_list()))
    expected = [
        tier for tier in every[0].expected_tiers if all(tier in phase.expected_tiers for phase in every)
    ]
    limits = {"p50": impact.p50_ratio_max, "p99": impact.p99_ratio_max}
    for tier in expected or ["all"]:
        cells = mine.filter(pl.col("tier") == tier)
        for figure, q in _QUANTILES.items() if cells.height else ():
            row = _row(impact, tier, figure, limits[figure], _ratio(cells, sides, latency, q))
            yield row.model_copy(update={"titles": tuple(side[0].title or "" for side in sides)})


def _ratio(
    cells: pl.DataFrame, sides: tuple[list[Phase], list[Phase]], latency: Latency, q: float
) -> RatioRange | None:
    """None where a phase has too few I/Os."""

    def figure(phase: Phase) -> Realisation | None:
        mine = cells.filter(pl.col("phase") == phase.name)
        return batch_means.quantile(mine, *latency.stretch(phase), q)

    alone, beside = ([each for each in map(figure, side) if each] for side in sides)
    return ratio(alone, beside) if [len(alone), len(beside)] == [len(side) for side in sides] else None


def _row(impact: Impact, tier: str, figure: str, limit: float | None, made: RatioRange | None) -> ImpactRow:
    return ImpactRow(
        alone=impact.alone, beside=impact.beside, op=impact.op, tier=tier, figure=figure,
        ratio=made.value if made else None, range=made.range if made else None,
        over=made.over if made else (1, 1),
        limit=limit, ok=made.inside(0, limit) if made and limit is not None else None,
    )  # fmt: skip


def _words(row: ImpactRow) -> str:
    """One ratio as a part of a sentence."""
    if row.ratio is None:
        return f"{row.figure} not known (too few I/Os)"
    known = RatioRange(math.log(row.ratio), row.range and half_width(row.range), row.over)
    words = known.words("phase" if known.decides else "run")
    if row.range and is_too_wide(row.range):
        return f"{row.figure} {words}"
    return f"{row.figure} {format_factor(row.ratio)} ({words})"


def _names(side: str | Sequence[str]) -> str:
    return side if isinstance(side, str) else ", ".join(side)


def outcomes(rows: Sequence[ImpactRow]) -> Iterator[Outcome]:
    """Of each declared limit."""
    for row in rows:
        if row.limit is None:
            continue
        sides = f"in {_names(row.beside)}, beside {_names(row.alone)}"
        subject = f"{row.figure} of {row.op}/{row.tier} {sides}"
        found = f"{ios_words(row.op, row.tier)} {sides}: {_words(row)}"
        text = f"{found}, limit {row.limit:.3g}.{_remedy(row)}"
        yield Outcome.judged("IMPACT", row.ok, text, subject=subject)


def _remedy(row: ImpactRow) -> str:
    """What would tell, where it is open."""
    if row.ok is not None:
        return ""
    if row.ratio is None:
        return " Longer phases tell."
    if min(row.over) > 1:
        return " It is open: more phases on each side tell."
    return (
        " One phase on a side cannot tell an impact from the moment of a phase: name several, in the order "
        'alone, beside, beside, alone (alone = ["a", "a-2"], beside = ["b", "b-2"]).'
    )


def sentences(rows: Sequence[ImpactRow]) -> Iterator[str]:
    """One for each pair of sides and tier."""
    for found in _pairs(rows):
        first = found[0]
        alone, beside = (
            f'"{title}"' if title else _names(side)
            for title, side in zip(first.titles, (first.alone, first.beside), strict=True)
        )
        what = ios_words(first.op, first.tier)
        yield f"{what[0].upper()}{what[1:]}, {beside} against {alone}: {', '.join(map(_words, found))}."


def answer(rows: Sequence[ImpactRow]) -> Iterator[str]:
    """Of the pair whose p50 is known to differ most; of the first one where none is known to differ."""
    if pairs := _pairs(rows):
        yield from sentences(max(pairs, key=_change))


def _pairs(rows: Sequence[ImpactRow]) -> list[list[ImpactRow]]:
    pairs: dict[tuple[str, str, str, str], list[ImpactRow]] = {}
    for row in rows:
        pairs.setdefault((_names(row.alone), _names(row.beside), row.op, row.tier), []).append(row)
    return [*pairs.values()]


def _change(found: Sequence[ImpactRow]) -> float:
    """Of p50, as a logarithm; 0 where it may be none."""
    row = found[0]
    if not row.ratio or not row.range or row.range[0] <= 1 <= row.range[1] or min(row.over) < 2:
        return 0.0
    return abs(math.log(row.ratio))
