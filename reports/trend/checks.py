"""What the verdict of each run rests on, by ids that stay the same from run to run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.store.checks.ids import EXPECT
from kit.store.summary import Summary
from reports.verdict.check_lines import CheckLine, check_lines

State = Literal["met", "failed", "known", "unknown"]
_STATES: Mapping[str, State] = {"ok": "met", "failed": "failed", "known": "known", "not available": "unknown"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check in one run. `text`: why it failed."""

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


def outcomes_of(summary: Summary) -> dict[str, Outcome]:
    """By id, with the phase and the name of a sum. What no run of its kind can have is left out.

    Of a run whose result is unknown no expectation is met or failed.
    """
    found: dict[str, Outcome] = {}
    used: Counter[str] = Counter()
    is_known = summary.verdict != "unknown" or summary.by_nature is not None
    for line in check_lines(summary):
        if not line.is_by_nature:
            name = _name(line)
            used[name] += 1
            state = _STATES[line.outcome]
            if line.id.startswith(f"{EXPECT}:") and not is_known:
                state = "unknown"
            found[name if used[name] == 1 else f"{name} ({used[name]})"] = Outcome(state, line.text)
    return found


def _name(line: CheckLine) -> str:
    of_phase = line.phase and not line.id.startswith(f"{EXPECT}:")
    return f"{line.id}:{line.phase}" if of_phase else line.id


def histories(outcomes: Sequence[Mapping[str, Outcome]], names: Sequence[str]) -> Iterator[History]:
    """The checks that failed at a point at least, in the order in which they first did.

    `outcomes`, `names`: of each point.
    """
    keys = dict.fromkeys(
        key for each in outcomes for key, found in each.items() if found.state in ("failed", "known")
    )
    for key in keys:
        states = tuple(each[key].state if key in each else None for each in outcomes)
        last = max(i for i, state in enumerate(states) if state in ("failed", "known"))
        known = [(i, state) for i, state in enumerate(states) if state in ("met", "failed", "known")]
        now = known[-1][1]
        text = outcomes[last][key].text
        yield History(key, states, text, _words(known, names), now == "failed", now == "known")


def _words(judged: Sequence[tuple[int, State]], names: Sequence[str]) -> str:
    """Such as "new at X, known at Y, mended at Z": each turn, and what it was at first."""
    first, before = judged[0]
    words = [] if before == "met" else [f"{before} since {names[first]}, the first"]
    for i, now in judged[1:]:
        if now != before:
            verb = (
                "mended"
                if now == "met"
                else "known"
                if now == "known"
                else "failed again"
                if words
                else "new"
            )
            words.append(f"{verb} at {names[i]}")
        before = now
    return ", ".join(words)
