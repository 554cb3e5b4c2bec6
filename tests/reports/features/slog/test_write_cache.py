"""The four sentences about a write cache."""

from __future__ import annotations

import pytest

from reports.features.slog.write_cache import judge
from tests.reports.slog import Cost, slog_test


def transfer(us: float) -> Cost:
    """`us` and the time of the bytes at 1 GB/s."""
    return lambda size: us + size / 1000


def once(slow_us: float) -> Cost:
    """One size is slow."""
    return lambda size: slow_us if size == 64 << 10 else 30


@pytest.mark.parametrize(
    ("write_cache", "write_us", "flush_us", "alone", "code", "why"),
    [
        # No volatile cache, and no slower than a read: on a fast way and on a slow one.
        ("write through", transfer(20), 0.5, {}, "protected", "takes 21 µs for a write of 512 B"),
        ("write through", transfer(250), 0.5, {"read_us": 240.0}, "unknown", "takes 251 µs"),
        (
            "write through",
            transfer(8300),
            0.5,
            {"read_us": 8250.0},
            "unknown",
            "the read came from the medium",
        ),
        ("write through", transfer(100), 0.5, {"read_us": 50.0}, "protected", "takes 101 µs"),
        # No volatile cache, and each write waits: of flash (XL-FLASH 75 us, Z-NAND 100 us), or of a disk.
        ("write through", transfer(90), 0.5, {}, "cache-off", "takes 91 µs"),
        ("write through", transfer(111), 0.5, {}, "cache-off", "takes 112 µs"),
        ("write through", transfer(6000), 0.5, {}, "cache-off", "takes 6 ms"),
        ("write through", transfer(20), 0.5, {"read_us": None}, "protected", "takes 21 µs"),
        ("write through", transfer(111), 0.5, {"read_us": None}, "unknown", "was not measured"),
        # FLUSH waits for what was written.
        ("write back", transfer(20), 800, {}, "not-protected", "FLUSH takes 800 µs"),
        ("write back", transfer(20), 80, {}, "not-protected", "FLUSH takes 80 µs"),
        ("write back", transfer(20), 8300, {}, "not-protected", "FLUSH takes 8.3 ms"),
        # It is slow whether there is something to write or not: firmware, transport, a state of power.
        ("write back", transfer(20), 230, {"idle_us": 230.0}, "unknown", "230 µs with nothing to write"),
        ("write back", transfer(250), 250, {"idle_us": 245.0}, "unknown", "with nothing to write"),
        ("write back", transfer(400), 400, {"idle_us": 400.0}, "unknown", "with nothing to write"),
        ("write back", transfer(20), 800, {"idle_us": None}, "unknown", "was not measured"),
        # FLUSH costs nothing: protected, or ignored.
        ("write back", transfer(20), 10, {}, "unknown", "Only a power loss shows"),
        ("write back", transfer(20), 10, {"idle_us": None}, "unknown", "Only a power loss shows"),
        (None, transfer(20), 10, {}, "unknown", "the kernel does not say"),
    ],
)
def test_the_sentence(
    write_cache: str | None,
    write_us: Cost,
    flush_us: float,
    alone: dict[str, float | None],
    code: str,
    why: str,
) -> None:
    judged = judge(slog_test(write_cache, write_us, lambda _: flush_us, **alone))
    assert judged.code == code and why in judged.why, judged


@pytest.mark.parametrize(
    "flush_us", [once(210), lambda size: 5000 if size > 64 << 10 else 10], ids=["one size", "large ones"]
)
def test_one_size_or_an_overflow_does_not_decide(flush_us: Cost) -> None:
    assert judge(slog_test("write back", transfer(20), flush_us)).code == "unknown"


@pytest.mark.parametrize(
    ("flush_us", "percent", "code"),
    [(10, 98, "protected"), (10, 1, "protected"), (230, 98, "not-protected"), (10, 0, "not-protected")],
)
def test_a_log_of_capacitors_is_evidence_where_flush_costs_nothing(
    flush_us: float, percent: int, code: str
) -> None:
    """What FLUSH costs counts more than what the device says; empty capacitors protect nothing."""
    for write_cache in ("write back", "write through") if percent == 0 else ("write back",):
        judged = judge(slog_test(write_cache, transfer(20), lambda _: flush_us, capacitor_health=percent))
        assert judged.code == code and (code != "protected" or f"at {percent} %" in judged.why)
