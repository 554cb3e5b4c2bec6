"""When an L2ARC is warm: shares of reads that rise, by windows of a phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator as Random

from reports.features.cache_life import curve
from reports.statistics.quantiles import Floats
from tests.truth.trials import Trial

_WINDOWS, _END = 40, 0.4
_TIMES = (np.arange(_WINDOWS) + 0.5) / _WINDOWS
_DOC = "docs/l2arc.md"


def _drawn(random: Random, share: Floats, reads: int) -> tuple[Floats, Floats]:
    counts = random.poisson(reads, _WINDOWS).clip(1)
    return random.binomial(counts, share) / counts, counts.astype(float)


def _holds(part: float, rise: float, reads: int = 300) -> Callable[[Random], bool]:
    """Whether the range has the true time. The end is the mean over the last fifth."""
    share = _END * -np.expm1(-_TIMES / rise)
    true_s = -rise * np.log(1 - part * -np.expm1(-0.9 / rise))

    def says(random: Random) -> bool:
        found = curve.reached(_TIMES, *_drawn(random, share, reads))
        mine = [each for each in found if each.part == part]
        return not mine or mine[0].low_s <= true_s <= (mine[0].high_s or np.inf)

    return says


def _rises(rise: float, reads: int) -> Callable[[Random], bool]:
    share = _END * -np.expm1(-_TIMES / rise)
    return lambda random: curve.settled(_drawn(random, share, reads)[0]) is False


TRIALS = [
    Trial("the range has the time of half", "nears its end by 1/e in a tenth", _holds(0.5, 0.1),
          at_least=0.93, cases=300, few=20, promise=_DOC),
    Trial("the range has the time of 90 %", "nears its end by 1/e in a tenth", _holds(0.9, 0.1),
          at_least=0.9, cases=300, promise=_DOC),
    Trial("the range has the time of 90 %", "nears its end by 1/e in three tenths", _holds(0.9, 0.3),
          at_least=0.75, cases=300, promise=_DOC),
    Trial("the share still rises", "does not rise any more", _rises(0.1, 300),
          at_most=0.05, cases=1000, few=100, promise=_DOC),
    Trial("the share still rises", "half of what it will be", _rises(1.0, 3000),
          at_least=0.95, cases=300, few=20, promise=_DOC),
]  # fmt: skip
