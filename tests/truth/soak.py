"""What is said within a run: soaks and impacts here, faults and devices in modules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator as Random

from kit.store.latency import Latency
from kit.store.manifest import Manifest
from reports.features.soak import impact
from reports.features.soak import judge as soak
from reports.statistics import blocks
from reports.statistics.ratios import Realisation, ratio
from tests.truth import devices, faults
from tests.truth.made_up import MS, SECOND, frame_of, phase_of, state_of
from tests.truth.trials import Trial

# --- Soaks: rows of an hour, a minute has 40 I/Os that differ by 10 % ---

_HOUR_MIN, _PER_MIN = 60, 40


def _drift(
    random: Random,
    factors: Sequence[float] = (1, 1, 1, 1),
    *,
    lasts_min: float = 0,
    spread: float = 0,
    slope: float = 0,
    limit: float = 0.1,
    tails: bool = False,
) -> bool | None:
    """What is said of the limit: it holds, it does not, or it is open."""
    minutes = len(factors) * _HOUR_MIN
    level = np.repeat(np.log(np.array(factors)), _HOUR_MIN) + slope * np.linspace(0, 1, minutes)
    level = np.repeat(level + state_of(random, minutes, lasts_min, spread), _PER_MIN)
    noise = random.standard_t(3, level.size) if tails else random.standard_normal(level.size)
    ios = (level + 0.1 * noise).reshape(len(factors), blocks.BLOCKS, -1)
    logs = np.median(ios, axis=2)
    return soak.within(blocks.of_logs(logs, np.full_like(logs, 1e-6)), limit)[1]


def _drifted(**given: Any) -> Callable[[Random], bool]:
    return lambda random: _drift(random, **given) is False


def _holds(**given: Any) -> Callable[[Random], bool]:
    return lambda random: _drift(random, **given) is True


def _beside_a_fault(random: Random, last: float) -> bool | None:
    """The same by I/Os, where a disk fails in the third hour: for six minutes they take four times as long.

    `last`: the level of the last hour.
    """
    minute_ns, minutes = 60 * SECOND, np.repeat(np.arange(4 * _HOUR_MIN), _PER_MIN)
    level = np.where(minutes >= 3 * _HOUR_MIN, np.log(last), 0.0)
    level += np.where((minutes >= 130) & (minutes < 136), np.log(4), 0.0)
    level += state_of(random, 4 * _HOUR_MIN, 30, 0.02)[minutes]
    took_us = 150 * np.exp(level + 0.1 * random.standard_normal(minutes.size))
    frame = frame_of("soak", minutes * minute_ns, took_us)
    action = {"kind": "fault", "what": "fail", "text": "data1 fails", "device": "data1", "times": 1,
              "at_ns": 130 * minute_ns, "for_ns": 2 * minute_ns, "begin_ns": 130 * minute_ns,
              "end_ns": 132 * minute_ns, "expect": "recovers",
              "recover_within_ns": 5 * minute_ns}  # fmt: skip
    phase = phase_of(
        "soak", 0, 240 * minute_ns, minute_ns, schedule={"load_begun_ns": 0, "actions": [action]}
    )
    wanted = {"phase": "soak", "row_ns": 3600 * SECOND, "p50_drift_max": 0.1}
    manifest = Manifest.from_json({"phases": [phase.as_json()], "soak": [wanted]}, "truth")
    [described] = soak.describe(manifest, Latency.of(frame))
    return next(each.ok for each in described.tiers[0].drift if each.figure == "p50")


_IT_DRIFTED, _WITHIN = "a soak drifted", "a soak's drift is within its limit"
_SOAK = "docs/formats/workload.md, soaks"
_SOAKS = [
    Trial(
        _IT_DRIFTED,
        "independent minutes",
        _drifted(limit=0.02),
        at_most=0.02,
        cases=200,
        few=8,
        promise=_SOAK,
    ),
    *(
        Trial(
            _IT_DRIFTED,
            f"a state of {lasts} min that varies by {spread:.0%}, limit {limit:.0%}, {hours} rows",
            _drifted(factors=(1,) * hours, lasts_min=lasts, spread=spread, limit=limit),
            at_most=0.05,
            cases=200,
            promise=_SOAK,
        )
        for lasts, spread, limit, hours in (
            (10, 0.1, 0.03, 2),
            (30, 0.05, 0.1, 4),
            (120, 0.05, 0.03, 4),
            (120, 0.05, 0.1, 4),
            (120, 0.1, 0.1, 2),
            (120, 0.1, 0.1, 4),
            (120, 0.1, 0.1, 8),
        )
    ),
    Trial(
        _IT_DRIFTED, "heavy tails", _drifted(limit=0.02, tails=True), at_most=0.02, cases=200, promise=_SOAK
    ),
    Trial(_IT_DRIFTED, "rows 2 and 3 at x3", _drifted(factors=(1, 3, 3, 1)), at_least=1.0, cases=100, few=3),
    Trial(
        _IT_DRIFTED,
        "the same, and a state of 30 min that varies by 2 %",
        _drifted(factors=(1, 3, 3, 1), lasts_min=30, spread=0.02),
        at_least=1.0,
        cases=100,
    ),
    Trial(
        _IT_DRIFTED,
        "last row at x1.25",
        _drifted(factors=(1, 1, 1, 1.25)),
        at_least=1.0,
        cases=100,
        promise=_SOAK,
    ),
    Trial(
        _IT_DRIFTED,
        "last row at x1.25, a state of 30 min that varies by 2 %",
        _drifted(factors=(1, 1, 1, 1.25), lasts_min=30, spread=0.02),
        at_least=0.7,
        cases=200,
        promise=_SOAK,
    ),
    Trial(
        _IT_DRIFTED,
        "a slope to x1.25 in 4 hours",
        _drifted(slope=0.22),
        at_least=1.0,
        cases=100,
        promise=_SOAK,
    ),
    Trial(
        _WITHIN,
        "independent minutes, limit 5 %",
        _holds(limit=0.05),
        at_least=0.99,
        cases=100,
        few=5,
        promise=_SOAK,
    ),
    Trial(
        _IT_DRIFTED,
        "a fault of six minutes, and a state of 30 min that varies by 2 %",
        lambda random: _beside_a_fault(random, 1) is False,
        at_most=0.02,
        cases=200,
        few=4,
        promise=_SOAK,
    ),
    Trial(
        _IT_DRIFTED,
        "the same, and the last row at x1.25",
        lambda random: _beside_a_fault(random, 1.25) is False,
        at_least=0.65,
        cases=200,
        promise=_SOAK,
    ),
    Trial(_WITHIN, "rows 2 and 3 at x3 and back", _holds(factors=(1, 3, 3, 1)), at_most=0.01, cases=100),
    Trial(
        _WITHIN,
        "the last row is 12 % slower, limit 10 %",
        _holds(factors=(1, 1, 1, 1.12)),
        at_most=0.02,
        cases=200,
    ),
]


# --- Impacts: phases of 20 s, 100 I/Os a second ---


def _slowed(
    random: Random, sides: int, moment: float, factor: float, limit: float, drift: float = 0
) -> bool | None:
    frames, phases, names = [], [], ([], [])  # type: ignore[var-annotated]
    for number in range(2 * sides):
        side = number % 4 in (1, 2) if sides > 1 else number
        name, start_ns = f"p{number}", number * 30 * SECOND
        level = np.log(factor) * side + moment * random.standard_normal() + drift * number
        state = np.repeat(state_of(random, 200, 9.5, 0.03), 10)
        time_ns = start_ns + np.repeat(np.arange(200), 10) * 100 * MS
        frames.append(
            frame_of(name, time_ns, 150 * np.exp(level + state + 0.1 * random.standard_normal(2000)))
        )
        phases.append(phase_of(name, start_ns, start_ns + 20 * SECOND, 100 * MS).as_json())
        names[side].append(name)
    wanted = {"alone": names[0], "beside": names[1], "op": "write", "p50_ratio_max": limit}
    manifest = Manifest.from_json({"phases": phases, "impact": [wanted]}, "truth")
    [p50] = [row for row in impact.describe(manifest, Latency.of(pl.concat(frames))) if row.figure == "p50"]
    return p50.ok


def _impact(*given: float, **more: float) -> Callable[[Random], bool]:
    return lambda random: _slowed(random, *given, **more) is False  # type: ignore[arg-type]


def _judged(
    sides: int, moment: float, factor: float, limit: float, drift: float = 0
) -> Callable[[Random], bool]:
    """The same without I/Os: how exactly each phase is known is given."""

    def says(random: Random) -> bool:
        figures: tuple[list[Realisation], list[Realisation]] = ([], [])
        for number in range(2 * sides):
            side = number % 4 in (1, 2)
            log = np.log(factor) * side + moment * random.standard_normal() + drift * number
            figures[side].append(Realisation(log + 0.005 * random.standard_normal(), 1.96 * 0.005))
        return ratio(*figures).inside(0, limit) is False

    return says


_SLOWS, _IMPACT = "another load slows a phase more than declared", "docs/formats/workload.md, impact"
_IMPACTS = [
    *(
        Trial(
            _SLOWS,
            f"one phase a side, moments differ by {moment:.0%}",
            _impact(1, moment, 1, 1.001),
            at_most=0,
            cases=50,
            few=5,
            promise=_IMPACT,
        )
        for moment in (0, 0.05)
    ),
    *(
        Trial(
            _SLOWS,
            f"{sides} phases a side, moments differ by {moment:.0%}, drift {drift:.0%} a phase",
            _judged(sides, moment, 1, 1.001, drift=drift),
            at_most=0.025,
            cases=200,
            few=4 * (sides == 3 and moment == 0.02 and not drift),
            promise=_IMPACT,
        )
        for sides, moment, drift in (
            (2, 0, 0),
            (2, 0.02, 0),
            (2, 0.05, 0.01),
            (3, 0, 0),
            (3, 0.02, 0),
            (3, 0.02, 0.01),
            (5, 0.02, 0),
            (5, 0.02, 0.01),
        )
    ),
    *(
        Trial(
            _SLOWS,
            f"{sides} phases a side, moments differ by 2 %, truly x{factor}, limit 1.1",
            _judged(sides, 0.02, factor, 1.1),
            at_least=least,
            cases=100,
            promise=_IMPACT,
        )
        for sides, factor, least in ((2, 1.5, 0.78), (3, 1.3, 1.0), (4, 1.2, 0.98), (5, 1.2, 1.0))
    ),
]

TRIALS: list[Trial] = [*_SOAKS, *_IMPACTS, *faults.TRIALS, *devices.TRIALS]
