"""`hsp reproduce`: measure again what the documents claim, and say whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kit.cli import complete
from kit.cli.options import JsonOption, ResultsOption
from kit.cli.usage import refuse_unused
from kit.core.errors import EXIT_INTERRUPTED
from kit.core.output import emit_json, emit_text
from kit.core.progress import Progress
from kit.core.terminal import terminal_width
from kit.core.text import wrapped
from kit.pack.opened import find_run
from kit.session.measure import measure
from kit.session.place import Request, prepare
from kit.session.reproducing import claims
from kit.session.side import Side
from kit.session.sweep_runs import measured_series
from kit.store.run_directory import RunDir, named_run
from kit.store.series import read_series


def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CLAIM", show_default="all", help="Its name (--list).", autocompletion=complete.claims
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the claims; measure nothing.")] = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Judge a stored run, sweep or pack instead.",
            autocompletion=complete.runs,
        ),
    ] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Measure again what the documents claim, and say whether each figure is within its tolerance.

    Exit code 1 if a figure is not, 3 if the verdict of the run is unknown.

    Examples:
      hsp reproduce --list
      hsp reproduce main-job
      hsp reproduce main-job --run 20261121T0530
    """
    refuse_unused(context, {"a list of claims": list_})
    if list_:
        _show(claims.chosen(names or ()), json_output)
        return
    given = named_run(find_run(run, results)) if run else None
    wanted = claims.chosen(names) if names else claims.of_workload(given) if given else claims.chosen(())
    measured: dict[str, RunDir] = {}
    judged = []
    for claim in wanted:
        if given is None and claim.workload not in measured:
            measured[claim.workload] = _measured(claim, results)
        judged.append(claims.judge(claim, given or measured[claim.workload]))
    if json_output:
        emit_json({"format": 1, "claims": [asdict(each) for each in judged]})
    else:
        emit_text(line for each in judged for line in (*each.lines(terminal_width()), ""))
    states = {each.state: each.exit_code for each in judged}
    raise typer.Exit(states.get("fail") or states.get("unknown") or 0)


def _measured(claim: claims.DocumentedClaim, results: Path) -> RunDir:
    """A new run or series of the claim's workload in the lab. Raises KitError."""
    progress, side, request = Progress(), Side.of(claim.workload, None), Request(results)
    progress.note(
        f"{claim.name}: about {claim.minutes} minutes on two cores, {claim.first_minutes} the first time"
    )
    planned = side.sweep() if claim.ratios else None
    if planned is not None:
        path, code = measured_series(side, planned, request, progress)
        if not read_series(path).ended:
            raise typer.Exit(code)
        return RunDir(path)
    plan = side.plan()
    found = measure(plan, prepare(plan, request, progress), request, progress)
    if found.failure:
        raise found.failure
    if found.code == EXIT_INTERRUPTED:
        raise typer.Exit(EXIT_INTERRUPTED)
    return found.run_dir


def _show(wanted: Sequence[claims.DocumentedClaim], json_output: bool) -> None:
    if json_output:
        emit_json({"format": 1, "claims": [asdict(each) for each in wanted]})
        return
    for each in wanted:
        width = terminal_width()
        emit_text((*wrapped(f"{each.name}: {each.head}", width), *each.table().lines(width), ""))
