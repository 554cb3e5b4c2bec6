"""`hsp baseline`: a run that others are compared with, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import JsonOption, ResultsOption
from kit.cli.stored.compare import compare_baseline
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.core.output import emit_json, emit_text, say
from kit.core.units import utc_now
from kit.session.comparison import StoredRun
from kit.store.baselines import DEFAULT, read_baselines, run_of_baseline, set_baseline

app = typer.Typer(no_args_is_help=True, add_completion=False)
NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="The baseline's name.")]


@app.callback()
def baseline() -> None:
    """Baselines: runs that others are compared with, by name."""


@app.command("set")
def set_(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    name: NameOption = DEFAULT,
    results: ResultsOption = Path("results"),
    json_output: JsonOption = False,
) -> None:
    """Make a stored run the baseline NAME of a results directory. Its files stay where they are."""
    stored = StoredRun(str(run))
    if stored.phase is not None:
        raise ConfigError(f"{run}: a baseline is a whole run", "leave the phase out")
    if not stored.trusted:
        raise MeasurementUnknown(
            f"{run} is unknown: {' '.join(stored.summary.reasons)}",
            "nothing can be compared with it: choose another run",
        )
    made = set_baseline(results, name, stored.directory, utc_now())
    if json_output:
        emit_json({"format": 1, "name": name, **made.as_json()})
    say(f"baseline {name}: {made.path}")


@app.command("list")
def list_(results: ResultsOption = Path("results"), json_output: JsonOption = False) -> None:
    """List the baselines of a results directory, and whether their runs are there."""
    entries = []
    for name, each in sorted(read_baselines(results).items()):
        try:
            found = str(run_of_baseline(results, name).path)
        except ConfigError:
            found = None
        entries.append({"name": name, **each.as_json(), "found": found})
    if json_output:
        emit_json({"format": 1, "baselines": entries})
        return
    if not entries:
        say(f"no baselines in {results}")
    emit_text(
        f"{e['name']}  {e['run']}  {e['found'] or 'GONE: ' + e['path']}  set {e['set_utc']}" for e in entries
    )


@app.command("compare")
def compare_(
    runs: Annotated[list[str], typer.Argument(help="Runs that are compared with the baseline.")],
    name: NameOption = DEFAULT,
    results: ResultsOption = Path("results"),
    across: Annotated[
        list[str] | None, typer.Option("--across", metavar="KEY", help="As of hsp compare. Repeatable.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Compare runs with a baseline, as `hsp compare BASELINE -- RUN...` does."""
    compare_baseline(results, name, runs, across or [], json_output)
