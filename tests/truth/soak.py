"""What is said within a run: soaks, impacts, faults, devices together, arrays, and what a device would save."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from kit.store.latency import Latency
from kit.store.manifest import Manifest, Testbed
from kit.store.phase import ArrayOf, ClientRow, Phase
from reports.devices import stripes, together
from reports.statistics.worst_of import Floats
from reports.verdict import impact, recovery, soak
from tests.reports.synthetic import binned
from tests.truth.trials import Trial

_S, _MS, _US = 10**9, 10**6, 10**3
Random = np.random.Generator


def _state(random: Random, count: int, lasts: float, spread: float) -> Floats:
    """Logarithms of a state that lasts for so many steps (Ornstein-Uhlenbeck; AR 0.9: 9.5 steps)."""
    if not spread:
        return np.zeros(count)
    keep = np.exp(-1 / lasts) if lasts else 0.0
    made, steps = np.empty(count), random.standard_normal(count) * np.sqrt(1 - keep**2)
    made[0] = random.standard_normal()
    for at in range(1, count):
        made[at] = keep * made[at - 1] + steps[at]
    return spread * made


def _phase(name: str, start_ns: int, end_ns: int, interval_ns: int, **more: Any) -> Phase:
    values = {
        "name": name, "interval_ns": interval_ns, "client_ios": 1, "server_ios": 1, "lost_events": 0,
        "start_ns": start_ns, "end_ns": end_ns, "expected_tiers": ["slog"], **more,
    }  # fmt: skip
    return Phase.from_json(values, name)


def _frame(phase: str, time_ns: Any, latency_us: Floats, **more: str) -> pl.DataFrame:
    labels = {"layer": "nfs-server", "host": "lab", "op": "write", "tier": "slog", **more}
    return binned(np.asarray(time_ns), (latency_us * _US).astype(np.int64), phase=phase, **labels)


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
    level = np.repeat(level + _state(random, minutes, lasts_min, spread), _PER_MIN)
    noise = random.standard_t(3, level.size) if tails else random.standard_normal(level.size)
    time_ns = np.repeat(np.arange(minutes), _PER_MIN) * 60 * _S
    frame = _frame("soak", time_ns, 150 * np.exp(level + 0.1 * noise.clip(-30, 30)))
    phase = _phase("soak", 0, minutes * 60 * _S, 60 * _S)
    wanted = {"phase": "soak", "row_ns": 3600 * _S, "p50_drift_max": limit}
    manifest = Manifest.from_json({"phases": [phase.as_json()], "soak": [wanted]}, "truth")
    [of_phase] = soak.describe(manifest, Latency.of(frame))
    [drift] = [each for each in of_phase.tiers[0].drift if each.figure == "p50"]
    return drift.ok


def _drifted(**given: Any) -> Callable[[Random], bool]:
    return lambda random: _drift(random, **given) is False


def _holds(**given: Any) -> Callable[[Random], bool]:
    return lambda random: _drift(random, **given) is True


_IT_DRIFTED, _WITHIN = "a soak drifted", "a soak's drift is within its limit"
_SOAK = "docs/formats.md, soaks"
_SOAKS = [
    Trial(_IT_DRIFTED, "independent minutes", _drifted(limit=0.02), at_most=0.02, cases=200, few=4, promise=_SOAK),
    *(
        Trial(
            _IT_DRIFTED, f"a state of {lasts} min that varies by {spread:.0%}, limit {limit:.0%}, {hours} rows",
            _drifted(factors=(1,) * hours, lasts_min=lasts, spread=spread, limit=limit), at_most=0.05, cases=200,
            promise=_SOAK,
        )
        for lasts in (10, 30, 120)
        for spread, limit in ((0.05, 0.1), (0.1, 0.1), (0.05, 0.03))
        for hours in (2, 4, 8)
    ),
    Trial(_IT_DRIFTED, "heavy tails", _drifted(limit=0.02, tails=True), at_most=0.02, cases=200, promise=_SOAK),
    Trial(_IT_DRIFTED, "rows 2 and 3 at x3", _drifted(factors=(1, 3, 3, 1)), at_least=0.99, cases=100, few=3),
    Trial(
        _IT_DRIFTED, "the same, and a state of 30 min that varies by 2 %",
        _drifted(factors=(1, 3, 3, 1), lasts_min=30, spread=0.02), at_least=0.99, cases=100,
    ),
    Trial(_IT_DRIFTED, "last row at x1.25", _drifted(factors=(1, 1, 1, 1.25)), at_least=0.95, cases=100, promise=_SOAK),
    Trial(
        _IT_DRIFTED, "last row at x1.25, a state of 30 min that varies by 2 %",
        _drifted(factors=(1, 1, 1, 1.25), lasts_min=30, spread=0.02), at_least=0.7, cases=200, promise=_SOAK,
    ),
    Trial(_IT_DRIFTED, "a slope to x1.25 in 4 hours", _drifted(slope=0.22), at_least=0.95, cases=100, promise=_SOAK),
    Trial(_WITHIN, "independent minutes, limit 5 %", _holds(limit=0.05), at_least=0.95, cases=100, few=3, promise=_SOAK),
    Trial(_WITHIN, "rows 2 and 3 at x3 and back", _holds(factors=(1, 3, 3, 1)), at_most=0.01, cases=100),
    Trial(
        _WITHIN, "the last row is 12 % slower, limit 10 %", _holds(factors=(1, 1, 1, 1.12)), at_most=0.02, cases=200
    ),
]  # fmt: skip


# --- Impacts: phases of 20 s, 100 I/Os a second ---


def _slowed(
    random: Random, sides: int, moment: float, factor: float, limit: float, drift: float = 0
) -> bool | None:
    frames, phases, names = [], [], ([], [])  # type: ignore[var-annotated]
    for number in range(2 * sides):
        side = number % 4 in (1, 2) if sides > 1 else number
        name, start_ns = f"p{number}", number * 30 * _S
        level = np.log(factor) * side + moment * random.standard_normal() + drift * number
        state = np.repeat(_state(random, 200, 9.5, 0.03), 10)
        time_ns = start_ns + np.repeat(np.arange(200), 10) * 100 * _MS
        frames.append(_frame(name, time_ns, 150 * np.exp(level + state + 0.1 * random.standard_normal(2000))))
        phases.append(_phase(name, start_ns, start_ns + 20 * _S, 100 * _MS).as_json())
        names[side].append(name)
    wanted = {"alone": names[0], "beside": names[1], "op": "write", "p50_ratio_max": limit}
    manifest = Manifest.from_json({"phases": phases, "impact": [wanted]}, "truth")
    [p50] = [row for row in impact.describe(manifest, Latency.of(pl.concat(frames))) if row.figure == "p50"]
    return p50.ok


def _impact(*given: float, **more: float) -> Callable[[Random], bool]:
    return lambda random: _slowed(random, *given, **more) is False  # type: ignore[arg-type]


_SLOWS, _IMPACT = "another load slows a phase more than declared", "docs/formats.md, impact"
_IMPACTS = [
    *(
        Trial(_SLOWS, f"one phase a side, moments differ by {moment:.0%}", _impact(1, moment, 1, 1.001), at_most=0,
              cases=50, few=3, promise=_IMPACT)
        for moment in (0, 0.05)
    ),
    *(
        Trial(_SLOWS, f"{sides} phases a side, moments differ by {moment:.0%}, drift {drift:.0%} a phase",
              _impact(sides, moment, 1, 1.001, drift=drift), at_most=0.025, cases=300,
              few=4 * (sides == 3 and moment == 0.02 and not drift), promise=_IMPACT)
        for sides in (2, 3, 4, 6)
        for moment, drift in ((0, 0), (0.02, 0), (0.05, 0), (0.02, 0.01))
    ),
    *(
        Trial(_SLOWS, f"{sides} phases a side, moments differ by 2 %, truly x{factor}, limit 1.1",
              _impact(sides, 0.02, factor, 1.1), at_least=least, cases=100, promise=_IMPACT)
        for sides, factor, least in ((2, 1.5, 0.2), (3, 1.3, 0.8), (4, 1.2, 0.8), (4, 1.3, 0.98), (6, 1.2, 0.98))
    ),
]  # fmt: skip


# --- Faults: intervals with 20 I/Os ---


def _fault(
    random: Random,
    before: int,
    lasts: int,
    expect: str,
    *,
    slower: float = 1,
    outliers: float = 0.02,
    state: tuple[float, float] = (0, 0),
) -> recovery.Judged:
    """`state`: how many intervals it lasts, and by how much it varies. `slower`: from the begin on, for ever."""
    count = before + 1 + lasts + 40
    level = _state(random, count, *state)
    level[before + 1 :] += np.log(slower)
    noise = 0.1 * random.standard_normal((count, 20))
    noise[random.random((count, 20)) < outliers] += np.log(8)
    latency_us = 150 * np.exp(level[:, None] + noise)
    time_ns = np.repeat(np.arange(count), 20) * _S
    frames = [
        _frame("soak", time_ns, latency_us.ravel() + more, layer=layer, tier=tier)
        for layer, tier, more in (("nfs-server", "slog", 0), ("client", "all", 20))
    ]
    action = {
        "kind": "fault", "what": "stall", "text": "a stall", "at_ns": (before + 1) * _S, "for_ns": lasts * _S,
        "begin_ns": (before + 1) * _S, "end_ns": (before + lasts) * _S + _S // 2, "times": 1, "expect": expect,
    }  # fmt: skip
    schedule = {"load_begun_ns": 0, "actions": [action], "data": {"data_errors": 0, "scan": "x"}}
    phase = _phase("soak", 0, count * _S, _S, schedule=schedule)
    return recovery.judge(Manifest(phases=(phase,)), Latency.of(pl.concat(frames)))


def _affected(*given: int, **more: Any) -> Callable[[Random], bool]:
    return lambda random: _fault(random, *given, "unaffected", **more).rows[0].ok is False


def _late(*given: int, **more: Any) -> Callable[[Random], bool]:
    """Told a time above 0, or no recovery at all."""

    def says(random: Random) -> bool:
        [row] = _fault(random, *given, "recovers", **more).rows
        return row.recovered_s != 0 if row.ok is not None else False

    return says


def _unrecovered(*given: int, **more: Any) -> Callable[[Random], bool]:
    return lambda random: _fault(random, *given, "recovers", **more).rows[0].ok is False


_AFFECTS, _LATE, _FAULTS_DOC = (
    "a fault affects the load",
    "recovery from a fault took a time",
    "docs/verdict.md, faults",
)
_STATES = {"independent intervals": (0, 0), "AR 0.6": (2.0, 0.05), "AR 0.9": (9.5, 0.05)}
_FAULTS = [
    *(
        Trial(_AFFECTS, f"nothing, {name}, {before} before, {lasts} long", _affected(before, lasts, state=state),
              at_most=0.025, cases=400, few=10 * (before == 30 and lasts == 60 and not state[0]), promise=_FAULTS_DOC)
        for name, state in _STATES.items()
        for before in (10, 30, 100)
        for lasts in (3, 10, 60)
    ),
    Trial(_AFFECTS, "nothing, no outliers, 30 before, 10 long", _affected(30, 10, outliers=0), at_most=0.025, cases=400),
    *(
        Trial(_AFFECTS, f"x{slower}, {before} before, {lasts} long", _affected(before, lasts, slower=slower),
              at_least=least, cases=200, promise=_FAULTS_DOC)
        for slower, before, lasts, least in ((1.1, 30, 10, 0.5), (1.1, 100, 10, 0.8), (1.2, 30, 10, 0.95), (1.5, 30, 3, 0.95))
    ),
    *(
        Trial(_LATE, f"nothing, {name}, {before} before", _late(before, 3, state=state), at_most=most, cases=400,
              few=10 * (before == 30 and not state[0]), promise=_FAULTS_DOC)
        for name, state in _STATES.items()
        for before, most in ((30, 0.05), (100, 0.03))
    ),
    *(
        Trial(_LATE, f"x{slower} for ever, {before} before", _unrecovered(before, 3, slower=slower), at_least=least,
              cases=200, promise=_FAULTS_DOC)
        for slower, before, least in ((1.1, 30, 0.5), (1.1, 100, 0.9), (1.2, 30, 0.98))
    ),
]  # fmt: skip

TRIALS: list[Trial] = [*_SOAKS, *_IMPACTS, *_FAULTS]
