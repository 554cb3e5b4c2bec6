"""`hsp trend RUNS...`: figures over days and versions, and where they moved, from stored runs alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import (
    RUN,
    AcrossOption,
    AllOption,
    FigureOption,
    JsonOption,
    JunitOption,
    ResultsOption,
    WorseThanOption,
    part_of,
)
from kit.cli.result import OutputOption, OutputTargets, format_option
from kit.cli.usage import refuse_unused
from kit.core.errors import EXIT_EXPECTATION, EXIT_UNKNOWN, EXIT_USAGE, ConfigError
from kit.core.output import as_json, check_target, say, say_error, write_target
from kit.pack.opened import find_phase
from kit.session.trend import points_of
from reports.output import trend_table
from reports.page import trend_page
from reports.trend.analyse import MOST_RUNS, Trend, trend_of
from reports.trend.as_json import as_json as trend_json
from reports.trend.slower_limit import Gate, reasons, verdict
from reports.trend.slower_limit import gate as gate_of

Format = Literal["text", "json", "markdown", "csv", "html"]
# On the terminal; each is a line.
_MOST_REASONS = 10


def trend(
    context: typer.Context,
    runs: Annotated[list[str], RUN(help="Workloads (all their runs), runs, series, or directories of them.")],
    by: Annotated[
        Literal["time", "version"],
        typer.Option("--by", help="Along the axis: time, or versions in the order in which they came."),
    ] = "time",
    across: AcrossOption = None,
    worse_than: WorseThanOption = None,
    figure: FigureOption = None,
    last: Annotated[
        int,
        typer.Option("--last", "-n", min=2, max=MOST_RUNS, metavar="N", help="The newest N runs or series."),
    ] = MOST_RUNS,
    all_: AllOption = False,
    output: OutputOption = None,
    kind: Annotated[Format | None, format_option(Format)] = None,
    json_output: JsonOption = False,
    junit: JunitOption = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Show figures over days and versions on one time axis, what changed, and where a figure moved.

    Exit code 1 if a figure is slower by more than --worse-than, and with --junit also if a check failed last;
    2 if a run cannot be read: it is left out; 3 with --worse-than if it cannot be told of a figure.

    Examples:
      hsp trend top-speeds                               all runs of this workload
      hsp trend top-speeds --by version -o trend.html    a page
      hsp trend top-speeds --worse-than 10% --figure write-slog:slog:p99 --junit t.xml
    """
    result, limit = OutputTargets.of(kind, output, json_output), part_of(worse_than, figure)
    refuse_unused(context, {"a result without text": "text" not in result.kinds})
    check_target(junit)
    names = [
        os.fspath(results / name) if _is_workload(name, results) else find_phase(name, results)
        for name in runs
    ]
    points, errors = points_of(names, last)
    found = trend_of(points, by, across or [])
    gate = gate_of(found, limit, figure or []) if limit is not None else None
    if junit:
        write_target(junit, trend_table.junit(found, gate))
    result.write({
        "text": lambda width: trend_table.plain(found, width, all_=all_),
        "json": lambda _: as_json(trend_json(found, gate)),
        "markdown": lambda _: trend_table.markdown(found),
        "csv": lambda _: trend_table.table(found),
        "html": lambda _: trend_page.render(found, gate),
    })  # fmt: skip
    _end(found, gate, errors, with_checks=junit is not None)


def _is_workload(name: str, results: Path) -> bool:
    """All runs of a workload make a trend, not its latest alone."""
    return "/" not in name and not os.path.lexists(name) and (results / name).is_dir()


def _end(found: Trend, gate: Gate | None, errors: Sequence[ConfigError], *, with_checks: bool) -> None:
    for error in errors:
        say_error(error)
    if gate:
        say(verdict(gate))
        texts = list(reasons(found, gate))
        for text in texts[:_MOST_REASONS]:
            say(f"  {text}")
        if len(texts) > _MOST_REASONS:
            say(f"  and {len(texts) - _MOST_REASONS} more: --format json has all")
    if errors:
        raise typer.Exit(EXIT_USAGE)
    outcome = gate.outcome if gate else "holds"
    if outcome == "fails" or (with_checks and any(each.failing for each in found.checks)):
        raise typer.Exit(EXIT_EXPECTATION)
    if outcome == "open":
        raise typer.Exit(EXIT_UNKNOWN)
