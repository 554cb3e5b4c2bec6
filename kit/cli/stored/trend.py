"""`hsp trend RUNS...`: figures over days and versions, and where they moved, from stored runs alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import JsonOption, JunitOption
from kit.core.errors import EXIT_EXPECTATION, EXIT_UNKNOWN, EXIT_USAGE, ConfigError
from kit.core.output import check_target, emit, emit_json, emit_text, say, say_error, write_target
from kit.session.presentation import terminal_width
from kit.session.trend import points_of
from reports.output import trend_table
from reports.page import trend_page
from reports.trend.analyse import Trend, trend_of
from reports.trend.as_json import as_json
from reports.trend.gate import MOST_RUNS, Gate, reasons, verdict
from reports.trend.gate import gate as gate_of

# On the terminal; each is a line.
_MOST_REASONS = 10
_PERCENT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?%")

WorseThanOption = Annotated[
    str | None,
    typer.Option(
        "--worse-than",
        metavar="PERCENT",
        show_default=False,
        help="Exit code 1 if a figure is slower now than before by more, as in 10%; 3 if that is open.",
    ),
]
FigureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        metavar="NAME",
        show_default=False,
        help="Figure that --worse-than is for, as write-slog:slog:p99, or write-slog:p99. Repeatable.",
    ),
]


def trend(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs, series, or directories of them, such as results/top-speeds.", metavar="RUNS..."
        ),
    ],
    by: Annotated[
        Literal["time", "version"],
        typer.Option("--by", help="Along the axis: time, or versions in the order in which they came."),
    ] = "time",
    across: Annotated[
        list[str] | None,
        typer.Option(
            "--across",
            metavar="KEY",
            show_default=False,
            help="Runs may differ in this and all keys below it; it is marked. Repeatable.",
        ),
    ] = None,
    worse_than: WorseThanOption = None,
    figure: FigureOption = None,
    last: Annotated[
        int, typer.Option("--last", min=2, max=MOST_RUNS, help="Only so many runs or series, the newest.")
    ] = MOST_RUNS,
    json_output: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown on stdout.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print a row for each figure and run on stdout.")
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page.")] = None,
    junit: JunitOption = None,
) -> None:
    """Show figures over days and versions on one time axis, what changed, and where a figure moved.

    Exit code 1 if a figure is slower by more than --worse-than, and with --junit also if a check failed last;
    2 if a run cannot be read: it is left out; 3 with --worse-than if it cannot be told of a figure.
    """  # fmt: skip
    if json_output + markdown + csv > 1:
        raise ConfigError("--json, --markdown and --csv all print on stdout", "choose one of them")
    limit = _part(worse_than)
    if figure and limit is None:
        raise ConfigError("--figure chooses what --worse-than is for", "for example: --worse-than 10%")
    for target in (html, junit):
        check_target(target)
    points, errors = points_of(runs, last)
    found = trend_of(points, by, across or [])
    gate = gate_of(found, limit, figure or []) if limit is not None else None
    if html:
        write_target(html, trend_page.render(found, gate).encode())
        say(f"page: {html}")
    if junit:
        write_target(junit, trend_table.junit(found, gate))
    if json_output:
        emit_json(as_json(found, gate))
    else:
        _print(found, markdown, csv)
    _end(found, gate, errors, with_checks=junit is not None)


def _print(found: Trend, markdown: bool, csv: bool) -> None:
    if markdown or csv:
        emit((trend_table.markdown(found) if markdown else trend_table.table(found)).encode())
    else:
        emit_text(trend_table.plain(found, terminal_width()))


def _part(text: str | None) -> float | None:
    """Such as 0.1 of "10%". Raises ConfigError."""
    if text is None:
        return None
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ConfigError(f"--worse-than {text!r} is no percentage", "for example: --worse-than 10%")
    return float(match[1]) / 100


def _end(found: Trend, gate: Gate | None, errors: Sequence[ConfigError], *, with_checks: bool) -> None:
    for error in errors:
        say_error(error)
    if gate:
        say(verdict(gate))
        texts = list(reasons(found, gate))
        for text in texts[:_MOST_REASONS]:
            say(f"  {text}")
        if len(texts) > _MOST_REASONS:
            say(f"  and {len(texts) - _MOST_REASONS} more: --json has all")
    if errors:
        raise typer.Exit(EXIT_USAGE)
    outcome = gate.outcome if gate else "holds"
    if outcome == "fails" or (with_checks and any(each.failing for each in found.checks)):
        raise typer.Exit(EXIT_EXPECTATION)
    if outcome == "open":
        raise typer.Exit(EXIT_UNKNOWN)
