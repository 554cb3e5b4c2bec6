"""What is said of declared faults: intervals with 20 I/Os."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator as Random

from kit.store.parts.faults import FaultRow
from reports.features.faults import judge as recovery
from reports.statistics.usual_band import IntervalFigures, Timeline
from tests.truth.made_up import SECOND, phase_of, state_of
from tests.truth.trials import Trial


def _fault(
    random: Random,
    before: int,
    lasts: int,
    expect: str,
    *,
    slower: float = 1,
    outliers: float = 0.02,
    state: tuple[float, float] = (0, 0),
) -> list[FaultRow]:
    """`state`: how many intervals it lasts, and by how much it varies. `slower`: from the begin on."""
    count = before + 1 + lasts + 40
    level = state_of(random, count, *state)
    level[before + 1 :] += np.log(slower)
    noise = 0.1 * random.standard_normal((count, 20))
    noise[random.random((count, 20)) < outliers] += np.log(8)
    ios_ns = np.sort(150_000 * np.exp(level[:, None] + noise), axis=1)
    ios = np.full(count, 20.0)
    layers = {
        (layer, "write"): IntervalFigures(
            ios, ios_ns[:, 9] + more, ios_ns[:, -1] + more, ios_ns[:, -1] + more
        )
        for layer, more in (("nfs-server", 0), ("client", 20_000))
    }
    action = {
        "kind": "fault", "what": "stall", "text": "a stall", "at_ns": (before + 1) * SECOND,
        "for_ns": lasts * SECOND, "begin_ns": (before + 1) * SECOND, "times": 1, "expect": expect,
        "end_ns": (before + lasts) * SECOND + SECOND // 2,
    }  # fmt: skip
    schedule = {"load_begun_ns": 0, "actions": [action], "data": {"data_errors": 0, "scan": "x"}}
    phase = phase_of("soak", 0, count * SECOND, SECOND, schedule=schedule)
    line = Timeline(0, SECOND, count, layers)
    assert phase.schedule
    quiet = recovery.quiet_of(line, phase, phase.schedule)
    return [row for row, _ in recovery.judge_line(line, quiet, phase, phase.schedule)]


def _affected(before: int, lasts: int, **more: Any) -> Callable[[Random], bool]:
    return lambda random: _fault(random, before, lasts, "unaffected", **more)[0].ok is False


def _late(before: int, lasts: int, **more: Any) -> Callable[[Random], bool]:
    """Told a time above 0, or no recovery at all."""

    def says(random: Random) -> bool:
        [row] = _fault(random, before, lasts, "recovers", **more)
        return row.recovered_s != 0 if row.ok is not None else False

    return says


def _unrecovered(before: int, lasts: int, **more: Any) -> Callable[[Random], bool]:
    return lambda random: _fault(random, before, lasts, "recovers", **more)[0].ok is False


_AFFECTS, _LATE = "a fault affects the load", "recovery from a fault took a time"
_LOST, _FAULTS_DOC = "a load did not recover from a fault", "docs/verdict.md, faults"
_STATES = {"independent intervals": (0, 0), "AR 0.6": (2.0, 0.05), "AR 0.9": (9.5, 0.05)}
TRIALS: list[Trial] = [
    *(
        Trial(
            _AFFECTS,
            f"nothing, {name}, {before} before, {lasts} long",
            _affected(before, lasts, state=state),
            at_most=0.025,
            cases=400,
            few=20 * (before == 30 and lasts == 60 and not state[0]),
            promise=_FAULTS_DOC,
        )
        for name, state in _STATES.items()
        for before, lasts in ((10, 60), (30, 10), (30, 60), (100, 60))
    ),
    Trial(
        _AFFECTS,
        "nothing, no outliers, 30 before, 10 long",
        _affected(30, 10, outliers=0),
        at_most=0.025,
        cases=400,
    ),
    *(
        Trial(
            _AFFECTS,
            f"x{slower}, {before} before, {lasts} long",
            _affected(before, lasts, slower=slower),
            at_least=least,
            cases=400,
            promise=_FAULTS_DOC,
        )
        for slower, before, lasts, least in ((1.1, 100, 10, 0.82), (1.2, 30, 10, 0.998), (1.5, 30, 3, 0.97))
    ),
    *(
        Trial(
            _LATE,
            f"nothing, {name}, {before} before",
            _late(before, 3, state=state),
            at_most=most,
            cases=400,
            few=20 * (before == 30 and not state[0]),
            promise=_FAULTS_DOC,
        )
        for name, state in _STATES.items()
        for before, most in ((30, 0.05), (100, 0.03))
    ),
    *(
        Trial(
            _LOST,
            f"nothing, {name}, {before} before",
            _unrecovered(before, 3, state=state),
            at_most=0.025,
            cases=400,
            promise=_FAULTS_DOC,
        )
        for name, state in _STATES.items()
        for before in (30, 100)
    ),
    *(
        Trial(
            _LOST,
            f"x{slower} for ever, {before} before",
            _unrecovered(before, 3, slower=slower),
            at_least=least,
            cases=400,
            promise=_FAULTS_DOC,
        )
        for slower, before, least in ((1.1, 30, 0.86), (1.1, 100, 0.95), (1.2, 30, 1.0))
    ),
]
