"""`hsp report` and `hsp export`: draw a stored run again, or write its counts, from its files alone."""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import reports
from kit.cli.options import OUTPUT, JsonOption, JunitOption, KnownOption
from kit.config.toml import load
from kit.core.bins import BINS_PER_OCTAVE
from kit.core.errors import ConfigError
from kit.core.output import check_target, emit, say, write_target
from kit.core.units import parse_duration_ns
from kit.session.presentation import (
    code_of,
    code_of_series,
    present_series,
    print_json,
    print_result,
    write_junit,
)
from kit.store import tables
from kit.store.checks.known import Known
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import is_series, named_series, read_series
from kit.store.summary import Summary, read_summary
from reports.output.export import Format, chosen, exported
from reports.output.openmetrics import times_of
from reports.output.series_export import frame as series_frame
from reports.published.references import Document
from reports.statistics.quantiles import over_time

RunArgument = Annotated[
    Path, typer.Argument(help="The directory of a run or of a series, such as results/top-speeds/latest.")
]


def report(
    run: RunArgument,
    json_output: JsonOption = False,
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference", metavar="FILE", help="A TOML file of latency ranges, instead of the workload's."
        ),
    ] = None,
    junit: JunitOption = None,
    known: KnownOption = None,
    open_: Annotated[
        bool, typer.Option("--open", rich_help_panel=OUTPUT, help="Open the report in your browser.")
    ] = False,
) -> None:
    """Analyse and draw a stored run again. Needs no host, no root and no network.

    Exit code 1 if an expectation is not met; with --junit also 3 if the result is unknown.
    """
    check_target(junit)
    if is_series(run):
        if reference or known:
            option = "--reference" if reference else "--known"
            raise ConfigError(f"{option} is for a run", "leave it out: a series has that of its workload")
        _report_series(named_series(run), json_output, junit, open_)
        return
    document = load(reference, Document) if reference else None
    ranges = document.reference(reference.stem) if document and reference else None
    run_dir = named_run(run)
    failures: tuple[Known, ...] = ()
    if known:
        # So late because it knows plans, which take long to load.
        known_of = import_module("kit.session.rejudged").known_of
        failures = known_of(known, read_manifest(run_dir))
    analysed = reports.analyse(run_dir, ranges, document.setup if document else None, failures)
    summary = analysed.summary
    write_junit(junit, summary)
    if json_output:
        print_json(summary, run_dir)
    else:
        print_result(analysed, run_dir)
    if open_:
        _open(run_dir.report)
    if junit or summary.verdict == "invalid":
        raise typer.Exit(code_of(summary))


def _report_series(path: Path, json_output: bool, junit: Path | None, open_: bool) -> None:
    """Analyse and draw a series again."""
    series = reports.analyse_series(path)
    present_series(series, path, json_output, junit)
    if open_:
        _open(path / "report.html")
    if junit or series.verdict == "invalid":
        raise typer.Exit(code_of_series(series))


def _open(report: Path) -> None:
    """Open the report in the user's browser, or say why not and where it is."""
    url = report.absolute().as_uri()
    if os.geteuid() == 0 and "SUDO_USER" in os.environ:
        reason = "not opened: a browser should not run as root"
    elif not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        reason = "not opened: this session has no display"
    elif not webbrowser.open(url):
        reason = "not opened: no browser was found"
    else:
        return
    say(f"{reason}; open {url}")


def export(
    run: RunArgument,
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
    totals: Annotated[
        bool, typer.Option("--totals", help="OpenMetrics: one histogram a phase, without times.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="OpenMetrics: the length of a step, such as 15s."),
    ] = None,
    per_octave: Annotated[
        int | None,
        typer.Option("--per-octave", metavar="N", help="OpenMetrics: so many bins an octave, 1 to 32."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not on stdout.")
    ] = None,
) -> None:
    """Write the counts or percentiles over time of a stored run as CSV, Parquet or OpenMetrics text."""
    check_target(output)
    if kind != "openmetrics" and (totals or (every, per_octave) != (None, None)):
        raise ConfigError("--every, --totals and --per-octave are for OpenMetrics", "leave them out")
    if per_octave is not None and (per_octave < 1 or BINS_PER_OCTAVE % per_octave):
        text = f"the {BINS_PER_OCTAVE} stored bins of an octave do not make so many"
        raise ConfigError(f"--per-octave {per_octave}: {text}", "give 1, 2, 4, 8, 16 or 32")
    every_ns = _every_ns(every, totals)
    if output is None and kind == "parquet" and sys.stdout.isatty():
        raise ConfigError("Parquet is not text for a terminal", "give -o FILE, or send stdout to a file")
    if is_series(run):
        if phase or layer or percentiles or kind == "openmetrics":
            raise ConfigError(
                "a series is exported whole, as csv or parquet", "export one of its runs for anything else"
            )
        frame = series_frame(read_series(named_series(run)))
        _write(exported(frame, kind, None), output, frame.height, kind)
        return
    if percentiles and kind == "openmetrics":
        raise ConfigError(
            "OpenMetrics has no percentiles over time",
            "leave out --percentiles, or use --format csv or parquet",
        )
    run_dir = named_run(run)
    frame = chosen(tables.read_latency(run_dir), phase or [], layer or [])
    if percentiles:
        frame = over_time(frame)
    dated = kind == "openmetrics" and not totals
    times = times_of(read_manifest(run_dir), every_ns) if dated else None
    summary = _labels_of(run_dir) if kind == "openmetrics" else None
    _write(exported(frame, kind, summary, times, per_octave), output, frame.height, kind)


def _labels_of(run: RunDir) -> Summary:
    """The summary, also of a run that has none yet: without labels two runs would be one in Prometheus."""
    stored = os.path.lexists(run.path / "summary.json")
    return read_summary(run) if stored else reports.judged(run)


def _every_ns(every: str | None, totals: bool) -> int:
    """The length of a step; 0: as many intervals as fit. Raises ConfigError."""
    if every is not None and totals:
        raise ConfigError("--every and --totals: totals have no steps", "leave out one of them")
    if every is None:
        return 0
    try:
        every_ns = parse_duration_ns(every)
    except ValueError as error:
        raise ConfigError(f"--every: {error}", "such as --every 15s") from None
    if every_ns < 10**6:
        raise ConfigError(f"--every {every}: Prometheus has times of 1 ms", "give 1ms or more")
    return every_ns


def _write(content: bytes, output: Path | None, rows: int, kind: str) -> None:
    if output is None:
        emit(content)
    else:
        write_target(output, content)
        say(f"{output}: {rows} rows as {kind}")
