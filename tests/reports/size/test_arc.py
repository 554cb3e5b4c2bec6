"""The simulation of the ARC: what must hit, and what must not."""

from __future__ import annotations

import numpy as np
import pytest

from reports.size.arc import BELOW, DRAM, MFU, MFU_GHOST, MRU, MRU_GHOST, NOWHERE, Arc, Costs, OldArc, balance
from tests.reports.size import loads

SECOND = 10**9
KINDS = pytest.mark.parametrize("kind", [Arc, OldArc])


def arc_of(kind: type[Arc], room: int, blocks: int = 100, **costs: int) -> Arc:
    """With room for so many blocks of 1000 bytes without headers."""
    return kind(Costs([1000] * blocks, costs.get("header", 0), 0), room * 1000, 0)


def answers(arc: Arc, blocks: list[int]) -> list[int]:
    """Reads a second apart."""
    return [arc.read(block, number * SECOND) for number, block in enumerate(blocks)]


@KINDS
def test_what_fits_is_read_once_from_below(kind):
    assert answers(arc_of(kind, 3), [0, 1, 2, 0, 1, 2]) == [BELOW] * 3 + [DRAM] * 3


@KINDS
def test_the_oldest_of_what_was_read_once_leaves_first(kind):
    arc = arc_of(kind, 3)
    answers(arc, [0, 1, 2, 3])
    # Without anything else in the ARC there is no room that MRU could have had: it has no ghosts.
    assert arc.state[:4] == [NOWHERE, MRU, MRU, MRU]


@KINDS
def test_a_second_use_after_a_sixteenth_of_a_second_makes_frequently_used(kind):
    arc = arc_of(kind, 3)
    arc.read(0, 0)
    arc.read(0, SECOND // 16)
    assert arc.state[0] == MRU
    arc.read(0, SECOND // 16 + 1)
    assert arc.state[0] == MFU


@KINDS
def test_a_ghost_that_is_read_is_frequently_used(kind):
    arc = arc_of(kind, 6)
    answers(arc, [0, 1, 2, 0, 1, 2, 3, 4, 5, 6])
    assert arc.state[:7] == [MFU] * 3 + [MRU_GHOST] + [MRU] * 3
    assert arc.read(3, 20 * SECOND) == BELOW and arc.state[3] == MFU


def test_ghosts_of_each_list_have_half_of_what_the_other_has():
    arc = arc_of(Arc, 10)
    # Five are frequently used; scans leave ghosts of what was read once.
    answers(arc, [*range(5), *range(5), *range(5, 60)])
    assert arc.held[MFU] == 5000 and arc.held[MRU_GHOST] <= 2500
    assert arc.state.count(MRU_GHOST) == 2 and arc.state[10] == NOWHERE


@KINDS
def test_headers_of_ghosts_take_room(kind):
    arc = arc_of(kind, 10, header=100)
    answers(arc, [*range(5), *range(5), *range(5, 60)])
    assert arc.size <= 10_000
    assert arc.size == sum(arc.held[1:3]) + 100 * sum(map(len, arc.lists[1:]))


@KINDS
def test_a_scan_does_not_push_out_what_is_used_frequently(kind):
    arc = arc_of(kind, 20, blocks=1000)
    answers(arc, [*range(8), *range(8)])
    answers(arc, list(range(8, 1000)))
    assert answers(arc, list(range(8))) == [DRAM] * 8


@KINDS
def test_a_write_makes_a_new_block(kind):
    arc = arc_of(kind, 3)
    answers(arc, [0, 0])
    arc.write(0, 2 * SECOND)
    assert arc.state[0] == MRU and arc.held[MRU] == 1000 and arc.held[MFU] == 0
    assert arc.read(0, 3 * SECOND) == DRAM


def test_ghost_hits_move_the_balance_to_their_list():
    assert balance(0.5, 3200, 0, 0) == 0.5
    assert balance(0.5, 3200, 32, 0) == pytest.approx(0.51)
    assert balance(0.5, 3200, 0, 32) == pytest.approx(0.49)
    # A 32nd at most, and less near an end.
    assert balance(0.5, 3200, 3200, 0) == pytest.approx(0.5 + 1 / 32)
    assert balance(0.9, 3200, 64, 0) == pytest.approx(0.9 + 64 / 4 / 3200)
    assert 0 <= balance(0.0, 3200, 0, 3200) <= balance(1.0, 3200, 3200, 0) <= 1


@KINDS
def test_uniform_reads_are_answered_as_far_as_blocks_fit(kind):
    """Each read of a cached block hits: the share is cached over all, but for chance."""
    random = np.random.default_rng(3)
    blocks, reads = 1000, 40_000
    for part in (0.2, 0.5, 0.8):
        arc = arc_of(kind, int(part * blocks), blocks)
        found = answers(arc, random.integers(0, blocks, reads).tolist())[reads // 2 :]
        error = (part * (1 - part) / len(found)) ** 0.5
        # 2.1 evicts more than it must from time to time, and never less.
        assert found.count(DRAM) / len(found) == pytest.approx(part, abs=4 * error + 1 / (part * blocks))


def test_frequently_used_blocks_beat_the_last_read_ones():
    """ARC against LRU, beside a scan: LRU of the room would lose the hot ones between two reads."""
    random = np.random.default_rng(1)
    reads = loads.keys("scan", 4000, 60_000, random)
    arc = Arc(Costs([1000] * 4000, 0, 0), 400 * 1000, 0)
    hot = np.bincount(reads, minlength=4000) > 40
    found = np.array(answers(arc, reads.tolist()))[30_000:]
    assert hot.sum() == 200
    assert (found[hot[reads[30_000:]]] == DRAM).mean() > 0.99
    assert (found[~hot[reads[30_000:]]] == BELOW).mean() > 0.99


@KINDS
def test_bytes_are_counted_as_they_are(kind):
    """After any reads and writes, what is held is the sum of the blocks that are there."""
    random = np.random.default_rng(5)
    sizes = random.integers(500, 5000, 300)
    arc = kind(Costs(sizes.tolist(), 240, 96), 300_000, 10_000)
    for number, block in enumerate(random.zipf(1.3, 20_000) % 300):
        (arc.write if number % 7 == 0 else arc.read)(int(block), number * SECOND // 50)
        assert arc.size <= arc.limit
    for state in (MRU, MFU, MRU_GHOST, MFU_GHOST):
        there = [block for block in range(300) if arc.state[block] == state]
        assert sorted(arc.lists[state]) == there and arc.held[state] == sizes[there].sum()
