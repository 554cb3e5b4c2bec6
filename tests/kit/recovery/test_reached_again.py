"""A run that reaches its machines again, and `hsp clean`, cut off at every command."""

from __future__ import annotations

import contextlib

import pytest

from kit.hosts.base import HostLost
from tests.kit.recovery.conftest import Whole, breaks
from tests.kit.recovery.strikes import new_world
from tests.machines.world import Wire

# Hundreds of runs each: beside other work they take minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_cut_off_and_reached_again_at_every_command(whole: Whole) -> None:
    """It cleans up by itself then, on new connections."""
    struck, found = whole.struck, []
    for number, when in whole.breaks:
        wire = Wire(new_world(), number, when)
        outcome = struck.execute(wire, comes_back=True)
        left = [str(each) for each in outcome.left] if outcome else []
        if outcome is None or any("setting.b is off, the run had set on" in each for each in left):
            # As above: it is somebody else's, and is said.
            continue
        if problems := struck.after(wire.world) + left:
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []


def test_clean_cut_off_at_every_command(whole: Whole) -> None:
    struck, first = whole.struck, Wire(whole.struck.put_back(whole.fullest), look=lambda _: None)
    struck.clean(first)
    found = []
    for number, when in breaks(first):
        wire = Wire(struck.put_back(whole.fullest), number, when)
        with contextlib.suppress(HostLost):
            struck.clean(wire)
        if problems := struck.problems(wire.world):
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []
