"""A phase that goes on loses the problems that it was not whole, and no others."""

from __future__ import annotations

from kit.run.joined_parts import lasting
from kit.run.phase_record import PhaseRecord
from kit.store.phase import Phase, Problem


def test_why_a_load_ended_early_does_not_last() -> None:
    record = PhaseRecord()
    record.add("load", ["fio failed: the load was stopped early"])
    record.add_early("/ is full")
    record.add_early("")
    record.add("interrupted", ["10 s of 20 s were measured"])
    stored = [Problem.from_json(problem.as_json(), "") for problem in record.problems]
    assert [each.ended_early for each in stored] == [False, True, False]
    entry = Phase.model_construct(problems=tuple(stored))
    assert [each.text for each in lasting(entry)] == ["fio failed: the load was stopped early"]
