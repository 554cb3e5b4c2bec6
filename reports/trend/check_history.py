"""What the verdict of each run rests on, by ids that stay the same from run to run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.store.checks.ids import UNKNOWN_ID
from kit.store.checks.outcome import Outcome
from kit.store.summary import Summary

State = Literal["met", "failed", "known", "unknown"]
_FAILED: tuple[State, ...] = ("failed", "known")


@dataclass(frozen=True)
class Stand:
    """How one check came out in one run. `text`: why it failed."""

    state: State
    text: str = ""


@dataclass(frozen=True)
class History:
    """A check over all points: the state at each, None where the run has no such check, and in words.

    `failing`: it failed when it was last judged; `known`: the same, and the failure is known.
    """

    name: str
    states: tuple[State | None, ...]
    text: str
    words: str
    failing: bool
    known: bool = False


def outcomes_of(summary: Summary) -> dict[str, Stand]:
    """By id, with the phase. What every run of its kind has, or is not asked for, is left out.

    Of a run that cannot be used no expectation is met or failed.
    """
    found: dict[str, Stand] = {}
    used: Counter[str] = Counter()
    for outcome in summary.outcomes:
        if not (outcome.by_nature or outcome.id == UNKNOWN_ID):
            name = _name(outcome)
            used[name] += 1
            judged = summary.is_usable or not outcome.is_expectation
            stand = Stand(_state(outcome) if judged else "unknown", outcome.marked)
            found[name if used[name] == 1 else f"{name} ({used[name]})"] = stand
    return found


def _state(outcome: Outcome) -> State:
    if outcome.decides:
        return "known" if outcome.known else "failed"
    return "met" if outcome.holds else "unknown"


def _name(outcome: Outcome) -> str:
    of_phase = outcome.phase and not outcome.is_expectation
    return f"{outcome.id}:{outcome.phase}" if of_phase else outcome.id


def histories(outcomes: Sequence[Mapping[str, Stand]], names: Sequence[str]) -> Iterator[History]:
    """The checks that failed at a point at least, in the order in which they first did.

    `outcomes`, `names`: of each point.
    """
    keys = dict.fromkeys(key for each in outcomes for key, found in each.items() if found.state in _FAILED)
    for key in keys:
        states = tuple(each[key].state if key in each else None for each in outcomes)
        last = max(i for i, state in enumerate(states) if state in _FAILED)
        known = [(i, state) for i, state in enumerate(states) if state in ("met", *_FAILED)]
        now = known[-1][1]
        text = outcomes[last][key].text
        yield History(key, states, text, _words(known, names), now == "failed", now == "known")


def _words(judged: Sequence[tuple[int, State]], names: Sequence[str]) -> str:
    """Such as "new at X, known at Y, mended at Z": each turn, and what it was at first."""
    first, before = judged[0]
    told = "the first" if first == 0 else "the first that tells"
    words = [] if before == "met" else [f"{before} since {names[first]}, {told}"]
    for i, now in judged[1:]:
        if now != before:
            verbs = {"met": "mended", "known": "known"}
            words.append(f"{verbs.get(now, 'failed again' if words else 'new')} at {names[i]}")
        before = now
    return ", ".join(words)
