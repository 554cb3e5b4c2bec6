"""The part of I/Os inside a range: bins that the range cuts count in proportion."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.summary import Row
from reports.published.share import share_inside
from tests.reports import synthetic

KEY = {"phase": "read", "layer": "nfs-server", "op": "read", "tier": "disk"}


def row(**key: str) -> Row:
    return synthetic.summary_of([{**KEY, **key}]).rows[0]


def share(bins: list[tuple[int, int, int]], range_us: tuple[float, float], **key: str) -> float | None:
    rows = [(number, "read", "nfs-server", "h", "read", "disk", *each) for number, each in enumerate(bins)]
    return share_inside(synthetic.table(rows), row(**key), range_us)


@pytest.mark.parametrize(
    ("range_us", "expected"),
    [
        ((1.0, 3.0), 1.0),
        ((0.0, 10.0), 1.0),
        # A quarter of the first bin, all of the second.
        ((1.75, 3.0), (0.25 * 60 + 40) / 100),
        # Half of each.
        ((1.5, 2.5), 0.5),
        # A part of one bin.
        ((1.2, 1.3), 0.06),
        ((5.0, 9.0), 0.0),
        ((0.0, 1.0), 0.0),
        ((2.0, 2.0), 0.0),
    ],
)
def test_bins_are_cut_in_proportion(range_us: tuple[float, float], expected: float) -> None:
    assert share([(1000, 2000, 60), (2000, 3000, 40)], range_us) == pytest.approx(expected)


def test_no_io_has_no_share() -> None:
    assert share([], (1.0, 2.0)) is None
    assert share([(1000, 2000, 0)], (1.0, 2.0)) is None
    for key in KEY:
        assert share([(1000, 2000, 5)], (1.0, 2.0), **{key: "other"}) is None


edges = st.lists(st.integers(0, 10**7), min_size=2, max_size=20, unique=True).map(sorted)


@given(edges, st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)).map(sorted), st.integers(0, 10**4))
def test_parts_of_the_axis_add_up(edges: list[int], range_us: list[float], middle_us: int) -> None:
    bins = [(lo, hi, 7) for lo, hi in itertools.pairwise(edges)]
    whole = share(bins, (range_us[0], range_us[1]))
    assert whole is not None and 0 <= whole <= 1
    low, high = range_us
    middle = min(max(middle_us, low), high)
    parts = [share(bins, span) for span in ((low, middle), (middle, high))]
    assert sum(part or 0 for part in parts) == pytest.approx(whole, abs=1e-9)
