"""What caches of several sizes would answer, with what the sample leaves open. Pure.

The range of a share has two parts: blocks, of which other ones could have been sampled (each of 8 groups of
blocks is simulated alone, in caches of an eighth), and time (12 stretches of the part that counts). Both are
variances of a ratio (W. G. Cochran, Sampling Techniques, 1977, ch. 6), and add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kit.core.text import counted
from kit.core.units import format_iec
from reports.size.arc import BELOW, DRAM, L2ARC
from reports.size.simulate import Counts, Simulated, groups_by_hash, groups_of, simulate, stretches_of
from reports.size.trace import GROUPS, STRETCHES, BlockTrace, CacheServer
from reports.statistics.student import t_critical

# With 95 % confidence.
_ALPHA = 0.05
# A miniature ARC of fewer blocks is no ARC, and a sample of fewer blocks or reads is none.
_FEWEST_BLOCKS, _FEWEST_READS = 64, 1000
# Where a cache was not full when counting began, it is not known what it had before: this part of all reads
# may depend on that.
_MOST_OPEN = 0.02
# Of the number of all reads in a sample: standard errors, by groups, that it may be from what is expected.
_MOST_MISSING = 2
_ARC_STEPS = (0.25, 0.5, 1, 2, 4, 8, 16)
_MOST_L2ARC = 8


@dataclass(frozen=True)
class EstimatedPart:
    """A part of 1 with its range of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Size:
    """What an ARC and an L2ARC of that many bytes answer: parts of all reads.

    `gain`: part of the reads that disks answer now; None for the sizes of now and where that is not known.
    `headers`: bytes of DRAM for headers of blocks that the L2ARC alone has. `unknown`: why there is no
    figure, "" where there is one; then `dram`, `l2arc` and `answered` (by both) are None.
    """

    arc: int
    l2arc: int
    dram: EstimatedPart | None
    l2: EstimatedPart | None
    answered: EstimatedPart | None
    gain: EstimatedPart | None
    headers: float
    unknown: str = ""


@dataclass(frozen=True)
class SmallBlocks:
    """Blocks of at most `limit` bytes: `seen` bytes of them were asked for; their part of disk reads."""

    limit: int
    seen: int
    of_disk_reads: EstimatedPart


@dataclass(frozen=True)
class Sizing:
    """The answer of `hsp size`. `arcs`: with the L2ARC of now, `l2arcs`: with the ARC of now, by size.

    `simulated_below`, `measured_below`: of the sampled reads, the part that disks answer now, in the
    simulation and on the server; `off`: their difference, by which all ranges are wider. None: not known.
    `asked`: whether somebody asked for these sizes. `small`: what special vdevs could have.
    """

    trace: BlockTrace
    server: CacheServer
    now: Size
    arcs: tuple[Size, ...]
    l2arcs: tuple[Size, ...]
    off: float | None
    simulated_below: float
    measured_below: float | None
    arc_knee: Size | None
    l2arc_knee: Size | None
    asked: bool
    small: tuple[SmallBlocks, ...] = ()

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (*self.arcs, *self.l2arcs)


def sizing_of(
    trace: BlockTrace, server: CacheServer, arcs: Sequence[int] = (), l2arcs: Sequence[int] = ()
) -> Sizing:
    """`arcs`, `l2arcs`: sizes that were asked for, in bytes; without any, some around what there is."""
    trace = trace.sampled_down()
    asked = bool(arcs or l2arcs)
    if not asked:
        sizes = (int(server.arc * step) for step in _ARC_STEPS)
        arcs = [size for size in sizes if size >= min(server.least_arc, server.arc)]
        l2arcs = _l2arc_steps(trace, server)
    estimates = _Estimates(trace, server)
    of_arc = [estimates.of(size, server.l2arc) for size in sorted({*arcs})]
    of_l2arc = [estimates.of(server.arc, size) for size in sorted({*l2arcs})]
    now = estimates.of(server.arc, server.l2arc)
    # A curve of L2ARC sizes begins where there is none.
    none = [estimates.of(server.arc, 0)] if of_l2arc and server.l2arc == 0 else []
    knees = (
        knee([(each.arc, each) for each in of_arc]),
        knee([(each.l2arc, each) for each in none + of_l2arc]),
    )
    below = estimates.off, estimates.simulated_below, estimates.measured_below
    return Sizing(
        trace, server, now, tuple(of_arc), tuple(of_l2arc), *below, *knees, asked, estimates.small()
    )


def _l2arc_steps(trace: BlockTrace, server: CacheServer) -> list[int]:
    """Powers of two of GiB, or of what is there, up to all blocks that were asked for and once more."""
    step = server.l2arc or server.arc
    most = max(trace.seen_bytes, step)
    sizes = [step << power for power in range(40) if step << power < 2 * most]
    return sizes[-_MOST_L2ARC:]


