"""Every check of a run with its id and outcome, failed or not: for `hsp check` and JUnit. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.store.checks.ids import IDS, UNKNOWN_ID, id_of_expectation, id_of_sum, sections
from kit.store.summary import JudgedExpectation, PhaseAccounting, Reason, Summary

Outcome = Literal["ok", "failed", "known", "not available"]
# What an import, which has one count alone, can be judged by.
_OF_IMPORTS = frozenset(
    {"NO-PHASES", "STRAY-IOS", "BINS-OVERLAP", "EXTREMES", "SUMS", "CLIENTS-ALIKE", "REFERENCE-UNREADABLE"}
)
_BY_NATURE = frozenset({"APPLIANCE", "IMPORTED", UNKNOWN_ID})
# What is tried only where a workload asks for it, by the key of the summary.
_ASKED_FOR = {
    "POWER-LOSS-UNKNOWN": "power_loss", "POWER-STOPPED": "power_loss", "POWER-UNPROVEN": "power_loss",
    "POWER-CONTROL": "power_loss", "POWER-LOSS-LOST": "power_loss", "POWER-LOSS-TORN": "power_loss",
    "POWER-LOSS-OLD": "power_loss", "POWER-LOSS-FOREIGN": "power_loss", "POWER-LOSS-GONE": "power_loss",
    "FORCES-LOST": "forces", "FAULT-RECOVERY": "faults", "FAULT-DEGRADED": "faults",
    "FAULT-AFFECTED": "faults", "FAULT-ERRORS": "faults", "FAULT-DATA": "faults", "FAULT-MISSING": "faults",
    "EVENT-MISSING": "faults", "FAULT-UNJUDGED": "faults", "FAULT-UNVERIFIED": "faults",
    "SOAK-DRIFT": "soak", "SOAK-STOPPED": "soak", "STOP-RULES": "soak", "IMPACT": "impact",
}  # fmt: skip
_UNTRACED = frozenset({"COUNTS-MISSING", "CLIENT-SERVER-IOS", "LOST-EVENTS", "TIER-TRACER"})


@dataclass(frozen=True)
class CheckLine:
    """`name`: for people. `text`: why it is not ok, or the entry of a known failure. `makes`: the verdict."""

    id: str
    outcome: Outcome
    phase: str | None = None
    name: str = ""
    text: str = ""
    makes: Literal["", "invalid", "unknown"] = ""

    @property
    def is_by_nature(self) -> bool:
        """Whether no run of this kind can be known."""
        return self.id in _BY_NATURE


def check_lines(summary: Summary) -> list[CheckLine]:
    """All that the verdict rests on, in the order of docs/verdict.md, then sums and expectations by phase."""
    failed = [_failed(each) for each in summary.causes]
    lines = list(_of_the_run(summary, failed))
    for phase in summary.accounting.phases:
        lines += _sums(phase, failed)
    for wish in summary.expect:
        lines += _expectation(wish, failed)
    shown = {id(each) for each in lines}
    return [*lines, *(each for each in failed if id(each) not in shown)]


def _failed(cause: Reason) -> CheckLine:
    text = f"{cause.text} [{cause.known.words}]" if cause.known else cause.text
    makes: Literal["invalid", "unknown"] = "invalid" if cause.makes == "invalid" else "unknown"
    return CheckLine(cause.id, "known" if cause.known else "failed", cause.phase, "", text, makes)


def _of_the_run(summary: Summary, failed: Sequence[CheckLine]) -> Iterator[CheckLine]:
    """Ids that are of no sum: those that failed as often as they did, others once."""
    imported = any(each.id == "IMPORTED" for each in failed)
    appliance = any(each.id == "APPLIANCE" for each in failed)
    for title, ids in sections():
        if title.startswith(("Sums", "A stored")):
            continue
        for each in ids:
            found = [line for line in failed if line.id == each.id]
            if found:
                yield from found
            elif each.id in _BY_NATURE:
                continue
            elif imported and each.id not in _OF_IMPORTS:
                yield CheckLine(each.id, "not available", text="an import has one count alone")
            elif appliance and each.id in _UNTRACED:
                yield CheckLine(each.id, "not available", text="the server could not be looked into")
            elif each.id in _ASKED_FOR and not getattr(summary, _ASKED_FOR[each.id]):
                yield CheckLine(each.id, "not available", text="the workload does not ask for it")
            else:
                yield CheckLine(each.id, "ok")


def _sums(phase: PhaseAccounting, failed: Sequence[CheckLine]) -> Iterator[CheckLine]:
    for check in phase.checks:
        id_, name = id_of_sum(check.name), f"{check.name} ({check.source})"
        text = str(check)
        found = [line for line in failed if (line.id, line.phase) == (id_, phase.phase) and text in line.text]
        if check.closes or not found:
            yield CheckLine(id_, "ok" if check.closes else "failed", phase.phase, name)
        else:
            yield from found[:1]
    for missing in phase.unavailable:
        name = f"{missing.name} ({missing.source})"
        yield CheckLine(id_of_sum(missing.name), "not available", phase.phase, name, missing.why)


def _expectation(wish: JudgedExpectation, failed: Sequence[CheckLine]) -> Iterator[CheckLine]:
    """One line a limit; the number of I/Os is always one."""
    row = {"phase": wish.phase, "op": wish.op, "tier": wish.tier}
    limits = [("min_count", None), *([("inside", None)] if wish.inside else [])]
    limits += [(str(each.get("name")), each.get("to")) for each in wish.limits]
    for name, to in limits:
        id_ = id_of_expectation(row, name, to)
        found = [line for line in failed if line.id == id_]
        if wish.ok is None:
            yield CheckLine(id_, "not available", wish.phase, text="the server was not traced")
        elif found:
            yield from found
        else:
            yield CheckLine(id_, "ok", wish.phase)


assert _OF_IMPORTS | _BY_NATURE | _UNTRACED <= IDS.keys()
