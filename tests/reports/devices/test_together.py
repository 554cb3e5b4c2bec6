"""reports.devices.together: devices at once beside each alone."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.store import manifest
from kit.store.phase import Phase
from reports.devices import together

SECOND = 10**9


def phase(name: str, ios: dict[str, int], seconds: float = 2.0, **more: Any) -> Phase:
    clients = [
        {
            "host": host, "ios": count, "first_ns": SECOND, "last_ns": SECOND + round(seconds * SECOND),
            "skew_ns": 0, "clock_offset_ns": 0, "clock_error_ns": 0,
        }
        for host, count in ios.items()
    ]  # fmt: skip
    value = {
        "name": name, "target": "device:data", "op": "write", "job": "w.fio", "block_bytes": 1_000_000,
        "outstanding": 1, "is_random": True, "start_ns": 0, "end_ns": 9 * SECOND, "interval_ns": SECOND,
        "client_ios": sum(ios.values()), "server_ios": None, "lost_events": None, "clients": clients, **more,
    }  # fmt: skip
    return Phase.from_json(value, "x")


ALONE = [phase("w-a", {"a": 100}), phase("w-b", {"b": 200})]


def said(*phases: Phase, spread: float = 0.02, bus: dict[str, Any] | None = None) -> list[str]:
    """Each I/O of a phase in one of two bins, `spread` of their middle apart."""
    rows = [
        {
            "phase": each.name, "layer": "device", "host": client.host, "op": "write", "tier": "all",
            "lo_ns": low, "hi_ns": low + 2, "count": client.ios // 2,
        }
        for each in phases
        for client in each.clients
        for low in (round(1e6 * (1 - spread)), round(1e6 * (1 + spread)))
    ]  # fmt: skip
    testbed = manifest.Testbed(
        devices=tuple(manifest.Device(name=name, bus=bus and manifest.Bus(**bus)) for name in "ab")
    )
    return [*together.sentences(pl.DataFrame(rows), phases, testbed)]


def test_devices_that_share_nothing_are_as_fast_together() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 100, "b": 198}))
    assert text == (
        "all: all 2 devices at once wrote 149 MB/s, 99.3% (± 0.3) of what each does alone, 150 MB/s together."
    )


def test_a_shortfall_is_named_with_the_device_that_fell_most() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 90, "b": 100}))
    assert "95 MB/s, 63.3%" in text and "They share something that limits them" in text
    assert "b fell most, from 100 MB/s to 50 MB/s" in text


def test_the_bus_of_the_testbed_is_named() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 90, "b": 100}), bus={"name": "hba0", "per_s": 95 * 10**6})
    assert "something that limits them, which the testbed has: the bus hba0 of 95 MB/s. b fell most" in text


def test_too_few_ios_say_so() -> None:
    """Half of 20 % more, half of 20 % less: 300 I/Os leave open 3 %."""
    (text,) = said(*ALONE, phase("all", {"a": 97, "b": 194}), spread=0.2)
    assert "too few I/Os to tell whether that is less than 97%" in text and "share something" not in text


def test_rates_are_over_the_time_of_all() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 100, "b": 200}, seconds=4.0))
    assert "75 MB/s, 50.0%" in text


def test_nothing_is_said_where_a_device_or_its_load_is_not_known_alone() -> None:
    both = phase("all", {"a": 100, "b": 200})
    assert not said(ALONE[0], both)
    assert not said(*ALONE, phase("all", {"a": 10, "b": 20}, block_bytes=512))
    assert not said(*ALONE, phase("all", {"a": 10, "b": 20}, target=None))
    assert not said(*ALONE, phase("all", {"a": 0, "b": 20}))
    assert not said(*ALONE)
