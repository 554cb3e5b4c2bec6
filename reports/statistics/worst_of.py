"""How long a stripe of N drives takes, from what each drive does alone. Pure.

A stripe is done when its slowest drive is. Two ways to draw from the latencies that a drive had alone hold
what an array of such drives does between them:

- single requests: each drive of the stripe draws one. Right where nothing of a drive goes on while it waits.
- runs of consecutive requests: each drive draws a run, and the array takes as long as the slowest run. Right
  where a drive that waits catches up meanwhile (its buffer drains, it collects garbage), so that within the
  run only its mean counts. The longer the run, the less is lost.

An array with one stripe on its way lies between the two. Runs are moving blocks (Künsch, "The jackknife and
the bootstrap for general stationary observations", Annals of Statistics 17, 1989), around the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS = 4000
# So many runs that do not overlap lie in what a drive did alone: fewer would say nothing about the slowest.
RUNS = 4
_Z_95 = 1.96


@dataclass(frozen=True)
class Stripe:
    """One stripe whose drives take these times. `share`: of the bandwidth that the drives have together."""

    time: float
    busy: tuple[float, ...]
    share: float


def stripe(latencies: Sequence[float]) -> Stripe:
    """The slowest drive is busy all the time, each other one as long as its own part takes."""
    slowest = max(latencies)
    busy = tuple(each / slowest for each in latencies)
    return Stripe(slowest, busy, sum(latencies) / len(latencies) / slowest)


def stripe_times(drives: Sequence[Floats], number: int, run: int, seed: int = 1) -> Floats:
    """`DRAWS` times of a stripe of `number` drives, in the unit of the latencies; the mean within `run`s.

    `drives`: latencies of each in their order. Drives in excess of those are like one of them, by chance.
    """
    random = np.random.default_rng([seed, number, run])
    means = [_means(np.asarray(each, dtype=np.float64), run) for each in drives]
    sizes = np.array([each.size for each in means])
    begins, every = np.cumsum(sizes) - sizes, np.concatenate(means)
    slowest = np.zeros(DRAWS)
    for position in range(number):
        known = np.full(DRAWS, position)
        which = known if position < len(means) else random.integers(0, len(means), DRAWS)
        drawn = every[begins[which] + random.integers(0, sizes[which])]
        slowest = np.maximum(slowest, drawn)
    return slowest


def long_run(drives: Sequence[Floats]) -> int:
    """The longest run that can be drawn: `RUNS` of them lie in the shortest record."""
    return max(1, min(each.size for each in drives) // RUNS)


def mean_error(latencies: Floats) -> float:
    """The standard error of the mean of latencies in their order, which may depend on one another.

    By batch means: of about the square root of their number, each long enough to be nearly independent.
    """
    batches = int(np.sqrt(latencies.size))
    if batches < 2:
        return float("inf")
    length = latencies.size // batches
    means = latencies[: batches * length].reshape(batches, length).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(batches))


def reach(latencies: Floats) -> float:
    """Half of the 95 % range of their mean, of the mean."""
    return _Z_95 * mean_error(latencies) / float(latencies.mean())


def _means(latencies: Floats, run: int) -> Floats:
    """The mean of each run of so many, around the end."""
    if run == 1:
        return latencies
    total = np.cumsum(np.concatenate([[0.0], latencies, latencies[:run]]))
    return np.asarray((total[run : run + latencies.size] - total[: latencies.size]) / run)
