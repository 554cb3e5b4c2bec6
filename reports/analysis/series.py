"""From the runs of a series to its cells, ratios, drift and verdict. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import polars as pl

from kit.store.format import AGAIN
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.series import (
    CellRow,
    CellRun,
    Drift,
    JudgedRatio,
    Ratio,
    Series,
    SeriesBuild,
    SeriesCell,
    SeriesRun,
)
from kit.store.summary import CPU_BOUND, Row, Summary, Verdict
from reports.statistics.bootstrap import t_critical
from reports.statistics.quantiles import Bins, rank_ns

_ORDER: Mapping[Verdict, int] = {"valid": 0, "invalid": 1, "unknown": 2}
_RANK_ERROR = 1.96
# Of an op's I/Os: a tier that answered fewer does not have the median's place.
_PART = 0.05


@dataclass(frozen=True)
class StoredRun:
    """What a run of the series has stored."""

    manifest: Manifest
    summary: Summary
    latency: Latency


def analysed_series(series: Series, runs: Mapping[str, StoredRun]) -> Series:
    """The series with what its runs say. `runs`: by directory; without one its cells are unmeasured."""
    builds = tuple(_build(build, runs) for build in series.builds)
    named = {build.name: build for build in builds}
    cells = [_cell(cell, named[cell.build], runs) for cell in series.cells]
    drift = tuple(_drift(series, cells))
    cells = [_excluded(_drifted(cell, drift)) for cell in cells]
    ratios = tuple(_ratios(series, cells))
    expect = tuple(_judged(each, ratios, cells) for each in series.expect)
    verdict, reasons = _verdict(series, builds, cells, drift, expect)
    return series.model_copy(
        update={
            "builds": builds, "cells": tuple(cells), "drift": drift, "ratios": ratios, "expect": expect,
            "verdict": verdict, "reasons": tuple(reasons),
        }
    )  # fmt: skip


def _build(build: SeriesBuild, runs: Mapping[str, StoredRun]) -> SeriesBuild:
    judged = [
        run.model_copy(update={"verdict": runs[run.run].summary.verdict}) if run.run in runs else run
        for run in build.runs
    ]
    return build.model_copy(update={"runs": tuple(judged)})


def _cell(cell: SeriesCell, build: SeriesBuild, runs: Mapping[str, StoredRun]) -> SeriesCell:
    of_runs = [_cell_run(cell, each, runs[each.run]) for each in build.runs if each.run in runs]
    worst = max((run.verdict for run in of_runs), key=lambda verdict: _ORDER[verdict], default=None)
    return cell.model_copy(update={"runs": tuple(of_runs), "verdict": worst, "excluded": None})


def _cell_run(cell: SeriesCell, run: SeriesRun, stored: StoredRun) -> CellRun:
    verdict, reasons = verdict_of_phase(stored.manifest, stored.summary, cell.in_run)
    phase = next((each for each in stored.manifest.phases if each.name == cell.in_run), None)
    use = next((each for each in stored.summary.use if each.phase == cell.in_run), None)
    bins = _bins(stored.latency, cell.in_run)
    rows = [row for row in stored.summary.rows if row.phase == cell.in_run]
    return CellRun(
        run=run.run,
        round=run.round,
        verdict=verdict,
        reasons=tuple(reasons),
        ios_per_s=use.iops if use else _rate(phase),
        bytes_per_s=use.bytes_per_s if use else None,
        cpu_busy=max((machine.busy for machine in use.cpu), default=None) if use else None,
        bytes=use.bytes if use else None,
        rows=tuple(_row(row, bins.get((row.layer, row.op, row.tier), [])) for row in rows),
    )


def verdict_of_phase(manifest: Manifest, summary: Summary, phase: str) -> tuple[Verdict, list[str]]:
    """The verdict of one phase of a run, and its reasons. What is of the run as a whole is of each phase."""
    if phase not in (each.name for each in manifest.phases):
        return "unknown", [f"It was not measured. {' '.join(summary.reasons)}".strip()]
    names = [each.name for each in manifest.phases if each.name != phase]
    unmet = [each for each in summary.expect if each.ok is False]
    said = {reason for each in unmet for reason in each.reasons}
    if summary.verdict == "unknown":
        others = tuple(f"{name}: " for name in names)
        own = [reason for reason in summary.reasons if not reason.startswith(others) and reason not in said]
        if own:
            return "unknown", own
    reasons = [reason for each in unmet if each.phase == phase for reason in each.reasons]
    return ("invalid", reasons) if any(each.phase == phase for each in unmet) else ("valid", [])


def _rate(phase: Phase | None) -> float | None:
    """I/Os a second of all clients, from the first I/O to the last."""
    if phase is None or not phase.client_ios or phase.end_ns <= phase.start_ns:
        return None
    return phase.client_ios / ((phase.end_ns - phase.start_ns) / 1e9)


def _bins(latency: Latency, phase: str) -> dict[tuple[str, str, str], Bins]:
    key = ("layer", "op", "tier")
    frame = (
        latency.bins.filter((pl.col("phase") == phase) & (pl.col("count") > 0))
        .group_by(*key, "lo_ns", "hi_ns")
        .agg(pl.col("count").sum())
        .sort(*key, "lo_ns")
    )
    grouped = groupby(frame.iter_rows(named=True), lambda row: (row["layer"], row["op"], row["tier"]))
    return {key: [(r["lo_ns"], r["hi_ns"], r["count"]) for r in rows] for key, rows in grouped}


def _row(row: Row, bins: Bins) -> CellRow:
    exact = row.interpolated.get("p50")
    p50_us = exact.us if exact else row.p50_us
    return CellRow(
        layer=row.layer,
        op=row.op,
        tier=row.tier,
        count=row.count,
        share=row.share,
        p50_us=p50_us,
        p50_range_us=_median_range_us(bins) if p50_us is not None and bins else None,
        p99_us=row.p99_us,
        mean_us=row.mean_us,
        published_us=row.published.range_us if row.published else None,
    )


def _median_range_us(bins: Bins) -> tuple[float, float]:
    """Latencies that have the median between them with 95 % confidence: by ranks, without a model.

    The rank of the median among n I/Os is n/2, with a standard error of sqrt(n)/2 (binomial).
    """
    ios = sum(count for _, _, count in bins)
    reach = _RANK_ERROR * math.sqrt(ios) / 2
    low, high = (rank_ns(bins, min(max(ios / 2 + side * reach, 0.5), ios - 0.5)) for side in (-1, 1))
    return low / 1e3, high / 1e3


# --- Drift and exclusion --------------------------------------------------------------------------------


def _drift(series: Series, cells: Sequence[SeriesCell]) -> Iterator[Drift]:
    """The base first and last. Where a build repeats the base, the first is that of the first build."""
    for last in cells:
        first = _first_of(last, cells) if last.again else None
        if first is None:
            continue
        for of_last in last.runs:
            of_first = next((run for run in first.runs if run.round == of_last.round), None)
            for before, after in _pairs(of_first.rows if of_first else (), of_last.rows):
                assert before.p50_us and after.p50_us, "rows without a median are no pair"
                yield Drift(
                    build=last.build,
                    phase=last.phase,
                    layer=after.layer,
                    op=after.op,
                    tier=after.tier,
                    round=of_last.round,
                    ratio=after.p50_us / before.p50_us,
                    ok=not _is_apart(before, after, 1 + series.drift_max),
                )


def _first_of(last: SeriesCell, cells: Sequence[SeriesCell]) -> SeriesCell | None:
    """What `last` repeats: the same values, of its own build or of the first that has them."""
    same = [cell for cell in cells if not cell.again and cell.at == last.at and cell.phase == last.phase]
    return next((cell for cell in same if cell.build == last.build), same[0] if same else None)


def _pairs(a: Sequence[CellRow], b: Sequence[CellRow]) -> Iterator[tuple[CellRow, CellRow]]:
    """Rows of the same layer, op and tier that both have a median.

    Not the `all` of an op that several tiers answered: its median jumps from one tier to another when their
    shares change by a little.
    """
    named = {(row.layer, row.op, row.tier): row for row in a}
    mixed = _of_several_tiers(a) | _of_several_tiers(b)
    for row in b:
        other = named.get((row.layer, row.op, row.tier))
        if other is not None and other.p50_us and row.p50_us and not (row.tier == "all" and row.op in mixed):
            yield other, row


def _of_several_tiers(rows: Sequence[CellRow]) -> set[str]:
    """The ops of which two tiers or more answered a part at the server."""
    tiers = Counter(row.op for row in rows if row.tier != "all" and row.share >= _PART)
    return {op for op, number in tiers.items() if number > 1}


def _is_apart(a: CellRow, b: CellRow, factor: float) -> bool:
    """Whether the medians differ by more than `factor`, whatever they are in their ranges."""
    (a_low, a_high), (b_low, b_high) = a.p50_range_us or (0.0, math.inf), b.p50_range_us or (0.0, math.inf)
    return b_low > a_high * factor or b_high * factor < a_low


def _drifted(cell: SeriesCell, drift: Sequence[Drift]) -> SeriesCell:
    """Unknown where the base drifted around it: in its own build, or over the builds."""
    bad = [
        each
        for each in drift
        if not each.ok and each.phase == cell.phase and each.build in (cell.build, AGAIN)
    ]
    if not bad or not cell.runs:
        return cell
    worst = max(bad, key=lambda each: abs(math.log(each.ratio)))
    reason = (
        f"The base drifted around it: its {worst.op}/{worst.tier} p50 was {worst.ratio:.2f} times the first "
        "when it was measured last."
    )
    rounds = {each.round for each in bad}
    runs = [
        run.model_copy(update={"verdict": "unknown", "reasons": (*run.reasons, reason)})
        if run.round in rounds
        else run
        for run in cell.runs
    ]
    return cell.model_copy(update={"runs": tuple(runs), "verdict": "unknown"})


def _excluded(cell: SeriesCell) -> SeriesCell:
    """With the reason why it is kept out of ratios."""
    reason = None
    busy = max((run.cpu_busy for run in cell.runs if run.cpu_busy is not None), default=0.0)
    if not cell.runs:
        reason = "not measured"
    elif cell.verdict == "unknown":
        reason = next(
            (run.reasons[0] for run in cell.runs if run.verdict == "unknown" and run.reasons), "unknown"
        )
    elif busy > CPU_BOUND:
        reason = f"bound by CPU: a machine's CPU was {busy:.0%} busy"
    return cell.model_copy(update={"excluded": reason})


# --- Ratios ---------------------------------------------------------------------------------------------


def _ratios(series: Series, cells: Sequence[SeriesCell]) -> Iterator[Ratio]:
    """Each cell to the one that has the base's value on one axis more."""
    used = [cell for cell in cells if not cell.excluded]
    for cell in used:
        for axis, value in cell.at.items():
            beside = {name: other for name, other in cell.at.items() if name != axis}
            bases = [b for b in used if b.at == beside and b.phase == cell.phase]
            if cell.again or not bases:
                continue
            labels = {"axis": axis, "from": series.axis(axis).values[0], "to": value, "beside": beside}
            yield from _ratios_of(cell, bases, {**labels, "phase": cell.phase})