class _Estimates:
    """Simulations of one trace. `off`: as of Sizing."""

    def __init__(self, trace: BlockTrace, server: CacheServer) -> None:
        self.trace, self.server = trace, server
        # Where all blocks are in the sample, no other ones could have been.
        self._groups = groups_of(trace) if trace.one_in > 1 else None
        self._done: dict[tuple[int, int], Size] = {}
        self.now = simulate(trace, server, server.arc, server.l2arc, self._groups)
        self.simulated_below = float(self.now.total[BELOW] / max(self.now.total.sum(), 1))
        self.measured_below = self._measured()
        self.off = None if self.measured_below is None else abs(self.simulated_below - self.measured_below)
        self._reads = float(trace.counts.sum())
        self._group_reads = self.now.groups.sum(axis=1)
        self._all_reads = None if trace.all_reads is None else trace.all_reads / trace.one_in

    def of(self, arc: int, l2arc: int) -> Size:
        if (arc, l2arc) not in self._done:
            self._done[arc, l2arc] = self._of(arc, l2arc)
        return self._done[arc, l2arc]

    def _of(self, arc: int, l2arc: int) -> Size:
        is_now = (arc, l2arc) == (self.server.arc, self.server.l2arc)
        made = self.now if is_now else simulate(self.trace, self.server, arc, l2arc, self._groups)
        found = [made]
        if made.starved:
            # Whether memory was ever short decides at which end the feed begins. It is not recorded.
            found.append(simulate(self.trace, self.server, arc, l2arc, self._groups, warm=True))
        if unknown := self._unknown(made, arc, l2arc):
            return Size(arc, l2arc, None, None, None, None, made.headers, unknown)
        below = _widest([self._part(each, BELOW) for each in found])
        answered = EstimatedPart(1 - below.value, 1 - below.high, 1 - below.low)
        l2 = _widest([self._part(each, L2ARC) for each in found])
        dram = _widest([self._part(each, DRAM) for each in found])
        gain = None if is_now else self._gain(found)
        return Size(arc, l2arc, dram, l2, answered, gain, made.headers)

    def _unknown(self, made: Simulated, arc: int, l2arc: int) -> str:
        """Why the sample cannot judge a size; "" if it can."""
        if self._reads < _FEWEST_READS:
            return f"the sample has only {self._reads:.0f} reads in the part that counts"
        if self._groups and self.trace.bytes_of.size < _FEWEST_BLOCKS:
            return f"the sample has only {counted(self.trace.bytes_of.size, 'block')}"
        if made.blocks < _FEWEST_BLOCKS:
            return f"it has room for only {made.blocks:.0f} blocks of the sample"
        if made.settled or made.total[BELOW] <= _MOST_OPEN * self._whole(made)[0]:
            return ""
        if self.trace.seen_bytes < arc + l2arc:
            return f"the sample has asked for only {format_iec(self.trace.seen_bytes)}"
        return "the first half of the sample does not fill it"

    def _whole(self, made: Simulated) -> tuple[float, Counts, Counts]:
        """All reads as they are in the sample: their number, that of each stretch and of each group.

        A sample with or without the block that is asked for most is no picture of all reads. So their number
        is known from elsewhere, where it is: counted, or from what the server says it answered from disks.
        """
        if self._all_reads is not None:
            total = self._all_reads
            return total, np.full(STRETCHES, total / STRETCHES), np.full(GROUPS, total / GROUPS)
        part, now = self.trace.measured_below, self.now
        if part and now.total[BELOW]:
            return now.total[BELOW] / part, now.stretches[:, BELOW] / part, now.groups[:, BELOW] / part
        return self._reads, made.stretches.sum(axis=1), made.groups.sum(axis=1)

    def _part(self, made: Simulated, tier: int) -> EstimatedPart:
        """The part of all reads that a tier answers."""
        _, stretches, groups = self._whole(made)
        counts = (made.stretches, made.groups)
        if tier == DRAM:
            # What neither of the others has: a block that is asked for most and not sampled is in DRAM.
            parts = stretches - counts[0][:, 1:].sum(axis=1), groups - counts[1][:, 1:].sum(axis=1)
        else:
            parts = counts[0][:, tier], counts[1][:, tier]
        value, reach = self._ratio(parts, (stretches, groups))
        open_ = value if tier == BELOW and not made.settled else 0.0
        return _estimate(value, reach + (self.off or 0), open_)

    def _gain(self, found: Sequence[Simulated]) -> EstimatedPart | None:
        """Of the reads that disks answer now, the part that they do not answer with these sizes."""
        now = self.now
        if not now.total[BELOW] or self._unknown(now, self.server.arc, self.server.l2arc):
            return None
        # The server's disagreement is one of all reads.
        off = (self.off or 0) * self._whole(now)[0] / now.total[BELOW]
        whole = now.stretches[:, BELOW], now.groups[:, BELOW]
        made = []
        for each in found:
            stretches, groups = now.stretches - each.stretches, now.groups - each.groups
            value, reach = self._ratio((stretches[:, BELOW], groups[:, BELOW]), whole)
            made.append(_estimate(value, reach + off, least=-math.inf))
        return _widest(made)

    def small(self) -> tuple[SmallBlocks, ...]:
        """By limits that are powers of two, from the smallest blocks to those below the largest."""
        trace, now = self.trace, self.now
        found: list[SmallBlocks] = []
        if not now.total[BELOW] or self._unknown(now, self.server.arc, self.server.l2arc):
            return ()
        at_disks = trace.counts.nonzero()[0][now.tiers == BELOW]
        blocks = trace.block[at_disks]
        group = groups_by_hash(trace)[blocks]
        stretch = stretches_of(trace.place[at_disks])
        smallest, largest = int(trace.bytes_of.min()), int(trace.bytes_of.max())

        def by_both(chosen: npt.NDArray[np.bool_]) -> tuple[Counts, Counts]:
            """By stretch and by group."""
            reads = chosen.astype(float)
            by = ((stretch, STRETCHES), (group, GROUPS))
            first, second = (np.bincount(of, reads, number).astype(np.float64) for of, number in by)
            return first, second

        wholes = by_both(np.ones(blocks.size, bool))
        for power in range((smallest - 1).bit_length(), (largest - 1).bit_length()):
            value, reach = self._ratio(by_both(trace.bytes_of[blocks] <= 1 << power), wholes)
            seen = int(trace.bytes_of[trace.bytes_of <= 1 << power].sum() * trace.one_in)
            if not found or seen != found[-1].seen:
                found.append(SmallBlocks(1 << power, seen, _estimate(value, reach)))
        return tuple(found)

    def _ratio(self, parts: tuple[Counts, Counts], wholes: tuple[Counts, Counts]) -> tuple[float, float]:
        """A ratio of sums, and half of its range; both by stretches and by groups.

        Where the number of all reads is known, the sums are corrected for the sample's share of them, as far
        as groups with more reads have more of a sum (Cochran, ch. 7: the regression estimate).
        """
        part, whole = float(parts[0].sum()), float(wholes[0].sum())
        variance, freedom = _variance(parts[0] - part / whole * wholes[0], whole, 1), STRETCHES - 1
        if self._groups:
            reads = self._group_reads - self._group_reads.mean()
            missing = 0.0 if self._all_reads is None else self._all_reads - self._reads
            # More than groups differ by: the sample lacks, or has, a block that no other one is like.
            known = 0 < abs(missing) <= _MOST_MISSING * math.sqrt(float(_variance(reads, 1, 1)))
            slopes = [float(reads @ each[1] / (reads @ reads)) if known else 0.0 for each in (parts, wholes)]
            part, whole = part + slopes[0] * missing, whole + slopes[1] * missing
            left = parts[1] - part / whole * wholes[1]
            # What the slope itself leaves open grows with what is corrected.
            wider = 1.0
            if known:
                left = left - float(reads @ left / (reads @ reads)) * reads
                wider += missing**2 / (GROUPS * float(reads @ reads))
            left_out = 1 - 1 / self.trace.one_in
            variance += _variance(left - left.mean(), float(wholes[1].sum()), 1 + known) * left_out * wider
            freedom = GROUPS - 1 - known
        return part / whole, t_critical(_ALPHA, freedom) * math.sqrt(variance)

    def _measured(self) -> float | None:
        """The part of the sampled reads that disks answered on the server."""
        measured = self.trace.measured
        told = measured[self.trace.counts] if measured is not None else np.array([], dtype=np.int8)
        told = told[told >= 0]
        return float((told == BELOW).mean()) if told.size else None


