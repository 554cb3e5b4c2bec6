"""The command line is killed (SIGKILL) after steps of the main job that it journals, or loses its terminal.

After a kill `hsp clean` runs, and once more: the host is what it was before (tests.lab.recovery). After
SIGHUP the run cleans up by itself: its journal says so each time, and the first `hsp clean` changes nothing.
"""

from __future__ import annotations

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, hang_up_at_each, stop_at, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_each_set_of_undos(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at("kill", "done", beds, whole, request, lambda line: line.undos)


@pytest.mark.long
def test_at_every_step(beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest) -> None:
    stop_at("kill", "done", beds, whole, request)


@pytest.mark.parametrize("step", [15, pytest.param(4, marks=pytest.mark.long)])
def test_a_terminal_that_closes(
    step: int, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    hang_up_at_each(step, beds, whole, request)