def _ratios_of(
    cell: SeriesCell, bases: Sequence[SeriesCell], labels: Mapping[str, object]
) -> Iterator[Ratio]:
    """The ratios of a cell's rows. `bases`: the base, measured once or more."""
    rows = {(row.layer, row.op, row.tier): None for run in cell.runs for row in run.rows}
    for key in rows:
        for figure in ("p50", "p99"):
            values = partial(_figure, key=key, figure=figure)
            named = {"layer": key[0], "op": key[1], "tier": key[2], "figure": figure}
            yield from _ratio(_by_round(cell, bases, values), {**labels, **named})
    logs = _by_round(cell, bases, lambda run: run.ios_per_s)
    op = next((row.op for run in cell.runs for row in run.rows if row.layer == "client"), "")
    yield from _ratio(logs, {**labels, "layer": "client", "op": op, "tier": "all", "figure": "ios_per_s"})


def _figure(run: CellRun, key: tuple[str, str, str], figure: str) -> float | None:
    row = next((row for row in run.rows if (row.layer, row.op, row.tier) == key), None)
    return None if row is None else row.p50_us if figure == "p50" else row.p99_us


def _by_round(
    cell: SeriesCell, bases: Sequence[SeriesCell], figure_of: Callable[[CellRun], float | None]
) -> list[float]:
    """The logarithm of cell over base, by round. Of a base that was measured twice the mean counts."""
    logs = []
    for run in cell.runs:
        mine = figure_of(run)
        theirs = [figure_of(other) for base in bases for other in base.runs if other.round == run.round]
        known = [math.log(value) for value in theirs if value]
        if mine and known:
            logs.append(math.log(mine) - sum(known) / len(known))
    return logs


