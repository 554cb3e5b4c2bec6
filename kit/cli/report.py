"""`hsp report`: draw a stored run again, from its files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import reports
from kit.cli.options import JsonOption, JunitOption
from kit.config.toml import load
from kit.core.output import check_target, emit_json, say
from kit.session.presentation import VERDICT_CODES, say_summary, write_junit
from kit.store import run_directory
from reports.analysis.references import Document


def report(
    run: Annotated[Path, typer.Argument(help="A run directory, such as results/top-speeds/latest.")],
    json_output: JsonOption = False,
    reference: Annotated[
        Path | None,
        typer.Option("--reference", help="A TOML file of latency ranges, instead of the workload's."),
    ] = None,
    junit: JunitOption = None,
) -> None:
    """Analyse and draw a stored run again. Needs no host, no root and no network.

    Exit code 1 if an expectation is not met; with --junit also 3 if the result is unknown.
    """
    check_target(junit)
    ranges = load(reference, Document).reference(reference.stem) if reference else None
    run_dir = run_directory.named_run(run)
    summary = reports.analyse(run_dir, ranges)
    page = reports.draw(run_dir)
    write_junit(junit, summary)
    if json_output:
        emit_json(summary.as_json())
    else:
        say_summary(summary)
    say(f"report: {page}")
    if junit or summary.verdict == "invalid":
        raise typer.Exit(VERDICT_CODES[summary.verdict])
