"""Soaks: the rows of a load of hours, how far its last row is from its first, and what stopped it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from kit.core.units import format_duration_ns
from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest, Soak
from kit.store.parts.soak import SoakDrift, SoakPhase, SoakRow, SoakTier
from kit.store.phase import STOP_RULE, Phase
from kit.store.tables import deciding_layer
from reports.statistics import blocks
from reports.statistics.quantiles import percentiles_ns

_QUANTILES = {"p50": 0.5, "p99": 0.99}


def describe(manifest: Manifest, latency: Latency) -> list[SoakPhase]:
    """Each phase with a soak."""
    phases = {phase.name: phase for phase in manifest.phases}
    return [
        _described(soak, phases[soak.phase], latency.cells) for soak in manifest.soak if soak.phase in phases
    ]


def sentences(soaks: Sequence[SoakPhase]) -> Iterator[str]:
    """One for each tier whose last row is held against its first."""
    for soak in soaks:
        for tier in soak.tiers:
            told = [_words(each) for each in tier.drift if each.limit is not None and each.ratio]
            if told:
                rows = f"{len(tier.rows)} rows of {format_duration_ns(soak.row_ns)}"
                name = f"{tier.op}/{tier.tier}"
                yield f"{soak.phase}: {rows}; the last against the first, {name}: {', '.join(told)}."


def _words(drift: SoakDrift) -> str:
    low, high = drift.range or (0.0, 0.0)
    return f"{drift.figure} x {drift.ratio:.3f} (95 %: {low:.3f} to {high:.3f})"


def outcomes(soaks: Sequence[SoakPhase]) -> Iterator[Outcome]:
    """Whether each soak went on until its end, and each limit of its drift."""
    for soak in soaks:
        if soak.stopped:
            text = f"{soak.stopped}, after {format_duration_ns(soak.duration_ns)}."
            yield Outcome.failed("SOAK-STOPPED", text, soak.phase)
        else:
            yield Outcome.ok("SOAK-STOPPED", soak.phase)
        for tier in soak.tiers:
            for drift in tier.drift:
                subject = f"{drift.figure} of {tier.op}/{tier.tier}"
                if drift.ok:
                    yield Outcome.ok("SOAK-DRIFT", soak.phase, subject)
                elif drift.ok is False:
                    yield Outcome.failed("SOAK-DRIFT", drift.reason, soak.phase, subject)


def _described(soak: Soak, phase: Phase, cells: pl.DataFrame) -> SoakPhase:
    mine = cells.filter((pl.col("phase") == phase.name) & (pl.col("count") > 0))
    mine = mine.filter(pl.col("layer") == deciding_layer(mine["layer"].unique().to_list()))
    edges = _edges(phase, soak.row_ns)
    expected = set(phase.expected_tiers) or {"all"}
    kinds = mine.filter(pl.col("op") != "commit").select("layer", "op", "tier").unique().sort("op", "tier")
    return SoakPhase(
        phase=phase.name,
        row_ns=soak.row_ns,
        duration_ns=phase.end_ns - phase.start_ns,
        stopped=next((event.text for event in phase.events if event.kind == STOP_RULE), None),
        tiers=tuple(
            _tier(soak, phase, mine, edges, kind, judged=kind["tier"] in expected)
            for kind in kinds.iter_rows(named=True)
        ),
    )


def _edges(phase: Phase, row_ns: int) -> list[int]:
    """Where each row begins, and where the last ends. What is less than a row goes to the last one."""
    rows = max((phase.end_ns - phase.start_ns + phase.interval_ns) // row_ns, 1)
    return [*(phase.start_ns + number * row_ns for number in range(rows)), phase.end_ns]


def _tier(
    soak: Soak, phase: Phase, cells: pl.DataFrame, edges: Sequence[int], kind: dict[str, str], *, judged: bool
) -> SoakTier:
    mine = cells.filter((pl.col("op") == kind["op"]) & (pl.col("tier") == kind["tier"]))
    spans = list(itertools.pairwise(edges))
    parts = [_within(mine, span, edges) for span in spans]
    every = [int(_within(cells, span, edges)["count"].sum()) for span in spans]
    limits = {"p50": soak.p50_drift_max, "p99": soak.p99_drift_max} if judged else {}
    return SoakTier(
        **kind,
        rows=tuple(
            _row(part, span, phase, total) for part, span, total in zip(parts, spans, every, strict=True)
        ),
        drift=tuple(
            _drift(f"{kind['op']}/{kind['tier']}", figure, limits.get(figure), parts, spans)
            for figure in _QUANTILES
            if limits.get(figure) is not None or len(spans) > 1
        ),
    )


def _within(frame: pl.DataFrame, span: tuple[int, int], edges: Sequence[int]) -> pl.DataFrame:
    """The part of `span`; a late interval belongs to the last row."""
    after = pl.col("time_ns") >= span[0] if span[0] > edges[0] else pl.lit(True)
    before = pl.col("time_ns") < span[1] if span[1] < edges[-1] else pl.lit(True)
    return frame.filter(after & before)


def _row(part: pl.DataFrame, span: tuple[int, int], phase: Phase, total: int) -> SoakRow:
    bins = part.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    ios = sum(count for _, _, count in bins)
    limits = (bins[0][0], bins[-1][1]) if bins else (0, 0)
    p50, p99 = percentiles_ns(bins, list(_QUANTILES.values()), limits) if bins else (None, None)
    seconds = max(span[1] - span[0], 1) / 1e9
    return SoakRow(
        at_s=(span[0] - phase.start_ns) / 1e9,
        seconds=seconds,
        ios=ios,
        per_s=ios / seconds,
        share=ios / total if total else 0.0,
        p50_us=p50 and p50 / 1e3,
        p99_us=p99 and p99 / 1e3,
        max_us=limits[1] / 1e3 if bins else None,
        events=sum(span[0] <= event.time_ns < span[1] for event in phase.events),
    )


def _drift(
    name: str,
    figure: str,
    limit: float | None,
    parts: Sequence[pl.DataFrame],
    spans: Sequence[tuple[int, int]],
) -> SoakDrift:
    """The last row beside the first. `ok`: None where no limit is declared."""
    made = None
    if len(spans) > 1:
        made = blocks.ratio(parts[0], parts[-1], spans[0], spans[-1], _QUANTILES[figure])
    ok, reason = None, ""
    if limit is not None:
        ok = made is not None and 1 / (1 + limit) <= made.low and made.high <= 1 + limit
        if not ok:
            reason = _reason(name, figure, limit, made, len(spans))
    return SoakDrift(
        figure=figure,
        ratio=made.ratio if made else None,
        range=(made.low, made.high) if made else None,
        limit=limit,
        ok=ok,
        reason=reason,
    )


def _reason(name: str, figure: str, limit: float, made: blocks.Ratio | None, rows: int) -> str:
    declared = f"at most {100 * limit:.3g} % was declared"
    if rows < 2:
        return f"{figure} of {name} has one row alone, and no drift can be seen; {declared}."
    if made is None:
        return f"{name} has too few I/Os in a row to see a drift of its {figure}; {declared}."
    text = (
        f"{figure} of {name} in the last row is {made.ratio:.3f} times that of the first "
        f"(95 %: {made.low:.3f} to {made.high:.3f})"
    )
    if made.low > 1 + limit or made.high < 1 / (1 + limit):
        return f"{text}: it drifted; {declared}."
    return f"{text}: the interval reaches beyond the {100 * limit:.3g} % that was declared."
