"""When an L2ARC is warm: shares of reads that rise, by windows of a phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator as Random

from kit.store.parts.resource_use import CacheImport
from reports.features.cache_life import curve
from reports.features.cache_life.judge import _of_import
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


def _says(word: str, part: float, *, before: float = 0.15, reads: int = 400) -> Callable[[Random], bool]:
    """Whether an L2ARC that answers `part` of its share before is called that, after so many reads each."""

    def says(random: Random) -> bool:
        shares = random.binomial(reads, (before, part * before)) / reads
        found = CacheImport(
            begin_s=0, end_s=2, window_s=60, share_before=shares[0], share_after=shares[1],
            cached_before=0.6, cached_after=0.6, rebuilt_s=1, rebuilt_bytes=1, failures=0,
            reads_before=reads, reads_after=reads,
        )  # fmt: skip
        return f"comes back {word}" in _of_import(found)

    return says


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
    Trial("an L2ARC comes back warm", "answers as much as before", _says("warm", 1),
          at_least=0.9, cases=1000, few=100, promise=_DOC),
    Trial("an L2ARC comes back warm", "answers half of what it did", _says("warm", 0.5),
          at_most=0.05, cases=1000, few=100, promise=_DOC),
    Trial("an L2ARC comes back cold", "answers a tenth of what it did", _says("cold", 0.1),
          at_least=0.95, cases=1000, few=100, promise=_DOC),
    Trial("an L2ARC comes back cold", "answers half of what it did", _says("cold", 0.5),
          at_most=0.02, cases=1000, few=100, promise=_DOC),
    Trial("an L2ARC comes back cold", "answers 3 of 100 reads as before",
          _says("cold", 1, before=0.03, reads=100), at_most=0.02, cases=1000, few=100, promise=_DOC),
]  # fmt: skip
