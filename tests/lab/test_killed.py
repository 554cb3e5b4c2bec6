"""The command line is killed (SIGKILL) after steps of the main job that it journals.

Then `hsp clean`, and once more: the host is what it was before (tests.lab.recovery).
"""

from __future__ import annotations

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, stop_at, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_each_set_of_undos(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at("kill", "done", beds, whole, request, lambda line: line.undos)


@pytest.mark.long
def test_at_every_step(beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest) -> None:
    stop_at("kill", "done", beds, whole, request)
