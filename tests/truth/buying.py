"""hsp sheet: what it says of drives near a limit, and beside one another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kit.store.summary import Range
from reports.sheet.decide import Against
from reports.sheet.evidence import ServedLatency
from reports.sheet.facts import DriveFacts, at_most
from reports.sheet.speedup import Speedup, changes
from reports.statistics.ratios import Realisation
from tests.truth.trials import Trial

Says = Callable[[np.random.Generator], bool]
# What the number of I/Os leaves open of a p99, as a logarithm.
_REACH = 0.02
# How many times more it is where I/Os depend on the one before: sqrt((1 + r) / (1 - r)).
_INFLATED = {"AR 0.6": 2.0, "AR 0.9": 4.4}


def drawn(random: np.random.Generator, log: float, runs: int, scatter: float, tail: str) -> list[Realisation]:
    """A percentile in each run: its runs scatter by `scatter`, its I/Os by _REACH."""
    noise = random.standard_t(3, runs) / 3**0.5 if tail == "t3" else random.standard_normal(runs)
    if tail == "outlier":
        noise[0] += 3
    own = random.standard_normal(runs) * _REACH / 1.96 * _INFLATED.get(tail, 1.0)
    return [Realisation(log + scatter * each + other, _REACH) for each, other in zip(noise, own, strict=True)]


def served(
    random: np.random.Generator, runs: int, scatter: float, factor: float = 1.0, tail: str = ""
) -> ServedLatency:
    """Both percentiles of a run are slow together: they share its state."""
    p50 = drawn(random, np.log(factor), runs, scatter, tail)
    p99 = [Realisation(each.log + random.standard_normal() * _REACH / 1.96, _REACH) for each in p50]
    return ServedLatency(
        "write-slog", 4000 * runs, runs, (1.0,) * runs, None, {"p50": tuple(p50), "p99": tuple(p99)}
    )


def met(
    random: np.random.Generator, *, runs: int, scatter: float, truth: float, said: bool, tail: str = ""
) -> bool:
    """The limit is 1, the true p99 `truth`."""
    one = served(random, runs, scatter, truth, tail)
    known: Range | None = one.range_us("p99")
    return at_most(one.us("p99") or 0.0, known, 1.0, runs) is said


def change(
    random: np.random.Generator, runs: int, scatter: tuple[float, float], factor: float, p50: float = 1.0
) -> Speedup:
    """All latencies of the candidate are 1 / `factor` of the baseline's, its medians `p50` times that."""
    sides = [served(random, runs, each, by) for each, by in zip(scatter, (1.0, factor), strict=True)]
    mine = sides[0].of_runs
    mine["p50"] = tuple(each.times(p50) for each in mine["p50"])
    facts = DriveFacts(None, None, {}, {"log": sides[0], "cache": None}, {}, {})  # type: ignore[arg-type]
    return changes(facts, {"log": sides[1], "cache": None}, 0.05)[0]


def differs(
    random: np.random.Generator, *, runs: int, scatter: tuple[float, float], factor: float = 1.0
) -> bool:
    return change(random, runs, scatter, factor).same is False


def no_change(
    random: np.random.Generator, *, runs: int, scatter: tuple[float, float], factor: float = 1.0
) -> bool:
    return change(random, runs, scatter, factor).same is True


def gain(random: np.random.Generator, *, runs: int, factor: float, p50: float) -> bool:
    return Against("", [change(random, runs, (0.03, 0.03), factor, p50)], set()).is_better


def loss(random: np.random.Generator, *, runs: int, factor: float) -> bool:
    return bool(change(random, runs, (0.03, 0.03), factor).told("longer"))


def _trial(claim: str, data: str, says: Says, few: int = 0, **promised: float) -> Trial:
    return Trial(claim, data, says, few=few, promise="docs/sheet.md, how a line is judged", **promised)


def _limits(claim: str, truth: float, said: bool) -> list[Trial]:
    return [
        _trial(
            claim,
            f"p99 is {truth:g} of the limit, {runs} runs, {scatter:.0%} {tail}",
            partial(met, runs=runs, scatter=scatter, truth=truth, said=said, tail=tail),
            few=100 if runs < 4 and not tail else 0,
            # One run cannot show that others scatter more than APART allows for.
            at_most=0.1 if runs == 1 and scatter > 0.05 else 0.05,
        )
        for runs, scatter, tail in _DATA
    ]


_DATA = (
    (1, 0.05, ""), (1, 0.1, ""), (2, 0.05, ""), (3, 0.05, ""), (3, 0.1, ""), (5, 0.1, "t3"),
    (5, 0.05, "outlier"), (10, 0.1, ""), (1, 0.05, "AR 0.6"), (1, 0.05, "AR 0.9"), (3, 0.05, "AR 0.9"),
)  # fmt: skip
_SCATTERS = (
    (1, 0.03, 0.03),
    (3, 0.03, 0.03),
    (3, 0.02, 0.1),
    (5, 0.02, 0.1),
    (10, 0.03, 0.03),
    (10, 0.02, 0.1),
)
TRIALS: list[Trial] = [
    *_limits("met", 1.05, True),
    *_limits("not met", 0.95, False),
    *[
        _trial(
            "met",
            f"p99 is 0.7 of the limit, {runs} runs, {scatter:.0%}",
            partial(met, runs=runs, scatter=scatter, truth=0.7, said=True),
            few=50,
            at_least=1.0,
        )
        for runs, scatter in ((1, 0.05), (2, 0.05), (3, 0.05), (5, 0.1))
    ],
    *[
        _trial(
            "clients see a change",
            f"none, {runs} runs of each, {a:.0%} and {b:.0%}",
            partial(differs, runs=runs, scatter=(a, b)),
            few=50 if runs < 4 else 0,
            at_most=0.05,
        )
        for runs, a, b in _SCATTERS
    ],
    *[
        _trial(
            "clients see a change",
            f"p99 is 1.5 times as long, {runs} runs of each, 3 %",
            partial(differs, runs=runs, scatter=(0.03, 0.03), factor=1.5),
            few=20,
            at_least=1.0,
        )
        for runs in (1, 3, 5)
    ],
    *[
        _trial(
            "would not change",
            f"all is {factor:g} times as long, {runs} runs of each, 3 %",
            partial(no_change, runs=runs, scatter=(0.03, 0.03), factor=factor),
            few=50,
            at_most=0.1 if runs == 1 else 0.05,
        )
        for runs in (1, 3, 10)
        for factor in (1.1, 1.15)
    ],
    *[
        _trial(claim, f"{data}, {runs} runs of each, 3 %", partial(says, runs=runs), few=50, **promised)
        for runs in (1, 3, 10)
        for claim, data, says, promised in (
            (
                "a gain",
                "p99 is 1.1 times as long, the median half",
                partial(gain, factor=1 / 1.1, p50=0.5 / 1.1),
                {"at_most": 0.1 if runs == 1 else 0.05},
            ),
            ("a gain", "all is half as long", partial(gain, factor=2, p50=1), {"at_least": 1.0}),
            ("a loss", "nothing differs", partial(loss, factor=1), {"at_most": 0.05}),
            ("a loss", "all is 1.5 times as long", partial(loss, factor=1 / 1.5), {"at_least": 1.0}),
        )
    ],
    _trial(
        "would not change",
        "nothing differs, 10 runs of each, 1 %",
        partial(no_change, runs=10, scatter=(0.01, 0.01)),
        few=20,
        at_least=0.9,
    ),
]
