"""Percentiles of all intervals of a run at once, against one interval at a time."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges
from reports.statistics.quantiles import QUANTILES, limits_ns, over_time, percentiles_ns
from tests.reports import synthetic


def frame_of(cells):
    """Rows of latency.parquet from (time, host, op, tier, bin, count)."""
    rows = []
    for time, host, op, tier, index, count in cells:
        lo, hi = bin_edges(index)
        rows.append((time, "p", "client", host, op, tier, int(lo), int(hi), count))
    return synthetic.table(rows)


CELLS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from("ab"), st.sampled_from(["read", "write"]),
        st.sampled_from(["dram", "disk"]), st.integers(0, 1000),
        st.integers(1, 5000) | st.integers(1, 1 << 50),
    ),
    max_size=60,
)  # fmt: skip


@given(CELLS)
def test_every_interval_as_if_it_were_alone(cells):
    frame = frame_of(cells)
    table = over_time(frame)
    assert table["ios"].sum() == frame["count"].sum()
    assert table.height == frame.select("op", "time_ns").n_unique()
    for row in table.iter_rows(named=True):
        mine = frame.filter(pl.col("op") == row["op"], pl.col("time_ns") == row["time_ns"])
        summed = mine.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns")
        bins = list(summed.iter_rows())
        alone = percentiles_ns(bins, list(QUANTILES.values()), limits_ns(bins, []))
        assert [row[name] for name in QUANTILES] == alone


def test_wide_bins_are_interpolated_and_narrow_ones_are_not():
    rows = [
        (0, "p", "vdev", "h", "read", "all", 1024, 2048, 100),
        (0, "p", "vdev", "h", "read", "all", 2048, 4096, 100),
        (10, "p", "vdev", "h", "read", "all", 1024, 1056, 200),
    ]
    table = over_time(synthetic.table(rows), {"p75": 0.75})
    assert table["p75"].to_list() == [3072.0, 1039.5]


def test_too_few_ios_have_no_percentile():
    table = over_time(frame_of([(0, "a", "read", "dram", 100, 8)]))
    assert table.row(0, named=True) == {
        "phase": "p", "layer": "client", "op": "read", "time_ns": 0, "ios": 8,
        "p50_ns": pytest.approx(sum(map(int, bin_edges(100))) / 2, abs=1),
        "p95_ns": None, "p99_ns": None, "p999_ns": None,
    }  # fmt: skip


def test_no_io_no_row():
    assert over_time(frame_of([])).height == 0
