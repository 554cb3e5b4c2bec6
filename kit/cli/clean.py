"""`hsp clean`: undo what an interrupted run left on its hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kit.cli.options import JsonOption, QuietOption, ResultsOption
from kit.core.errors import EXIT_HOST, EXIT_OK, ConfigError
from kit.core.output import emit_json, say
from kit.core.progress import Progress
from kit.recovery.clean import Cleaned, clean, unfinished


def clean_command(
    run: Annotated[
        Path | None, typer.Argument(help="The directory of a run; without it, all unfinished runs.")
    ] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
    quiet: QuietOption = False,
) -> None:
    """Undo what a crashed run left on its hosts. Safe to call twice."""
    if run and not (run / "plan.json").is_file():
        raise ConfigError(
            f"{run} is not the directory of a run", "it is results/WORKLOAD/TIME-ID, with plan.json"
        )
    runs = [run.resolve()] if run else list(unfinished(results))
    if not runs:
        say(f"every run in {results} is finished: nothing to clean up")
    progress = Progress(quiet=quiet)
    done = [clean(path, progress) for path in runs]
    for cleaned in done:
        _print(cleaned)
    if json_output:
        emit_json({"format": 1, "runs": [_as_json(cleaned) for cleaned in done]})
    failed = any(cleaned.left or cleaned.unreachable for cleaned in done)
    raise typer.Exit(EXIT_HOST if failed else EXIT_OK)


def _print(cleaned: Cleaned) -> None:
    for error in cleaned.unreachable:
        say(f"not reached: {error.message}")
    for left in cleaned.left:
        say(f"not undone: {left}")
        for command in left.by_hand:
            say(f"  by hand, {command}")
    state = f"{len(cleaned.left)} steps are left" if cleaned.left else "its hosts are clean"
    say(f"{cleaned.run}: {cleaned.undone} undone, {state}")


def _as_json(cleaned: Cleaned) -> dict[str, Any]:
    return {
        "run": str(cleaned.run),
        "undone": cleaned.undone,
        "left": [
            {"what": left.text, "why": left.why, "by_hand": list(left.by_hand)} for left in cleaned.left
        ],
        "unreachable": [error.message for error in cleaned.unreachable],
    }
