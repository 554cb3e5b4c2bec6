"""Soaks: the rows of a load of hours, how far each is from the first, and what stopped it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from kit.core.units import format_duration_ns, format_time_s
from kit.store.checks.outcome import Outcome
from kit.store.labels import ios_words
from kit.store.latency import Latency
from kit.store.manifest import Manifest, Soak
from kit.store.parts.soak import SoakDrift, SoakPhase, SoakRow, SoakTier
from kit.store.phase import STOP_RULE, Phase
from kit.store.summary import Row, Summary
from kit.store.tables import deciding_layer
from reports.features.faults.judge import disturbed
from reports.features.feature import Feature, Judged
from reports.features.soak import impact
from reports.statistics import blocks
from reports.statistics.quantiles import percentiles_ns
from reports.statistics.ratios import RatioRange

_QUANTILES = {"p50": 0.5, "p99": 0.99}


def judge(manifest: Manifest, latency: Latency, _: Sequence[Row]) -> Judged:
    """With the impact of other loads, which stands beside it on the page."""
    soaks, impacts = describe(manifest, latency), impact.describe(manifest, latency)
    return Judged(
        {"soak": soaks, "impact": impacts},
        [*outcomes(soaks), *impact.outcomes(impacts)],
        [*sentences(soaks), *impact.sentences(impacts)],
    )


def describe(manifest: Manifest, latency: Latency) -> list[SoakPhase]:
    """Each phase with a soak."""
    phases = {phase.name: phase for phase in manifest.phases}
    return [_described(soak, phases[soak.phase], latency) for soak in manifest.soak if soak.phase in phases]


def sentences(soaks: Sequence[SoakPhase]) -> Iterator[str]:
    """One for each tier whose rows stay near its first: the row that is farthest from it."""
    for soak in soaks:
        for tier in soak.tiers:
            told = [
                f"{each.figure} {_change(each)}, limit {100 * each.limit:.3g} %"
                for each in tier.drift
                if each.ok and each.limit is not None
            ]
            if told:
                whole, row = (format_time_s(each / 1e9) for each in (soak.duration_ns, soak.row_ns))
                over = f"In {whole}, rows of {row}"
                yield f"{over}: {ios_words(tier.op, tier.tier)} drifted at most: {'; '.join(told)}."


def _change(drift: SoakDrift) -> str:
    """Such as "+20 % from 2:00:00 on against the first row (within this run: +19.1 % to +21.9 %)"."""
    assert drift.ratio is not None, "a drift in a sentence has a ratio"
    found, low, high = (
        f"{100 * (each - 1):+.3g} %" for each in (drift.ratio, *(drift.range or (drift.ratio, drift.ratio)))
    )
    at = f"from {format_time_s(drift.at_s or 0)} on against the first row"
    return f"{found} {at} (within this run: {low} to {high})"


def outcomes(soaks: Sequence[SoakPhase]) -> Iterator[Outcome]:
    """Whether each soak went on until its end, and each limit of its drift."""
    for soak in soaks:
        if soak.stopped:
            text = f"{soak.stopped}, after {format_time_s(soak.duration_ns / 1e9)}."
            yield Outcome.failed("SOAK-STOPPED", text, soak.phase)
        else:
            yield Outcome.ok("SOAK-STOPPED", soak.phase)
        for tier in soak.tiers:
            for drift in tier.drift:
                if drift.limit is not None:
                    subject = f"{drift.figure} of {tier.op}/{tier.tier}"
                    yield Outcome.judged("SOAK-DRIFT", drift.ok, drift.reason, soak.phase, subject)


def _described(soak: Soak, phase: Phase, latency: Latency) -> SoakPhase:
    mine = latency.cells.filter((pl.col("phase") == phase.name) & (pl.col("count") > 0))
    mine = mine.filter(pl.col("layer") == deciding_layer(mine["layer"].unique().to_list()))
    edges = _edges(phase, soak.row_ns)
    # What a fault did has a limit of its own; drift is what stays.
    felt = [pl.col("time_ns").is_between(*span, closed="left") for span in disturbed(phase, latency)]
    # A late interval belongs to the last row.
    row = np.searchsorted(np.array(edges[1:-1]), mine["time_ns"].to_numpy(), side="right")
    mine = mine.with_columns(pl.Series("row", row, dtype=pl.Int64), steady=~pl.any_horizontal(False, *felt))
    kinds = mine.filter(pl.col("op") != "commit").select("layer", "op", "tier").unique().sort("op", "tier")
    _, column_ns = latency.stretch(phase)
    return SoakPhase(
        phase=phase.name,
        row_ns=soak.row_ns,
        duration_ns=phase.end_ns - phase.start_ns,
        stopped=next((event.text for event in phase.events if event.kind == STOP_RULE), None),
        tiers=tuple(_tier(soak, phase, mine, edges, kind, column_ns) for kind in kinds.iter_rows(named=True)),
    )


def _edges(phase: Phase, row_ns: int) -> list[int]:
    """Where each row begins, and where the last ends. What is less than a row goes to the last one."""
    rows = max((phase.end_ns - phase.start_ns + phase.interval_ns) // row_ns, 1)
    return [*(phase.start_ns + number * row_ns for number in range(rows)), phase.end_ns]


def _tier(
    soak: Soak, phase: Phase, cells: pl.DataFrame, edges: Sequence[int], kind: dict[str, str], column_ns: int
) -> SoakTier:
    """`cells`: of all kinds, with `row` and whether they are `steady`, no part of a fault."""
    mine = cells.filter((pl.col("op") == kind["op"]) & (pl.col("tier") == kind["tier"]))
    steady = mine.filter("steady")
    spans = list(itertools.pairwise(edges))
    every, bins = np.zeros(len(spans), dtype=np.int64), [[] for _ in spans]  # type: ignore[var-annotated]
    np.add.at(every, cells["row"].to_numpy(), cells["count"].to_numpy())
    summed = mine.group_by("row", "lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("row", "lo_ns")
    for row, *each in summed.rows():
        bins[row].append(each)
    judged = kind["tier"] in (phase.expected_tiers or ("all",))
    limits = {"p50": soak.p50_drift_max, "p99": soak.p99_drift_max} if judged else {}
    return SoakTier(
        **kind,
        rows=tuple(
            _row(part, span, phase, total)
            for part, span, total in zip(bins, spans, every.tolist(), strict=True)
        ),
        drift=tuple(
            _drift(ios_words(kind["op"], kind["tier"]), figure, limits.get(figure), steady, edges, column_ns)
            for figure in _QUANTILES
            if limits.get(figure) is not None or len(spans) > 1
        ),
    )


def _row(bins: Sequence[tuple[int, int, int]], span: tuple[int, int], phase: Phase, total: int) -> SoakRow:
    ios = sum(count for _, _, count in bins)
    limits = (bins[0][0], bins[-1][1]) if bins else (0, 0)
    p50, p99 = percentiles_ns(bins, list(_QUANTILES.values()), limits) if bins else (None, None)
    seconds = max(span[1] - span[0], 1) / 1e9
    return SoakRow(
        at_s=(span[0] - phase.start_ns) / 1e9, seconds=seconds, ios=ios, per_s=ios / seconds,
        share=ios / total if total else 0.0, p50_us=p50 and p50 / 1e3, p99_us=p99 and p99 / 1e3,
        max_us=limits[1] / 1e3 if bins else None,
        events=sum(span[0] <= event.time_ns < span[1] for event in phase.events),
    )  # fmt: skip


def _drift(
    name: str, figure: str, limit: float | None, cells: pl.DataFrame, edges: Sequence[int], column_ns: int
) -> SoakDrift:
    """Every row beside the first. `ok`: None where no limit is declared, or where it is open."""
    found = blocks.against_first(cells, edges, _QUANTILES[figure]) if len(edges) > 2 else []
    known = [(row, each) for row, each in enumerate(found, 1) if each]
    ok, told = None, max(known, key=lambda pair: abs(pair[1].log), default=None)
    if limit is not None:
        holds, ok = within(found, limit)
        # Name the row that decides: one that is surely outside, or else the one that may be farthest.
        decisive = [pair for pair in known if ok is not False or holds[pair[0] - 1] is False]
        told = max(decisive, key=lambda pair: abs(pair[1].log) + (pair[1].reach or 0), default=None)
    drift = SoakDrift(
        figure=figure, ratio=told and told[1].value, range=told and told[1].range,
        at_s=told and (edges[told[0]] - edges[0]) / 1e9, limit=limit, ok=ok, reason="",
    )  # fmt: skip
    if limit is None or ok:
        return drift
    few = len(known) < len(found)
    if few and ok is None and edges[1] - edges[0] < blocks.FEWEST * column_ns:
        return drift.model_copy(update={"reason": _too_short(name, drift, column_ns)})
    return drift.model_copy(update={"reason": _reason(name, drift, len(edges) - 1, few=few)})


def within(found: Sequence[RatioRange | None], limit: float) -> tuple[list[bool | None], bool | None]:
    """Whether each row is within the limit, and whether all are; None where that is open."""
    low, high = 1 / (1 + limit), 1 + limit
    holds = [each.inside(low, high, of_this_run=True) if each else None for each in found]
    return holds, False if False in holds else None if None in holds or not holds else True


def _too_short(name: str, drift: SoakDrift, column_ns: int) -> str:
    """Of rows of fewer intervals than how they vary can be told by."""
    assert drift.limit is not None
    width, least = format_time_s(column_ns / 1e9), format_duration_ns(column_ns * blocks.BLOCKS)
    return (
        f"a row is too short to see a drift of {drift.figure} of {name}, "
        f"limit {100 * drift.limit:.3g} %: counts are those of {width} each, and a row needs "
        f'{blocks.BLOCKS} of them. soak.row = "{least}" or longer tells.'
    )


def _reason(name: str, drift: SoakDrift, rows: int, *, few: bool) -> str:
    assert drift.limit is not None
    figure, declared = drift.figure, f"limit {100 * drift.limit:.3g} %"
    if rows < 2:
        return f"{figure} of {name}: one row alone shows no drift; {declared}."
    if drift.ratio is None or drift.range is None or (few and drift.ok is None):
        return (
            f"{name} have too few I/Os or intervals in a row to see a drift of their {figure}; {declared}. "
            "More I/Os a second, shorter intervals, or longer rows, tell."
        )
    if drift.ok is False:
        return f"{figure} of {name} drifted: {_change(drift)}, {declared}."
    text = f"{figure} of {name}: {_change(drift)}, {declared}"
    return f"{text}: undecided. A longer run decides it, or longer rows (soak.row)."


def _answer(summary: Summary) -> Iterator[str]:
    yield from [*sentences(summary.soak)][:1]
    yield from impact.answer(summary.impact)


FEATURE = Feature(judge, _answer)
