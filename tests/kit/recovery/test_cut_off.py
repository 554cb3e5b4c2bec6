"""A run, cut off from its machines or its terminal at every command."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.core.signals import ENDING, interrupt_at_end
from kit.hosts.base import HostLost
from kit.run.execute import Execution
from tests.kit.recovery.conftest import Whole, is_told
from tests.kit.recovery.strikes import each_line, new_world
from tests.machines.world import Wire

# Hundreds of runs each: beside other work they take minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_cut_off_at_every_command(whole: Whole) -> None:
    """It goes on without its machines, says so once, and what it could not undo, `hsp clean` does."""
    struck, found = whole.struck, []
    for number, when in whole.breaks:
        wire = Wire(new_world(), number, when)
        outcome = struck.execute(wire)
        assert wire.lost, "the run is not another one each time"
        if outcome and not (outcome.failure or outcome.left):
            found.append(f"{when} command {number}: it says nothing")
        if outcome and (wrong := unlike_once(outcome, struck.run.path)):
            found.append(f"{when} command {number}: {wrong}")
        if outcome and is_told(struck.moment("", wire.world)):
            continue
        if outcome and (problems := struck.problems(wire.world)):
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []


def unlike_once(outcome: Execution, run: Path) -> str:
    """What is wrong with what a run says that has lost a machine: a line, and the command in it."""
    waiting = [each for each in outcome.left if each.waits]
    if len(waiting) > 1 or len(outcome.left) > 3 or any(each.by_hand for each in waiting):
        return f"it says {[*map(str, outcome.left)]}"
    if waiting and not str(waiting[0]).endswith(f"run `hsp clean {run}`"):
        return str(waiting[0])
    is_last = isinstance(outcome.failure, HostLost) and waiting
    return "it is not said last" if is_last and outcome.failure.hint != str(waiting[0]) else ""


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_terminal_that_closes_at_every_step(whole: Whole) -> None:
    """The run cleans up by itself, and is not disturbed while it does."""
    struck, found = whole.struck, []
    lines = [json.loads(line) for line in whole.moments[-1].files["journal.jsonl"].splitlines()]
    for number, line in enumerate(lines):
        if "state" not in line:
            continue
        left = [number]

        def hang_up(_: dict[str, Any], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGHUP)

        interrupt_at_end()
        wire = Wire(new_world())
        with each_line(hang_up):
            outcome = struck.execute(wire)
        assert outcome
        undoes = line["step"].startswith("undo: ") and "array" not in line["step"]
        problems = struck.after(wire.world) + [str(each) for each in outcome.left]
        problems += [] if outcome.interrupted else [f"not interrupted: {outcome.failure}"] * (not undoes)
        found += [f"at {line['state']} of {line['step']}: {problems[0][:400]}"] if problems else []
    assert found == []
