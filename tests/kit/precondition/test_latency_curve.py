"""Every I/O is counted once, in the experiment's time and the kit's bins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.precondition.latency_curve import frame, nice_interval_ns, point, quantile_ns
from kit.store import run_directory, tables

latencies = st.lists(st.integers(1, 10**10), min_size=1, max_size=300)


@given(latencies, st.sampled_from([1, 3, 4]))
def test_every_io_is_counted_in_its_bin_and_its_time(host_ns: list[int], dilation: int) -> None:
    clock = Clock("virtual", dilation)
    observed = point("fill 1", "read", 512, 7, np.array(host_ns, dtype=np.int64), clock)
    mine = [value // dilation for value in host_ns]
    assert observed.ios == sum(count for _, _, count in observed.cells) == len(mine)
    counted: Counter[int] = Counter()
    for _, index, count in observed.cells:
        counted[index] += count
    assert counted == Counter(bin_index(mine).tolist())
    last = max(at for at, _, _ in observed.cells)
    assert last * observed.interval_ns < max(sum(mine), 1) and last <= 50
    assert observed.iops == pytest.approx(len(mine) * 1e9 / max(sum(mine), 1), abs=1e-3)


@given(st.integers(1, 10**15))
def test_an_interval_is_a_nice_number(total: int) -> None:
    interval = nice_interval_ns(total)
    assert str(interval).rstrip("0") in ("1", "2", "5")
    assert total / 50 <= interval <= max(total / 50 * 2.5 + 1, 1)


@given(st.integers(0, 2**32), st.integers(368, 500), st.sampled_from([3, 10**9]))
def test_a_quantile_is_the_smallest_latency_with_that_share_below(seed: int, number: int, most: int) -> None:
    values = np.random.default_rng(seed).integers(0, most, number).tolist()
    rank = -(-99 * len(values) // 100)  # rounded up
    assert quantile_ns(np.array(values, dtype=np.int64), 0.99) == sorted(values)[rank - 1]


def test_too_few_ios_have_no_p99() -> None:
    assert quantile_ns(np.arange(367), 0.99) is None and quantile_ns(np.arange(368), 0.99) == 364
    assert point("purge", "read", 512, 0, np.arange(1, 300), Clock()).p99_ns is None


def test_no_io_is_no_point() -> None:
    with pytest.raises(MeasurementUnknown, match="round 3: no write was measured"):
        point("round 3", "write", 4096, 0, np.array([], dtype=np.int64), Clock())


def rows() -> pl.DataFrame:
    values = np.full(400, 130_000, dtype=np.int64)
    points = [
        point(stage, op, size, written, values, Clock())
        for stage, written in (("purge", 0), ("fill 1", 1000))
        for op, size in (("write", 4096), ("read", 512))
    ]
    return frame("log0", "log", 1000, points)


def test_it_is_stored_and_read_again(tmp_path: Path) -> None:
    run = run_directory.RunDir(tmp_path)
    assert tables.read_ageing(run).height == 0  # most runs have none
    tables.write_ageing(run, rows())
    read = tables.read_ageing(run)
    assert read.equals(rows()) and read["count"].sum() == 4 * 400
    assert read.select("point", "stage", "written_bytes").unique().sort("point").rows() == [
        (0, "purge", 0), (1, "fill 1", 1000),
    ]  # fmt: skip
    low, high = bin_edges(bin_index(130_000))
    assert read.select("lo_ns", "hi_ns").unique().row(0) == (int(low), int(high))


@pytest.mark.parametrize(
    ("column", "value"),
    [("count", -1), ("capacity_bytes", 0), ("interval_ns", 0), ("time_ns", -1), ("op", "trim"),
     ("lo_ns", 10**9), ("written_bytes", -1), ("point", -1), ("device", None)],
)  # fmt: skip
def test_impossible_rows_are_refused(tmp_path: Path, column: str, value: object) -> None:
    run = run_directory.RunDir(tmp_path)
    bad = rows().with_columns(pl.lit(value).alias(column))
    with pytest.raises(ConfigError, match="impossible"):
        tables.write_ageing(run, bad)
    bad.write_parquet(tmp_path / "ageing.parquet")
    with pytest.raises(ConfigError, match="impossible"):
        tables.read_ageing(run)


def test_other_files_are_refused(tmp_path: Path) -> None:
    run = run_directory.RunDir(tmp_path)
    rows().drop("stage").write_parquet(tmp_path / "ageing.parquet")
    with pytest.raises(ConfigError, match="no column stage"):
        tables.read_ageing(run)
    rows().with_columns(pl.lit("x").alias("count")).write_parquet(tmp_path / "ageing.parquet")
    with pytest.raises(ConfigError, match="not of its type"):
        tables.read_ageing(run)
    (tmp_path / "ageing.parquet").write_bytes(b"PAR1garbage")
    with pytest.raises(ConfigError, match="not a readable Parquet"):
        tables.read_ageing(run)
