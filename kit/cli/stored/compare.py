"""`hsp compare A... -- B...`: does B differ from A, from stored runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kit.cli.options import JsonOption, ResultsOption
from kit.core.errors import ConfigError
from kit.core.output import check_target, emit, emit_json, emit_text, say, write_target
from kit.session.comparison import StoredRun, comparison, shown_phase
from kit.session.presentation import terminal_width
from kit.session.series_comparison import series_comparison
from kit.store.baselines import run_of_baseline
from kit.store.parts.comparison import Comparison
from kit.store.run_directory import refuse_no_run
from kit.store.series import is_series
from reports.output import comparison_table
from reports.output.series_table import comparison_lines
from reports.page import comparison_page

# click drops a `--`, so it is replaced by a marker. No argument can contain a NUL.
_SEPARATOR = "\0--"
_USAGE = "hsp compare A1 A2 ... -- B1 B2 ..."


class SplitCommand(TyperCommand):
    """A command with two lists separated by `--`; options are allowed on both sides."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        marked = [_SEPARATOR if arg == "--" else arg for arg in args]
        parsed: list[str] = super().parse_args(ctx, marked)
        return parsed

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "A...", "--", "B..."]


app = typer.Typer(add_completion=False)


@app.command(cls=SplitCommand)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run directories: those of A, then --, then those of B. RUN:PHASE is one phase of a run.",
            metavar="A... -- B...",
        ),
    ],
    across: Annotated[
        list[str] | None,
        typer.Option(
            "--across",
            metavar="KEY",
            help="A and B may differ in this and in all keys below it, e.g. versions.zfs. Repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="NAME", help="A is this baseline of --results (hsp baseline); no -- then."
        ),
    ] = None,
    results: ResultsOption = Path("results"),
    json_output: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table on stdout.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a page: heat maps of A, B and their difference; figures of two series.",
        ),
    ] = None,
) -> None:
    """Compare two sets of runs, phases of runs, or two series: B/A ratios with confidence intervals."""
    if json_output and markdown:
        raise ConfigError("--json and --markdown both print on stdout", "choose one of them")
    check_target(html)
    split = _split(runs) if baseline is None else _of_baseline(results, baseline, runs)
    if any(is_series(Path(name)) for side in split for name in side):
        _compare_series(split, html, bool(across or markdown), json_output)
        return
    side_a, side_b = (_read(names) for names in split)
    result = comparison(side_a, side_b, across or [])
    if markdown:
        emit(comparison_table.markdown(result).encode())
    else:
        _print(result, json_output)
    if html:
        page = comparison_page.render(
            result, *([run.drawn(shown_phase(result.phases)) for run in side] for side in (side_a, side_b))
        )
        _write_page(html, page)


def compare_baseline(results: Path, name: str, runs: list[str], across: list[str], json_output: bool) -> None:
    """Runs against a baseline. Raises ConfigError, MeasurementUnknown."""
    split = _of_baseline(results, name, runs)
    side_a, side_b = (_read(names) for names in split)
    _print(comparison(side_a, side_b, across), json_output)


def _of_baseline(results: Path, name: str, runs: list[str]) -> tuple[list[str], list[str]]:
    if _SEPARATOR in runs:
        raise ConfigError("with a baseline all runs are of B, and there is a --", "leave -- out")
    baseline = run_of_baseline(results, name).path
    for run in map(Path, runs):
        refuse_no_run(run)
        if run.is_dir() and run.resolve() == baseline:
            raise ConfigError(f"{run} is the baseline '{name}' itself", "name another run")
    return [str(baseline)], runs


def _print(result: Comparison, json_output: bool) -> None:
    if json_output:
        emit_json(result.as_json())
    else:
        emit_text(comparison_table.plain(result, terminal_width()))


def _compare_series(
    split: tuple[list[str], list[str]], html: Path | None, other_options: bool, json_output: bool
) -> None:
    """A series against a series. Raises ConfigError."""
    a, b = split
    if len(a) != 1 or len(b) != 1 or not all(is_series(Path(name)) for name in (*a, *b)):
        raise ConfigError("a series is compared with one other series", "hsp compare SERIES_A -- SERIES_B")
    if other_options:
        raise ConfigError("--across and --markdown are for runs", "leave them out for series")
    compared = series_comparison(Path(a[0]), Path(b[0]))
    if json_output:
        emit_json(compared.result.as_json())
    else:
        emit_text(comparison_lines(compared.result, terminal_width()))
    if html:
        _write_page(html, compared.page())


def _write_page(html: Path, page: str) -> None:
    write_target(html, page.encode())
    say(f"page: {html}")


def _split(runs: list[str]) -> tuple[list[str], list[str]]:
    if runs.count(_SEPARATOR) != 1:
        raise ConfigError(f"one -- must separate A and B, found {runs.count(_SEPARATOR)}", _USAGE)
    separator = runs.index(_SEPARATOR)
    side_a, side_b = runs[:separator], runs[separator + 1 :]
    for letter, names in (("A", side_a), ("B", side_b)):
        if not names:
            raise ConfigError(f"{letter} has no run", _USAGE)
    return side_a, side_b


def _read(names: list[str]) -> list[StoredRun]:
    """The runs of one side. Raises ConfigError for a run that is given twice: it would count twice."""
    runs = [StoredRun(name) for name in names]
    names_by_identity: dict[str, str] = {}
    for run in runs:
        for identity in run.identities & names_by_identity.keys():
            raise ConfigError(
                f"{run.name} and {names_by_identity[identity]} are the same run", "give each run once"
            )
        names_by_identity.update(dict.fromkeys(run.identities, run.name))
    return runs