def _variance(left: Counts, whole: float, fitted: int) -> float:
    """Of a ratio of sums, from what each part of them has more than its share. `fitted`: numbers."""
    return float((left**2).sum() * left.size / (left.size - fitted) / whole**2)


def _estimate(value: float, reach: float, open_: float = 0.0, least: float = 0.0) -> EstimatedPart:
    return EstimatedPart(value, max(value - reach - open_, least), min(value + reach, 1.0))


def _widest(found: Sequence[EstimatedPart]) -> EstimatedPart:
    """The first, with the range of all."""
    return EstimatedPart(found[0].value, min(each.low for each in found), max(each.high for each in found))


def knee(sizes: Sequence[tuple[int, Size]]) -> Size | None:
    """Where a curve bends most: farthest above the line between its ends; None where that may be by chance.

    V. Satopää et al.: Finding a "Kneedle" in a Haystack. ICDCS 2011.
    """
    known = list(_known(sizes))
    if len(known) < 3:
        return None
    (first, start), (last, end) = known[0], known[-1]
    best: tuple[float, Size] | None = None
    for size, each in known[1:-1]:
        assert each.answered and start.answered and end.answered, "only known ones are here"
        part = (size - first) / (last - first)
        line = start.answered.value + part * (end.answered.value - start.answered.value)
        above = each.answered.value - line
        if above > (each.answered.high - each.answered.low) / 2 and (best is None or above > best[0]):
            best = above, each
    return best[1] if best else None


def _known(sizes: Sequence[tuple[int, Size]]) -> Iterator[tuple[int, Size]]:
    yield from ((size, each) for size, each in sizes if each.answered)
