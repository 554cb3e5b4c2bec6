"""Which reasons of a verdict are known failures. The verdict stays: an unknown run is not to be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from kit.store.checks.known import NEVER_KNOWN, Known, KnownState, State, names_something
from kit.store.manifest import Manifest
from kit.store.summary import Reason, Summary
from reports.verdict.check_lines import CheckLine, check_lines


def excused(causes: Sequence[Reason], known: Sequence[Known], today: date | None = None) -> list[Reason]:
    """`causes`, with its entry beside each failure that is known today (UTC)."""
    today = today or datetime.now(UTC).date()
    valid = [each for each in known if not each.is_over(today)]
    return [_marked(cause, valid) for cause in causes]


def with_states(summary: Summary, known: Sequence[Known], today: date | None = None) -> Summary:
    """`summary` with the state of each entry of `known`."""
    if not known:
        return summary
    today = today or datetime.now(UTC).date()
    lines = check_lines(summary)
    phases = [None, *(each.phase for each in summary.accounting.phases)]
    states = [KnownState(**each.as_json(), state=_state(each, lines, phases, today)) for each in known]
    return summary.model_copy(update={"known": tuple(states)})


def of_run(known: Sequence[Known], manifest: Manifest) -> list[Known]:
    """Each entry once, and those alone that name something of the run: a series has more phases."""
    phases = [phase.name for phase in manifest.phases]
    expected = [each.model_dump(mode="json", exclude_unset=True) for each in manifest.expect]
    return [each for each in dict.fromkeys(known) if names_something(each, phases, expected)]


def entry_of(id_: str, known: Sequence[Known], today: date | None = None) -> Known | None:
    """The entry that names an expectation of a series today (UTC)."""
    day = today or datetime.now(UTC).date()
    return next((each for each in known if each.names(id_) and not each.is_over(day)), None)


def _marked(cause: Reason, known: Sequence[Known]) -> Reason:
    found = next((each for each in known if each.names(cause.id, cause.phase)), None)
    if found is None or cause.id in NEVER_KNOWN:
        return cause
    return cause.model_copy(update={"known": found})


def _state(known: Known, lines: Sequence[CheckLine], phases: Sequence[str | None], today: date) -> State:
    if known.is_over(today):
        return "over"
    outcomes = {
        line.outcome
        for line in lines
        if line.id not in NEVER_KNOWN
        and any(known.names(line.id, phase) for phase in ([line.phase] if line.phase else phases))
    }
    if outcomes & {"failed", "known"}:
        return "known"
    return "passes" if "ok" in outcomes else "open"
