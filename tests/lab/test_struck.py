"""A run is struck at steps of the main job: killed (SIGKILL), cut off from its hosts, or its terminal closes.

After a kill, and after every SSH connection broke, `hsp clean` runs, and once more: the host is what it was
before (tests.lab.recovery). After SIGHUP the run cleans up by itself: its journal says so each time, and the
first `hsp clean` changes nothing.
"""

from __future__ import annotations

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, hang_up_at_each, stop_at, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_killed_at_sets_of_undos(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at("kill", "done", beds, whole, request, lambda line: line.undos)


def test_cut_off_at_steps_of_each_kind(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at("drop", "begin", beds, whole, request, lambda line: line.kind)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "state"), [("kill", "done"), ("drop", "begin")])
def test_at_every_step(
    mode: str, state: str, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at(mode, state, beds, whole, request)


@pytest.mark.parametrize("step", [15, pytest.param(4, marks=pytest.mark.long)])
def test_a_terminal_that_closes(
    step: int, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    hang_up_at_each(step, beds, whole, request)
