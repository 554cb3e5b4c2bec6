"""Stalls: gaps that the latency of the next I/O explains."""

import itertools

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.latency import Latency
from reports.verdict.stalls import MOST, Stall, longest_gap_ns, stalls
from tests.reports import synthetic

SECOND = synthetic.SECOND
START = 100 * SECOND


def phase(outstanding=1, first_ns=START, start_ns=START, clients=True, log=None):
    manifest = synthetic.manifest()
    entry = manifest["phases"][1]
    client = {
        "host": "lab/client0", "ios": 5, "first_ns": first_ns, "last_ns": None, "skew_ns": None,
        "clock_offset_ns": 0, "clock_error_ns": 0,
    }  # fmt: skip
    entry |= {"outstanding": outstanding, "start_ns": start_ns, "clients": [client] if clients else []}
    entry |= {"client_log": log} if log else {}
    return synthetic.parsed(manifest).phases[1]


def cells(*listed, layer="nfs-server"):
    """(second, longest latency in ms) each."""
    rows = [
        (
            START + int(at * SECOND),
            "write-slog",
            layer,
            "lab",
            "write",
            "slog",
            ms * 10**6 - 1000,
            ms * 10**6,
            1,
        )
        for at, ms in listed
    ]
    return synthetic.table(rows)


def test_a_gap_that_the_next_io_explains():
    assert stalls(cells((0, 5), (1, 5), (4, 2500), (5, 5)), phase()) == (Stall(2.0, 4.0, 2.5e6),)


def test_a_gap_that_no_io_explains_is_none():
    assert stalls(cells((0, 5), (1, 5), (4, 1900), (5, 5)), phase()) == ()


def test_the_first_gap_begins_with_the_first_io():
    late = START + SECOND // 2
    assert stalls(cells((2, 1700)), phase(first_ns=late)) == (Stall(0.5, 2.0, 1.7e6),)
    assert stalls(cells((2, 1400)), phase(first_ns=late)) == ()


def test_without_times_of_clients_the_first_gap_is_as_long_as_the_io():
    for made in (phase(clients=False), phase(first_ns=None)):
        assert stalls(cells((2, 1400)), made) == (Stall(0.6, 2.0, 1.4e6),)
        assert stalls(cells((2, 5000)), made) == (Stall(0.0, 2.0, 5e6),)


def test_an_open_loop_or_an_unknown_one_has_no_stalls():
    for outstanding in (None, 0):
        assert stalls(cells((0, 5), (4, 9000)), phase(outstanding)) == ()


def test_the_server_counts_if_it_was_traced():
    seen = cells((0, 5), (4, 3500), layer="client")
    assert stalls(seen, phase()) == (Stall(1.0, 4.0, 3.5e6),)
    assert stalls(pl.concat([seen, cells((0, 5), (1, 5), (2, 5), (3, 5), (4, 5))]), phase()) == ()


def test_the_longest_are_kept():
    many = stalls(cells(*((2 * n, 1500) for n in range(MOST + 20)), (2 * MOST + 60, 40_000)), phase())
    assert len(many) == MOST and many[-1].to_s == 2 * MOST + 60


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60_000)), max_size=30), st.booleans())
def test_stalls_lie_in_empty_intervals(listed, has_clients):
    made = stalls(cells(*listed), phase(clients=has_clients))
    for each, following in itertools.pairwise(made):
        assert each.to_s <= following.from_s
    for each in made:
        assert 0 <= each.from_s < each.to_s <= 50
        assert each.high_us >= (each.to_s - each.from_s) * 1e6 * (1 - 1e-9)
        assert not any(each.from_s - 1 < at < each.to_s for at, _ in listed if has_clients)


def gap(*listed, layer="nfs-server", counted="nfs-server", **of_phase):
    found = longest_gap_ns(Latency.of(cells(*listed, layer=counted)), phase(**of_phase), layer)
    return found and tuple(edge / SECOND for edge in found)


def test_the_longest_gap_is_known_to_within_an_interval_at_each_end():
    # An I/O may end at the begin of an interval, the next one at the end of the next.
    assert gap((0, 5), (1, 5), (2, 5)) == (pytest.approx(0.005, abs=1e-5), 2.0)
    assert gap((0, 5), (1, 5), (4, 2500), (5, 5)) == (pytest.approx(2.5), 4.0)
    # Two on their way: the longest of them says nothing about the time between two ends.
    assert gap((0, 5), (1, 5), (4, 2500), (5, 5), outstanding=2) == (2.0, 4.0)
    assert gap((0, 5), (1, 2500), (2, 5), outstanding=2) == (0.0, 2.0)


def test_the_first_gap_is_that_before_the_first_end():
    assert gap((2, 1700), first_ns=START + SECOND // 2) == (pytest.approx(1.7), 2.5)
    assert gap((2, 1700), first_ns=START + SECOND // 2, outstanding=3) == (1.5, 2.5)
    assert gap((2, 2900), clients=False) == (2.0, 3.0)


def test_times_of_windows_widen_a_gap_of_clients():
    log = {
        "kind": "histograms", "latency": "completion", "window_ns": SECOND, "time_error_ns": SECOND // 2,
        "ios_guessed": 0,
    }  # fmt: skip
    listed = (0, 5), (1, 5), (4, 2500), (5, 5)
    assert gap(*listed, outstanding=2, layer="client", counted="client", log=log) == (1.0, 5.0)
    assert gap((0, 5), (1, 5), outstanding=2, layer="client", counted="client", log=log) == (0.0, 3.0)
    # What a latency proves does not depend on the windows, and the server has its own times.
    assert gap(*listed, layer="client", counted="client", log=log) == (pytest.approx(2.5), 5.0)
    assert gap(*listed, outstanding=2, log=log) == (2.0, 4.0)


def test_an_empty_interval_that_no_latency_explains_is_no_gap_that_is_known():
    assert gap((0, 5), (1, 5), (3, 5), (4, 5), outstanding=2) == (0.0, 3.0)


def test_no_io_no_gap():
    assert gap() is None and gap((0, 5), layer="client") is None


@given(
    st.lists(st.integers(1, 4_000), min_size=2, max_size=60),
    st.integers(0, 999),
)
def test_a_closed_loop_of_one_is_within_the_bounds(latencies_ms, begin_ms):
    """Ends of I/Os one after the other, counted by intervals of a second."""
    ends = list(itertools.accumulate(latencies_ms, initial=begin_ms))[1:]
    longest: dict[int, int] = {}
    for end, ms in zip(ends, latencies_ms, strict=True):
        longest[end // 1000] = max(longest.get(end // 1000, 0), ms)
    low, high = gap(*longest.items(), first_ns=START + begin_ms * 10**6)
    assert low <= max(latencies_ms) / 1e3 + 1e-9 and max(latencies_ms) / 1e3 <= high
    assert low == pytest.approx(max(latencies_ms) / 1e3, abs=2e-6)
