"""`hsp export`: the counts of a stored run, or its percentiles over time, for other programs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kit.core.errors import ConfigError
from kit.core.output import check_target, emit, say, write_target
from kit.store import run_directory, tables
from kit.store.summary import read_summary
from reports.output.export import chosen
from reports.output.export import export as exported
from reports.statistics.over_time import over_time


class Format(StrEnum):
    """Formats of reports.output.export."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENMETRICS = "openmetrics"


def export(
    run: Annotated[Path, typer.Argument(help="A run directory, such as results/top-speeds/latest.")],
    kind: Annotated[Format, typer.Option("--format", help="What to write.")],
    phase: Annotated[
        list[str] | None, typer.Option("--phase", help="Only this phase. Repeatable.", show_default=False)
    ] = None,
    layer: Annotated[
        list[str] | None, typer.Option("--layer", help="Only this layer. Repeatable.", show_default=False)
    ] = None,
    percentiles: Annotated[
        bool,
        typer.Option("--percentiles", help="p50, p95, p99 and p99.9 of each interval instead of the counts."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not on stdout.")
    ] = None,
) -> None:
    """Write the counts or percentiles over time of a stored run as CSV, Parquet or OpenMetrics text."""
    check_target(output)
    if percentiles and kind.value == "openmetrics":
        raise ConfigError(
            "OpenMetrics has no percentiles over time",
            "leave out --percentiles, or use --format csv or parquet",
        )
    run_dir = run_directory.named_run(run)
    if output is None and kind.value == "parquet" and sys.stdout.isatty():
        raise ConfigError("Parquet is not text for a terminal", "give -o FILE, or send stdout to a file")
    frame = chosen(tables.read_latency(run_dir), phase or [], layer or [])
    if percentiles:
        frame = over_time(frame)
    summary = None
    if os.path.lexists(run_dir.path / "summary.json"):
        summary = read_summary(run_dir)
    content = exported(frame, kind.value, summary)
    if output is None:
        emit(content)
    else:
        write_target(output, content)
        say(f"{output}: {frame.height} rows as {kind.value}")
