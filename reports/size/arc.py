"""The ARC of OpenZFS as a simulation: lists MRU and MFU, their ghosts, and the L2ARC below. Pure.

A miniature simulation: with one in k of all blocks in the trace, an ARC and an L2ARC of a k-th of the size
answer the same share (Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations",
USENIX ATC 2017). No prefetch is simulated, and metadata are a constant part of the ARC.

Sources: OpenZFS module/zfs/arc.c (arc_access, arc_evict, arc_evict_adj, arc_evict_hdr), tags zfs-2.2.11 to
zfs-2.4.4; of zfs-2.1.16 also arc_adapt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.size.l2arc import L2arc

# Where a block is. The numbers of ghosts are those of their lists and 2.
NOWHERE, MRU, MFU, MRU_GHOST, MFU_GHOST, L2_ONLY = range(6)
# What answered a read.
DRAM, L2ARC, BELOW = range(3)
# A second read within this time is no second use (ARC_MINTIME, hz >> 4).
_MINTIME_NS = 1_000_000_000 // 16
# From one call of arc_evict to the next the balance of both lists moves by this part of the ghosts at most.
_MOST_HITS, _KEPT_HITS = 16, 32
# Of 2.1: the least part of the ARC for MRU (arc_p_min_shift), and how strongly a ghost hit counts.
_LEAST_MRU_SHIFT, _MOST_MULTIPLE = 4, 10


@dataclass(frozen=True)
class Costs:
    """What blocks cost, in bytes. `data`: of each block, in whole pages, both in the ARC and in the L2ARC.

    `header`: of a block in the ARC or one of its ghosts; `l2_header`: of one that the L2ARC alone has.
    `ghost_size`: what a ghost counts as, before rounding. `to_mru`: a block that the L2ARC alone has goes to
    MRU when it is read, from 2.2 on; before that to MFU.
    """

    data: Sequence[int]
    header: int
    l2_header: int
    to_mru: bool = True


class Arc:
    """The ARC of 2.2 and later: ghost hits move the balance of MRU and MFU (arc_evict_adj).

    `limit`: its size in bytes, of which `overhead` are metadata and dbufs.
    """

    def __init__(self, costs: Costs, limit: float, overhead: float, below: L2arc | None = None) -> None:
        self.costs, self.limit, self.overhead, self.below = costs, limit, overhead, below
        self.state = [NOWHERE] * len(costs.data)
        self.lists: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(5)]
        # Bytes of data in each list, or of what ghosts had.
        self.held = [0] * 5
        self.l2_only = 0
        # All of it, as arcstats has it; and what a block costs in each state beside its data.
        self.size = overhead
        self._beside = (0, *[costs.header] * 4, costs.l2_header)
        self.full = False
        self._accessed_ns = [0] * len(costs.data)
        # The part of data for MRU.
        self._part = 0.5
        self._ghost_hits = [0, 0]
        self._ghosts_before = 0.0

    def read(self, block: int, now_ns: int) -> int:
        """What answers: DRAM, L2ARC or BELOW."""
        state = self.state[block]
        if state == MFU:
            self.lists[MFU].move_to_end(block)
            if self.below:
                self.below.placed(block, MFU)
            return DRAM
        if state == MRU:
            if now_ns - self._accessed_ns[block] > _MINTIME_NS:
                self._move(block, MRU, MFU)
                self._accessed_ns[block] = now_ns
            else:
                self.lists[MRU].move_to_end(block)
                if self.below:
                    self.below.placed(block, MRU)
            return DRAM
        from_l2 = self.below is not None and self.below.copy[block] != 0
        self._accessed_ns[block] = now_ns
        if state in (MRU_GHOST, MFU_GHOST):
            self._ghost_hit(state, self.costs.data[block])
            self._move(block, state, MFU)
        elif state == L2_ONLY:
            self._move(block, state, MRU if self.costs.to_mru else MFU)
        else:
            self._move(block, NOWHERE, MRU)
        if self.size > self.limit:
            self._evict()
        return L2ARC if from_l2 else BELOW

    def write(self, block: int, now_ns: int) -> None:
        """A block gets other content: it is new, and in MRU."""
        if self.below:
            self.below.changed(block)
        self._move(block, self.state[block], MRU)
        self._accessed_ns[block] = now_ns
        if self.size > self.limit:
            self._evict()

    def forget(self, block: int) -> None:
        """The L2ARC has a block no longer."""
        if self.state[block] == L2_ONLY:
            self._move(block, L2_ONLY, NOWHERE)

    def _move(self, block: int, old: int, new: int) -> None:
        """From one list to the newest end of another, or the same."""
        size, below = self.costs.data[block], self.below
        self.size += self._beside[new] - self._beside[old]
        if 0 < old < L2_ONLY:
            del self.lists[old][block]
            self.held[old] -= size
            if old <= MFU:
                self.size -= size
                if below:
                    below.left(block, old)
        if 0 < new < L2_ONLY:
            self.lists[new][block] = None
            self.held[new] += size
            if new <= MFU:
                self.size += size
                if below:
                    below.placed(block, new)
        self.l2_only += (new == L2_ONLY) - (old == L2_ONLY)
        self.state[block] = new

    def _shrink(self, state: int, wanted: float) -> int:
        """Evict the oldest of a list until `wanted` bytes are free (arc_evict_impl). Returns how many."""
        freed, blocks, data, below = 0, self.lists[state], self.costs.data, self.below
        while freed < wanted and blocks:
            block = next(iter(blocks))
            freed += data[block]
            if state > MFU:
                self._move(block, state, L2_ONLY if below and below.copy[block] else NOWHERE)
            else:
                if below:
                    below.evicting(block)
                self._move(block, state, state + 2)
        return freed

    def _ghost_hit(self, state: int, size: int) -> None:
        self._ghost_hits[state - MRU_GHOST] += size

    def _evict(self) -> None:
        """arc_evict: MRU down to its part, the rest from MFU; ghosts to half of what the others have."""
        self.full = True
        held = self.held
        if any(self._ghost_hits):
            self._part = balance(self._part, self._ghosts_before, *self._ghost_hits)
            self._ghost_hits = [0, 0]
        over = self.size - self.limit
        wanted = (held[MRU] + held[MFU] - over) * self._part
        if (surplus := held[MRU] - wanted) > 0:
            over -= self._shrink(MRU, min(over, surplus))
        if over > 0:
            self._shrink(MFU, over)
        of_mru, of_mfu = (self.overhead + held[MFU]) / 2, (self.overhead + held[MRU]) / 2
        if held[MRU_GHOST] > of_mru:
            self._shrink(MRU_GHOST, held[MRU_GHOST] - of_mru)
        if held[MFU_GHOST] > of_mfu:
            self._shrink(MFU_GHOST, held[MFU_GHOST] - of_mfu)
        self._ghosts_before = of_mru + of_mfu


class OldArc(Arc):
    """The ARC of 2.1: a ghost hit moves the target size of MRU at once (arc_p, arc_adapt)."""

    def _ghost_hit(self, state: int, size: int) -> None:
        ghosts, least = self.held[state], 2**-_LEAST_MRU_SHIFT
        other = self.held[MRU_GHOST + MFU_GHOST - state]
        step = size * min(max(1, other // max(ghosts, 1)), _MOST_MULTIPLE) / self.limit
        target = self._part + (step if state == MRU_GHOST else -step)
        self._part = min(max(target, least), 1 - least)

    def _evict(self) -> None:
        self.full = True
        held, limit = self.held, self.limit
        # All that is not data counts for MRU there (arc_meta_used).
        beside = self.size - held[MRU] - held[MFU]
        over = self.size - limit
        over -= self._shrink(MRU, min(over, held[MRU] + beside - self._part * limit))
        self._shrink(MFU, over)
        if self.size > limit:
            self._shrink(MRU, self.size - limit)
        self._shrink(MRU_GHOST, held[MRU] + held[MRU_GHOST] - limit)
        self._shrink(MFU_GHOST, held[MRU_GHOST] + held[MFU_GHOST] - limit)


def balance(part: float, ghosts: float, up: float, down: float) -> float:
    """The part of MRU after ghost hits of `up` bytes in its ghosts, and `down` in those of MFU.

    arc_evict_adj, in fractions; `ghosts`: bytes that both lists of ghosts may have.
    """
    if ghosts < _KEPT_HITS or not up + down:
        return part
    if up + down >= ghosts / _MOST_HITS:
        scale = (up + down) / (ghosts / _KEPT_HITS)
        up, down = up / scale, down / scale
    rest = 1 - part
    # Near an end the balance moves on less.
    if part >= 4 * rest:
        up /= max(part / (2 * rest + 2**-32) // 1, 1)
    if rest >= 4 * part:
        down /= max(rest / (2 * part + 2**-32) // 1, 1)
    return min(max(part + up / ghosts - down / ghosts, 0.0), 1.0)
