"""How often the kit says something of data whose truth is known: a simulation, and how it is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reports.statistics.proportion import interval

SEED = 20090608


@dataclass(frozen=True)
class Trial:
    """A sentence of the kit (`claim`), the `data` it is tried on, and the share of cases that may say it.

    `says` draws one case and returns whether the sentence was said of it. `at_most` is promised for data
    without the thing (false alarms), `at_least` for data with it (power). `cases`: of `tox -e truth`; `few`:
    of the unit tests, 0 where that is too slow. `promise`: the document and words that have the number.
    """

    claim: str
    data: str
    says: Callable[[np.random.Generator], bool]
    at_most: float = 1.0
    at_least: float = 0.0
    cases: int = 1000
    few: int = 0
    promise: str = ""


@dataclass(frozen=True)
class Share:
    """In how many cases the sentence was said, and the 95 % range of the share."""

    trial: Trial
    said: int
    cases: int

    @property
    def range(self) -> tuple[float, float]:
        return interval(self.said, self.cases)

    @property
    def holds(self) -> bool:
        """False where the whole range is beyond the promise: chance alone breaks it in 1 of 40."""
        low, high = self.range
        return low <= self.trial.at_most and high >= self.trial.at_least


def share(trial: Trial, cases: int) -> Share:
    """Each case has a seed of its own, so that more cases begin with the same ones."""
    said = sum(trial.says(np.random.default_rng([SEED, number])) for number in range(cases))
    return Share(trial, said, cases)
