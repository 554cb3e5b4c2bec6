"""Limits that a workload declares for its own run: percentiles, ratios and shares near them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist

import numpy as np
import polars as pl
from scipy.signal import lfilter

from reports.statistics import batch_means
from reports.statistics.quantiles import Floats
from tests.reports import synthetic
from tests.truth.made_up import SECOND, frame_of, phase_of
from tests.truth.trials import Trial

Draw = np.random.Generator
_DOCUMENT = 'docs/formats/workload.md, "Limits and JUnit"'
_SECONDS = 60
_SIGMA = 0.3


def _levels(draw: Draw, number: int, stays: float) -> Floats:
    """Of standard deviation 1; each like the one before."""
    steps = draw.standard_normal(number + 300) * math.sqrt(1 - stays**2)
    return np.asarray(lfilter([1], [1, -stays], steps)[300:])


def _times_ns(number: int, start_s: int = 0) -> Floats:
    return np.asarray((np.arange(number) * _SECONDS // number + start_s) * SECOND)


def _percentile(draw: Draw, times: float, number: int, stays: float) -> bool | None:
    """Of a limit on p99. `times`: the true p99 in parts of the limit."""
    latency_us = 100 * np.exp(_SIGMA * _levels(draw, number, stays))
    limit_ns = 100e3 * math.exp(_SIGMA * NormalDist().inv_cdf(0.99)) / times
    low, high = batch_means.above(frame_of("read", _times_ns(number), latency_us), limit_ns)
    return True if high <= 0.01 else False if low > 0.01 else None


def _judged(frame: pl.DataFrame, *starts_s: int, **limits: object) -> bool | None:
    phases = [
        phase_of(f"p{at}", at * SECOND, (at + _SECONDS) * SECOND, SECOND, expected_tiers=["slog"]).as_json()
        for at in starts_s
    ]
    wish = {"phase": f"p{starts_s[-1]}", "op": "write", "tier": "slog", "min_count": 1, **limits}
    manifest = synthetic.manifest() | {"phases": phases, "expect": [wish]}
    found: bool | None = synthetic.summarise(frame, manifest)["expect"][0]["limits"][0]["ok"]
    return found


def _ratio(draw: Draw, times: float, number: int, stays: float, figure: str = "p50") -> bool | None:
    """Of a limit of 2 on the ratio of two phases. `times`: the true ratio in parts of it."""
    frames = [
        frame_of(f"p{at}", _times_ns(number, at), us * np.exp(_SIGMA * _levels(draw, number, stays)))
        for at, us in ((0, 100.0), (100, 200.0 * times))
    ]
    wish = {"ratio_to": {"phase": "p0"}, f"{figure}_ratio_max": 2.0}
    return _judged(pl.concat(frames), 0, 100, **wish)


def _share(draw: Draw, truth: float, number: int, stays: float) -> bool | None:
    """Of a limit of at least 0.5 on the part of the I/Os that a tier answers."""
    mine = _levels(draw, number, stays) < NormalDist().inv_cdf(truth)
    at = _times_ns(number)
    latency_us = np.full(number, 150.0)
    frames = [
        frame_of("p0", at[held], latency_us[held], tier=tier)
        for held, tier in ((mine, "slog"), (~mine, "pool"))
    ]
    return _judged(pl.concat(frames), 0, share_min=0.5)


def _says(what: Callable[..., bool | None], outcome: bool, draw: Draw, **given: float) -> bool:
    return what(draw, **given) is outcome


def _trial(
    what: Callable[..., bool | None], outcome: bool, data: str, few: int = 0, cases: int = 400,
    at_most: float = 1.0, at_least: float = 0.0, **given: object,
) -> Trial:  # fmt: skip
    name = {_percentile: "p99", _ratio: "a ratio", _share: "a share"}[what]
    says = partial(_says, what, outcome, **given)  # type: ignore[arg-type]
    claim = f"a limit on {name} is {'met' if outcome else 'not met'}"
    return Trial(claim, data, says, at_most, at_least, cases, few, _DOCUMENT)


_KINDS = ((400, 0.0), (4000, 0.0), (4000, 0.6), (4000, 0.9), (20_000, 0.9))
TRIALS: list[Trial] = [
    *(
        _trial(
            _percentile, True, f"its p99 is the limit, {number} I/Os, AR {stays:g}", few=8, cases=500,
            at_most=0.05 if (number, stays) == (4000, 0.9) else 0.025, times=1.0, number=number, stays=stays,
        )
        for number, stays in _KINDS
    ),
    _trial(
        _percentile, True, "its p99 is 0.8 of the limit, 4000 I/Os, AR 0.6", few=8, cases=500, at_least=0.9,
        times=0.8, number=4000, stays=0.6,
    ),
    *(
        _trial(
            _ratio, outcome, f"{figure}: the ratio is the limit, {number} I/Os, AR {stays:g}",
            few=5 * (stays == 0.6), at_most=0.05, times=1.0, number=number, stays=stays, figure=figure,
        )
        for outcome in (True, False) for number, stays in _KINDS[:4] for figure in ("p50", "p99")
    ),
    *(
        _trial(
            _ratio, times < 1, f"p50: the ratio is {times} of the limit, 4000 I/Os, AR {stays:g}",
            few=5 * (stays == 0.6), at_least=0.9, times=times, number=4000, stays=stays,
        )
        for times in (0.8, 1.25) for stays in (0.0, 0.6, 0.9)
    ),
    *(
        _trial(
            _share, outcome, f"the part is the limit, {number} I/Os, AR {stays:g}", few=5 * (stays == 0.6),
            at_most=0.05, truth=0.5, number=number, stays=stays,
        )
        for outcome in (True, False) for number, stays in _KINDS[:4]
    ),
    *(
        _trial(
            _share, truth > 0.5, f"the part is {truth}, the limit 0.5, 4000 I/Os, AR {stays:g}",
            few=5 * (stays == 0.6), at_least=0.9, truth=truth, number=4000, stays=stays,
        )
        for truth in (0.4, 0.6) for stays in (0.0, 0.6)
    ),
]  # fmt: skip
