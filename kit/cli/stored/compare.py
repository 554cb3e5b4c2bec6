"""`hsp compare A... -- B...`: does B differ from A, from stored runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from kit.cli.options import (
    RUN,
    AcrossOption,
    AllOption,
    FigureOption,
    JsonOption,
    ResultsOption,
    WorseThanOption,
    part_of,
)
from kit.cli.result import OutputOption, OutputTargets, format_option
from kit.cli.usage import refuse_unused
from kit.core.errors import EXIT_EXPECTATION, EXIT_UNKNOWN, ConfigError
from kit.core.output import as_json, say
from kit.pack.opened import find_phase
from kit.session.comparison import ComparedRun, comparison, shown_phase
from kit.session.series_comparison import series_comparison
from kit.store.baselines import run_of_baseline
from kit.store.run_directory import refuse_no_run
from kit.store.series import is_series
from reports.comparison.compare import csv, difference
from reports.comparison.each_once import EachOnce
from reports.comparison.slower_limit import Gated, told
from reports.comparison.slower_limit import gate as gate_of
from reports.output import comparison_table
from reports.output.series_table import comparison_lines
from reports.page import comparison_page

Format = Literal["text", "json", "markdown", "csv", "html"]
# click drops a `--`, so it is replaced by a marker. No argument can contain a NUL.
_SEPARATOR = "\0--"
_USAGE = "hsp compare A1 A2 ... -- B1 B2 ..."
_MOST_REASONS = 10


class SplitCommand(TyperCommand):
    """A command with two lists separated by `--`; options are allowed on both sides."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        marked = [_SEPARATOR if arg == "--" else arg for arg in args]
        parsed: list[str] = super().parse_args(ctx, marked)
        return parsed

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "A...", "--", "B..."]


SETTINGS = {"compare": {"cls": SplitCommand}}


def compare(
    context: typer.Context,
    runs: Annotated[
        list[str], RUN(help="Those of A, then --, then those of B. RUN:PHASE is one phase of a run.")
    ],
    across: AcrossOption = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="A is this baseline (hsp tag); no -- then."),
    ] = None,
    worse_than: WorseThanOption = None,
    figure: FigureOption = None,
    all_: AllOption = False,
    output: OutputOption = None,
    kind: Annotated[Format | None, format_option(Format)] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Compare two sets of runs, phases of runs, or two series: B/A ratios with confidence intervals.

    Exit code 1 if a figure of B is slower by more than --worse-than, 3 if that cannot be told.

    Examples:
      hsp compare RUN1 RUN2 RUN3 -- RUN4 RUN5 RUN6
      hsp compare --baseline fw1 top-speeds --worse-than 10%
      hsp compare RUN1 RUN2 -- RUN3 RUN4 -o difference.html
    """
    result = OutputTargets.of(kind, output, json_output)
    split = _split(runs, results) if baseline is None else _of_baseline(results, baseline, runs)
    if any(is_series(Path(name)) for side in split for name in side):
        refuse_unused(context, {"a comparison of series": True})
        _compare_series(split, result)
        return
    refuse_unused(context, {"a result without text": "text" not in result.kinds})
    limit = part_of(worse_than, figure)
    side_a, side_b = (_read(names) for names in split)
    found = comparison(side_a, side_b, across or [])

    def page(_: int) -> str:
        shown = shown_phase(found.phases)
        return comparison_page.render(
            found, *([run.drawn(shown) for run in side] for side in (side_a, side_b))
        )

    result.write({
        "text": lambda width: comparison_table.plain(found, width, all_=all_),
        "json": lambda _: as_json(found.as_json()),
        "markdown": lambda _: comparison_table.markdown(found),
        "csv": lambda _: csv(found),
        "html": page,
    })  # fmt: skip
    if limit is not None:
        _end(gate_of(found, limit, figure or []), limit)


def _end(gated: Gated, limit: float) -> None:
    """Say what the gate says, and end with its exit code."""
    for row in gated.slower[:_MOST_REASONS]:
        say(f"  {difference(row)}")
    slower, left = len(gated.slower), len(gated.open)
    say(told(limit, slower=slower, open_=left, of=gated.asked, shares=gated.shares))
    if gated.slower or gated.open:
        raise typer.Exit(EXIT_EXPECTATION if gated.slower else EXIT_UNKNOWN)


def _of_baseline(results: Path, name: str, runs: list[str]) -> tuple[list[str], list[str]]:
    if _SEPARATOR in runs:
        raise ConfigError("with a baseline all runs are of B, and there is a --", "leave -- out")
    baseline, runs = run_of_baseline(results, name).path, [find_phase(run, results) for run in runs]
    for run in map(Path, runs):
        refuse_no_run(run)
        if run.is_dir() and run.resolve() == baseline:
            raise ConfigError(f"{run} is the baseline '{name}' itself", "name another run")
    return [str(baseline)], runs


def _compare_series(split: tuple[list[str], list[str]], result: OutputTargets) -> None:
    """A series against a series. Raises ConfigError."""
    a, b = split
    if len(a) != 1 or len(b) != 1 or not all(is_series(Path(name)) for name in (*a, *b)):
        raise ConfigError("a series is compared with one other series", "hsp compare SERIES_A -- SERIES_B")
    compared = series_comparison(Path(a[0]), Path(b[0]))
    result.write({
        "text": lambda width: comparison_lines(compared.result, width),
        "json": lambda _: as_json(compared.result.as_json()),
        "html": lambda _: compared.page(),
    })  # fmt: skip


def _split(runs: list[str], results: Path) -> tuple[list[str], list[str]]:
    if runs.count(_SEPARATOR) != 1:
        raise ConfigError(f"one -- must separate A and B, found {runs.count(_SEPARATOR)}", _USAGE)
    separator = runs.index(_SEPARATOR)
    side_a, side_b = runs[:separator], runs[separator + 1 :]
    for letter, names in (("A", side_a), ("B", side_b)):
        if not names:
            raise ConfigError(f"{letter} has no run", _USAGE)
    return [find_phase(name, results) for name in side_a], [find_phase(name, results) for name in side_b]


def _read(names: list[str]) -> list[ComparedRun]:
    """The runs of one side. Raises ConfigError for a run that is given twice: it would count twice."""
    runs = [ComparedRun(name) for name in names]
    once = EachOnce()
    for run in runs:
        once.add(run.name, run.identities, run.manifest.fingerprint)
    return runs
