"""`hsp report`: draw a stored run again, from its files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import reports
from kit import store
from kit.cli.demo import JsonOption, say_summary
from kit.cli.output import emit_json, say
from kit.errors import ConfigError


def report(
    run: Annotated[Path, typer.Argument(help="A run directory, such as results/top-speeds/latest.")],
    json_output: JsonOption = False,
) -> None:
    """Analyse and draw a stored run again. Needs no host, no root and no network."""
    if not run.is_dir():
        raise ConfigError(f"{run}: no such run directory", "give results/<workload>/<run>, or .../latest")
    run_dir = store.RunDir(run.resolve())
    summary = reports.analyse(run_dir)
    page = reports.draw(run_dir)
    if json_output:
        emit_json(summary)
    else:
        say_summary(summary)
    say(f"report: {page}")
