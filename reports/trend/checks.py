"""Expectations and checks of a run, by a name that stays the same from run to run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.store.summary import JudgedExpectation, Summary

State = Literal["met", "failed", "unknown"]


@dataclass(frozen=True)
class Outcome:
    """What became of one check in one run. `text`: why it failed."""

    state: State
    text: str = ""


@dataclass(frozen=True)
class History:
    """A check over all points: the state at each, None where the run has no such check, and in words."""

    name: str
    states: tuple[State | None, ...]
    text: str
    words: str
    failing: bool


def outcomes_of(summary: Summary) -> dict[str, Outcome]:
    """By name: expectations of the workload, sums that must close, and whether the result is known at all.

    Of a run whose result is unknown no expectation is met or failed.
    """
    found: dict[str, Outcome] = {}
    used: Counter[str] = Counter()

    def add(name: str, outcome: Outcome) -> None:
        used[name] += 1
        found[name if used[name] == 1 else f"{name} ({used[name]})"] = outcome

    is_known = summary.verdict != "unknown" or summary.by_nature is not None
    told: set[str] = set()
    for wish in summary.expect:
        state: State = "met" if wish.ok else "failed"
        state = "unknown" if wish.ok is None or not is_known else state
        add(_name(wish), Outcome(state, " ".join(wish.reasons)))
        told |= set(wish.reasons)
    for phase in summary.accounting.phases:
        for check in phase.checks:
            add(f"check {phase.phase}: {check.name}", Outcome("met" if check.ok else "failed", str(check)))
    text = "" if is_known else " ".join(reason for reason in summary.reasons if reason not in told)
    add("the result is known", Outcome("met" if is_known else "failed", text))
    return found


def _name(wish: JudgedExpectation) -> str:
    limits = [str(each.get("name")) for each in wish.limits]
    what = ", ".join([*(["inside"] if wish.inside else []), *limits]) or "count"
    return f"expect {wish.phase} {wish.op}/{wish.tier}: {what}"


def histories(outcomes: Sequence[Mapping[str, Outcome]], names: Sequence[str]) -> Iterator[History]:
    """The checks that failed at a point at least, in the order in which they first did.

    `outcomes`, `names`: of each point.
    """
    keys = dict.fromkeys(key for each in outcomes for key, found in each.items() if found.state == "failed")
    for key in keys:
        states = tuple(each[key].state if key in each else None for each in outcomes)
        last = max(i for i, state in enumerate(states) if state == "failed")
        known = [(i, state) for i, state in enumerate(states) if state in ("met", "failed")]
        yield History(key, states, outcomes[last][key].text, _words(known, names), known[-1][1] == "failed")


def _words(known: Sequence[tuple[int, State]], names: Sequence[str]) -> str:
    """Such as "new at X, mended at Y": each turn, and what it was at first."""
    first, state = known[0]
    words = [f"failed since {names[first]}, the first"] if state == "failed" else []
    for i, now in known[1:]:
        if now != state:
            words.append(
                f"{'failed again' if words else 'new'} at {names[i]}"
                if now == "failed"
                else f"mended at {names[i]}"
            )
        state = now
    return ", ".join(words)
