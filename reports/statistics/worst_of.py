"""How long a stripe of N drives takes, from what each drive does alone. Pure.

A stripe is done when its slowest drive is. Two ways to draw from the latencies that a drive had alone hold
what an array of such drives does between them:

- single requests: each drive of the stripe draws one. Right where nothing of a drive goes on while it waits.
- runs of consecutive requests: each drive draws a run, and the array takes as long as the slowest run. Right
  where a drive that waits catches up meanwhile (its buffer drains, it collects garbage), so that within the
  run only its mean counts. The longer the run, the less is lost. The longest run is the whole record: then
  the array is as fast as its slowest drive.

An array with one stripe on its way lies between single requests and whole records. Runs are moving blocks,
around the end (Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 17, 1989).

Both bounds are estimates. Each drive's mean is known only within its standard error, and the slowest of
several estimates is biased: of seven equal drives one always seems slow. So both come with the basic
bootstrap interval, which reflects the bias (Davison and Hinkley, "Bootstrap Methods and their Application",
1997, 5.2.1), on a logarithmic scale, for times are positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.batch_means import error_of_mean
from reports.statistics.quantiles import Floats
from reports.statistics.student import t_critical

DRAWS = 4000
# Of the interval of a mean: so many other means that the drives could have had, each for so many stripes.
_REPLICATES = 200
_STRIPES = 200


@dataclass(frozen=True)
class MeanTime:
    """The mean time of a stripe and its 95 % range, in the unit of the latencies."""

    value: float
    low: float
    high: float


def stripe_times(drives: Sequence[Floats], number: int, run: int, seed: int = 1) -> Floats:
    """`DRAWS` times of a stripe of `number` drives, in the unit of the latencies; the mean within `run`s.

    `drives`: latencies of each in their order. Drives in excess of those are like one of them, by chance.
    """
    times, _ = _draw(drives, number, run, seed)
    return np.asarray(times.max(axis=1))


def whole_records(drives: Sequence[Floats]) -> int:
    """The longest run: all that was measured."""
    return max(each.size for each in drives)


def mean_time(drives: Sequence[Floats], number: int, run: int, seed: int = 1) -> MeanTime:
    """The mean of `stripe_times` without the bias of the slowest estimate."""
    times, which = _draw(drives, number, run, seed)
    value = float(times.max(axis=1).mean())
    some, of = times[:_STRIPES], which[:_STRIPES]
    known = [error_of_mean(each) for each in drives]
    errors = np.array([error / float(each.mean()) for (error, _), each in zip(known, drives, strict=True)])
    freedom = np.array([free for _, free in known])
    random = np.random.default_rng([seed, number, run, 1])
    # Of a drive that drifts its mean is known by next to nothing: draws beyond its range say no more.
    most = np.array([t_critical(0.05, each) for each in freedom])
    draws = np.clip(random.standard_t(freedom, (_REPLICATES, len(drives))), -most, most)
    factors = np.exp(errors * draws)
    replicates = np.array([(some * each[of]).max(axis=1).mean() for each in factors])
    shares = np.log(replicates / some.max(axis=1).mean())
    low, high = np.quantile(shares, [0.025, 0.975])
    return MeanTime(*(value * float(np.exp(-share)) for share in (np.median(shares), high, low)))


def reach(latencies: Floats) -> float:
    """Half of the 95 % range of their mean, of the mean."""
    error, freedom = error_of_mean(latencies)
    return t_critical(0.05, freedom) * error / float(latencies.mean())


def _draw(drives: Sequence[Floats], number: int, run: int, seed: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Times of `DRAWS` stripes by their drives, and which drive each is of: shape (DRAWS, number)."""
    random = np.random.default_rng([seed, number, run])
    means = [_means(np.asarray(each, dtype=np.float64), run) for each in drives]
    sizes = np.array([each.size for each in means])
    begins, every = np.cumsum(sizes) - sizes, np.concatenate(means)
    which = np.tile(np.arange(number), (DRAWS, 1))
    excess = max(0, number - len(means))
    which[:, number - excess :] = random.integers(0, len(means), (DRAWS, excess))
    return every[begins[which] + random.integers(0, sizes[which])], which


def _means(latencies: Floats, run: int) -> Floats:
    """The mean of each run of so many, around the end; of all of them if there are fewer."""
    if run == 1:
        return latencies
    run = min(run, latencies.size)
    total = np.cumsum(np.concatenate([[0.0], latencies, latencies[:run]]))
    return np.asarray((total[run : run + latencies.size] - total[: latencies.size]) / run)
