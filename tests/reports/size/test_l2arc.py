"""The simulation of the L2ARC: what the feed writes, and what the ring forgets."""

from __future__ import annotations

from reports.size.arc import BELOW, DRAM, L2_ONLY, L2ARC, NOWHERE, Arc, Costs
from reports.size.l2arc import Feed, L2arc

SECOND = 10**9


def pair(room: int, device: int, feed: Feed, blocks: int = 1000, warm: bool = False) -> tuple[Arc, L2arc]:
    """An ARC and a device with room for so many blocks of 1000 bytes."""
    below = L2arc(feed, device * 1000, 1, 0, warm)
    arc = Arc(Costs([1000] * blocks, 0, 0), room * 1000, 0, below)
    below.join(arc)
    return arc, below


def reads(arc: Arc, below: L2arc, blocks: list[int], begin_s: int = 0) -> list[int]:
    """A read a second."""
    found = []
    for number, block in enumerate(blocks, begin_s):
        below.until(number * SECOND)
        found.append(arc.read(block, number * SECOND))
    return found


def test_what_left_the_arc_is_in_the_l2arc():
    arc, below = pair(10, 100, Feed(20_000, sublists=1))
    assert reads(arc, below, list(range(60))) == [BELOW] * 60
    assert reads(arc, below, list(range(40)), 60) == [L2ARC] * 40
    assert below.missed == 0


def test_a_slow_feed_misses_blocks():
    """One block a second, where ten a second are read: nine of ten leave the ARC first."""
    arc, below = pair(20, 1000, Feed(1000, sublists=1, feeds_again=False))
    for number in range(500):
        below.until(number * SECOND // 10)
        arc.read(number, number * SECOND // 10)
    assert 45 <= sum(copy > 0 for copy in below.copy) <= 51
    assert below.missed > 400


def test_a_fast_feed_misses_none():
    arc, below = pair(20, 1000, Feed(100_000, sublists=1))
    for number in range(500):
        below.until(number * SECOND // 10)
        arc.read(number, number * SECOND // 10)
    assert below.missed == 0 and sum(copy > 0 for copy in below.copy) >= 480


def test_a_feed_that_has_more_to_write_comes_again_sooner():
    feeds = [Feed(10_000, headroom=0, sublists=1, feeds_again=again) for again in (False, True)]
    slow, fast = (pair(500, 1000, feed) for feed in feeds)
    for arc, below in (slow, fast):
        for block in range(400):
            arc.read(block, 0)
        below.until(4 * SECOND)
    counts = [sum(copy > 0 for copy in below.copy) for _, below in (slow, fast)]
    assert counts == [50, 210]


def test_the_ring_forgets_the_oldest_first():
    arc, below = pair(10, 40, Feed(4000, sublists=1))
    reads(arc, below, list(range(200)))
    kept = [block for block in range(200) if below.copy[block]]
    # The feed evicts ahead of what it writes, at most a quarter of the device.
    assert below.wrapped and 30 <= len(kept) <= 40
    assert kept == list(range(kept[0], kept[0] + len(kept)))
    assert arc.state[0] == NOWHERE and arc.l2_only == arc.state.count(L2_ONLY)


def test_only_frequently_used_blocks_where_the_tunable_says_so():
    arc, below = pair(50, 100, Feed(20_000, sublists=1, mfu_only=True))
    reads(arc, below, [*range(20), *range(10), *range(20, 40)])
    below.until(100 * SECOND)
    assert [block for block in range(40) if below.copy[block]] == list(range(10))


def test_a_write_makes_the_copy_old():
    arc, below = pair(10, 100, Feed(20_000, sublists=1))
    reads(arc, below, list(range(60)))
    arc.write(0, 60 * SECOND)
    assert arc.read(0, 61 * SECOND) == DRAM and not below.copy[0]


def test_blocks_that_the_l2arc_alone_has_cost_headers():
    below = L2arc(Feed(20_000, sublists=1), 500_000, 1, 0, False)
    arc = Arc(Costs([1000] * 1000, 50, 20), 100_000, 0, below)
    below.join(arc)
    reads(arc, below, list(range(400)))
    listed = sum(map(len, arc.lists[1:]))
    assert arc.l2_only > 200
    assert arc.size == arc.held[1] + arc.held[2] + 50 * listed + 20 * arc.l2_only <= 100_000


def test_from_the_tail_only_as_far_as_the_headroom():
    """A warm feed looks from the oldest on: 2 x 2 x 10 of 100 blocks, which all have copies then."""
    arc, below = pair(100, 1000, Feed(10_000, headroom=2, sublists=1, feeds_again=False), warm=True)
    for block in range(100):
        arc.read(block, 0)
    below.until(60 * SECOND)
    assert [block for block in range(100) if below.copy[block]] == list(range(40))


def test_without_times_all_that_leaves_is_fed():
    arc, below = pair(10, 100, Feed(1, sublists=1, has_times=False))
    reads(arc, below, list(range(60)))
    assert reads(arc, below, list(range(40))) == [L2ARC] * 40


def test_a_gap_of_years_takes_no_time():
    below = L2arc(Feed(20_000), 500_000, 1, 1 << 62, False)
    arc = Arc(Costs([1000] * 10, 0, 0), 5000, 0, below)
    below.join(arc)
    arc.read(0, 0)
    below.until(1 << 62)
    assert below.copy[0]
