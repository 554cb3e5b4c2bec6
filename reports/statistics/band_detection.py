"""Bands: the separate modes of one latency histogram, found without knowing what answered.

A band is a stretch of latency between two valleys of the histogram (reports.statistics.modes). All from
counts per bin; latencies in nanoseconds. How far two neighbours overlap is read off the depth of the valley
between them: for two lognormal bands that cross at a border where the density is d and whose peaks are p,
each contributes d/2 there, so the border is z = sqrt(2 ln(2 p/d)) standard deviations from the peak and
the upper tail of the normal distribution beyond z is the share of that band's I/Os on the wrong side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from kit.core.units import commas, format_latency, format_percent
from reports.statistics import modes
from reports.statistics.proportion import wilson
from reports.statistics.quantiles import Bins, Floats, shortest_range_ns

# The stated limits.
OVERLAP_LIMIT = 0.05  # of a band's I/Os on the wrong side of its border
LEAST_SHARE = 0.005  # of the I/Os: what holds less is the tail of its neighbour
LEAST_IOS = 30
# A valley that is hardly one (its floor above this part of the lower peak) is the roughness of one mode.
_RIPPLE = 0.85
# Below this depth of the valley its own formula does; above it two bands are fitted.
_CLEAR = 0.05
_ROUNDS = 40
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.975)
# The density of a normal distribution at its peak over the mean density of its shortest half.
_PEAK_OVER_HALF = 1.0761


@dataclass(frozen=True)
class Band:
    """I/Os with from_ns <= latency < to_ns (whole bins). `modes_ns` has more than one where modes overlap.

    `share_interval` is a 95 % confidence interval: counting error of independent I/Os (Wilson 1927), plus
    what overlaps the borders. `overlap`: the largest share that may be on the wrong side of a border, its own
    or the neighbour's.
    """

    from_ns: int
    to_ns: int
    count: int
    share: float
    share_interval: tuple[float, float]
    range_ns: tuple[int, int]
    modes_ns: tuple[int, ...]
    overlap: float


@dataclass(frozen=True)
class Bands:
    """The bands of one histogram, ascending. `reason` says why it is not (wholly) separable, else "" ."""

    bands: tuple[Band, ...]
    borders_ns: tuple[int, ...]
    reason: str

    @property
    def separable(self) -> bool:
        """Whether there are two bands or more and none of them hides a second mode."""
        return not self.reason


@dataclass
class _Part:
    """Steps [first, last) of a density; `modes` in steps."""

    first: int
    last: int
    modes: list[float]
    worst: float = 0.0  # overlap of modes that were put together


def find(bins: Bins, tick_ns: float | None = None) -> Bands:
    """The bands of a histogram of (lo_ns, hi_ns, count), ascending, at least one I/O.

    `tick_ns`: of the clock that measured the latencies; None: not known, any that the counts do not rule out.
    Raises ValueError if there is no I/O, bins overlap, or an edge is negative.
    """
    used = [(int(lo), int(hi), int(count)) for lo, hi, count in bins if count]
    if not used or any(lo < 0 or hi <= lo or count < 0 for lo, hi, count in used):
        raise ValueError("no I/O, or an impossible bin")
    if any(before[1] > after[0] for before, after in itertools.pairwise(used)):
        raise ValueError("the bins overlap")
    found = _found(used, tick_ns or 1.0)
    if tick_ns is None and len(found.bands) > 1:
        # What the teeth of a clock that cannot be ruled out look like is no proof of bands.
        others = (_found(used, each) for each in modes.possible_ticks_ns(used))
        found = min([found, *others], key=lambda each: len(each.bands))
    return found


def _found(used: Bins, tick_ns: float) -> Bands:
    total = sum(b[2] for b in used)
    shape = modes.density(modes.widened(used, tick_ns))
    least = max(3.0, LEAST_SHARE * total)
    valleys = modes.valleys(shape.counts, least) if total >= LEAST_IOS else []
    parts, borders = _parts(shape.counts, valleys)
    overlaps = _merge(shape.counts, parts, borders)
    edges = [_snapped(shape.at(b), used) for b in borders]
    _drop_empty(used, parts, edges, overlaps)
    return _bands(shape, used, parts, edges, overlaps, total)


def _parts(counts: Floats, valleys: Sequence[modes.Valley]) -> tuple[list[_Part], list[float]]:
    """The steps between the valleys, and a border in each valley."""
    ends = [0, *[int(v.middle) for v in valleys], len(counts)]
    tops = [_top(counts, a, b) for a, b in itertools.pairwise(ends)]
    borders = [
        modes.emptiest(counts, math.floor(left), math.ceil(right), v.width)
        for v, left, right in zip(valleys, tops[:-1], tops[1:], strict=True)
    ]
    # Two borders in one step, as wide cells may have them, would leave a part without a step.
    kept = {round(b): b for b in borders if 0 < round(b) < len(counts)}
    cuts, borders = [0, *kept, len(counts)], list(kept.values())
    return [_Part(a, b, [_top(counts, a, b)]) for a, b in itertools.pairwise(cuts)], borders


def _half(counts: Floats) -> tuple[int, int]:
    """First and last step (exclusive) of the shortest stretch that holds half of the I/Os."""
    total = np.concatenate([[0.0], np.cumsum(counts)])
    ends = np.searchsorted(total, total[:-1] + total[-1] / 2 - 1e-9)
    lengths = np.where(ends < len(total), ends - np.arange(len(counts)), len(total))
    first = int(np.argmin(lengths))
    return first, int(ends[first])


def _top(counts: Floats, first: int, last: int) -> float:
    """The step in the middle of the densest half of the I/Os in [first, last)."""
    low, high = _half(counts[first:last])
    return first + (low + high) / 2


def _merge(counts: Floats, parts: list[_Part], borders: list[float]) -> list[float]:
    """Put together, the worst first, what overlaps too much; changes both lists. Overlap per border."""
    while True:
        measured = [_overlap(counts, a, b, c) for a, b, c in zip(parts[:-1], parts[1:], borders, strict=True)]
        overlaps = [m[0] for m in measured]
        if not overlaps or max(overlaps) <= OVERLAP_LIMIT:
            return overlaps
        at = int(np.argmax(overlaps))
        left, right = parts[at], parts.pop(at + 1)
        borders.pop(at)
        if measured[at][1] > _RIPPLE:
            larger = max((left, right), key=lambda p: counts[p.first : p.last].sum())
            known, worst = larger.modes, max(left.worst, right.worst)
        else:
            known, worst = left.modes + right.modes, max(left.worst, right.worst, overlaps[at])
        parts[at] = _Part(left.first, right.last, known, worst)


def _overlap(counts: Floats, left: _Part, right: _Part, border: float) -> tuple[float, float]:
    """(share of a band on the wrong side of `border`, floor of the valley over the lower peak)."""
    halves, peaks = [], []
    for part in (left, right):
        held = counts[part.first : part.last]
        low, high = _half(held)
        halves.append(high - low)
        # The stretch is whole steps and may hold more than half.
        peaks.append(_PEAK_OVER_HALF * float(held[low:high].sum()) / (high - low))
    width = max(1, round(min(halves) / 2))
    first = min(max(round(border - width / 2), 0), len(counts) - width)
    floor = float(counts[first : first + width].sum()) / width
    depth = floor / min(peaks)
    if depth < _CLEAR:
        return 0.0 if floor <= 0 else 1 - _NORMAL.cdf(math.sqrt(2 * math.log(2 / depth))), depth
    return _fitted(counts, (left, right), halves, border), depth


def _fitted(counts: Floats, parts: tuple[_Part, _Part], halves: Sequence[int], border: float) -> float:
    """The larger share of a band on the wrong side of `border`, by a mixture of two lognormal bands.

    Expectation maximisation on the steps around the two (Dempster, Laird and Rubin, 1977), from their own
    middles and widths; further out is tail, which would only widen them.
    """
    centre = np.array([_top(counts, p.first, p.last) for p in parts])
    # Half of a normal distribution lies within 0.674 standard deviations.
    sigma = np.maximum(np.array(halves) / 1.349, 0.5)
    first = max(parts[0].first, math.floor(centre[0] - 4 * sigma[0]))
    last = min(parts[1].last, math.ceil(centre[1] + 4 * sigma[1]))
    held, x = counts[first:last], np.arange(first, last) + 0.5
    cut = int(np.clip(round(border) - first, 1, len(held) - 1))
    weight = np.maximum(np.array([held[:cut].sum(), held[cut:].sum()]), 1e-9)
    for _ in range(_ROUNDS):
        z = (x[None, :] - centre[:, None]) / sigma[:, None]
        each = weight[:, None] / sigma[:, None] * np.exp(-0.5 * z**2) + 1e-300
        mine = each / each.sum(axis=0) * held
        weight = np.maximum(mine.sum(axis=1), 1e-9)
        centre = (mine * x).sum(axis=1) / weight
        spread = (mine * (x[None, :] - centre[:, None]) ** 2).sum(axis=1) / weight
        sigma = np.sqrt(np.maximum(spread, 0.25))
    left = 1 - _NORMAL.cdf(float((border - centre[0]) / sigma[0]))
    right = _NORMAL.cdf(float((border - centre[1]) / sigma[1]))
    return max(left, right)


def _snapped(border_ns: float, used: Bins) -> int:
    """The border in ns, moved to the nearer edge of the bin that it would cut."""
    for lo, hi, _ in used:
        if lo < border_ns < hi:
            return lo if border_ns - lo < hi - border_ns else hi
    return round(border_ns)


def _drop_empty(used: Bins, parts: list[_Part], edges: list[int], overlaps: list[float]) -> None:
    """Take out borders that, moved to whole bins, have nothing on a side; changes all three lists."""
    at = 0
    while at < len(edges):
        below = edges[at - 1] if at else -1
        if any(below <= lo < edges[at] for lo, _, _ in used):
            at += 1
            continue
        edges.pop(at)
        overlaps.pop(at)
        parts[at : at + 2] = [_Part(parts[at].first, parts[at + 1].last, parts[at + 1].modes)]
    if edges and not any(lo >= edges[-1] for lo, _, _ in used):
        edges.pop()
        overlaps.pop()
        parts[-2:] = [_Part(parts[-2].first, parts[-1].last, parts[-2].modes)]


def _bands(
    shape: modes.Density,
    used: Bins,
    parts: Sequence[_Part],
    edges: Sequence[int],
    overlaps: Sequence[float],
    total: int,
) -> Bands:
    bounds = [used[0][0], *edges, used[-1][1]]
    held = [[b for b in used if low <= b[0] < high] for low, high in itertools.pairwise(bounds)]
    # Padded: the outermost bands have no border and no neighbour on one side.
    around = [0.0, *overlaps, 0.0]
    sizes = [0, *(sum(b[2] for b in mine) for mine in held), 0]
    made = []
    for n, (part, mine) in enumerate(zip(parts, held, strict=True)):
        below, size, above = sizes[n : n + 3]
        foreign = around[n] * below + around[n + 1] * above
        lost = (around[n] + around[n + 1]) * size
        share = size / total
        low, _ = wilson(max((size - foreign) / total, 0.0), total, _Z95)
        _, high = wilson(min((size + lost) / total, 1.0), total, _Z95)
        made.append(
            Band(
                from_ns=bounds[n],
                to_ns=bounds[n + 1],
                count=size,
                share=share,
                # Rounding alone could leave the share itself outside.
                share_interval=(min(low, share), max(high, share)),
                range_ns=shortest_range_ns(mine, (mine[0][0], mine[-1][1])),
                modes_ns=tuple(sorted(round(shape.at(m)) for m in part.modes)),
                overlap=max(around[n], around[n + 1], part.worst),
            )
        )
    return Bands(tuple(made), tuple(edges), _reason(made, parts, total))


def _reason(made: Sequence[Band], parts: Sequence[_Part], total: int) -> str:
    if total < LEAST_IOS:
        return f"{commas(total)} I/Os, at least {commas(LEAST_IOS)} are needed"
    for band, part in zip(made, parts, strict=True):
        if len(band.modes_ns) > 1:
            where = " and ".join(format_latency(m / 1e3) for m in band.modes_ns)
            return (
                f"modes at {where} overlap: about {format_percent(part.worst)} of a band would be on the "
                f"wrong side of a border, more than {format_percent(OVERLAP_LIMIT)}"
            )
    return "one mode" if len(made) == 1 else ""
