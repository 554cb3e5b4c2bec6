"""Percentiles of all intervals of a run at once, against one interval at a time."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.store.summary import Row
from reports.statistics.quantiles import (
    QUANTILES,
    interpolated_figures_us,
    interpolated_us,
    limits_ns,
    over_time,
    percentile_text,
    percentiles_ns,
)
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
        assert [row[f"{name}_ns"] for name in QUANTILES] == alone


def test_wide_bins_are_interpolated_and_narrow_ones_are_not():
    rows = [
        (0, "p", "vdev", "h", "read", "all", 1024, 2048, 100),
        (0, "p", "vdev", "h", "read", "all", 2048, 4096, 100),
        (10, "p", "vdev", "h", "read", "all", 1024, 1056, 200),
    ]
    table = over_time(synthetic.table(rows), {"p75": 0.75})
    assert table["p75_ns"].to_list() == [3072.0, 1039.5]


def test_too_few_ios_have_no_percentile():
    table = over_time(frame_of([(0, "a", "read", "dram", 100, 8)]))
    assert table.row(0, named=True) == {
        "phase": "p", "layer": "client", "op": "read", "time_ns": 0, "ios": 8,
        "p50_ns": pytest.approx(sum(map(int, bin_edges(100))) / 2, abs=1),
        "p95_ns": None, "p99_ns": None, "p999_ns": None,
    }  # fmt: skip


def test_no_io_no_row():
    assert over_time(frame_of([])).height == 0


# --- Interpolated ---


def interpolated(latencies):
    """interpolated_us() of latencies in ns, and the exact quantiles in us."""
    index, held = np.unique(bin_index(latencies), return_counts=True)
    bins = list(zip(*(edge.tolist() for edge in bin_edges(index)), held.tolist(), strict=True))
    ordered = np.sort(latencies)
    exact = {n: ordered[math.ceil(q * len(ordered)) - 1] / 1e3 for n, q in QUANTILES.items()}
    return interpolated_us(bins, (int(ordered[0]), int(ordered[-1]))), exact


@given(st.lists(st.integers(0, 1 << 40) | st.integers(10_000, 10_400), min_size=6, max_size=500))
def test_the_exact_quantile_is_in_its_bound(latencies):
    values, exact = interpolated(np.array(latencies))
    assert values.keys() == exact.keys()
    for name, value in values.items():
        if value is not None:
            low, high = value.bound_us
            assert low <= exact[name] <= high and low <= value.us <= high
            assert 0 <= value.error_us <= high - low + 0.001


def text_of(bins, limits):
    figures, exact = interpolated_figures_us(bins, limits)
    words = dict.fromkeys(("phase", "layer", "op", "tier"), "-")
    return percentile_text(Row(**words, count=9, share=1, interpolated=exact, **figures), "p50")


@given(st.integers(0, 1200))
def test_a_bin_of_the_kit_is_one_value_for_people(index):
    low, high = (int(edge) for edge in bin_edges(index))
    assert " to " not in text_of([(low, high, 100)], (low, high - 1))


def test_of_a_wide_bin_people_get_its_range():
    """Of bpftrace's powers of two the median is in one, and no figure in it is better than another."""
    assert (
        text_of([(16_000, 32_000, 40), (32_000, 64_000, 60)], (16_000, 63_999)) == "32 to 64 \N{MICRO SIGN}s"
    )
    assert text_of([(32_000, 64_000, 60)], (40_000, 40_000)) == "40 \N{MICRO SIGN}s"
    assert text_of([(32_000, 64_000, 2)], (40_000, 50_000)) == ""


@pytest.mark.parametrize("relative", [0.001, 0.01, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "lognormal"])
def test_the_stated_error_holds_and_falls_where_bins_are_many(shape, relative):
    """`relative`: the width of the distribution as a part of its place; a bin has 0.016 to 0.031 of it."""
    generator = np.random.default_rng(23)
    draw = {
        "normal": generator.standard_normal,
        "uniform": lambda n: generator.random(n) * 3.4,
        "exponential": lambda n: generator.exponential(1, n),
        "lognormal": lambda n: np.exp(0.8 * generator.standard_normal(n)),
    }[shape]
    held, stated = [], []
    for _ in range(100):
        place = 150_000 * 2 ** generator.random()
        values, exact = interpolated((place * (1 + relative * draw(4000))).astype(np.int64))
        held.append(abs(values["p50"].us - exact["p50"]) <= values["p50"].error_us + 0.001)
        stated.append(values["p50"].error_us / exact["p50"])
    assert np.mean(held) >= 0.95
    assert np.mean(stated) < (0.005 if relative >= 0.05 else 0.016)


def test_too_few_ios_have_no_interpolated_percentile():
    values, _ = interpolated(np.full(100, 5000))
    assert values["p99"] is None and values["p999"] is None
    assert values["p50"].as_json() == {"us": 5.0, "bound_us": [5.0, 5.0], "error_us": 0.0}
