"""reports.features.observer_effect: ratios and intervals of stretches with and without the tracer."""

from __future__ import annotations

import math

import pytest

from kit.store.manifest import ObserverEffect, ObserverStretch
from reports.features.observer_effect.judge import describe, sentences


def effect(*pairs: tuple[float, float], threads: int = 1) -> ObserverEffect:
    """Pairs of p50 without and with the tracer, in ns; p99 is twice as long."""
    stretches = [
        ObserverStretch(traced=traced, threads=threads, ios=1000, p50_ns=ns, p99_ns=2 * ns)
        for pair in pairs
        for traced, ns in zip((False, True), pair, strict=True)
    ]
    return ObserverEffect(op="read", tier="dram", block_bytes=512, stretches=tuple(stretches))


def test_the_ratio_is_the_geometric_mean_over_pairs_with_its_t_interval() -> None:
    [row] = describe(effect((100_000, 102_000), (100_000, 104_000), (100_000, 103_000)))
    logs = [math.log(ratio) for ratio in (1.02, 1.04, 1.03)]
    mean = sum(logs) / 3
    deviation = math.sqrt(sum((each - mean) ** 2 for each in logs) / 2)
    # Student's t with two degrees of freedom: 4.3027 (any table).
    half = 4.3027 * deviation / math.sqrt(3)
    assert (row.threads, row.pairs, row.p50.without_us) == (1, 3, 100.0)
    assert row.p50.ratio == pytest.approx(math.exp(mean))
    assert row.p50.low == pytest.approx(math.exp(mean - half), rel=1e-4)
    assert row.p50.high == pytest.approx(math.exp(mean + half), rel=1e-4)
    assert row.p99.ratio == row.p50.ratio and row.p99.without_us == 200.0
    assert next(sentences([row])) == (
        "Observer effect: p50 of reads from DRAM with the tracer / without: "
        f"{row.p50.ratio:.3f} ({row.p50.low:.3f} to {row.p50.high:.3f}) by 1 thread."
    )


def test_one_pair_has_no_interval_and_a_side_alone_no_row() -> None:
    [row] = describe(effect((100_000, 102_000), threads=4))
    assert row.p50.low is row.p50.high is None
    assert next(sentences([row])).endswith("without: 1.020 by 4 threads.")
    one_side = effect((100_000, 102_000))
    assert describe(one_side.model_copy(update={"stretches": one_side.stretches[:1]})) == []
    assert describe(effect((0, 100_000))) == []


def test_without_a_measurement_there_is_nothing_to_say() -> None:
    assert describe(None) == [] and [*sentences([])] == []
