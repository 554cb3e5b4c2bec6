"""`hsp clean`: undo what an interrupted run left on its hosts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kit.cli.options import RUN, JsonOption, ResultsOption, safety
from kit.cli.usage import loaded, refuse_unused
from kit.core.errors import EXIT_HOST, EXIT_OK, EXIT_SAFETY, EXIT_USAGE, ConfigError, KitError, SafetyRefusal
from kit.core.output import emit_json, emit_text, say, say_error
from kit.core.progress import Progress
from kit.recovery.clean import Cleaned, clean, describe, is_known, run_id, unfinished
from kit.recovery.journal import RunGoesOn, held_by, read_journal
from kit.session.place import ask
from kit.store.run_directory import named_run
from kit.store.run_name import find_run

AgreeOption = Annotated[
    str,
    safety(
        "--agree", metavar="RUN-ID", help="Confirm cleaning up a run that this machine's kit did not make."
    ),
]


def clean_command(
    context: typer.Context,
    run: Annotated[str | None, RUN(show_default="all unfinished runs of this machine")] = None,
    cache: Annotated[
        bool, typer.Option("--cache", help="Instead: images of the lab that this version does not use.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of --cache: list what would be removed.")
    ] = False,
    agree: AgreeOption = "",
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Undo what a crashed run left on its hosts. Safe to call twice.

    Examples:
      hsp clean
      hsp clean results/top-speeds/20261124T053000Z-ab12cd
      hsp clean --cache --dry-run
    """
    refuse_unused(context, {
        "images of the lab": cache,
        "a clean-up of runs": not cache,
        "all unfinished runs": run is None,
    })  # fmt: skip
    if cache:
        loaded("kit.cli.lab").prune_cache(dry_run, json_output)
        return
    progress = Progress()
    named = find_run(run, results) if run else None
    done, code = (_clean_named(named, agree, progress), EXIT_OK) if named else _clean_known(results, progress)
    for cleaned in done:
        _say_problems(cleaned)
        if not json_output:
            emit_text([f"{cleaned.run}: {cleaned.undone} undone, {_state(cleaned)}"])
    if json_output:
        emit_json({"format": 1, "runs": [_as_json(cleaned) for cleaned in done]})
    failed = any(cleaned.left or cleaned.unreachable for cleaned in done)
    raise typer.Exit(EXIT_HOST if failed else code)


def _clean_named(run: Path, agree: str, progress: Progress) -> list[Cleaned]:
    path = named_run(run).path
    if not (path / "plan.json").is_file():
        raise ConfigError(
            f"{run} is not the directory of a run", "it is results/WORKLOAD/TIME-ID, with plan.json"
        )
    record = read_journal(path / "journal.jsonl")
    if goes_on := held_by(path / "journal.jsonl"):
        raise goes_on
    if record.pending and not is_known(path, record):
        agree = _agreed(path, run_id(path, record), agree)
    return [clean(path, progress, agree)]


def _agreed(path: Path, name: str, agree: str) -> str:
    """Show the run, and have a person agree to it. Raises SafetyRefusal."""
    say(f"{path} is not a run that this machine's kit knows it made and has not finished. It says:")
    for line in describe(path):
        say(f"  {line}")
    if not agree and sys.stdin.isatty():
        agree = ask("Its ssh_config can run programs here. Type the run's id to undo this: ").strip()
    if agree != name:
        raise SafetyRefusal(
            f"cleaning up {path} was not agreed to; nothing was contacted",
            f"if it is yours, on its hosts nothing else uses these names: add --agree {name}",
        )
    return agree


def _clean_known(results: Path, progress: Progress) -> tuple[list[Cleaned], int]:
    """All runs that this machine's kit made. The code says whether others were passed over."""
    done, code, seen = list[Cleaned](), EXIT_OK, False
    for run in unfinished(results):
        seen = True
        try:
            if run.problem:
                raise run.problem
            if goes_on := held_by(run.path / "journal.jsonl"):
                raise goes_on
            if not is_known(run.path, read_journal(run.path / "journal.jsonl")):
                say(f"{run.path}: not a run that this machine's kit knows it made; it was left alone")
                say(f"  what to do: `hsp clean {run.path}` shows its hosts and what it would undo there")
                code = code or EXIT_SAFETY
                continue
            done.append(clean(run.path, progress))
        except RunGoesOn as goes_on:
            say(f"{goes_on.message}: it was left alone")
        except ConfigError as error:
            say_error(error)
            code = EXIT_USAGE
        except KitError as error:
            say_error(error)
            code = code or error.exit_code
    if not seen:
        say(f"no unfinished run in {results}: nothing to clean up")
    return done, code


def _say_problems(cleaned: Cleaned) -> None:
    for error in cleaned.unreachable:
        say(f"not reached: {error.message}")
    for left in cleaned.said:
        say(left.problem)
        for command in left.by_hand:
            say(f"  by hand, {command}")


def _state(cleaned: Cleaned) -> str:
    if cleaned.left:
        return f"{len(cleaned.left)} steps are not undone"
    if cleaned.unreachable:
        return "what is on the hosts that were not reached is not known"
    return "its hosts are clean" if cleaned.undone else "its journal has nothing to undo"


def _as_json(cleaned: Cleaned) -> dict[str, Any]:
    return {
        "run": str(cleaned.run),
        "undone": cleaned.undone,
        "left": [
            {"what": left.text, "why": left.why, "by_hand": list(left.by_hand)} for left in cleaned.left
        ],
        "unreachable": [error.message for error in cleaned.unreachable],
    }
