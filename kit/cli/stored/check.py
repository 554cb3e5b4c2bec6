"""`hsp check`: stored runs judged again, each check with its id; without hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kit.cli.options import JsonOption, JunitOption, KnownOption
from kit.core.errors import ConfigError
from kit.core.output import check_target, emit_json, emit_text, say_error, write_target
from kit.core.text import wrapped
from kit.recovery.clean import is_made
from kit.session.presentation import terminal_width
from kit.session.rejudged import Rejudged, known_of_all, rejudged, unreadable
from kit.store.checks.outcome import Outcome, State
from kit.store.series import is_series, named_series, read_series
from reports.output.junit import junit as junit_of

_MARKS: dict[State, str] = {
    "ok": "ok", "failed": "FAILED", "known": "known", "not known": "OPEN", "not available": "n/a",
    "not asked for": "-",
}  # fmt: skip


def check(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Directories of runs or of series, such as results/top-speeds/latest.", metavar="RUN..."
        ),
    ],
    known: KnownOption = None,
    json_output: JsonOption = False,
    junit: JunitOption = None,
) -> None:
    """Judge stored runs again, without their hosts: one line per check, with its id.

    The exit code is that of the worst verdict; 2 if a run cannot be read, 3 also if summary.json says
    something else than the counts. A failure that is known (--known, [[known]]) does not count.
    """
    check_target(junit)
    found = [_runs(path) for path in runs]
    paths = [path for each in found if not isinstance(each, Rejudged) for path in each]
    failures = known_of_all(known, paths, [path for path in runs if is_series(path)]) if known else ()
    judged = [
        made
        for each in found
        for made in ([each] if isinstance(each, Rejudged) else (rejudged(path, failures) for path in each))
    ]
    if junit:
        write_target(junit, junit_of(*(each.summary for each in judged if each.summary)))
    if json_output:
        emit_json({"format": 1, "runs": [_json(each) for each in judged]})
    else:
        emit_text(line for each in judged for line in _lines(each, terminal_width()))
    for each in judged:
        if each.error:
            say_error(each.error)
    # Damaged before unknown before invalid.
    codes = [each.code for each in judged]
    code = 2 if 2 in codes else max(codes)
    raise typer.Exit(code)


def _runs(path: Path) -> list[Path] | Rejudged:
    """The runs of a series, one that was deleted too: it is a line. A run by itself. What cannot be read."""
    if not is_series(path):
        return [path]
    try:
        directory = named_series(path)
        found = [run for build in read_series(directory).builds for run in build.runs]
    except ConfigError as error:
        return unreadable(path, error)
    if not found:
        hint = f"hsp run --resume {directory}" if is_made(directory) else "leave it out"
        raise ConfigError(f"{path}: the series has no run yet", hint)
    return [directory.parent / each.run for each in found]


def _json(judged: Rejudged) -> dict[str, Any]:
    summary = judged.summary
    return {
        "path": judged.path,
        "run": summary.run if summary else None,
        "verdict": summary.verdict if summary else None,
        "by_nature": summary.by_nature if summary else None,
        "known": bool(summary and summary.is_known),
        "exit_code": judged.code,
        "checks": [{**each.as_json(), "outcome": each.state} for each in judged.outcomes],
        "entries": [each.as_json() for each in summary.known] if summary else [],
    }


def _lines(judged: Rejudged, width: int) -> Iterator[str]:
    summary = judged.summary
    verdict = summary.verdict.upper() if summary else "NOT READABLE"
    known = " (known failures alone)" if summary and summary.is_known else ""
    yield f"{judged.path}: {verdict}{known}"
    if summary and summary.by_nature:
        yield from wrapped(f"Unknown by nature: {summary.by_nature}", width, "  ")
    for outcome in judged.outcomes:
        if outcome.open != "not asked for":
            yield from _line(outcome, width)
    if unasked := [each.id for each in judged.outcomes if each.open == "not asked for"]:
        yield from wrapped(f"not asked for: {', '.join(unasked)}", max(width, 40), "  ")
    for note in summary.known_notes if summary else ():
        yield from wrapped(note, width, "  ")
    if summary:
        counts = {state: sum(each.state == state for each in summary.outcomes) for state in _MARKS}
        others = [f"{counts[state]} {state}" for state in _MARKS if counts[state] and state != "ok"]
        if damaged := sum(each.decides for each in judged.stored):
            others.append(f"{damaged} of the stored files failed")
        yield from wrapped("; ".join([summary.tally.words, *others]), width, "  ")
    yield ""


def _line(outcome: Outcome, width: int) -> Iterator[str]:
    where = f" {outcome.phase}" if outcome.phase and not outcome.is_expectation else ""
    head = f"{_MARKS[outcome.state]:<7}{outcome.id}{where}"
    # The id of an expectation says what it is of.
    text = outcome.marked or ("" if outcome.is_expectation else outcome.subject)
    yield from wrapped(f"{head}: {text}" if text else head, max(width, 40), "  ")
