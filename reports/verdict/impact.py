"""What another load does to the I/Os of a phase: each tier's percentiles beside it and alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Impact, Manifest
from kit.store.parts.soak import ImpactRow
from kit.store.phase import Phase
from kit.store.tables import deciding_layer
from reports.statistics import blocks

_QUANTILES = {"p50": 0.5, "p99": 0.99}


def describe(manifest: Manifest, latency: Latency) -> list[ImpactRow]:
    """A row per `[[impact]]`, tier and figure."""
    phases = {phase.name: phase for phase in manifest.phases}
    rows: list[ImpactRow] = []
    for impact in manifest.impact:
        if impact.alone in phases and impact.beside in phases:
            rows += _of_pair(impact, phases[impact.alone], phases[impact.beside], latency.cells)
    return rows


def _of_pair(impact: Impact, alone: Phase, beside: Phase, cells: pl.DataFrame) -> Iterator[ImpactRow]:
    mine = cells.filter(
        pl.col("phase").is_in([alone.name, beside.name]) & (pl.col("op") == impact.op) & (pl.col("count") > 0)
    )
    mine = mine.filter(pl.col("layer") == deciding_layer(mine["layer"].unique().to_list()))
    a, b = (mine.filter(pl.col("phase") == phase.name) for phase in (alone, beside))
    expected = [tier for tier in alone.expected_tiers if tier in beside.expected_tiers] or ["all"]
    limits = {"p50": impact.p50_ratio_max, "p99": impact.p99_ratio_max}
    for tier in expected:
        tiers = [frame.filter(pl.col("tier") == tier) for frame in (a, b)]
        if not any(frame.height for frame in tiers):
            continue
        for figure, q in _QUANTILES.items():
            spans = [(phase.start_ns, phase.end_ns) for phase in (alone, beside)]
            made = blocks.ratio(tiers[0], tiers[1], spans[0], spans[1], q)
            yield _row(impact, tier, figure, limits[figure], made)


def _row(impact: Impact, tier: str, figure: str, limit: float | None, made: blocks.Ratio | None) -> ImpactRow:
    return ImpactRow(
        alone=impact.alone,
        beside=impact.beside,
        op=impact.op,
        tier=tier,
        figure=figure,
        ratio=made.ratio if made else None,
        range=(made.low, made.high) if made else None,
        limit=limit,
        ok=None if limit is None else made is not None and made.high <= limit,
    )


def _words(row: ImpactRow) -> str:
    """One ratio as a part of a sentence."""
    if row.ratio is None or row.range is None:
        return f"{row.figure} not known (too few I/Os)"
    low, high = row.range
    return f"{row.figure} x {row.ratio:.3g} (95 %: {low:.3g} to {high:.3g})"


def outcomes(rows: Sequence[ImpactRow]) -> Iterator[Outcome]:
    """Of each declared limit."""
    for row in rows:
        if row.ok is not None:
            where = f"{row.op}/{row.tier} in {row.beside}, beside {row.alone}"
            if row.ok:
                yield Outcome.ok("IMPACT", subject=f"{row.figure} of {where}")
            else:
                text = f"{where}: {_words(row)}, at most {row.limit:.3g} was declared."
                yield Outcome.failed("IMPACT", text, subject=f"{row.figure} of {where}")


def sentences(rows: Sequence[ImpactRow]) -> Iterator[str]:
    """One for each pair and tier."""
    pairs: dict[tuple[str, str, str, str], list[ImpactRow]] = {}
    for row in rows:
        pairs.setdefault((row.alone, row.beside, row.op, row.tier), []).append(row)
    for (alone, beside, op, tier), found in pairs.items():
        yield f"{beside} against {alone}, {op}/{tier}: {', '.join(map(_words, found))}."
