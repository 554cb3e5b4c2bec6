"""What caches of several sizes would answer, with what the sample leaves open. Pure.

The range of a share has two parts: blocks, of which other ones could have been sampled (each of 8 groups of
blocks is simulated alone, in caches of an eighth), and time (12 stretches of the part that counts). Both are
variances of a ratio (W. G. Cochran, Sampling Techniques, 1977, ch. 6), and add up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kit.core.text import counted
from kit.core.units import format_binary_bytes, format_iec
from kit.store.printed.sizing import CacheSize, EstimatedPart, SmallBlocks, SpecialSize
from reports.size.arc import BELOW, DRAM, L2ARC
from reports.size.reads_in_turn import in_turn, most_read
from reports.size.simulate import Counts, Simulated, groups_by_hash, groups_of, simulate, stretches_of
from reports.size.trace import GROUPS, STRETCHES, BlockTrace, CacheServer, Integers
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
# Of the reads.
_MOST_IN_TURN = 0.05
_ARC_STEPS = (0.25, 0.5, 1, 2, 4, 8, 16)
_MOST_L2ARC = 8
# special_small_blocks is 1 MiB at most, as a power of two (zfsprops(7)).
_MOST_SMALL = 20


@dataclass(frozen=True)
class Sizing:
    """The answer of `hsp size`. `arcs`: with the L2ARC of now, `l2arcs`: with the ARC of now, by size.

    `simulated_below`, `measured_below`: of the sampled reads, the part that disks answer now, in the
    simulation and on the server; `off`: their difference, by which all ranges are wider. None: not known.
    `asked`: whether somebody asked for these sizes. `in_turn`: blocks are read in turn, so that ranges are
    wide. `small`: what special vdevs could have, by special_small_blocks.
    """

    trace: BlockTrace
    server: CacheServer
    now: CacheSize
    arcs: tuple[CacheSize, ...]
    l2arcs: tuple[CacheSize, ...]
    off: float | None
    simulated_below: float
    measured_below: float | None
    arc_knee: CacheSize | None
    l2arc_knee: CacheSize | None
    asked: bool
    in_turn: bool
    small: tuple[SmallBlocks, ...] = ()
    specials: tuple[SpecialSize, ...] = ()

    @property
    def sizes(self) -> tuple[CacheSize, ...]:
        return (*self.arcs, *self.l2arcs)


def sizing_of(
    trace: BlockTrace,
    server: CacheServer,
    arcs: Sequence[int] = (),
    l2arcs: Sequence[int] = (),
    specials: Sequence[int] = (),
) -> Sizing:
    """`arcs`, `l2arcs`, `specials`: sizes that were asked for, in bytes; without any, some around now's."""
    trace = trace.sampled_down()
    asked = bool(arcs or l2arcs or specials)
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
        knee([(each.arc_bytes, each) for each in of_arc]),
        knee([(each.l2arc_bytes, each) for each in none + of_l2arc]),
    )
    below = estimates.off, estimates.simulated_below, estimates.measured_below
    small, why = estimates.small()
    of_special = tuple(special_of(size, small, why) for size in sorted({*specials}))
    said = asked, estimates.in_turn
    return Sizing(
        trace, server, now, tuple(of_arc), tuple(of_l2arc), *below, *knees, *said, small, of_special
    )


