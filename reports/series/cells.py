"""A cell in the runs that measured it: verdict, rate and latencies, and how exactly they are known. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from kit.store.checks.outcome import Outcome, Verdict
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.series import CellRow, CellRun, SeriesBuild, SeriesCell
from kit.store.summary import Range, Row, Summary
from kit.store.tables import ISSUERS
from reports.series.written import never_written
from reports.statistics.quantiles import Bins, rank_ns

WORST: Mapping[Verdict, int] = {"valid": 0, "invalid": 1, "unknown": 2}
# Standard errors around a figure that hold it with 95 % confidence.
_ERRORS = 1.96


@dataclass(frozen=True)
class StoredRun:
    """What a run of the series has stored."""

    manifest: Manifest
    summary: Summary
    latency: Latency


def measured_cell(
    cell: SeriesCell, build: SeriesBuild, runs: Mapping[str, Mapping[str, dict[str, Any]]]
) -> SeriesCell:
    """The cell with what the runs of its build say of it; its verdict is the worst of theirs.

    `runs`: what `measured` says of each phase, by run and phase.
    """
    of_runs = [
        CellRun(run=each.run, round=each.round, **runs[each.run][cell.in_run])
        for each in build.runs
        if each.run in runs
    ]
    worst = max((run.verdict for run in of_runs), key=lambda verdict: WORST[verdict], default=None)
    return cell.model_copy(update={"runs": tuple(of_runs), "verdict": worst, "excluded": None})


def measured(name: str, stored: StoredRun) -> dict[str, Any]:
    """What a run says of its phase `name`: all of a CellRun but run and round."""
    verdict, causes = verdict_of_phase(stored.manifest, stored.summary, name)
    phase = next((each for each in stored.manifest.phases if each.name == name), None)
    use = next((each for each in stored.summary.use if each.phase == name), None)
    bins = _bins(stored.latency, name)
    rate = use.iops if use else _rate(phase)
    of_clients = [
        each
        for (layer, _, tier), found in bins.items()
        if layer in ISSUERS and tier == "all"
        for each in found
    ]
    return {
        "verdict": verdict,
        "reasons": tuple(map(str, causes)),
        **({"known": True} if causes and all(each.known for each in causes) else {}),
        "ios_per_s": rate,
        "ios_per_s_range": _rate_range(rate, of_clients),
        "bytes_per_s": use.bytes_per_s if use else None,
        "cpu_busy": max((machine.busy for machine in use.cpu), default=None) if use else None,
        "bytes": use.bytes if use else None,
        "forces": next((each for each in stored.summary.forces if each.phase == name), None),
        "rows": tuple(rows_of(stored, name)),
        **_of_devices(stored.manifest, phase),
    }


def rows_of(stored: StoredRun, phase: str) -> Iterator[CellRow]:
    """The rows of a phase of a run."""
    bins = _bins(stored.latency, phase)
    for row in stored.summary.rows:
        if row.phase == phase:
            yield _row(row, bins.get((row.layer, row.op, row.tier), []))


def _of_devices(manifest: Manifest, phase: Phase | None) -> dict[str, Any]:
    """Of a phase on devices, as far as it is known."""
    known: dict[str, Any] = {}
    if unwritten := never_written(manifest, phase):
        known["never_written"] = unwritten
    loaded = phase.spans if phase else {}
    settings = [each.settings or {} for each in manifest.testbed.devices if each.name in loaded]
    kinds = {each.get("rotational") for each in settings}
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), bool):
        known["rotating"] = kind
    return known


def verdict_of_phase(manifest: Manifest, summary: Summary, phase: str) -> tuple[Verdict, list[Outcome]]:
    """The verdict of one phase of a run, and what decides it. What is of the run as a whole is of each phase.

    Limits that join phases (a soak's, an impact's, a fault's) are the run's, and not the phase's.
    """
    if phase not in (each.name for each in manifest.phases):
        text = f"It was not measured. {' '.join(summary.reasons)}".strip()
        return "unknown", [Outcome.unknown("NO-IO", text)]
    mine = [each for each in summary.causes if each.phase in (None, phase)]
    unmet = [
        each for each in mine if each.makes == "invalid" and (each.is_expectation or each.id == "FORCES-LOST")
    ]
    if summary.verdict == "unknown" and (own := [each for each in mine if each not in unmet]):
        return "unknown", own
    return ("invalid", unmet) if unmet else ("valid", [])


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
    p50_us, p50_range_us = _figure(row, bins, "p50", 0.5)
    p99_us, p99_range_us = _figure(row, bins, "p99", 0.99)
    return CellRow(
        layer=row.layer,
        op=row.op,
        tier=row.tier,
        count=row.count,
        share=row.share,
        p50_us=p50_us,
        p50_range_us=p50_range_us,
        p99_us=p99_us,
        p99_range_us=p99_range_us,
        mean_us=row.mean_us,
        published_us=row.published.range_us if row.published else None,
    )


def _figure(row: Row, bins: Bins, name: str, q: float) -> tuple[float | None, Range | None]:
    """A percentile, and latencies that have it between them with 95 % confidence: by ranks, without a model.

    Its rank among n I/Os is q n, with a standard error of sqrt(n q (1 - q)) (binomial). Where it lies in its
    bin is not exact, either: both errors are independent.
    """
    exact = row.interpolated.get(name)
    us: float | None = exact.us if exact else getattr(row, f"{name}_us")
    if us is None or not bins:
        return us, None
    ios = sum(count for _, _, count in bins)
    reach = _ERRORS * math.sqrt(ios * q * (1 - q))
    error = exact.error_us if exact else 0.0
    ends = (rank_ns(bins, min(max(q * ios + side * reach, 0.5), ios - 0.5)) / 1e3 for side in (-1, 1))
    low, high = (
        math.hypot(max(side * (end - us), 0), error) for side, end in zip((-1, 1), ends, strict=True)
    )
    return us, (max(us - low, 0.0), us + high)


def _rate_range(rate: float | None, bins: Bins) -> Range | None:
    """What holds a rate of I/Os with 95 % confidence. `bins`: of all of them, at the clients.

    Each thread sends its next I/O when the last has ended, so the rate is known as the mean latency is:
    with a standard error of its standard deviation over the root of their number.
    """
    ios = sum(count for _, _, count in bins)
    if not rate or ios < 2:
        return None
    mean = sum((low + high) / 2 * count for low, high, count in bins) / ios
    variance = sum(((low + high) / 2 - mean) ** 2 * count for low, high, count in bins) / (ios - 1)
    reach = _ERRORS * math.sqrt(variance / ios) / mean
    return rate * math.exp(-reach), rate * math.exp(reach)
