"""The four sentences about a write cache."""

from __future__ import annotations

import pytest

from reports.verdict.write_cache import PROGRAM_US, judge
from tests.reports.slog import Cost, slog_test


def transfer(us: float) -> Cost:
    """`us` and the time of the bytes at 1 GB/s."""
    return lambda size: us + size / 1000


@pytest.mark.parametrize(
    ("write_cache", "write_us", "flush_us", "code", "why"),
    [
        # No volatile cache, and faster than flash.
        ("write through", transfer(20), 0.5, "protected", "takes 21 µs for a write of 512B"),
        # No volatile cache, and as slow as flash or a disk.
        ("write through", transfer(230), 0.5, "cache-off", "takes 231 µs"),
        ("write through", transfer(6000), 0.5, "cache-off", "takes 6 ms"),
        # FLUSH waits.
        ("write back", transfer(20), 800, "not-protected", "FLUSH takes 800 µs"),
        ("write back", transfer(20), PROGRAM_US, "not-protected", "FLUSH takes 200 µs"),
        ("write back", transfer(20), 8300, "not-protected", "FLUSH takes 8.3 ms"),
        # FLUSH costs nothing: protected, or ignored.
        ("write back", transfer(20), 10, "unknown", "answers FLUSH in 10 µs or less"),
        ("write back", transfer(20), PROGRAM_US - 5, "unknown", "Only a power loss shows"),
        (None, transfer(20), 10, "unknown", "the kernel does not say"),
    ],
)
def test_the_sentence(write_cache: str | None, write_us: Cost, flush_us: float, code: str, why: str) -> None:
    judged = judge(slog_test(write_cache, write_us, lambda _: flush_us))
    assert judged.code == code and why in judged.why


def test_large_writes_that_overflow_a_cache_say_nothing() -> None:
    test = slog_test("write back", transfer(20), lambda size: 5000 if size > 64 << 10 else 10)
    assert judge(test).code == "unknown"


def test_the_largest_flush_of_small_writes_counts() -> None:
    test = slog_test("write back", transfer(20), lambda size: 500 if size == 32 << 10 else 10)
    judged = judge(test)
    assert judged.code == "not-protected" and "32KiB" in judged.why


def test_a_log_of_capacitors_is_evidence_where_flush_costs_nothing() -> None:
    judged = judge(slog_test("write back", transfer(20), lambda _: 10, capacitor_health=98))
    assert judged.code == "protected" and "capacitors, at 98 %" in judged.why
    # What FLUSH costs counts more than what the device says.
    assert (
        judge(slog_test("write back", transfer(20), lambda _: 900, capacitor_health=98)).code
        == "not-protected"
    )


@pytest.mark.parametrize(("rotational", "words"), [(False, "flash takes"), (True, "a platter has to turn")])
@pytest.mark.parametrize("write_cache", ["write through", "write back"])
def test_why_names_the_medium_of_the_device(write_cache: str, rotational: bool, words: str) -> None:
    test = slog_test(write_cache, transfer(20), lambda _: 800 if write_cache == "write back" else 0.5)
    device = test.device.model_copy(update={"rotational": rotational})
    assert words in judge(test.model_copy(update={"device": device})).why
