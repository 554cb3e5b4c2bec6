"""Sweeps with rounds: ratios to the base, two series, limits of a series, the drift of a base, addresses."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from kit.store.parts.comparison import ComparedSeries
from kit.store.series import CellRow, CellRun, JudgedRatio, Series, SeriesCell
from reports.series.addresses import address_sentences
from reports.series.compare import compare_series
from reports.series.drift import drift_of
from reports.series.ratios import largest_change, ratios_of
from reports.statistics import batch_means
from reports.statistics.quantiles import Floats
from reports.statistics.ratios import Realisation
from tests.truth.made_up import state_of, stretch
from tests.truth.trials import Trial

Random = np.random.Generator
SWEEPS = "docs/sweeps.md"
_START = datetime(2026, 11, 21, 5, tzinfo=UTC)
# Rounds of each series, scatter, and how much slower one p50 is: found in at least so many of the cases.
POWER = (
    (3, 0.01, 1.25, 0.9),
    (5, 0.01, 1.10, 0.9),
    (5, 0.01, 1.15, 0.91),
    (5, 0.03, 1.30, 0.9),
    (10, 0.03, 1.15, 0.9),
)
_AXIS = {"name": "size", "keys": ["job.bs"], "kind": "build", "values": [str(n) for n in range(20)]}


@functools.cache
def _series(identity: str) -> Series:
    value = {
        "format": 1, "name": "sizes", "title": "Sizes", "id": f"series-20261121T050000Z-{identity}",
        "started_utc": "2026-11-21T05:00:00Z", "sources": ["/w.toml", "/t.toml"], "testbed": "lab",
        "digest": "0" * 64, "drift_max": 0.05, "axes": [_AXIS], "cells": [],
        "builds": [{"name": "base", "digest": "0" * 64}],
    }  # fmt: skip
    return Series.from_json(value, "series.json")


def _row(name: str, figure: Realisation) -> CellRow:
    low, high = figure.range or (None, None)
    known = (low, high) if low is not None and high is not None else None
    return CellRow.model_construct(
        layer="nfs-server", op="read", tier=name, count=4000, share=1.0, p50_us=figure.value,
        p50_range_us=known, p99_us=None, p99_range_us=None,
    )  # fmt: skip


def _cell(
    place: int, rows: Sequence[Sequence[CellRow]], *, again: bool = False, rate: Any = None
) -> SeriesCell:
    at = {"size": str(place)} if place else {}
    runs = tuple(
        CellRun.model_construct(
            run="r", round=n, verdict="valid", rows=tuple(each), reasons=(), ios_per_s=None,
            ios_per_s_range=None, bytes_per_s=rate, cpu_busy=None, never_written=0.0, rotating=None,
        )
        for n, each in enumerate(rows, 1)
    )  # fmt: skip
    return SeriesCell.model_construct(
        name=f"size={place}", at=at, phase="read", in_run="read", build="base", again=again, runs=runs,
        verdict="valid", excluded=None,
    )  # fmt: skip


Kind = dict[str, Any]
_CELLS, _TIERS = 20, 3


def _noise(random: Random, shape: tuple[int, ...], kind: Kind) -> Floats:
    """Of standard deviation 1, rounds x cells x tiers, as `kind` has it.

    `tails`: Student's t; `alike`: correlation of all of a round; `lag`: of a round with the one before it;
    `unlike`: how many times as much one tier scatters, `alone`: one tier of one cell; `odd`: a round that is
    slower in half of the series.
    """
    rounds = shape[0]
    each = random.standard_t(3, shape) / math.sqrt(3) if "tails" in kind else random.standard_normal(shape)
    if "alike" in kind:
        whole = random.standard_normal((rounds, 1, 1))
        each = math.sqrt(kind["alike"]) * whole + math.sqrt(1 - kind["alike"]) * each
    if "lag" in kind:
        whole = state_of(random, rounds, -1 / math.log(kind["lag"]), 1.0)
        each = 0.9 * whole[:, None, None] + math.sqrt(1 - 0.9**2) * each
    each = each * np.array([1] * (_TIERS - 1) + [kind.get("unlike", 1)])
    each[:, 1, 0] *= kind.get("alone", 1)
    return np.asarray(each)


def _side(random: Random, name: str, logs: Floats) -> Series:
    """A series of these logarithms, each known to 0.5 % within its round."""
    cells = [
        _cell(
            n,
            [
                [_row(f"tier{k}", Realisation(x, 0.005)) for k, x in enumerate(each)]
                for each in logs[:, n].tolist()
            ],
        )
        for n, of_cell in enumerate(logs.swapaxes(0, 1).tolist())
    ]
    return _series(name).model_copy(update={"cells": tuple(cells)})


def _two_series(
    random: Random, rounds: tuple[int, int], scatter: tuple[float, float], shift: float = 1.0, **kind: Any
) -> ComparedSeries:
    """20 cells of 3 tiers. `shift`: of one tier of one cell of B; `drift`: from round to round, A then B."""
    both, begun = [], 0
    for name, number, spread, factor in zip(("aaaaaa", "bbbbbb"), rounds, scatter, (1.0, shift), strict=True):
        logs = spread * _noise(random, (number, _CELLS, _TIERS), kind)
        logs += kind.get("drift", 0.0) * (begun + np.arange(number))[:, None, None]
        logs[:, 1, 0] += math.log(factor)
        if "odd" in kind and random.random() < 0.5:
            logs[random.integers(number)] += math.log(kind["odd"])
        start = (_START + timedelta(hours=begun)).isoformat()
        both.append(_side(random, name, logs).model_copy(update={"started_utc": start}))
        begun += number
    return compare_series(*both)


def _any(random: Random, finding: str, *given: Any, **kind: Any) -> bool:
    """Whether any figure or ratio has this finding."""
    result = _two_series(random, *given, **kind)
    return any(row.finding == finding for row in (*result.rows, *result.ratios))


def _unsaid(random: Random, *given: Any, **kind: Any) -> bool:
    """Whether a difference is shown without a word about the order of the series."""
    result = _two_series(random, *given, **kind)
    return len(result.conclusion) == 2 and any(row.finding == "differs" for row in result.rows)


def _found(random: Random, *given: Any, **kind: Any) -> bool:
    rows = _two_series(random, *given, **kind).rows
    return next(row.finding for row in rows if (row.cell, row.tier) == ("size=1", "tier0")) == "differs"


def _one_series(
    random: Random, rounds: int, scatter: float, truth: float = 1.0, **kind: Any
) -> list[SeriesCell]:
    """The base first and last, and 19 cells between; `truth`: the ratio of the first cell's first tier.

    `drift`: of a round to the next, and as much within it.
    """
    logs = scatter * _noise(random, (rounds, _CELLS + 1, _TIERS), kind)
    moments = np.arange(rounds)[:, None] + np.arange(_CELLS + 1) / _CELLS
    logs += kind.get("drift", 0.0) * moments[:, :, None]
    logs[:, 1, 0] += math.log(truth)
    *cells, last = _side(random, "aaaaaa", logs).cells
    return [*cells, last.model_copy(update={"at": {}, "again": True})]


def _missed(random: Random, *given: Any, **kind: Any) -> bool:
    """Whether the 95 % range of a true ratio of 1.5 does not hold it."""
    found, _ = ratios_of(_series("aaaaaa"), _one_series(random, *given, truth=1.5, **kind))
    tier = "tier2" if "unlike" in kind else "tier0"
    row = next(row for row in found if (row.to, row.tier) == ("1", tier))
    assert row.interval
    return not row.interval[0] <= (1.5 if tier == "tier0" else 1.0) <= row.interval[1]


def _headline(random: Random, *given: Any, **kind: Any) -> bool:
    """Whether the largest change of a median is shown to be one."""
    found = largest_change(_one_series(random, *given, **kind))
    return bool(found and found[1].inside(1, 1) is False)


def _median(random: Random, ios: int, factor: float, name: str = "disk") -> CellRow:
    found = batch_means.quantile(*stretch(random, ios, 20, 0.0), 0.5)
    assert found is not None
    return _row(name, Realisation(found.log + math.log(factor), found.reach))


def _expected(random: Random, ios: int, truth: float, rounds: int = 1, scatter: float = 0.0) -> bool:
    """Whether a ratio of at most 4 is said to hold."""

    def measured(factor: float) -> list[list[CellRow]]:
        moments = np.exp(scatter * random.standard_normal(rounds))
        return [[_median(random, ios, factor * float(each))] for each in moments]

    cells = [_cell(0, measured(1.0)), _cell(1, measured(truth))]
    wish = {"axis": "size", "from": "0", "to": "1", "phase": "read", "layer": "nfs-server", "op": "read",
            "tier": "disk", "ratio_max": 4.0}  # fmt: skip
    series = _series("aaaaaa").model_copy(update={"expect": (JudgedRatio.model_validate(wish),)})
    ((found,),) = ratios_of(series, cells)[1:]
    return found.ok is True


def _drift(random: Random, ios: int, truth: float) -> bool | None:
    first, last = _median(random, ios, 1.0), _median(random, ios, truth)
    cells = [_cell(0, [[first]]), _cell(0, [[last]], again=True)]
    (found,) = drift_of(_series("aaaaaa"), cells)
    return found.ok


def _place(random: Random, scatter: float, fall: float) -> str:
    axis = {**_AXIS, "name": "address", "keys": ["job.offset"], "values": [str(10 * n) for n in range(10)]}
    rates = 1.6e8 * np.exp(scatter * random.standard_normal(10) - fall * np.arange(10) / 9)
    cells = []
    for n, rate in enumerate(rates.tolist()):
        cell = _cell(n, [[]], rate=rate)
        cells.append(cell.model_copy(update={"at": {"address": str(10 * n)} if n else {}}))
    whole = Series.from_json({**_series("aaaaaa").as_json(), "axes": [axis]}, "series.json")
    made = whole.model_copy(update={"cells": tuple(cells)})
    (text,) = address_sentences(made, made.axes[0])
    return text


_KINDS: dict[str, Kind] = {
    "": {}, ", t3 tails": {"tails": "t3"}, ", figures of a round go together (0.9)": {"alike": 0.9},
    ", a tier scatters five times as much": {"unlike": 5},
    ", a round x 1.5 in half of the series": {"odd": 1.5},
}  # fmt: skip
_ANY = "any of 60 figures and 57 ratios differs by more than 3%"

TRIALS: list[Trial] = [
    *(
        Trial(
            "any of 60 figures differs, or is the same", f"A/A, one round, scatter {scatter:.0%}",
            functools.partial(
                lambda random, scatter: any(
                    row.finding for row in _two_series(random, (1, 1), (scatter, scatter)).rows
                ), scatter=scatter,
            ),
            at_most=0.0, cases=40, few=3, promise=SWEEPS,
        )
        for scatter in (0.0, 0.03, 0.10)
    ),
    *(
        Trial(
            _ANY, f"A/A, {a} v {b} rounds, scatter {x:.1%} v {y:.1%}{name}",
            functools.partial(_any, finding="differs", rounds=(a, b), scatter=(x, y), **kind),
            at_most=0.025, cases=200, few=4 if (a, b, x, y) == (3, 3, 0.03, 0.03) and not kind else 0,
            promise=SWEEPS,
        )
        for a, b in ((2, 2), (3, 3), (3, 5), (5, 5), (10, 10), (30, 30))
        for x, y in ((0.001, 0.001), (0.03, 0.03), (0.02, 0.10), (0.10, 0.02))
        for name, kind in _KINDS.items()
        if not kind or ((x, y) == (0.10, 0.02) and (a, b) in ((3, 5), (5, 5)))
    ),
    *(
        Trial(
            "a difference, and no word about the order of the series", f"A/A, 5 v 5 rounds, {name}",
            functools.partial(_unsaid, rounds=(5, 5), scatter=(0.02, 0.02), **kind), at_most=0.0, cases=100,
            few=3, promise=SWEEPS,
        )
        for name, kind in (
            ("drift 1% a round", {"drift": 0.01}), ("AR 0.6", {"lag": 0.6}), ("AR 0.9", {"lag": 0.9}),
        )
    ),
    *(
        Trial(
            f"a p50 {shift - 1:.0%} slower differs",
            f"{n} rounds, scatter {scatter:.0%}, 60 figures and 57 ratios",
            functools.partial(_found, rounds=(n, n), scatter=(scatter, scatter), shift=shift), at_least=least,
            cases=200, few=3 * (n == 5), promise=SWEEPS,
        )
        for n, scatter, shift, least in POWER
    ),
    Trial(
        "a p50 is the same within 3%", "truly 6% slower, 5 rounds, scatter 1%",
        lambda random: _two_series(random, (5, 5), (0.01, 0.01), 1.06).rows[_TIERS].finding == "same",
        at_most=0.025, cases=200, few=3, promise=SWEEPS,
    ),
    *(
        Trial(
            "the 95% range of a ratio to the base does not hold it",
            f"{n} rounds, scatter {scatter:.1%}{name}",
            functools.partial(_missed, rounds=n, scatter=scatter, **kind), at_most=most, cases=600,
            few=10 * (n == 3 and not kind and scatter == 0.03), promise=SWEEPS,
        )
        for n in (2, 3, 5, 10)
        for scatter in (0.001, 0.03)
        for name, most, kind in (
            ("", 0.05, {}), (", t3 tails", 0.05, {"tails": "t3"}), (", AR 0.6", 0.05, {"lag": 0.6}),
            (", the tier scatters five times as much as others", 0.05, {"unlike": 5}),
            (", so it does, t3 tails", 0.05, {"unlike": 5, "tails": "t3"}),
            (", so it does, AR 0.6", 0.05, {"unlike": 5, "lag": 0.6}),
            (", this figure alone scatters five times as much", 0.05, {"alone": 5}),
            (", drift 1% a round", 0.08, {"drift": 0.01}),
        )
        if scatter > 0.01 or not kind
    ),
    *(
        Trial(
            "the largest change is one", f"no change, {n} rounds, scatter 3%{name}",
            functools.partial(_headline, rounds=n, scatter=0.03, **kind), at_most=0.05, cases=200,
            few=10 * (n == 3 and not kind), promise=SWEEPS,
        )
        for n in (2, 3, 5, 10)
        for name, kind in _KINDS.items() if "odd" not in kind
    ),
    Trial(
        "the largest change is one", "a p50 is 25% slower, 3 rounds, scatter 1%",
        functools.partial(_headline, rounds=3, scatter=0.01, truth=1.25), at_least=0.9, cases=200, few=5,
        promise=SWEEPS,
    ),
    *(
        Trial(
            "expected ratio of at most 4 holds", f"true {truth:g}, {ios} I/Os, {name}",
            functools.partial(_expected, ios=ios, truth=truth, **changes), at_most=0.025, cases=400,
            few=10 if ios == 40 else 0, promise=SWEEPS,
        )
        for truth in (4.02, 4.4)
        for ios in (40, 400)
        for name, changes in (("one round", {}), ("3 rounds, scatter 3%", {"rounds": 3, "scatter": 0.03}))
    ),
    Trial(
        "expected ratio of at most 4 holds", "true 3.6, 400 I/Os, one round",
        functools.partial(_expected, ios=400, truth=3.6), at_least=0.83, cases=400, few=10, promise=SWEEPS,
    ),
    *(
        Trial(
            "the base is within 5%", f"it moved by x {truth:g}, {ios} I/Os",
            functools.partial(lambda random, **moved: _drift(random, **moved) is True, ios=ios, truth=truth),
            at_most=0.025, cases=400, few=10 if ios == 40 else 0, promise=SWEEPS,
        )
        for truth in (1.06, 1.12) for ios in (40, 400, 4000)
    ),
    *(
        Trial(
            "the base drifted", f"it did not move, {ios} I/Os",
            functools.partial(lambda random, ios: _drift(random, ios, 1.0) is False, ios=ios),
            at_most=0.025, cases=400, promise=SWEEPS,
        )
        for ios in (40, 400)
    ),
    *(
        Trial(
            "first : last has a trend", f"a flat device, places scatter by {scatter:.0%}",
            functools.partial(
                lambda random, scatter: " first : last" in _place(random, scatter, 0.0).partition("(")[0],
                scatter=scatter,
            ),
            at_most=0.05, cases=1000, few=20, promise=SWEEPS,
        )
        for scatter in (0.01, 0.02, 0.03)
    ),
    *(
        Trial(
            "flat within 5%", f"the last place is {fall:.0%} slower, places scatter by {scatter:.0%}",
            functools.partial(
                lambda random, scatter, fall: "flat" in _place(random, scatter, fall).partition(",")[0],
                scatter=scatter, fall=fall,
            ),
            at_most=0.025, cases=1000, few=10, promise=SWEEPS,
        )
        for scatter in (0.0, 0.01, 0.03) for fall in (0.055, 0.10)
    ),
    Trial(
        "first : last has a trend", "the last place is 10% slower, places scatter by 1%",
        lambda random: " first : last" in _place(random, 0.01, 0.10).partition("(")[0], at_least=1.0,
        cases=400, few=20, promise=SWEEPS,
    ),
]  # fmt: skip
