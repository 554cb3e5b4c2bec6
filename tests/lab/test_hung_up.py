"""The terminal closes (SIGHUP) at every tenth step of the main job that it journals.

The run cleans up by itself: the host is what it was before, and `hsp clean` finds nothing to do. The table
of all steps and what came of each is printed, and in recovery.txt of the test's directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.recovery import Bed, Whole, beds, hang_up_at_every_tenth, whole

__all__ = ["beds", "whole"]

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]


def test_at_every_tenth_step(
    beds: dict[str, Bed],
    whole: Whole,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    table = tmp_path / "recovery.txt"
    failures = hang_up_at_every_tenth(beds, whole, table)
    request.node.add_report_section("call", "recovery", table.read_text())
    assert failures == []
