"""What is known within a run: too little is not said; tests/truth/compare.py has how often it holds."""

from __future__ import annotations

import math

import polars as pl
import pytest

from reports.statistics import batch_means

WIDTH = 100


def cells(counts: list[tuple[int, int]]) -> pl.DataFrame:
    """`counts`: in each interval, I/Os of 1000 and of 2000 ns."""
    rows = [
        (n * WIDTH, low, low + 32, count)
        for n, pair in enumerate(counts)
        for low, count in zip((1000, 2000), pair, strict=True)
        if count
    ]
    schema = dict.fromkeys(("time_ns", "lo_ns", "hi_ns", "count"), pl.Int64)
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize(
    ("counts", "q", "known"),
    [
        ([(30, 10), (20, 20)] * 10, 0.5, True),
        ([(30, 10), (20, 20)] * 3, 0.5, False),  # too few intervals
        ([(1, 0)] * 20, 0.99, None),  # too few I/Os
        ([(20, 0)] * 20, 0.99, False),  # its range reaches beyond the slowest of 400 I/Os
        ([(40, 0)] * 10 + [(0, 40)] * 10, 0.5, False),  # one step: two halves, no batches
    ],
)
def test_what_too_few_tell_is_not_said(counts: list[tuple[int, int]], q: float, known: bool | None) -> None:
    span = (0, len(counts) * WIDTH)
    found = batch_means.quantile(cells(counts), span, WIDTH, q)
    assert (found is None) if known is None else found is not None and (found.reach is not None) is known


def test_a_rate_that_swings_slowly_is_known_less() -> None:
    reaches = []
    for period in (2, 20):
        counts = [(100 + 20 * (2 * n % period < period // 2), 0) for n in range(40)]
        found = batch_means.rate(cells(counts), (0, 40 * WIDTH), WIDTH)
        assert found and found.reach and found.log == pytest.approx(math.log(110 / WIDTH * 1e9), rel=0.01)
        reaches.append(found.reach)
    assert reaches[1] > 2 * reaches[0]
    assert batch_means.rate(cells([(0, 0)]), (0, 10 * WIDTH), WIDTH) is None
