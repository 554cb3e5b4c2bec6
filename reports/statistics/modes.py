"""Where a latency histogram has separate modes: a multiscale test of its valleys.

Works on counts alone, in logarithmic latency, with no width of a kernel to choose: a mode may be
one bin wide or several octaves. A valley counts where, for some stretch V with a stretch L to
its left and R to its right, Poisson counts of one common density in V and L, and likewise in V and R,
are both implausible (likelihood ratio). That is the idea of Duembgen and Walther, "Multiscale
inference about a density", Annals of Statistics 36 (2008), with stretches of 1, 2, 3, 4, 6, 8, ... steps.
A tail that only falls has no R that is denser than a V before it, however long it is: tails are no modes.

A clock that ticks leaves more or fewer multiples of its tick in a bin: widened() removes such combs first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.core.clock import JITTER, TICKS_NS
from reports.statistics.quantiles import Bins, Floats

_STEPS_PER_OCTAVE = 64
_STEP = math.log(2) / _STEPS_PER_OCTAVE
_MAX_STEPS = 64 * _STEPS_PER_OCTAVE
# Of stretches: 1, 2, 3, 4, 6, 8, 12, ... steps.
_LENGTHS = sorted({2**k for k in range(12)} | {3 * 2**k for k in range(11)})
# Nats of log likelihood ratio. By simulation (tests/reports/statistics/test_band_detection.py) one mode with
# a heavy tail is cut in less than 1 % of cases.
_LEAST_EVIDENCE = 9.0
_ROUNDED_NS = 1.0
# Of a tick that is a smaller part of a bin, a multiple more or less is less than the ripple of one mode.
_FAR = 1 / 12


@dataclass(frozen=True)
class Density:
    """I/Os per step of `_STEP` in ln(latency in ns), the first step beginning at `start`."""

    start: float
    counts: Floats

    def at(self, step: float) -> float:
        """The latency in ns at the lower edge of `step`."""
        return math.exp(self.start + step * _STEP)


@dataclass(frozen=True)
class Valley:
    """Between two modes, in steps: its emptiest place, and the width over which that is averaged."""

    middle: float
    width: int


def possible_ticks_ns(bins: Bins) -> list[float]:
    """Ticks, in ns, ascending, of clocks that may have measured the latencies: none of them is ruled out.

    Bins narrower than a tick are filled only where a multiple of it falls into them: a comb, whose teeth
    are not modes. Wider ones hold more or fewer multiples than their width has. A tick is ruled out by a bin
    with I/Os that holds no multiple of it, nor what jitters around one.
    """
    lo, hi, _ = np.array([b for b in bins if b[2]], dtype=np.float64).reshape(-1, 3).T
    least = _FAR * float(np.median(hi - lo))
    return sorted(tick for tick in TICKS_NS if tick >= least and _multiples(lo, hi, tick).all())


def _multiples(lo: Floats, hi: Floats, tick: float) -> Floats:
    """How many multiples of `tick` each [lo, hi) holds, rounded to whole ns, or by jitter but for 0."""
    slop = max(JITTER * tick, 0.0 if tick == int(tick) else _ROUNDED_NS)
    first = np.maximum(np.ceil((lo - slop) / tick), lo > _ROUNDED_NS)
    held: Floats = np.floor((hi - 1 + slop) / tick) - first + 1
    held[held < 0] = 0.0
    return held


def widened(bins: Bins, tick: float) -> list[tuple[int, int, int]]:
    """`bins` on edges between ticks, so that none is finer than one; counts sum to the same.

    Bins that may share a tick, as its rounding to whole ns leaves open, become one.
    """
    if tick <= 1:
        return list(bins)
    slop = 0.0 if tick == int(tick) else _ROUNDED_NS
    cells: list[list[float]] = []  # first and last tick, I/Os
    for lo, hi, count in bins:
        first, last = math.ceil((lo - slop) / tick), math.floor((hi - 1 + slop) / tick)
        if last < first:
            first = last = round((lo + hi) / 2 / tick)
        if cells and first <= cells[-1][1]:
            cells[-1][1:] = [max(last, cells[-1][1]), cells[-1][2] + count]
        else:
            cells.append([first, last, count])
    # What took less than half a tick may have taken any time below.
    least = math.ceil(tick / 32)
    edges = [(max(round((a - 0.5) * tick), least), round((b + 0.5) * tick), int(n)) for a, b, n in cells]
    return [(low, max(high, low + 1), n) for low, high, n in edges]


def density(bins: Bins) -> Density:
    """The histogram on even steps of ln(latency). Raises ValueError where bins overlap."""
    edges: list[float] = []
    totals: list[float] = []
    seen = 0.0
    for lo, hi, count in bins:
        # A logarithm has no zero: a bin that begins there is taken to span one octave.
        low, high = math.log(lo if lo > 0 else hi / 2), math.log(hi)
        if edges and low < edges[-1] - 1e-12:
            raise ValueError("the bins overlap")
        edges += [low, high]
        totals += [seen, seen + count]
        seen += count
    # An empty step at both ends: what is found never depends on where the histogram ends.
    start = edges[0] - _STEP
    steps = math.ceil((edges[-1] - start) / _STEP) + 1
    if steps > _MAX_STEPS:
        raise ValueError(f"the latencies span {steps // _STEPS_PER_OCTAVE} octaves")
    grid = start + _STEP * np.arange(steps + 1)
    return Density(start, np.diff(np.interp(grid, edges, totals)))


def valleys(counts: Floats, least: float) -> list[Valley]:
    """The valleys that are proven, ascending. `least`: I/Os that each side of one must have."""
    proven: list[Valley] = []
    waiting = [(0, len(counts))]
    while waiting:
        first, last = waiting.pop()
        valley = _best_valley(counts[first:last], least)
        if valley is None:
            continue
        begin, end = valley
        # The stretch with the most evidence may hold a small mode: cut where it is emptiest.
        width = max(1, (end - begin) // 4)
        middle = emptiest(counts, first + begin, first + end, width)
        proven.append(Valley(middle, width))
        waiting += [(first, int(middle)), (int(middle), last)]
    return sorted(proven, key=lambda v: v.middle)


def emptiest(counts: Floats, first: int, last: int, width: int) -> float:
    """Where [first, last) is emptiest on the scale of `width` steps: the middle of the longest such place."""
    width = min(width, max(last - first, 1))
    held = np.convolve(counts[first:last], np.ones(width), "valid")
    low = held <= held.min() + 1e-9
    edges = np.flatnonzero(np.diff(np.concatenate([[0], low.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return float(first + (starts[longest] + ends[longest] - 1 + width) / 2)


def _best_valley(counts: Floats, least: float) -> tuple[int, int] | None:
    """First and last step (exclusive) of the valley with the most evidence; None if none has enough."""
    steps = len(counts)
    total = np.concatenate([[0.0], np.cumsum(counts)])
    if steps < 3 or total[-1] < 2 * least:
        return None
    lengths = [n for n in _LENGTHS if n <= steps]
    # densest[k][i]: the most I/Os in a stretch of lengths[k] that ends at or before step i (left),
    # or begins at or after it (right).
    left, right = np.full((len(lengths), steps + 1), -1.0), np.full((len(lengths), steps + 1), -1.0)
    for k, n in enumerate(lengths):
        held = total[n:] - total[:-n]
        left[k, n:] = np.maximum.accumulate(held)
        right[k, : steps + 1 - n] = np.maximum.accumulate(held[::-1])[::-1]
    best: tuple[int, int] | None = None
    most = _LEAST_EVIDENCE
    for n in lengths:
        held = total[n:] - total[:-n]
        first = np.arange(steps + 1 - n)
        allowed = (total[first] >= least) & (total[-1] - total[first + n] >= least)
        if not allowed.any():
            continue
        first, held = first[allowed], held[allowed]
        evidence = np.minimum(
            _evidence(left[:, first], lengths, held, n), _evidence(right[:, first + n], lengths, held, n)
        )
        at = int(np.argmax(evidence))
        if evidence[at] > most:
            most, best = float(evidence[at]), (int(first[at]), int(first[at]) + n)
    return best


def _evidence(peaks: Floats, lengths: Sequence[int], held: Floats, width: int) -> Floats:
    """Log likelihood ratio, for each valley, of its best peak being denser than it.

    `peaks[k, i]` I/Os in a stretch of lengths[k], against `held[i]` in `width` steps.
    """
    widths = np.asarray(lengths, dtype=np.float64)[:, None]
    dense = peaks / widths > held / width
    both, room = peaks + held, widths + width
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = peaks * np.log(peaks / widths * room / both)
        ratio += np.where(held > 0, held * np.log(held / width * room / both), 0.0)
    result: Floats = np.where(dense, ratio, 0.0).max(axis=0)
    return result
