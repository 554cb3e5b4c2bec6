"""Runs of before say in words what has a key now: both give the same."""

from __future__ import annotations

from kit.store.parts import older
from kit.store.phase import Event, InjectedFault, Problem
from kit.store.series import SkippedCell


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


def test_why_a_cell_cannot_be() -> None:
    cell = SkippedCell(name="x", at={}, phase="one", reason="phase.one.force: a: b")
    assert older.problem_of(cell) == "a: b"
    assert older.problem_of(cell.model_copy(update={"problem": "other: words"})) == "other: words"
    assert older.problem_of(cell.model_copy(update={"reason": "no key"})) == "no key"
