"""Counts per interval, group and bin: nothing is lost, however they are added."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.importers.histogram_accumulator import Accumulator


def test_times_far_apart_double_the_interval_and_lose_nothing() -> None:
    generator = np.random.default_rng(1)
    tally = Accumulator(10**6, max_cells=1000)
    for _ in range(20):
        times = generator.integers(0, 10**12, 200_000)
        tally.add(tally.part(tally.group("h", "read"), times, generator.integers(0, 20, times.size)))
    frame, _ = tally.frame("p", "client")
    assert frame["count"].sum() == 4_000_000
    assert frame.height <= 1000 and tally.doubled
    assert tally.interval_ns == 10**6 << tally.doubled


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, 2047)), max_size=300),
    # The two together stay below the number of intervals that a tally can tell apart; beyond it is refused.
    st.integers(1000, 10**6),
    st.integers(0, 10**15),
)
def test_every_way_to_count_counts_the_same(
    rows: list[tuple[int, int, int]], interval_ns: int, later_ns: int
) -> None:
    """One row each, with numbers of rows, and by groups: near each other and, with `later_ns`, far apart."""
    tallies = [Accumulator(interval_ns) for _ in range(4)]
    for spread in (0, later_ns):
        times, which, bins = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(3))
        if times.size:
            times[-1] += spread
        for tally in tallies:
            groups = np.array([tally.group("h", "write"), tally.group("g", "read"), tally.group("h", "read")])
        one, by_groups, counted, by_rows = tallies
        one.add(one.part(groups[which], times, bins))
        by_groups.add(by_groups.part_of(groups, which, times, bins))
        ones = np.ones(times.size, dtype=np.int64)
        counted.add(counted.part(groups[which], times, bins, ones))
        # In any order, and each row of its own group and time.
        order = np.argsort(bins)
        by_rows.add(by_rows.part(groups[which], times, bins[order], ones, order))
    found = [tally.frame("p", "client")[0] for tally in tallies]
    assert all(frame.equals(found[0]) for frame in found[1:])
    assert found[0]["count"].sum() == 2 * len(rows)
