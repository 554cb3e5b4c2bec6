"""Whether B differs from A, from a few runs of each: bootstrap over runs, for many figures together.

The unit that is drawn again is the run, never the I/O: I/Os of one run share its pool, its warm-up and its
moment, so millions of them are still one sample of what the next run would give.

What is compared is the mean of the logarithm over runs (the geometric mean). For a mean, the standard
error of the ideal bootstrap, with endless redraws, is known without redrawing: sqrt((n - 1)/n) s/sqrt(n)
(Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 6.2). That is too small by
sqrt((n - 1)/n), which matters with five runs, and the percentiles of so few redraws are too near; so the
error is widened by that factor and the interval is error times a critical value instead of percentiles
(Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section 5). The critical value is that
of all figures together, so that with A and B alike one comparison in forty, at most, shows any difference:

- where runs can be relabelled in enough ways, the 97.5 % point of the largest |t| of all figures under
  relabelling (Westfall and Young, "Resampling-Based Multiple Testing", 1993), which is exact if runs of
  A and B are exchangeable, whatever figures have to do with each other. Each figure has its own error alone:
  an error that figures share (as in Tusher et al., "Significance analysis of microarrays", 2001) hides
  1 % of a figure that is known to 0.1 % beside one that is known to 5 %;
- with fewer runs Student's t with Welch's degrees of freedom and Bonferroni's correction;
- with one run on a side nothing: what its next run would give is not known.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.quantiles import Floats

# With A and B alike, so much of all comparisons show nothing at all. More than the 95 % that are promised:
# a promise that holds with no margin is broken by every second series of trials.
LEVEL = 0.975
_MOST_SPLITS = 4000
_SEED = 20090608
# More change t by less than 1 %, and would make the integral below too steep for its points.
_MOST_FREEDOM = 200.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


@dataclass(frozen=True)
class Interval:
    """The interval of the ratio B/A of a figure, and whether it excludes 1."""

    low: float
    high: float

    @property
    def excludes_one(self) -> bool:
        return self.low > 1 or self.high < 1


def t_critical(alpha: float, freedom: float) -> float:
    """The t that Student's |t| with `freedom` degrees exceeds with probability `alpha`.

    Raises ValueError unless 0 < alpha < 1 and freedom > 0.
    """
    if not (0 < alpha < 1 and freedom > 0):
        raise ValueError(f"no critical value for alpha {alpha} and {freedom} degrees of freedom")
    if freedom <= 2:
        # With t = sqrt(freedom) tan(angle) a tail is the integral of cos(angle) ** (freedom - 1), which for
        # these few is not smooth enough for the sum below; the t of whole degrees has a closed form.
        if freedom < 2:
            return 1 / math.tan(alpha * math.pi / 2)
        return (1 - alpha) * math.sqrt(2 / (alpha * (2 - alpha)))

    def log_part(low: float) -> float:
        """ln of the integral of cos ** (freedom - 1) from `low` to a right angle."""
        half = (math.pi / 2 - low) / 2
        return math.log(
            max(half * float(np.sum(_WEIGHTS * np.cos(low + half * (1 + _NODES)) ** (freedom - 1))), 1e-300)
        )

    whole, low, high = log_part(0.0), 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if log_part(middle) - whole > math.log(alpha) else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def intervals(a: Floats, b: Floats, a_floor: Floats, b_floor: Floats) -> list[Interval] | None:
    """Simultaneous intervals of exp(mean b - mean a) for each column; None with one run on a side.

    `a` and `b` are logarithms of figures, runs x figures. The floors, of the same shape, are the variance
    that a figure has by its own coarseness (bins, whole I/Os): runs that agree by chance do not make it
    certain.
    Raises ValueError if something is not finite or shapes do not fit.
    """
    runs_a, runs_b = len(a), len(b)
    values, floors = np.concatenate([a, b]), np.concatenate([a_floor, b_floor])
    if values.shape != floors.shape or not (np.isfinite(values).all() and np.isfinite(floors).all()):
        raise ValueError("figures must be finite, and each has its floor")
    if min(runs_a, runs_b) < 2:
        return None
    own = np.zeros((1, runs_a + runs_b), dtype=bool)
    own[0, :runs_a] = True
    shift, error, freedom = (v[0] for v in _welch(values, floors, own))
    critical = _relabelled(values, floors, runs_a) if _ways(runs_a, runs_b) else None
    if critical is None:
        alpha = (1 - LEVEL) / values.shape[1]
        wide = np.array([t_critical(alpha, f) for f in freedom])
    else:
        # A hair more, so that the split that sets the critical value does not exceed itself by rounding.
        wide = np.full(values.shape[1], critical * (1 + 1e-9))
    with np.errstate(over="ignore"):
        low, high = np.exp(shift - wide * error), np.exp(shift + wide * error)
    return [Interval(*map(float, each)) for each in zip(low, high, strict=True)]


def method(runs_a: int, runs_b: int) -> str:
    """In words, what intervals() does with so many runs."""
    if min(runs_a, runs_b) < 2:
        return "one run on a side: no interval"
    if _ways(runs_a, runs_b):
        return "bootstrap error over runs, critical value by relabelling runs, for all figures together"
    return "bootstrap error over runs, critical value of Student's t with Bonferroni's correction"


def _ways(runs_a: int, runs_b: int) -> bool:
    """Whether there are so many relabellings that one (and its mirror) is less than 2.5 % of them."""
    mirrored = 2 if runs_a == runs_b else 1
    return mirrored / math.comb(runs_a + runs_b, runs_a) <= 1 - LEVEL


def _welch(values: Floats, floors: Floats, in_a: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """(mean B - mean A, its standard error, degrees of freedom), splits x figures.

    `in_a`: splits x runs.
    """
    parts = []
    centred = values - values.mean(axis=0)
    for mask in (in_a.astype(np.float64), (~in_a).astype(np.float64)):
        n = mask.sum(axis=1)[:, None]
        mean = mask @ centred / n
        # The ideal bootstrap's variance of a mean, times n/(n - 1).
        spread = np.maximum(mask @ centred**2 - n * mean**2, 0.0) / (n - 1)
        parts.append((mean, np.maximum(spread, mask @ floors / n) / n, n))
    (mean_a, var_a, n_a), (mean_b, var_b, n_b) = parts
    var = np.maximum(var_a + var_b, 1e-30)
    freedom = var**2 / np.maximum(var_a**2 / (n_a - 1) + var_b**2 / (n_b - 1), 1e-300)
    return mean_b - mean_a, np.sqrt(var), np.clip(freedom, 1.0, _MOST_FREEDOM)


def _relabelled(values: Floats, floors: Floats, runs_a: int) -> float:
    """What the largest |t| of all figures exceeds in at most 2.5 % of relabellings of the runs."""
    runs = len(values)
    if math.comb(runs, runs_a) <= _MOST_SPLITS:
        chosen = np.array(list(itertools.combinations(range(runs), runs_a)))
    else:
        # Too many to try all: a fixed sample of them, the real one among it.
        generator = np.random.default_rng(_SEED)
        chosen = np.argsort(generator.random((_MOST_SPLITS, runs)), axis=1)[:, :runs_a]
        chosen[0] = np.arange(runs_a)
    in_a = np.zeros((len(chosen), runs), dtype=bool)
    np.put_along_axis(in_a, chosen, True, axis=1)
    shift, error, _ = _welch(values, floors, in_a)
    largest = np.sort((np.abs(shift) / error).max(axis=1))[::-1]
    return float(largest[int((1 - LEVEL) * len(largest) + 1e-9)])
