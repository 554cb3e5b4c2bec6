"""The L2ARC of OpenZFS as a simulation: a thread feeds it from the ARC's lists, in a ring. Pure.

Sources: OpenZFS module/zfs/arc.c (l2arc_feed_thread, l2arc_write_size, l2arc_write_buffers, l2arc_evict,
l2arc_write_interval, l2arc_hdr_limit_reached), module/zfs/multilist.c, tags zfs-2.1.16 to zfs-2.4.4.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from dataclasses import dataclass

from reports.size.arc import MFU, MRU, Arc

_NS = 10**9
# Data are fed compressed: the feed looks this much farther (L2ARC_HEADROOM_BOOST).
_HEADROOM_BOOST = 2
# Headers may have this part of the ARC (l2arc_meta_percent).
_MOST_HEADERS = 0.33
# More rounds of the feed than that are done together.
_MOST_ROUNDS = 50_000


@dataclass(frozen=True)
class Feed:
    """Tunables of the feed, and the number of sublists that an ARC list has there (multilist_create).

    `boost_bytes` more are written in a round, from the newest blocks on, as long as memory was never short
    (`arc_warm`). `has_times`: whether the trace has times. Without them, all that leaves the ARC is fed.
    """

    write_bytes: int
    boost_bytes: int = 0
    headroom: int = 8
    round_ns: int = _NS
    again_ns: int = _NS // 5
    feeds_again: bool = True
    mfu_only: bool = False
    sublists: int = 4
    has_times: bool = True


class L2arc:
    """A cache device of `size` bytes (without labels) below an ARC. The trace has one in `one_in` blocks.

    `wrapped`: the device was written to its end once. `missed`: blocks that left the ARC without a copy.
    """

    def __init__(self, feed: Feed, size: float, one_in: float, span_ns: int, warm: bool) -> None:
        self.feed, self.size, self.wrapped = feed, size, False
        self.missed = 0
        self.arc: Arc
        self.copy: list[int]
        least_ns = feed.again_ns if feed.feeds_again else feed.round_ns
        self._together = max(1, -(-span_ns // (least_ns * _MOST_ROUNDS)))
        written = feed.write_bytes + (0 if warm else feed.boost_bytes)
        self._write = min(written * self._together / one_in, size / 4)
        self._warm, self._credit, self._next_ns = warm, 0.0, 0
        self._headroom = 0.0
        if feed.headroom:
            self._headroom = written * self._together / one_in * feed.headroom * _HEADROOM_BOOST
        # With several rounds together the feed has seen all sublists.
        self._sublists = feed.sublists if self._together == 1 else 1
        self._random = random.Random(1)
        # Of MRU and MFU, by sublist: what has no copy, the oldest first.
        self._fresh = [[OrderedDict[int, None]() for _ in range(self._sublists)] for _ in range(MFU + 1)]
        self._ring: deque[tuple[float, int, int]] = deque()
        self._hand, self._serial = 0.0, 0
        # Bytes that ever became the newest of MRU and MFU, and how many they were when a block did.
        self._entered = [0] * (MFU + 1)
        self._stamp: list[int]

    def join(self, arc: Arc) -> None:
        """`arc` is above."""
        self.arc = arc
        self.copy, self._stamp = [0] * len(arc.state), [0] * len(arc.state)

    def placed(self, block: int, state: int) -> None:
        self._entered[state] += self.arc.costs.data[block]
        self._stamp[block] = self._entered[state]
        if not self.copy[block]:
            fresh = self._fresh[state][block % self._sublists]
            fresh[block] = None
            fresh.move_to_end(block)

    def left(self, block: int, state: int) -> None:
        self._fresh[state][block % self._sublists].pop(block, None)

    def evicting(self, block: int) -> None:
        if not self.copy[block]:
            if self.feed.has_times:
                self.missed += 1
            elif self.arc.state[block] == MFU or not self.feed.mfu_only:
                self._evict(self.arc.costs.data[block])
                self._store(block)

    def changed(self, block: int) -> None:
        if self.copy[block]:
            self.copy[block] = 0
            self.arc.forget(block)

    def until(self, now_ns: int) -> None:
        """All rounds of the feed up to this time."""
        while self.feed.has_times and self._next_ns <= now_ns:
            busy = self._round()
            again = busy and self.feed.feeds_again
            pause = self.feed.again_ns if again else self.feed.round_ns
            self._next_ns += self._together * pause

    def _round(self) -> bool:
        """A round of the feed. Whether it wrote, or could have written, more than half of what it may."""
        arc = self.arc
        if arc.l2_only * arc.costs.l2_header > _MOST_HEADERS * arc.limit:
            return False
        # What is too little for a block is kept for the next round: in the miniature blocks are not smaller.
        self._credit = min(self._credit, self._write) + self._write
        wrote, is_full = 0.0, False
        for state in (MFU,) if self.feed.mfu_only else (MFU, MRU):
            fresh = self._fresh[state][self._random.randrange(self._sublists)]
            while fresh and not is_full:
                block = next(iter(fresh) if self._warm else reversed(fresh))
                if self._headroom and self._depth(block, state) > self._headroom * self._sublists:
                    break
                size = arc.costs.data[block]
                is_full = size > self._credit
                if not is_full:
                    self._evict(max(self._credit, size))
                    self._credit -= size
                    wrote += size
                    del fresh[block]
                    self._store(block)
        if not is_full:
            self._credit = 0.0
        return is_full or wrote > self._write / 2

    def _depth(self, block: int, state: int) -> float:
        """Bytes of the list between a block and the end where the feed begins.

        What was there and has left is taken to be spread evenly.
        """
        entered, oldest = self._entered[state], self._stamp[next(iter(self.arc.lists[state]))]
        density = self.arc.held[state] / max(entered - oldest, 1)
        return density * (self._stamp[block] - oldest if self._warm else entered - self._stamp[block])

    def _evict(self, distance: float) -> None:
        """Make room ahead of the hand (l2arc_evict)."""
        if self._hand + min(distance, self.size) > self.size:
            self._drop(self.size)
            self._hand, self.wrapped = 0.0, True
        if self.wrapped:
            self._drop(self._hand + distance)

    def _drop(self, end: float) -> None:
        ring = self._ring
        while ring and self.wrapped and self._hand <= ring[0][0] < end:
            _, block, serial = ring.popleft()
            if self.copy[block] == serial:
                self.copy[block] = 0
                self.arc.forget(block)
                self._eligible_again(block)

    def _eligible_again(self, block: int) -> None:
        state = self.arc.state[block]
        if state in (MRU, MFU):
            fresh = self._fresh[state][block % self._sublists]
            fresh[block] = None
            fresh.move_to_end(block, last=False)

    def _store(self, block: int) -> None:
        self._serial += 1
        self.copy[block] = self._serial
        self._ring.append((self._hand, block, self._serial))
        self._hand += self.arc.costs.data[block]
