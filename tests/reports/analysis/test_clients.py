"""reports.analysis.clients: all together is the sum of the clients' histograms, never an average."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.store.parts.client_figures import ClientFigures
from kit.store.tables import LATENCY_SCHEMA
from reports.analysis import clients
from reports.statistics.quantiles import interpolated_us, summed
from tests.reports.synthetic import parsed, summarise

HOSTS = ("lab/client0", "lab/client1", "lab/client2")


def frame(latencies: dict[str, list[int]], op: str = "read") -> pl.DataFrame:
    rows = []
    for host, taken in latencies.items():
        lows, highs = bin_edges(bin_index(np.array(taken, dtype=np.int64)))
        rows += [
            (0, "p", "client", host, op, "all", int(low), int(high), 1)
            for low, high in zip(lows, highs, strict=True)
        ]
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")  # type: ignore[arg-type]


def manifest(latencies: dict[str, list[int]], op: str = "read") -> dict[str, Any]:
    of_all = {"layer": "client", "op": op, "tier": "all"}
    return {
        "phases": [
            {
                "name": "p", "start_ns": 0, "end_ns": 3 * 10**9, "interval_ns": 10**9,
                "client_ios": 0, "server_ios": None, "lost_events": None,
                "extremes": [
                    {**of_all, "host": host, "min_ns": min(taken), "max_ns": max(taken)}
                    for host, taken in latencies.items()
                ],
                "clients": [
                    {
                        "host": host, "ios": len(taken),
                        "first_ns": 10**9 + index * 10**6, "last_ns": 3 * 10**9,
                        "skew_ns": index * 10**6, "clock_offset_ns": 5, "clock_error_ns": 1000 * index,
                    }
                    for index, (host, taken) in enumerate(latencies.items())
                ],
            }
        ]
    }  # fmt: skip


def described(latency: pl.DataFrame, manifest: dict[str, Any]) -> list[ClientFigures]:
    return clients.describe(latency, parsed(manifest).phases)


TAKEN = st.lists(st.integers(100, 10**9), min_size=1, max_size=60)


@given(st.fixed_dictionaries(dict.fromkeys(HOSTS, TAKEN)))
def test_the_merged_row_is_the_sum_of_the_clients(latencies: dict[str, list[int]]) -> None:
    merged, *each = described(frame(latencies), manifest(latencies))
    assert merged.merged and merged.host == "all"
    assert [row.host for row in each] == sorted(latencies)
    assert not any(row.merged for row in each)
    assert merged.count == sum(row.count for row in each) == sum(map(len, latencies.values()))
    assert merged.iops == pytest.approx(sum(row.iops or 0 for row in each), rel=1e-12)
    together = [value for taken in latencies.values() for value in taken]
    assert merged.min_us == min(together) / 1e3 == min(row.min_us for row in each)
    assert merged.max_us == max(together) / 1e3 == max(row.max_us for row in each)


@given(st.fixed_dictionaries(dict.fromkeys(HOSTS, TAKEN)))
def test_percentiles_of_all_are_those_of_everything_at_once(
    latencies: dict[str, list[int]],
) -> None:
    merged, *_ = described(frame(latencies), manifest(latencies))
    everything = {"one": [value for taken in latencies.values() for value in taken]}
    bins = summed(frame(everything))
    limits = (min(everything["one"]), max(everything["one"]))
    for name, at in interpolated_us(bins, limits).items():
        assert getattr(merged, f"{name}_us") == (at and at.us)


def test_an_average_of_percentiles_would_be_wrong() -> None:
    latencies = {HOSTS[0]: [1000] * 999, HOSTS[1]: [1_000_000] * 99}
    merged, *each = described(frame(latencies), manifest(latencies))
    assert merged.p50_us == pytest.approx(each[0].p50_us, rel=0.02)
    assert merged.p50_us is not None
    assert merged.p50_us < sum(row.p50_us or 0 for row in each) / 2


def test_the_skew_of_all_is_that_of_the_last() -> None:
    latencies = {host: [1000] for host in HOSTS}
    merged, *each = described(frame(latencies), manifest(latencies))
    assert [row.skew_us for row in each] == [0, 1000, 2000]
    assert merged.skew_us == 2000
    assert merged.clock_error_us == 2


def test_one_client_needs_no_table() -> None:
    latencies = {HOSTS[0]: [1000, 2000]}
    assert described(frame(latencies), manifest(latencies)) == []


def test_a_manifest_without_clients_still_has_histograms() -> None:
    latencies = {host: [1000] for host in HOSTS}
    told = manifest(latencies)
    del told["phases"][0]["clients"]
    merged, *_ = described(frame(latencies), told)
    assert merged.count == 3
    assert merged.iops is merged.skew_us is merged.clock_error_us is None


def test_the_summary_has_them() -> None:
    latencies = {host: [1000] for host in HOSTS}
    found = summarise(frame(latencies), {**manifest(latencies), "phases": []}, with_bands=False)
    assert found["clients"] == []
    assert found["rows"][0]["count"] == 3


def test_extremes_that_are_not_those_of_the_counts_are_a_reason() -> None:
    latencies = {host: [1000] for host in HOSTS}
    told = manifest(latencies)
    told["phases"][0]["extremes"][0]["min_ns"] = 5
    found = summarise(frame(latencies), told, with_bands=False)
    assert found["verdict"] == "unknown" and found["clients"] == []
    assert any("extremes 5 and 1000 ns" in reason for reason in found["reasons"])
