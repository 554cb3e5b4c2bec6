"""What the importers do by hand beside what polars would do: reading histogram logs, and counting.

Seconds of all processors, side by side in one process, ABBA; asserts only that results agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
import pytest

from kit.core.bins import bin_index
from kit.importers.histogram_accumulator import Accumulator
from kit.load.fio_bins import BINS
from kit.load.fio_histogram_log import fast_windows
from tests.bench.conftest import Tell, histogram_lines, time_ratio

pytestmark = pytest.mark.bench

PAIRS = 9
MODES = np.array([6_800, 155_000, 5_000_000])
WIDTH = BINS + 3
Arrays = tuple[np.ndarray, ...]


def windows_of_lines(data: bytes) -> Arrays:
    """Row, column and count of what is not 0, with a column of polars for each of the log."""
    schema = {str(n): pl.Int64() for n in range(WIDTH)}
    table = pl.read_csv(data, has_header=False, schema=schema, quote_char=None, infer_schema=False)
    counts = table.to_numpy()[:, 3:]
    return (*np.nonzero(counts), counts[np.nonzero(counts)])


def windows_of_fields(data: bytes) -> Arrays:
    """The same, with each field a line of one column."""
    schema = {"field": pl.Int64()}
    text = data.replace(b", ", b"\n")
    table = pl.read_csv(text, has_header=False, schema=schema, quote_char=None, infer_schema=False)
    counts = table["field"].to_numpy().reshape(-1, WIDTH)[:, 3:]
    return (*np.nonzero(counts), counts[np.nonzero(counts)])


@pytest.mark.parametrize("peer", [windows_of_lines, windows_of_fields])
def test_histogram_lines(peer: Callable[[bytes], Arrays], tell: Tell) -> None:
    block = histogram_lines(np.random.default_rng(2), 200).encode()
    mine = fast_windows(block, BINS)
    assert mine
    for ours, theirs in zip((mine.row, mine.column, mine.counts), peer(block), strict=True):
        assert np.array_equal(ours, theirs)
    ratio = time_ratio(lambda: fast_windows(block, BINS), lambda: peer(block), PAIRS, time.process_time)
    tell("", f"a block of a histogram log, processor time of {peer.__name__} / ours", ratio, "x")


def rows_of_logs() -> Iterator[Arrays]:
    """Blocks of a latency log: time, bin and count of 40,000 I/Os."""
    generator = np.random.default_rng(3)
    for start in range(30):
        time_ns = np.sort(generator.integers(start, start + 2, 40_000)) * 10**9
        latency_ns = generator.choice(MODES, 40_000) * generator.lognormal(0, 0.2, 40_000)
        bins = bin_index(latency_ns.astype(np.int64))
        yield time_ns, bins, np.ones(40_000, dtype=np.int64)


def rows_of_histograms() -> Iterator[Arrays]:
    """Blocks of histogram logs, each of another job and the same 600 s: 130 bins a second."""
    generator = np.random.default_rng(4)
    for _ in range(30):
        for start in range(0, 600, 100):
            time_ns = np.repeat(np.arange(start, start + 100), 130) * 10**9
            bins = np.tile(np.arange(400, 530), 100)
            yield time_ns, bins, generator.integers(1, 60, bins.size)


@pytest.mark.parametrize("made", [rows_of_logs, rows_of_histograms])
def test_counting(made: Callable[[], Iterator[Arrays]], tell: Tell) -> None:
    blocks = list(made())

    def ours() -> pl.DataFrame:
        tally = Accumulator(10**9)
        group = tally.group("h", "read")
        for time_ns, bins, counts in blocks:
            tally.add(tally.part(group, time_ns, bins, counts))
        return tally.frame("p", "client")[0]

    def theirs() -> pl.DataFrame:
        parts = [
            pl.DataFrame({"second": time_ns // 10**9, "bin": bins, "count": counts})
            .group_by("second", "bin")
            .agg(pl.col("count").sum())
            for time_ns, bins, counts in blocks
        ]
        return pl.concat(parts).group_by("second", "bin").agg(pl.col("count").sum()).sort("second", "bin")

    assert ours()["count"].to_list() == theirs()["count"].to_list()
    ratio = time_ratio(ours, theirs, PAIRS, time.process_time)
    tell("", f"{made.__name__}, processor time of group_by / ours", ratio, "x")
