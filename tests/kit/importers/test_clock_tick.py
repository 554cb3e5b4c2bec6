"""The tick of the clock of an import: its unit, its digits, or a clock that ticks behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kit.core.clock import ODD_TICKS_NS
from kit.importers import format_detection
from kit.importers.base import Options
from kit.importers.clock_tick import tick_ns


def latencies(median_ns: float, tick: float, number: int = 5000) -> np.ndarray:
    made = median_ns * np.exp(0.1 * np.random.default_rng(4).standard_normal(number))
    return np.rint(np.rint(made / tick) * tick).astype(np.int64)


@pytest.mark.parametrize("median_ns", [1500, 6000, 20_000])
@pytest.mark.parametrize("tick", [1000, 1024, 500, 100, 40, 1000 / 3, *ODD_TICKS_NS[:2]])
def test_a_clock_that_ticks(median_ns: float, tick: float) -> None:
    assert tick_ns(latencies(median_ns, tick)) == pytest.approx(tick, rel=1e-3)


@pytest.mark.parametrize(
    ("tick", "jitter"), [(1000, 1), (1000, 3), (1000, 8), (1024, 3), (1e6, 5), (1e6, 5000)]
)
@pytest.mark.parametrize("median", [1.5, 6, 20])
def test_a_clock_whose_ticks_are_off_by_little(tick: float, jitter: float, median: float) -> None:
    exact = latencies(median * tick, tick)
    off = np.rint(jitter * np.random.default_rng(5).standard_normal(exact.size))
    assert tick_ns(np.abs(exact + off).astype(np.int64)) == tick
    # As a source prints it, with a decimal of its unit.
    if jitter == 5000:
        assert tick_ns((exact + off).astype(np.int64) // 100 * 100) == tick


def test_a_wide_jitter_is_no_tick() -> None:
    exact = latencies(6000, 1000)
    off = 50 * np.random.default_rng(5).standard_normal(exact.size)
    assert tick_ns((exact + off).astype(np.int64)) == 1


@pytest.mark.parametrize("number", [1, 29, 30, 300, 5000])
@pytest.mark.parametrize("median_ns", [10, 1500, 200_000, 8_000_000])
def test_a_clock_of_nanoseconds(median_ns: float, number: int) -> None:
    assert tick_ns(latencies(median_ns, 1, number)) == 1


@pytest.mark.parametrize(
    ("values", "unit_ns", "tick"),
    [
        # Two values alone are no clock of 2 us: nothing is known but the digits.
        ([6000, 8000], 1, 1000),
        ([6000, 8000], 1000, 1000),
        ([6200, 8000], 1000, 100),
        ([500_000, 1_000_000], 1_000_000, 100_000),
        ([6201, 140_000], 1, 1),
        ([0, 0], 1000, 1),
        ([6200], 1, 1),
    ],
)
def test_few_different_latencies(values: list[int], unit_ns: int, tick: float) -> None:
    assert tick_ns(np.array(values * 50, dtype=np.int64), unit_ns) == tick


@pytest.mark.parametrize(("digits", "tick"), [(0, 1000.0), (1, 100.0), (3, 1.0)])
def test_an_import_stores_it(tmp_path: Path, digits: int, tick: float) -> None:
    made = latencies(20_000, 1) / 1000
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{at} {value:.{digits}f}\n" for at, value in enumerate(made)))
    assert format_detection.read_files([path], Options(unit="us")).section["tick_ns"] == tick
    log = tmp_path / "x_lat.1.log"
    log.write_text("".join(f"{at}, {value:.0f}, 0, 512\n" for at, value in enumerate(made)))
    assert format_detection.read_files([log], Options(unit="us")).section["tick_ns"] == 1000.0
