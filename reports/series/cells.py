"""A cell in the runs that measured it: verdict, rate and latencies, and how exactly they are known. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from reports.statistics import batch_means
from reports.statistics.ratios import around

WORST: Mapping[Verdict, int] = {"valid": 0, "invalid": 1, "unknown": 2}
# Outcomes of phases together.
_JOINING = ("IMPACT", "SOAK-DRIFT")


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
    phase = stored.manifest.phase_named(name)
    use = next((each for each in stored.summary.use if each.phase == name), None)
    rate = use.iops if use else _rate(phase)
    return {
        "verdict": verdict,
        "reasons": tuple(map(str, causes)),
        **({"known": True} if causes and all(each.known for each in causes) else {}),
        "ios_per_s": rate,
        "ios_per_s_range": _rate_range(rate, stored.latency, phase),
        "bytes_per_s": use.bytes_per_s if use else None,
        "cpu_busy": max((machine.bound for machine in use.cpu), default=None) if use else None,
        "bytes": use.bytes if use else None,
        "forces": next((each for each in stored.summary.forces if each.phase == name), None),
        "rows": tuple(rows_of(stored, name)),
        **_of_devices(stored.manifest, phase),
    }


def rows_of(stored: StoredRun, name: str) -> Iterator[CellRow]:
    """The rows of a phase of a run."""
    phase = stored.manifest.phase_named(name)
    rows = [row for row in stored.summary.rows if row.phase == name]
    cells = stored.latency.cells.filter(pl.col("phase") == name)
    parts = cells.partition_by("layer", "op", "tier", as_dict=True)
    for row in rows:
        part = parts.get((row.layer, row.op, row.tier))
        stretch = (part, *stored.latency.stretch(phase)) if phase and part is not None else None
        found = {name: _figure(row, stretch, name, q) for name, q in (("p50", 0.5), ("p99", 0.99))}
        yield CellRow(
            layer=row.layer, op=row.op, tier=row.tier, count=row.count, share=row.share,
            p50_us=found["p50"][0], p50_range_us=found["p50"][1], p99_us=found["p99"][0],
            p99_range_us=found["p99"][1], mean_us=row.mean_us,
            published_us=row.published.range_us if row.published else None,
        )  # fmt: skip


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
    mine = [each for each in summary.causes if each.phase in (None, phase) and each.id not in _JOINING]
    limits = [each for each in mine if each.is_expectation or each.id == "FORCES-LOST"]
    unmet = [each for each in limits if each.makes == "invalid"]
    if summary.verdict == "unknown" and (own := [each for each in mine if each not in unmet]):
        return "unknown", own
    return ("invalid", unmet) if unmet else ("valid", [])


def _rate(phase: Phase | None) -> float | None:
    """I/Os a second of all clients, from the first I/O to the last."""
    if phase is None or not phase.client_ios or phase.end_ns <= phase.start_ns:
        return None
    return phase.client_ios / ((phase.end_ns - phase.start_ns) / 1e9)


def _figure(
    row: Row, stretch: tuple[pl.DataFrame, tuple[int, int], int] | None, name: str, q: float
) -> tuple[float | None, Range | None]:
    """A percentile in us, and its range within this run: by batches of time, and by its place in its bin."""
    exact = row.interpolated.get(name)
    us: float | None = exact.us if exact else getattr(row, f"{name}_us")
    known = batch_means.quantile(*stretch, q) if us and stretch else None
    if not us or known is None or known.reach is None:
        return us, None
    in_bin = math.log1p(exact.error_us / us) if exact else 0.0
    return us, around(math.log(us), math.hypot(known.reach, in_bin))


def _rate_range(rate: float | None, latency: Latency, phase: Phase | None) -> Range | None:
    """The range of a rate of I/Os within this run, by the I/Os at the clients in batches of time."""
    if not rate or phase is None:
        return None
    issued = (pl.col("phase") == phase.name, pl.col("layer").is_in(ISSUERS), pl.col("tier") == "all")
    known = batch_means.rate(latency.cells.filter(*issued), *latency.stretch(phase))
    return around(math.log(rate), known.reach) if known and known.reach is not None else None
