"""From the runs of a series to its cells, ratios, drift and verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.text import counted
from kit.core.units import format_percent
from kit.store.checks.outcome import Verdict
from kit.store.series import Drift, JudgedRatio, Series, SeriesBuild, SeriesCell
from kit.store.summary import CPU_BOUND
from reports.devices import prices, stripes, together
from reports.series.cells import StoredRun, measured, measured_cell
from reports.series.drift import drift_of, drifted, open_drift
from reports.series.ratios import ratios_of
from reports.series.view import cpu_of
from reports.verdict.known_failures import entry_of


@dataclass(frozen=True)
class RunPart:
    """What a run contributes to its series. `phases`: CellRun without run and round."""

    verdict: Verdict
    phases: Mapping[str, dict[str, Any]]
    notes: tuple[str, ...]
    prices: prices.OfRun


def part_of(series: Series, name: str, stored: StoredRun) -> RunPart:
    """Of the run in the directory `name`."""
    builds = {build.name for build in series.builds if name in (run.run for run in build.runs)}
    phases = dict.fromkeys(cell.in_run for cell in series.cells if cell.build in builds)
    manifest, intervals = stored.manifest, stored.latency.intervals
    notes = (
        *together.sentences(intervals, manifest.phases, manifest.testbed),
        *stripes.sentences(intervals, manifest.phases),
    )
    said = {phase: measured(phase, stored) for phase in phases}
    return RunPart(stored.summary.verdict, said, notes, prices.of_run(manifest))


def analysed_series(series: Series, runs: Mapping[str, StoredRun]) -> Series:
    """The series with what its runs say. `runs`: by directory; without one its cells are unmeasured."""
    return joined_series(series, {name: part_of(series, name, run) for name, run in runs.items()})


def joined_series(series: Series, runs: Mapping[str, RunPart]) -> Series:
    """As `analysed_series`, of what the runs contribute."""
    builds = tuple(_build(build, runs) for build in series.builds)
    named = {build.name: build for build in builds}
    said = {name: run.phases for name, run in runs.items()}
    cells = [measured_cell(cell, named[cell.build], said) for cell in series.cells]
    drift = tuple(drift_of(series, cells))
    cells = [_excluded(drifted(cell, drift)) for cell in cells]
    ratios, judged = ratios_of(series, cells)
    expect = tuple(_marked(each, series) for each in judged)
    verdict, reasons = _verdict(series, builds, cells, drift, expect)
    notes = (*open_drift(series, drift), *_notes(runs))
    return series.model_copy(
        update={
            "builds": builds, "cells": tuple(cells), "drift": drift, "ratios": ratios, "expect": expect,
            "verdict": verdict, "reasons": tuple(reasons), **({"notes": notes} if notes else {}),
        }
    )  # fmt: skip


def _notes(runs: Mapping[str, RunPart]) -> Iterator[str]:
    """What devices at once, arrays and prices say, of each run that has them."""
    for name in sorted(runs):
        yield from (f"{name}: {text}" if len(runs) > 1 else text for text in runs[name].notes)
    yield from prices.sentences([runs[name].prices for name in sorted(runs)])


def _build(build: SeriesBuild, runs: Mapping[str, RunPart]) -> SeriesBuild:
    judged = [
        run.model_copy(update={"verdict": runs[run.run].verdict}) if run.run in runs else run
        for run in build.runs
    ]
    return build.model_copy(update={"runs": tuple(judged)})


def _excluded(cell: SeriesCell) -> SeriesCell:
    """With the reason why it is kept out of ratios."""
    reason = None
    if not cell.runs:
        reason = "not measured"
    elif cell.verdict == "unknown":
        whys = (run.reasons[0] for run in cell.runs if run.verdict == "unknown" and run.reasons)
        reason = next(whys, "unknown")
    elif (busy := cpu_of(cell) or 0.0) > CPU_BOUND:
        reason = f"bound by CPU: a machine's CPU was {format_percent(busy)} busy"
    return cell.model_copy(update={"excluded": reason})


def _marked(expected: JudgedRatio, series: Series) -> JudgedRatio:
    """With the entry of a known failure, if it is not met."""
    entry = None if expected.ok else entry_of(expected.id, series.known)
    return expected.model_copy(update={"known": entry}) if entry or expected.known else expected


def _verdict(
    series: Series,
    builds: Sequence[SeriesBuild],
    cells: Sequence[SeriesCell],
    drift: Sequence[Drift],
    expect: Sequence[JudgedRatio],
) -> tuple[Verdict, list[str]]:
    """Of the whole series: the worst of its cells and expectations."""
    reasons = []
    verdicts = {cell.verdict for cell in cells}
    for kind in ("unknown", "invalid"):
        if kind in verdicts:
            names = [_cell_name(cell) for cell in cells if cell.verdict == kind]
            reasons.append(f"{len(names)} of {len(cells)} cells are {kind}: {', '.join(names)}.")
    if None in verdicts:
        missing = sum(cell.verdict is None for cell in cells)
        reasons.append(f"{missing} of {len(cells)} cells are not measured.")
    judged = {each.ok for each in expect}
    reasons += [_reason(each) for ok in (False, None) for each in expect if each.ok is ok]
    if None in judged or verdicts & {None, "unknown"}:
        return "unknown", reasons
    if False in judged or "invalid" in verdicts:
        return "invalid", reasons
    runs = counted(sum(len(build.runs) for build in builds), "run")
    return "valid", [f"All {len(cells)} measurements are valid, in {runs}."]


def _cell_name(cell: SeriesCell) -> str:
    return f"{cell.phase} {cell.name}{' (known)' if cell.is_known else ''}"


def _reason(expected: JudgedRatio) -> str:
    ratio = f"{expected.axis} {expected.from_} to {expected.to}"
    known = f" [{expected.known.words}]" if expected.known else ""
    return f"{ratio}, {expected.phase} {expected.op}/{expected.tier}: {expected.reason}.{known}"
