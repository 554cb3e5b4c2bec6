"""The counts of a stored run, or its percentiles over time, for other programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import typer

import reports
from kit.cli.options import duration_ns
from kit.cli.result import OutputTargets
from kit.cli.usage import refuse_unused
from kit.core.bins import BINS_PER_OCTAVE
from kit.core.errors import ConfigError
from kit.store import tables
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import is_series, named_series, read_series
from kit.store.summary import Summary, read_summary
from reports.output.export import Format, chosen, exported
from reports.output.openmetrics import times_of
from reports.output.series_export import frame as series_frame
from reports.statistics.quantiles import over_time


@dataclass(frozen=True)
class ExportedCounts:
    """What of a run: options of `hsp show`."""

    phases: list[str]
    layers: list[str]
    percentiles: bool
    totals: bool
    every: str | None
    per_octave: int | None


def export(context: typer.Context, run: Path, result: OutputTargets, of: ExportedCounts) -> None:
    """Write the counts or percentiles as CSV, Parquet or OpenMetrics text. Raises ConfigError, HostError."""
    if len(result.targets) > 1:
        raise ConfigError(f"{' and '.join(result.kinds)} at once", "counts go to one place: give one -o")
    kind: Format = result.kinds[0]  # type: ignore[assignment]
    refuse_unused(context, {
        "counts that are not OpenMetrics": kind != "openmetrics",
        "OpenMetrics": kind == "openmetrics",
        "totals": of.totals,
        "counts of a series": is_series(run),
    })  # fmt: skip
    if of.per_octave is not None and (of.per_octave < 1 or BINS_PER_OCTAVE % of.per_octave):
        text = f"the {BINS_PER_OCTAVE} stored bins of an octave do not make so many"
        raise ConfigError(f"--per-octave {of.per_octave}: {text}", "give 1, 2, 4, 8, 16 or 32")
    every_ns = _every_ns(of.every)
    if is_series(run):
        if kind == "openmetrics":
            raise ConfigError("a series is exported as csv or parquet", "export one of its runs")
        frame = series_frame(read_series(named_series(run)))
        result.write({kind: lambda _: exported(frame, kind, None)})
        return
    run_dir = named_run(run)
    frame = chosen(tables.read_latency(run_dir), of.phases, of.layers)
    if of.percentiles:
        frame = over_time(frame)
    dated = kind == "openmetrics" and not of.totals
    times = times_of(read_manifest(run_dir), every_ns) if dated else None
    summary = _labels_of(run_dir) if kind == "openmetrics" else None
    result.write({kind: lambda _: exported(frame, kind, summary, times, of.per_octave)})


def _labels_of(run: RunDir) -> Summary:
    """The summary, also of a run that has none yet: without labels two runs would be one in Prometheus."""
    stored = os.path.lexists(run.path / "summary.json")
    return read_summary(run) if stored else reports.judged(run)


def _every_ns(every: str | None) -> int:
    """The length of a step; 0: as many intervals as fit. Raises ConfigError."""
    if every is None:
        return 0
    every_ns = duration_ns("--every", every)
    if every_ns < 10**6:
        raise ConfigError(f"--every {every}: Prometheus has times of 1 ms", "give 1ms or more")
    return every_ns
