"""Soaks: the rows of a load of hours, how far its last row is from its first, and what stopped it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from kit.core.units import format_duration_ns
from kit.store.latency import Latency
from kit.store.manifest import Manifest, Soak
from kit.store.phase import STOP_RULE, Phase
from kit.store.tables import deciding_layer
from reports.statistics import blocks
from reports.statistics.quantiles import percentiles_ns

SOAK_DRIFT, SOAK_STOPPED = "SOAK-DRIFT", "SOAK-STOPPED"
Json = dict[str, Any]
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def describe(manifest: Manifest, latency: Latency) -> list[Json]:
    """An object per phase with a soak, as kit.store.summary.SoakRow has it."""
    phases = {phase.name: phase for phase in manifest.phases}
    return [
        _described(soak, phases[soak.phase], latency.cells) for soak in manifest.soak if soak.phase in phases
    ]


def sentences(rows: Sequence[Json]) -> Iterator[str]:
    """One for each tier whose last row is held against its first."""
    for row in rows:
        for tier in row["tiers"]:
            told = [_words(each) for each in tier["drift"] if each["limit"] is not None and each["ratio"]]
            if told:
                rows_ = f"{len(tier['rows'])} rows of {format_duration_ns(row['row_ns'])}"
                name = f"{tier['op']}/{tier['tier']}"
                yield f"{row['phase']}: {rows_}; the last against the first, {name}: {', '.join(told)}."


def _words(drift: Json) -> str:
    low, high = drift["range"]
    return f"{drift['figure']} x {drift['ratio']:.3f} (95 %: {low:.3f} to {high:.3f})"


def unmet(rows: Sequence[Json]) -> Iterator[str]:
    """Why a soak did not hold, as sentences."""
    for row in rows:
        if row["stopped"]:
            yield f"{row['phase']}: {row['stopped']}, after {format_duration_ns(row['duration_ns'])}."
        for tier in row["tiers"]:
            for drift in tier["drift"]:
                if drift["ok"] is False:
                    yield f"{row['phase']}: {drift['reason']}"


def _described(soak: Soak, phase: Phase, cells: pl.DataFrame) -> Json:
    mine = cells.filter((pl.col("phase") == phase.name) & (pl.col("count") > 0))
    mine = mine.filter(pl.col("layer") == deciding_layer(mine["layer"].unique().to_list()))
    duration_ns = phase.end_ns - phase.start_ns
    edges = _edges(phase, soak.row_ns)
    stopped = [event.text for event in phase.events if event.kind == STOP_RULE]
    expected = set(phase.expected_tiers) or {"all"}
    kinds = mine.filter(pl.col("op") != "commit").select("layer", "op", "tier").unique().sort("op", "tier")
    return {
        "phase": phase.name,
        "row_ns": soak.row_ns,
        "duration_ns": duration_ns,
        "stopped": stopped[0] if stopped else None,
        "tiers": [
            _tier(soak, phase, mine, edges, kind, judged=kind["tier"] in expected)
            for kind in kinds.iter_rows(named=True)
        ],
    }


def _edges(phase: Phase, row_ns: int) -> list[int]:
    """Where each row begins, and where the last ends. What is less than a row goes to the last one."""
    rows = max((phase.end_ns - phase.start_ns + phase.interval_ns) // row_ns, 1)
    return [*(phase.start_ns + number * row_ns for number in range(rows)), phase.end_ns]


def _tier(
    soak: Soak, phase: Phase, cells: pl.DataFrame, edges: Sequence[int], kind: Json, *, judged: bool
) -> Json:
    mine = cells.filter((pl.col("op") == kind["op"]) & (pl.col("tier") == kind["tier"]))
    spans = list(itertools.pairwise(edges))
    parts = [_within(mine, span, edges) for span in spans]
    every = [int(_within(cells, span, edges)["count"].sum()) for span in spans]
    limits = {"p50": soak.p50_drift_max, "p99": soak.p99_drift_max} if judged else {}
    return {
        **kind,
        "rows": [
            _row(part, span, phase, total) for part, span, total in zip(parts, spans, every, strict=True)
        ],
        "drift": [
            _drift(f"{kind['op']}/{kind['tier']}", figure, limits.get(figure), parts, spans)
            for figure in _QUANTILES
            if limits.get(figure) is not None or len(spans) > 1
        ],
    }


def _within(frame: pl.DataFrame, span: tuple[int, int], edges: Sequence[int]) -> pl.DataFrame:
    """The part of `span`; a late interval belongs to the last row."""
    after = pl.col("time_ns") >= span[0] if span[0] > edges[0] else pl.lit(True)
    before = pl.col("time_ns") < span[1] if span[1] < edges[-1] else pl.lit(True)
    return frame.filter(after & before)


def _row(part: pl.DataFrame, span: tuple[int, int], phase: Phase, total: int) -> Json:
    bins = part.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    ios = sum(count for _, _, count in bins)
    limits = (bins[0][0], bins[-1][1]) if bins else (0, 0)
    found = percentiles_ns(bins, list(_QUANTILES.values()), limits) if bins else [None, None]
    seconds = max(span[1] - span[0], 1) / 1e9
    return {
        "at_s": (span[0] - phase.start_ns) / 1e9,
        "seconds": seconds,
        "ios": ios,
        "per_s": ios / seconds,
        "share": ios / total if total else 0.0,
        **{f"{name}_us": ns and ns / 1e3 for name, ns in zip(_QUANTILES, found, strict=True)},
        "max_us": limits[1] / 1e3 if bins else None,
        "events": sum(span[0] <= event.time_ns < span[1] for event in phase.events),
    }


def _drift(
    name: str,
    figure: str,
    limit: float | None,
    parts: Sequence[pl.DataFrame],
    spans: Sequence[tuple[int, int]],
) -> Json:
    """The last row beside the first. `ok`: None where no limit is declared."""
    made = None
    if len(spans) > 1:
        made = blocks.ratio(parts[0], parts[-1], spans[0], spans[-1], _QUANTILES[figure])
    ok, reason = None, ""
    if limit is not None:
        ok = made is not None and 1 / (1 + limit) <= made.low and made.high <= 1 + limit
        if not ok:
            reason = _reason(name, figure, limit, made, len(spans))
    return {
        "figure": figure,
        "ratio": made and made.ratio,
        "range": [made.low, made.high] if made else None,
        "limit": limit,
        "ok": ok,
        "reason": reason,
    }


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
