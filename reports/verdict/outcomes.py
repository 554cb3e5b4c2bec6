"""The outcomes of a run together: its verdict, and the checks that nothing was found about. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kit.store.checks.ids import IDS, STORED_IDS, SUM_IDS, UNKNOWN_ID, CheckId
from kit.store.checks.outcome import Outcome, Verdict

# What an observation does not do: a load of its own, on pools and devices that the kit has set up.
_OF_LOADS = frozenset({
    "ARC-ZIL-COUNTERS", "ARRAY", "CLIENT-SERVER-IOS", "CLIENTS-ALIKE", "CLOCK-OFFSETS", "FAULT-EVENTS",
    "HOST-HEALTH", "INJECTED-FAULTS", "LATE-CLIENTS", "LOAD", "MOUNT-STATISTICS", "NO-AGEING", "NOT-MEASURED",
    "PRECONDITION", "PROPERTIES", "READ-HISTORY", "RESOURCE-USE", "SCHEDULE", "SCRUB", "SERVER-ACTIVITY",
    "SETTINGS-CHANGED", "UNTRACED", "WARM-UP",
})  # fmt: skip


def verdict_of(outcomes: Sequence[Outcome]) -> Verdict:
    """What is unknown by its nature or for too few I/Os alone can still show an unmet requirement."""
    unmet = [each for each in outcomes if each.makes == "invalid"]
    if any(IDS[each.id].decisive for each in unmet if each.id in IDS):
        return "invalid"
    doubted = any(each.makes == "unknown" and not each.of_amount for each in outcomes)
    if unmet and (nature_of(outcomes) or not doubted):
        return "invalid"
    return "unknown" if any(each.decides for each in outcomes) else "valid"


def nature_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The one outcome that all runs of its kind have, if nothing else makes the run unknown."""
    unknown = [each for each in outcomes if each.makes == "unknown" and not each.of_amount]
    return unknown[0] if len(unknown) == 1 and unknown[0].by_nature else None


def completed(found: Sequence[Outcome], asked: Collection[str]) -> list[Outcome]:
    """`found`, what decides first, and an outcome for each check of the list that is not in it.

    `asked`: keys of the summary that the workload asks for.
    """
    seen = {each.id for each in found}
    told = seen | SUM_IDS | STORED_IDS | {UNKNOWN_ID}
    rest = [each for id_, each in IDS.items() if id_ not in told]
    decide = [each for each in found if each.decides]
    others = [each for each in found if not each.decides]
    return [*decide, *_of_the_run(rest, seen, asked), *others]


def _of_the_run(rest: Sequence[CheckId], seen: Collection[str], asked: Collection[str]) -> Iterator[Outcome]:
    for each in rest:
        if each.by_nature:
            continue
        if "IMPORTED" in seen and not each.of_imports:
            yield Outcome.absent(each.id, "not available", "an import has one count alone")
        elif "observed" in asked and each.id in _OF_LOADS:
            yield Outcome.absent(each.id, "not asked for", "a server in use was observed, without a load")
        elif "APPLIANCE" in seen and each.traced:
            yield Outcome.absent(each.id, "not available", "the server could not be looked into")
        elif each.asked_by and each.asked_by not in asked:
            yield Outcome.absent(each.id, "not asked for")
        else:
            yield Outcome.ok(each.id)
