"""What stands after a result: by which command one goes on; with --json, why it is not valid."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.core.errors import HostError, KitError
from kit.hosts.base import HostLost
from kit.session.measure import MeasuredRun, _present, next_command
from kit.store.checks.outcome import Outcome
from kit.store.run_directory import RunDir
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


def test_a_log_of_standard_error_alone_tells_why_a_run_is_not_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of seven reasons it has the first five; the JSON has all."""
    causes = [Outcome.failed("NOT-UNDONE", f"not undone: {number}").as_json() for number in range(7)]
    summary = synthetic.summary_of([{}], verdict="unknown", outcomes=causes)
    _present(MeasuredRun(RunDir(tmp_path), cast(Any, SimpleNamespace(summary=summary)), 3, None), True)
    printed, said = capsys.readouterr()
    assert len(json.loads(printed)["outcomes"]) == 7
    assert said.splitlines()[:6] == ["verdict: unknown", *(f"  not undone: {number}" for number in range(5))]
    assert "not undone: 5" not in said
