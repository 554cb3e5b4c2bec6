"""hsp compare of runs, and what is known within a run."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter
from scipy.special import ndtri

from kit.store.summary import Row, Summary
from reports.comparison.compare import compare
from reports.comparison.in_turn import not_in_turn
from reports.statistics import batch_means
from tests.reports import synthetic
from tests.truth.made_up import MEDIAN_NS, SIGMA, stretch
from tests.truth.trials import Trial

Random = np.random.Generator
Floats = npt.NDArray[np.float64]
COMPARE, SWEEPS = "docs/compare.md", "docs/sweeps.md"

# --- Runs ----------------------------------------------------------------------------------------------

_NAMES = ("p50", "p99", "p999")
_START = datetime(2026, 11, 21, tzinfo=UTC)


@functools.cache
def _empty(tiers: int) -> Summary:
    values = {name: {"us": 1.0, "bound_us": [0.9, 1.1], "error_us": 1e-4} for name in _NAMES}
    rows = [
        {"phase": f"read-{n}", "count": 4000, "mean_us": 1.0, "interpolated": values} for n in range(tiers)
    ]
    return synthetic.summary_of(rows, run="run")


def _run(figures: Floats) -> Summary:
    """A run with these logarithms, tiers x (mean, p50, p99, p99.9)."""
    rows = []
    for row, (mean, *values) in zip(_empty(len(figures)).rows, np.exp(figures).tolist(), strict=True):
        exact = {
            name: row.interpolated["p50"].model_copy(update={"us": us, "error_us": 1e-4 * us})  # type: ignore[union-attr]
            for name, us in zip(_NAMES, values, strict=True)
        }
        rows.append(row.model_copy(update={"mean_us": mean, "interpolated": exact}))
    return _empty(len(figures)).model_copy(update={"rows": tuple[Row, ...](rows)})


def _noise(random: Random, shape: tuple[int, ...], tails: str) -> Floats:
    drawn = random.standard_normal(shape) if tails == "normal" else random.standard_t(3, shape) / math.sqrt(3)
    return np.asarray(drawn)


def _sides(
    random: Random, runs: tuple[int, int], scatter: tuple[float, float], *, alike: float = 0.0,
    tails: str = "normal", slow: float = 0.0, tiers: int = 5, of_tier: bool = False, unlike: float = 1.0,
) -> list[Floats]:  # fmt: skip
    """Runs x tiers x 4 of A and B.

    `alike`: correlation of figures, `of_tier`: of those of a tier; `slow`: in half of the sides one run;
    `unlike`: how many times as much p99.9 scatters.
    """
    sides = []
    for number, spread in zip(runs, scatter, strict=True):
        own = _noise(random, (number, tiers, 4), tails) * math.sqrt(1 - alike)
        shared = _noise(random, (number, tiers if of_tier else 1, 1), tails) * math.sqrt(alike)
        side = spread * (own + shared) * np.array([1, 1, 1, unlike])
        if slow and random.random() < 0.5:
            side[random.integers(number)] += math.log(slow)
        sides.append(side)
    return sides


def _differs(sides: Sequence[Floats], *, pairs: bool = False) -> int:
    return compare(*([_run(run) for run in side] for side in sides), pairs=pairs).different


def _alike(random: Random, runs: tuple[int, int], scatter: tuple[float, float], **named: Any) -> bool:
    return _differs(_sides(random, runs, scatter, **named)) > 0


def _slower(random: Random, runs: tuple[int, int], scatter: float, shift: float, **named: Any) -> bool:
    """Whether the p50 of a tier that is slower by `shift` is found."""
    a, b = _sides(random, runs, (scatter, scatter), **named)
    b[:, 0] += math.log(shift)
    result = compare(*([_run(run) for run in side] for side in (a, b)))
    return next(row.words for row in result.rows if row.figure == "p50") == "difference shown"


def _over_time(random: Random, letters: str, drift: float, correlation: float = 0.0) -> bool:
    """Whether a difference is shown without a word about the order of runs."""
    steps = lfilter([1], [1, -correlation], random.standard_normal(len(letters) + 50))[50:]
    moments = drift * np.arange(len(letters)) + 0.02 * math.sqrt(1 - correlation**2) * steps
    values = moments[:, None, None] + 0.005 * random.standard_normal((len(letters), 5, 4))
    times = [(_START + timedelta(minutes=n)).isoformat() for n in range(len(letters))]
    places = [[n for n, each in enumerate(letters) if each == side] for side in "AB"]
    said = not_in_turn(*([times[n] for n in side] for side in places))
    return said is None and _differs([values[side] for side in places]) > 0


def _phases(random: Random, runs: int, shift: float) -> bool:
    """Two phases of the same runs, which scatter by 5 %, phases by 1 %: whether the p50 differs."""
    whole = 0.05 * random.standard_normal((runs, 1, 1))
    a, b = (whole + 0.01 * random.standard_normal((runs, 5, 4)) for _ in "AB")
    b[:, 0] += math.log(shift)
    result = compare(*([_run(run) for run in side] for side in (a, b)), pairs=True)
    words = [row.words for row in result.rows if row.figure == "p50"]
    return result.different > 0 if shift == 1 else words[0] == "difference shown"


def _none_counted(random: Random, runs: int, scatter: float) -> bool:
    """B has no I/O of a tier, A 10 % of 4000: whether the upper end is below what would show in 39 of 40."""
    counts = [*random.binomial(4000, 0.1 * np.exp(scatter * random.standard_normal(runs))).tolist()]
    sides = [
        [synthetic.summary_of([{"tier": tier, "count": n} for tier, n in of.items() if n]) for of in each]
        for each in ([{"l2arc": n, "disk": 4000 - n} for n in side] for side in (counts, [0] * runs))
    ]
    row = next(r for r in compare(*sides).rows if (r.tier, r.figure) == ("l2arc", "share"))
    assert row.interval and row.b == 0
    return row.interval[1] * 0.1 < -math.log(0.025) / (4000 * runs)


_SIZES = ((3, 3), (3, 5), (5, 5), (3, 10), (2, 10), (10, 10))
_UNLIKE = ((0.02, 0.10), (0.10, 0.02), (0.03, 0.06))
_SHOWN = "difference shown in any of 20 figures"

RUNS = [
    *(
        Trial(
            _SHOWN, f"A/A, {a} v {b} runs, scatter {x:.0%} v {y:.0%}",
            functools.partial(_alike, runs=(a, b), scatter=(x, y)), at_most=0.025, cases=400,
            few=20 if (a, b, x) in ((5, 5, 0.10), (3, 10, 0.10)) else 0, promise=COMPARE,
        )
        for a, b in _SIZES for x, y in ((0.05, 0.05), *_UNLIKE)
    ),
    *(
        Trial(
            _SHOWN, f"A/A, {a} v {b} runs, scatter 10% v 2%, {name}",
            functools.partial(_alike, runs=(a, b), scatter=(0.10, 0.02), **changes), at_most=0.025, cases=400,
            promise=COMPARE,
        )
        for a, b in ((3, 5), (5, 5), (3, 10), (10, 10))
        for name, changes in (
            ("figures that go together (0.9)", {"alike": 0.9}), ("t3 tails", {"tails": "t3"}),
            ("a run x 1.5 in half of the sides", {"slow": 1.5}),
            ("those of a tier go together (0.9)", {"alike": 0.9, "of_tier": True}),
            ("p99.9 scatters five times as much", {"unlike": 5}), ("4 figures", {"tiers": 1}),
        )
    ),
    *(
        Trial(
            f"p50 of one tier {shift - 1:.0%} slower found",
            f"{n} v {n} runs, scatter {scatter:.1%}, 20 figures",
            functools.partial(_slower, runs=(n, n), scatter=scatter, shift=shift), at_least=least, cases=400,
            few=10 if scatter == 0.01 else 0, promise="docs/compare.md",
        )
        for n, scatter, shift, least in (
            (3, 0.01, 1.2, 1.0), (5, 0.01, 1.05, 0.95), (5, 0.02, 1.1, 0.94), (5, 0.036, 1.2, 0.96),
            (7, 0.036, 1.15, 0.99), (10, 0.036, 1.12, 0.99), (10, 0.054, 1.2, 0.99),
        )
    ),
    Trial(
        "p50 of one tier 20% slower found", "5 v 5 runs, scatter 3.6%, p99.9 scatters five times as much",
        functools.partial(_slower, runs=(5, 5), scatter=0.036, shift=1.2, unlike=5), at_least=0.5, cases=400,
        promise=COMPARE,
    ),
    *(
        Trial(
            "difference shown, and no word about the order of runs", f"A/A, {letters}, {name}",
            functools.partial(_over_time, letters=letters, drift=drift, correlation=r), at_most=0.025,
            cases=400, few=5 if drift else 0, promise=COMPARE,
        )
        for letters in ("AAAAABBBBB", "AABBBBBAAA", "ABBAABBAAB", "ABABABABAB")
        for name, drift, r in (("drift 1% a run", 0.01, 0.0), ("AR 0.6", 0.0, 0.6), ("AR 0.9", 0.0, 0.9))
    ),
    *(
        Trial(
            "the end of a share that B has none of is too low", f"{n} v {n} runs, scatter 10%",
            functools.partial(_none_counted, runs=n, scatter=0.1), at_most=0.025, cases=400,
            few=10 if n == 2 else 0, promise=COMPARE,
        )
        for n in (2, 5, 10)
    ),
    Trial(
        "difference shown", "A/A, two phases of the same 5 runs",
        functools.partial(_phases, runs=5, shift=1.0), at_most=0.025, cases=400, few=10, promise=COMPARE,
    ),
    Trial(
        "p50 of one tier 7% slower found", "two phases of the same 5 runs, which scatter by 5%, phases by 1%",
        functools.partial(_phases, runs=5, shift=1.07), at_least=0.99, cases=400, few=10, promise=COMPARE,
    ),
]  # fmt: skip

# --- Within a run --------------------------------------------------------------------------------------


def _misses(random: Random, ios: int, intervals: int, correlation: float, what: str) -> bool:
    """Whether a range within a run does not hold what the process has; what has no range says nothing."""
    cells = stretch(random, ios, intervals, correlation)
    if what == "rate":
        found, truth = batch_means.rate(*cells), math.log(1e9 / MEDIAN_NS) - SIGMA**2 / 2
    else:
        q = {"p50": 0.5, "p99": 0.99}[what]
        found, truth = batch_means.quantile(*cells, q), math.log(MEDIAN_NS) + SIGMA * float(ndtri(q))
    return bool(found and found.reach is not None and abs(found.log - truth) > found.reach)


WITHIN = [
    Trial(
        f"range of {what} that does not hold it", f"{ios} I/Os in {intervals} intervals, AR {r:g}",
        functools.partial(_misses, ios=ios, intervals=intervals, correlation=r, what=what), at_most=most,
        cases=400, few=10 if (r, ios, intervals) == (0.9, 4000, 60) else 0, promise=SWEEPS,
    )
    for ios, intervals, rs, most in (
        (4000, 60, (0.0, 0.3, 0.6, 0.9, 0.97), 0.08), (4000, 10, (0.0, 0.9), 0.08),
        (400, 60, (0.0, 0.3, 0.6, 0.9), 0.08), (400, 60, (0.97,), 0.12),
    )
    for r in rs
    for what in ("p50", "p99", "rate")
]  # fmt: skip

TRIALS: list[Trial] = [*RUNS, *WITHIN]