def _ratio(logs: Sequence[float], labels: Mapping[str, object]) -> Iterator[Ratio]:
    if not logs:
        return
    mean, interval = sum(logs) / len(logs), None
    if len(logs) > 1:
        variance = sum((log - mean) ** 2 for log in logs) / (len(logs) - 1)
        reach = t_critical(0.05, len(logs) - 1) * math.sqrt(variance / len(logs))
        interval = (math.exp(mean - reach), math.exp(min(mean + reach, 690)))
    yield Ratio.model_validate(
        {**labels, "ratio": math.exp(mean), "interval": interval, "rounds": len(logs)}, strict=False
    )


def _judged(expected: JudgedRatio, ratios: Sequence[Ratio], cells: Sequence[SeriesCell]) -> JudgedRatio:
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
    reach = math.hypot(*(_reach(expected, [cell for cell in cells if cell.at == each]) for each in at))
    interval = ratio * math.exp(-reach), ratio * math.exp(reach)
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
    half_widths = [
        math.log(row.p50_range_us[1] / row.p50_range_us[0]) / 2
        for cell in cells
        if not cell.excluded and cell.phase == expected.phase
        for run in cell.runs
        for row in run.rows
        if (row.layer, row.op, row.tier) == (expected.layer, expected.op, expected.tier) and row.p50_range_us
    ]
    return math.hypot(*half_widths) / len(half_widths) if half_widths else 0.0


