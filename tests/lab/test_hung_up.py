"""The terminal is closed (SIGHUP) at every tenth step of the main job, and under load.

The run cleans up by itself: the host is what it was before, and `hsp clean` finds nothing to do
(tests.lab.recovery).
"""

from __future__ import annotations

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, hang_up_at_every_tenth, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_every_tenth_step(beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest) -> None:
    hang_up_at_every_tenth(beds, whole, request)