def special_of(size: int, small: Sequence[SmallBlocks], why: str) -> SpecialSize:
    """The largest blocks whose seen ones have room for sure. `why`: no small blocks are known."""
    fitting = [each for each in small if each.vdev_bytes.high <= size]
    if fitting or not small:
        return SpecialSize(special_bytes=size, small=fitting[-1] if fitting else None, unknown=why)
    least = format_iec(small[0].vdev_bytes.high)
    why = f"blocks up to {format_binary_bytes(small[0].limit_bytes)} that were asked for may need {least}"
    return SpecialSize(special_bytes=size, unknown=why)


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
        self.of = functools.cache(self._of)
        self.now = simulate(trace, server, server.arc, server.l2arc, self._groups)
        self.simulated_below = float(self.now.total[BELOW] / max(self.now.total.sum(), 1))
        self.measured_below = self._measured()
        self.in_turn = in_turn(trace) > _MOST_IN_TURN
        self.off = None if self.measured_below is None else abs(self.simulated_below - self.measured_below)
        self._reads = float(trace.counts.sum())
        self._group_reads = self.now.groups.sum(axis=1)
        self._all_reads = None if trace.all_reads is None else trace.all_reads / trace.one_in

    def _of(self, arc: int, l2arc: int) -> CacheSize:
        is_now = (arc, l2arc) == (self.server.arc, self.server.l2arc)
        made = self.now if is_now else simulate(self.trace, self.server, arc, l2arc, self._groups)
        found = [made]
        if made.starved:
            # Whether memory was ever short decides at which end the feed begins. It is not recorded.
            found.append(simulate(self.trace, self.server, arc, l2arc, self._groups, warm=True))
        headers = round(made.headers)
        if unknown := self._unknown(made, arc, l2arc):
            return CacheSize(arc_bytes=arc, l2arc_bytes=l2arc, header_bytes=headers, unknown=unknown)
        dram, device, best = self._if_kept(made, arc, l2arc)
        below = _widest([*(self._part(each, BELOW) for each in found), *best])
        return CacheSize(
            arc_bytes=arc, l2arc_bytes=l2arc, header_bytes=headers,
            dram=_widest([*(self._part(each, DRAM) for each in found), *dram]),
            l2arc=_widest([*(self._part(each, L2ARC) for each in found), *device]),
            answered=EstimatedPart(value=1 - below.value, low=1 - below.high, high=1 - below.low),
            of_disk_reads_now=None if is_now else self._gain(found, best),
        )  # fmt: skip

    def _if_kept(self, made: Simulated, arc: int, l2arc: int) -> tuple[list[EstimatedPart], ...]:
        """DRAM, L2ARC and what is below, if the caches kept the blocks that are read most; mostly nothing.

        Of blocks that are read in turn, more of them than it has room for, an ARC answers none, or, if it had
        them among its frequent ones before, many: what it keeps depends on what came before the sample. There
        ranges have both.
        """
        if not self.in_turn or not made.total[BELOW]:
            return [], [], []
        room = max(arc - self.server.overhead(arc, l2arc), 0)
        kept = most_read(self.trace, room)
        both = most_read(self.trace, room + self.server.device(l2arc))
        return tuple(
            [EstimatedPart(value=part, low=part, high=part)] for part in (kept, both - kept, 1 - both)
        )

    def _unknown(self, made: Simulated, arc: int, l2arc: int) -> str:
        """Why the sample cannot judge a size; "" if it can."""
        if self._reads < _FEWEST_READS:
            return f"the sample has only {counted(round(self._reads), 'read')} in the part that counts"
        if self._groups and self.trace.bytes_of.size < _FEWEST_BLOCKS:
            return f"the sample has only {counted(self.trace.bytes_of.size, 'block')}"
        if made.blocks < _FEWEST_BLOCKS:
            return f"it has room for only {counted(round(made.blocks), 'block')} of the sample"
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

    def _gain(self, found: Sequence[Simulated], best: Sequence[EstimatedPart]) -> EstimatedPart | None:
        """Of the reads that disks answer now, the part that they do not answer with these sizes.

        `best`: the part of all reads that they answer at least.
        """
        now = self.now
        if not now.total[BELOW] or self._unknown(now, self.server.arc, self.server.l2arc):
            return None
        off = self._off_of_below()
        whole = now.stretches[:, BELOW], now.groups[:, BELOW]
        made = []
        for each in found:
            stretches, groups = now.stretches - each.stretches, now.groups - each.groups
            value, reach = self._ratio((stretches[:, BELOW], groups[:, BELOW]), whole)
            made.append(_estimate(value, reach + off, least=-math.inf))
        gains = (1 - each.value / self.simulated_below for each in best)
        return _widest([*made, *(EstimatedPart(value=each, low=each, high=each) for each in gains)])

    def _off_of_below(self) -> float:
        """The server's disagreement is one of all reads: as a part of those that disks answer."""
        return float((self.off or 0) * self._whole(self.now)[0] / self.now.total[BELOW])

    def small(self) -> tuple[tuple[SmallBlocks, ...], str]:
        """By limits that are powers of two, from the smallest blocks to the largest; why there are none."""
        trace, now = self.trace, self.now
        if unknown := self._unknown(now, self.server.arc, self.server.l2arc) or self._no_small():
            return (), unknown
        at_disks = trace.counts.nonzero()[0][now.tiers == BELOW]
        blocks = trace.block[at_disks]
        group, stretch = groups_by_hash(trace)[blocks], stretches_of(trace.place[at_disks])
        allocated = np.array([self.server.allocated(int(each)) for each in trace.bytes_of])

        def by_both(chosen: npt.NDArray[np.bool_]) -> tuple[Counts, Counts]:
            """By stretch and by group."""
            by = ((stretch, STRETCHES), (group, GROUPS))
            first, second = (np.bincount(of, chosen, number).astype(np.float64) for of, number in by)
            return first, second

        wholes = by_both(np.ones(blocks.size, bool))
        found: dict[int, SmallBlocks] = {}
        smallest, largest = int(allocated.min()), int(allocated.max())
        for power in range((smallest - 1).bit_length(), min((largest - 1).bit_length(), _MOST_SMALL) + 1):
            kept = allocated[allocated <= 1 << power]
            # A limit that adds no blocks says nothing new.
            if kept.size not in found and (kept.size >= _FEWEST_BLOCKS or not self._groups):
                value, reach = self._ratio(by_both(allocated[blocks] <= 1 << power), wholes)
                room = _room(kept, trace.one_in)
                vdev = {name: self.server.special(getattr(room, name)) for name in ("value", "low", "high")}
                found[kept.size] = SmallBlocks(
                    limit_bytes=1 << power, room_bytes=room, vdev_bytes=EstimatedPart(**vdev),
                    of_disk_reads_now=_estimate(value, reach + self._off_of_below()),
                )  # fmt: skip
        return tuple(found.values()), "" if found else "the sample has too few small blocks"

    def _no_small(self) -> str:
        if self.trace.has_special:
            return "special vdevs answer reads of this server now"
        return "" if self.now.total[BELOW] else "disks answer no reads of this sample now"

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


