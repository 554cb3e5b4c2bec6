"""`hsp show --checks`: stored runs judged again, each check with its id; without hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from kit.cli.result import OutputTargets
from kit.core.errors import ConfigError
from kit.core.output import as_json, say_error, write_target
from kit.core.text import wrapped
from kit.recovery.clean import is_made
from kit.session.rejudged import Rejudged, known_of_all, rejudged, unreadable
from kit.store.checks.ids import IDS
from kit.store.checks.outcome import Outcome, State
from kit.store.series import is_series, named_series, read_series
from kit.store.summary import Summary
from reports.output.junit import junit as junit_of

_MARKS: dict[State, str] = {
    "ok": "ok", "failed": "FAILED", "known": "known", "not known": "OPEN", "not available": "n/a",
    "not asked for": "-",
}  # fmt: skip
# Without --all; the others are counted.
_SHOWN = ("failed", "known", "not known")


def check(
    runs: Sequence[Path], known: Path | None, result: OutputTargets, junit: Path | None, all_: bool
) -> None:
    """Judge stored runs and series again, without their hosts. Ends with the worst verdict's exit code.

    2 if a run cannot be read, 3 also if summary.json says something else than the counts. A failure that is
    known does not count. `all_`: also what passed.
    """
    judged = _judged(runs, known)
    if junit:
        write_target(junit, junit_of(*(each.summary for each in judged if each.summary)))
    result.write({
        "text": lambda width: (line for each in judged for line in _lines(each, max(width, 40), all_)),
        "json": lambda _: as_json({"format": 1, "runs": [_json(each) for each in judged]}),
    })  # fmt: skip
    for error in filter(None, (each.error for each in judged)):
        say_error(error)
    # Damaged before unknown before invalid.
    codes = [each.code for each in judged]
    code = 2 if 2 in codes else max(codes)
    raise typer.Exit(code)


def _judged(runs: Sequence[Path], known: Path | None) -> list[Rejudged]:
    found = [_runs(path) for path in runs]
    paths = [path for each in found if not isinstance(each, Rejudged) for path in each]
    failures = known_of_all(known, paths, list(filter(is_series, runs))) if known else ()
    judged: list[Rejudged] = []
    for each in found:
        judged += [each] if isinstance(each, Rejudged) else [rejudged(path, failures) for path in each]
    return judged


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
        "files": _outcomes(judged.stored),
        "checks": _outcomes(summary.outcomes if summary else ()),
        "entries": [each.as_json() for each in summary.known] if summary else [],
    }


def _outcomes(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [{**each.as_json(), "outcome": each.state} for each in outcomes]


def _lines(judged: Rejudged, width: int, all_: bool) -> Iterator[str]:
    summary, path = judged.summary, Path(judged.path)
    if summary:
        known = " (known failures alone)" if summary.is_known else ""
        named = path.with_name(summary.run) if summary.run and path.name == "latest" else path
        yield f"{summary.state.upper()}{known}  {named}"
        if summary.by_nature:
            yield from wrapped(f"Unknown by nature: {summary.by_nature}", width, "  ")
    else:
        yield f"NOT READABLE  {path}"
    for outcome in judged.outcomes:
        if all_ or outcome.state in _SHOWN:
            yield from wrapped(_words(outcome), width, f"{_MARKS[outcome.state]:<7}")
    if summary:
        for note in summary.known_notes:
            yield from wrapped(note, width, "  ")
        more = "" if all_ else " (--all lists them)"
        yield from wrapped(_counts(summary, judged.stored) + more, width)
    yield ""


def _counts(summary: Summary, stored: Iterable[Outcome]) -> str:
    counts = Counter(each.state for each in summary.outcomes)
    others = [f"{counts[state]} {state}" for state in _MARKS if counts[state] and state != "ok"]
    if damaged := sum(each.decides for each in stored):
        others.append(f"{damaged} of the stored files failed")
    return "; ".join([summary.tally.words, *others])


def _words(outcome: Outcome) -> str:
    """What was found, in words, and its id: of what holds, that it is not so."""
    text = outcome.marked or outcome.subject
    if not text and outcome.id in IDS:
        text = f"{'not so' if outcome.holds else outcome.state}: {IDS[outcome.id].meaning}"
    # The id of an expectation has its phase.
    where = f" {outcome.phase}" if outcome.phase and not outcome.is_expectation else ""
    return f"{text} ({outcome.id}{where})" if text else f"{outcome.id}{where}"