def _verdict(
    series: Series,
    builds: Sequence[SeriesBuild],
    cells: Sequence[SeriesCell],
    drift: Sequence[Drift],
    expect: Sequence[JudgedRatio],
) -> tuple[Verdict, list[str]]:
    """Of the whole series: the worst of its cells and expectations."""
    reasons = []
    missing = [cell for cell in cells if cell.verdict is None]
    for kind in ("unknown", "invalid"):
        names = [f"{cell.phase} {cell.name}" for cell in cells if cell.verdict == kind]
        if names:
            reasons.append(f"{len(names)} of {len(cells)} cells are {kind}: {', '.join(names)}.")
    if missing:
        reasons.append(f"{len(missing)} of {len(cells)} cells are not measured.")
    unmet = [each for each in expect if each.ok is False]
    unjudged = [each for each in expect if each.ok is None]
    for each in (*unmet, *unjudged):
        reasons.append(
            f"{each.axis} {each.from_} to {each.to}, {each.phase} {each.op}/{each.tier}: {each.reason}."
        )
    if missing or unjudged or any(cell.verdict == "unknown" for cell in cells):
        return "unknown", reasons
    if unmet or any(cell.verdict == "invalid" for cell in cells):
        return "invalid", reasons
    return "valid", [f"All {len(cells)} cells are valid, in {sum(len(b.runs) for b in builds)} runs."]
