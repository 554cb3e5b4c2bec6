"""reports.devices.together: devices at once beside each alone."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

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
        "name": name, "target": "device:data", "op": "write", "job": "w.fio", "block_bytes": 10_000,
        "outstanding": 1, "is_random": True, "start_ns": 0, "end_ns": 9 * SECOND, "interval_ns": SECOND // 20,
        "client_ios": sum(ios.values()), "server_ios": None, "lost_events": None, "clients": clients, **more,
    }  # fmt: skip
    return Phase.from_json(value, "x")


ALONE = [phase("w-a", {"a": 10000}), phase("w-b", {"b": 20000})]


def said(*phases: Phase, spread: float = 0.0, bus: dict[str, Any] | None = None) -> list[str]:
    """Each phase has its I/Os in 40 intervals, every other one with `spread` more than the rest."""
    rows = [
        {
            "phase": each.name, "layer": "device", "time_ns": SECOND + number * each.interval_ns,
            "count": round(each.client_ios / 40 * (1 + spread * (number % 4 < 2) - spread / 2)),
        }
        for each in phases
        for number in range(40)
    ]  # fmt: skip
    testbed = manifest.Testbed(
        devices=tuple(manifest.Device(name=name, bus=bus and manifest.Bus(**bus)) for name in "ab")
    )
    return [*together.sentences(pl.DataFrame(rows), phases, testbed)]


def test_devices_that_share_nothing_are_as_fast_together() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 10000, "b": 19800}))
    assert text.startswith(
        "all: all 2 devices at once wrote 149 MB/s, 0.993 times what each does alone, 150 MB/s together "
        "(within this run: 0.99"
    )
    assert "share" not in text and "open" not in text and text.endswith(").")


def test_one_shortfall_may_be_the_moment() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 9000, "b": 10000}))
    assert "95 MB/s, 0.633 times" in text and "95 %" not in text
    assert "or a device had changed its state; several phases of each load tell" in text
    assert "b fell most, from 100 MB/s to 50 MB/s" in text


def test_several_shortfalls_are_what_they_share() -> None:
    again = [phase(f"{each.name}-2", {row.host: row.ios + 10 for row in each.clients}) for each in ALONE]
    at_once = [phase(f"all-{n}", {"a": 9000 + n, "b": 10000}) for n in range(2)]
    (text,) = said(*ALONE, *again, *at_once)
    assert text.startswith("all-0, all-1: all 2 devices at once") and "(95 %, over 2 phases: " in text
    assert "They share something that limits them, such as a bus" in text and "may have" not in text


def test_the_bus_of_the_testbed_is_named() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 9000, "b": 10000}), bus={"name": "hba0", "per_s": 95 * 10**6})
    assert "something that limits them, which the testbed has: the bus hba0 of 95 MB/s, or a device" in text


@pytest.mark.parametrize(("spread", "interval"), [(0.4, SECOND // 20), (0.0, SECOND)])
def test_what_the_ios_leave_open_is_said(spread: float, interval: int) -> None:
    (text,) = said(*ALONE, phase("all", {"a": 9700, "b": 19400}, interval_ns=interval), spread=spread)
    assert "is open: measure longer, or in more phases." in text and "share something" not in text


def test_rates_are_over_the_time_of_all() -> None:
    (text,) = said(*ALONE, phase("all", {"a": 10000, "b": 20000}, seconds=4.0))
    assert "75 MB/s, 0.500 times" in text


def test_nothing_is_said_where_a_device_or_its_load_is_not_known_alone() -> None:
    both = phase("all", {"a": 10000, "b": 20000})
    assert not said(ALONE[0], both)
    assert not said(*ALONE, phase("all", {"a": 1000, "b": 2000}, block_bytes=512))
    assert not said(*ALONE, phase("all", {"a": 1000, "b": 2000}, target=None))
    assert not said(*ALONE, phase("all", {"a": 0, "b": 2000}))
    assert not said(*ALONE)
