"""The line after a result: by which command one goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kit.core.errors import HostError, KitError
from kit.hosts.base import HostLost
from kit.session.measure import next_command
from kit.store.checks.outcome import Outcome
from tests.reports import synthetic

LOST = HostLost("nas is lost")
LEFT = Outcome.failed("NOT-UNDONE", "not undone: x").as_json()


@pytest.mark.parametrize(
    ("code", "failure", "measured", "causes", "line"),
    [
        (0, None, True, [], "again:  hsp run x"),
        (1, None, True, [], "again:  hsp run x"),
        (3, None, True, [], "again:  hsp run x"),
        (130, None, True, [], "resume: hsp run --resume 'results/a b'"),
        (130, None, False, [], "resume: hsp run --resume 'results/a b'"),
        (5, HostError("fio failed"), True, [], "resume: hsp run --resume 'results/a b'"),
        (5, HostError("no fio"), False, [], "again:  hsp run x"),
        (5, LOST, True, [], ""),
        (5, None, True, [LEFT], "clean:  hsp clean 'results/a b'"),
        (130, None, True, [LEFT], "clean:  hsp clean 'results/a b'"),
    ],
)
def test_the_next_command(
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    failure: KitError | None,
    measured: bool,
    causes: list[object],
    line: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/hsp", "run", "x"])
    summary = synthetic.summary_of([{}] if measured else [], outcomes=causes)
    assert next_command(summary, Path("results/a b"), code, failure) == line
