"""Every SSH connection breaks in the middle of steps of the main job.

Then `hsp clean`, and once more: the host is what it was before (tests.lab.recovery).
"""

from __future__ import annotations

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, stop_at, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_one_step_of_each_kind(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    stop_at("drop", "begin", beds, whole, request, lambda line: line.kind)


@pytest.mark.long
def test_at_every_step(beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest) -> None:
    stop_at("drop", "begin", beds, whole, request)
