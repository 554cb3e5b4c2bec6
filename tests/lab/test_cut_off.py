"""Every SSH connection breaks in the middle of every step of the main job.

Then `hsp clean`, and once more: the host is what it was before. The table of all steps and what came of
each is printed, and in recovery.txt of the test's directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.recovery import SmallBed, Whole, beds, stop_at_every, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_every_step(
    beds: dict[str, SmallBed],
    whole: Whole,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    table = tmp_path / "recovery.txt"
    failures = stop_at_every("drop", "begin", beds, whole, table)
    request.node.add_report_section("call", "recovery", table.read_text())
    assert failures == []
