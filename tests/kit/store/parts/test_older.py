"""Runs of before say in words what has a key now: both give the same."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.parts import older
from kit.store.parts.older import CheckFacts
from kit.store.phase import Check, Event, InjectedFault, Missing, Problem
from kit.store.series import SkippedCell
from kit.store.summary import Reason, Summary


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("bytes on a log without a COMMIT, of 4096 written asynchronously", {"total": 4096}),
        ("bytes read from log0", {"subject": "log0", "op": "read"}),
        ("bytes written to log0", {"subject": "log0", "op": "write"}),
        ("NFS WRITE calls", {"op": "write"}),
        ("bytes of NFS READ calls", {"op": "read"}),
        ("wall clock step of lab/client0, in us", {"subject": "lab/client0", "unit": "us"}),
        ("thermal throttling of s, in ms", {"subject": "s", "unit": "ms"}),
        ("thermal throttling of s, events of unknown duration", {"subject": "s"}),
        ("ARC hits", {}),
    ],
)
def test_what_a_check_is_of(name: str, facts: dict[str, Any]) -> None:
    assert older.facts_of(Check.of(name, "source", 0, 0, 0)) == CheckFacts(**facts)
    if facts:
        assert older.facts_of(Check.of("other words", "source", 0, 0, 0, **facts)) == CheckFacts(**facts)


@pytest.mark.parametrize("subject", ["s", "the device log0"])
def test_what_a_check_that_cannot_be_made_is_of(subject: str) -> None:
    name = f"thermal throttling of {subject}" if subject == "s" else f"resource use of {subject}"
    assert older.subject_of(Missing.of(name, "source", "why")) == subject
    assert older.subject_of(Missing.of("other words", "source", "why", subject=subject)) == subject
    assert older.subject_of(Missing.of("trimmed extents", "source", "why")) == ""


def test_faults_that_are_not_declared() -> None:
    before = [("fault", "fault: log0 stall 5"), ("fault", "declared: log0 stall 5"), ("txg", "fault: x")]
    assert [older.undeclared_fault(Event(time_ns=0, kind=kind, text=text)) for kind, text in before] == [
        "log0 stall 5", None, None,
    ]  # fmt: skip
    for declared, what in ((True, None), (False, "x")):
        fault = InjectedFault(declared=declared, what="x")
        event = Event(time_ns=0, kind="fault", text="declared: x", fault=fault)
        assert older.undeclared_fault(event) == what


def test_loads_that_ended_early() -> None:
    before = ("interrupted by the user: the load was stopped early", "the load was stopped early: / is full")
    assert all(older.ended_early(Problem(code="load", text=text)) for text in before)
    assert older.ended_early(Problem(code="load", text="other words", ended_early=True))
    assert not older.ended_early(Problem(code="load", text="fio failed: the load was stopped early"))


def test_reasons_of_other_phases() -> None:
    reasons = ["a: lost", "b: lost", "a sum is open"]
    of_before = Summary.model_construct(verdict="unknown", reasons=tuple(reasons))
    causes = (Reason(id="X", phase="a", text="lost"), Reason(id="X", phase="b", text="lost"))
    now = of_before.model_copy(update={"causes": (*causes, Reason(id="X", text="b: of the run"))})
    assert older.reasons_beside(of_before, ["b"]) == ["a: lost", "a sum is open"]
    assert older.reasons_beside(now, ["b"]) == ["a: lost", "b: of the run"]


def test_why_a_cell_cannot_be() -> None:
    cell = SkippedCell(name="x", at={}, phase="one", reason="phase.one.force: a: b")
    assert older.problem_of(cell) == "a: b"
    assert older.problem_of(cell.model_copy(update={"problem": "other: words"})) == "other: words"
    assert older.problem_of(cell.model_copy(update={"reason": "no key"})) == "no key"