def _room(kept: Integers, one_in: float) -> EstimatedPart:
    """Bytes of all blocks of which `kept` are in a sample where each is by chance (Horvitz and Thompson)."""
    value = float(kept.sum() * one_in)
    reach = 0.0
    if one_in > 1:
        error = math.sqrt(one_in * (one_in - 1) * float((kept.astype(float) ** 2).sum()))
        reach = t_critical(_ALPHA, kept.size - 1) * error
    return EstimatedPart(value=value, low=max(value - reach, float(kept.sum())), high=value + reach)


def _estimate(value: float, reach: float, open_: float = 0.0, least: float = 0.0) -> EstimatedPart:
    value = min(max(value, least), 1.0)
    low, high = max(value - reach - open_, least), min(value + reach, 1.0)
    return EstimatedPart(value=value, low=low, high=high)


def _widest(found: Sequence[EstimatedPart]) -> EstimatedPart:
    """The first, with the range of all."""
    low, high = min(each.low for each in found), max(each.high for each in found)
    return EstimatedPart(value=found[0].value, low=low, high=high)


def knee(sizes: Sequence[tuple[int, CacheSize]]) -> CacheSize | None:
    """Where a curve bends most: farthest above the line between its ends; None where that may be by chance.

    V. Satopää et al.: Finding a "Kneedle" in a Haystack. ICDCS 2011.
    """
    known = [(size, each, each.answered) for size, each in sizes if each.answered]
    if len(known) < 3:
        return None
    (first, _, start), (last, _, end) = known[0], known[-1]
    bends = []
    for size, each, answered in known[1:-1]:
        line = start.value + (size - first) / (last - first) * (end.value - start.value)
        above = answered.value - line
        if above > (answered.high - answered.low) / 2:
            bends.append((above, each))
    return max(bends, key=lambda bend: bend[0], default=(0, None))[1]
