"""Which reasons of a verdict are known failures. The verdict stays: an unknown run is not to be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from kit.store.checks.known import NEVER_KNOWN, Known, KnownState, names_something
from kit.store.manifest import Manifest
from kit.store.summary import Reason

Json = dict[str, Any]


def excused(
    causes: Sequence[Reason], known: Sequence[Known], expect: Sequence[Json], today: date | None = None
) -> tuple[list[Reason], list[KnownState]]:
    """`causes` with the failures that are known today (UTC), and what came of each entry of `known`."""
    today = today or datetime.now(UTC).date()
    valid = [each for each in known if not each.is_over(today)]
    marked = [_marked(cause, valid) for cause in causes]
    return marked, [KnownState(**each.as_json(), state=_state(each, causes, expect, today)) for each in known]


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


def _state(known: Known, causes: Sequence[Reason], expect: Sequence[Json], today: date) -> Any:
    if known.is_over(today):
        return "over"
    if any(known.names(cause.id, cause.phase) for cause in causes if cause.id not in NEVER_KNOWN):
        return "known"
    open_ones = [wish for wish in expect if wish["ok"] is None]
    return "open" if any(known.check.startswith(wish["id"]) for wish in open_ones) else "passes"
