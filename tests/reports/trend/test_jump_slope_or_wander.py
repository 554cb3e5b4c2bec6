"""reports.trend.jump_slope_or_wander: what `now` is held against. How often claims are right: tests/truth."""

from __future__ import annotations

import numpy as np
import pytest

from reports.trend.jump_slope_or_wander import explain


@pytest.mark.parametrize(
    ("course", "past"),
    [
        ([0.0] * 6 + [0.3] * 6, 0.0),
        # The middle of the first quarter of a line.
        ([0.05 * run for run in range(12)], 0.05),
        ([0.3] * 6 + [0.0] * 6, 0.3),
    ],
)
def test_the_past_is_what_now_is_held_against(course: list[float], past: float) -> None:
    noise = np.random.default_rng(3).normal(0, 0.005, len(course))
    found = explain([*(np.array(course) + noise)], [0.001] * len(course), [0] * len(course), 0.01)
    best = found.fits[0]
    assert best.past == pytest.approx(past, abs=0.02)
    assert best.past + best.now.log == pytest.approx(np.mean(course[-3:]), abs=0.02)
