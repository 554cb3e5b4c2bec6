"""Which outcomes are known failures. The verdict stays: an unknown run is not to be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from kit.store.checks.known_failures import NEVER_KNOWN, Known, KnownState, State, names_something
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Manifest


def excused(outcomes: Sequence[Outcome], known: Sequence[Known], today: date | None = None) -> list[Outcome]:
    """`outcomes`, with its entry beside each failure that is known today (UTC)."""
    valid = _valid(known, today)
    return [_marked(each, valid, outcomes) if each.decides else each for each in outcomes]


def states_of(
    known: Sequence[Known], outcomes: Sequence[Outcome], phases: Sequence[str], today: date | None = None
) -> tuple[KnownState, ...]:
    """The state of each entry of `known`. `phases`: of the run."""
    today = today or datetime.now(UTC).date()
    return tuple(
        KnownState(**each.as_json(), state=_state(each, outcomes, [None, *phases], today)) for each in known
    )


def of_run(known: Sequence[Known], manifest: Manifest) -> list[Known]:
    """Each entry once, and those alone that name something of the run: a series has more phases."""
    phases = [phase.name for phase in manifest.phases]
    expected = [each.model_dump(mode="json", exclude_unset=True) for each in manifest.expect]
    return [each for each in dict.fromkeys(known) if names_something(each, phases, expected)]


def entry_of(id_: str, known: Sequence[Known]) -> Known | None:
    """The entry that names an expectation of a series today (UTC)."""
    return next((each for each in _valid(known) if each.names(id_)), None)


def _valid(known: Sequence[Known], today: date | None = None) -> list[Known]:
    today = today or datetime.now(UTC).date()
    return [each for each in known if not each.is_over(today)]


def _marked(outcome: Outcome, known: Sequence[Known], outcomes: Sequence[Outcome]) -> Outcome:
    found = next((each for each in known if each.names(outcome.id, outcome.phase)), None)
    if found is None and outcome.of_amount:
        # Entries may be of the expectations of its phase that it leaves open.
        opened = [o.id for o in outcomes if o.is_expectation and o.open and o.phase == outcome.phase]
        entries = [next((each for each in known if each.names(id_)), None) for id_ in opened]
        found = entries[0] if entries and all(entries) else None
    if found is None or outcome.id in NEVER_KNOWN:
        return outcome
    return outcome.model_copy(update={"known": found})


def _state(known: Known, outcomes: Sequence[Outcome], phases: Sequence[str | None], today: date) -> State:
    if known.is_over(today):
        return "over"
    mine = [
        each
        for each in outcomes
        if each.id not in NEVER_KNOWN
        and any(known.names(each.id, phase) for phase in ([each.phase] if each.phase else phases))
    ]
    if any(each.decides for each in mine):
        return "known"
    return "passes" if any(each.holds for each in mine) else "open"
