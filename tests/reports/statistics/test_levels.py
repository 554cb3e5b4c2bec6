"""Modes in time: there together, a step, one stretch, or back and forth."""

from __future__ import annotations

import numpy as np
import pytest

from reports.statistics import levels
from tests.reports import synthetic

LOW, HIGH, BORDERS = 160_000, 240_000, [200_000]


def found(slow: list[float], few: int = 0) -> levels.Levels | None:
    """`slow`: the part of slow I/Os of each second; `few`: I/Os of a third mode, all at the end."""
    draw = np.random.default_rng(3)
    at = np.repeat(np.arange(len(slow)), 100)
    latency = np.where(draw.random(at.size) < np.array(slow)[at], HIGH, LOW)
    latency = (latency * np.exp(0.03 * draw.standard_normal(at.size))).astype(np.int64)
    latency[latency.size - few :] = 5_000_000
    labels = dict.fromkeys(("phase", "layer", "host", "op", "tier"), "all")
    cells = synthetic.binned(at * synthetic.SECOND, latency, **labels)
    return levels.find(cells, [*BORDERS, 1_000_000])


@pytest.mark.parametrize("few", [0, 3])
def test_a_step(few: int) -> None:
    step = found([0.0] * 20 + [1.0] * 40, few)
    assert step and (step.changes, step.from_ns) == (1, 20 * synthetic.SECOND)
    assert step.p50_ns == pytest.approx((LOW, HIGH), rel=0.02)
    back = found([1.0] * 20 + [0.0] * 40, few)
    assert back and back.p50_ns == pytest.approx((HIGH, LOW), rel=0.02)


@pytest.mark.parametrize("inner", [0.0, 1.0])
def test_a_stretch(inner: float) -> None:
    one = found([1 - inner] * 30 + [inner] * 10 + [1 - inner] * 20)
    assert one and (one.changes, one.from_ns, one.to_ns) == (2, 30 * synthetic.SECOND, 40 * synthetic.SECOND)
    assert one.p50_ns == pytest.approx((LOW, HIGH) if inner else (HIGH, LOW), rel=0.02)
    assert one.share == pytest.approx(1 / 6)


def test_back_and_forth() -> None:
    one = found(([0.0] * 10 + [1.0] * 10) * 3)
    assert one and one.changes == 5


@pytest.mark.parametrize(
    "slow",
    [[0.5] * 60, [0.03] * 60, [0.2] * 30 + [0.8] * 30, [0.0, 1.0], [0.5]],
    ids=["half", "few", "more and more", "two intervals", "one interval"],
)
def test_modes_that_are_there_together_or_too_short_to_tell(slow: list[float]) -> None:
    assert found(slow) is None
