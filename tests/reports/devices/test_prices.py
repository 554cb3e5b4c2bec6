"""reports.devices.prices: what devices cost, and how many of one replace how many of another."""

from __future__ import annotations

from typing import Any

from kit.store.manifest import Manifest
from reports.devices import prices
from tests.reports.devices.test_together import phase
from tests.reports.synthetic import manifest, parsed

SSD = {"name": "ssd", "model": "X25-E", "size_bytes": 64 * 10**9, "price": "816.90 EUR"}
DISK = {
    "name": "disk",
    "model": "ST9",
    "size_bytes": 500 * 10**9,
    "price": "250.00 EUR",
    "endurance_bytes": 10**14,
}


def run(*devices: dict[str, Any], seeks: dict[str, int], **more: Any) -> Manifest:
    """Phases of random I/Os at depth 1, of two seconds each. `seeks`: I/Os by device."""
    phases = [
        phase(f"seeks-{name}", {name: ios}, op="mixed", block_bytes=8192, job="seeks.fio")
        for name, ios in seeks.items()
    ]
    value = {**manifest(), "phases": [each.as_json() for each in phases], **more}
    return parsed({**value, "testbed": {"name": "t", "devices": list(devices)}})


def said(*runs: Manifest) -> list[str]:
    return [*prices.sentences([prices.of_run(each) for each in runs])]


def test_prices_by_size_endurance_and_seeks() -> None:
    aged = {"fresh": False, "devices": [{"device": "ssd"}]}
    first, second, pair = said(run(SSD, DISK, seeks={"ssd": 8000, "disk": 400}, precondition=aged))
    assert first == (
        "ssd costs 816.90 EUR: 12.76 EUR per GB; 204.22 EUR per 1,000 a second of random reads "
        "and writes of 8 KiB, one at a time (aged)."
    )
    assert "0.50 EUR per GB; 2.50 EUR per TB of its rated endurance; 1,250.00 EUR per 1,000" in second
    assert second.endswith("(not aged).")
    assert pair == (
        "By random reads and writes of 8 KiB, one at a time: 20.0 disk for one ssd (200 and 4,000 a second), "
        "which cost 5,000.00 and 816.90 EUR."
    )


def test_the_article_s_two_disks_for_one_ssd() -> None:
    """Published: 441.4 seeks a second of a RAID, 210.2 of a disk: 2.1 : 1."""
    bare = [{key: value for key, value in each.items() if key != "price"} for each in (SSD, DISK)]
    (pair,) = said(run(*bare, seeks={"ssd": 883, "disk": 420}))
    assert "2.1 disk for one ssd" in pair and "cost" not in pair


def test_runs_of_a_series_are_held_together_under_the_same_settings_alone() -> None:
    def cache(state: str) -> dict[str, Any]:
        return {"host_settings": [{"name": "write_cache", "path": "/dev/x", "before": "on", "set": state}]}

    ssd, disk = {**SSD, "price": None}, {**DISK, "price": None}
    same = [run(ssd, seeks={"ssd": 80}, **cache("off")), run(disk, seeks={"disk": 40}, **cache("off"))]
    (pair,) = said(*same)
    assert "one at a time, write_cache = off: 2.0 disk for one ssd" in pair
    other = [run(ssd, seeks={"ssd": 80}, **cache("on")), run(disk, seeks={"disk": 40}, **cache("off"))]
    assert said(*other) == []


def test_nothing_is_said_of_queues_order_and_like_devices() -> None:
    ssd, twin = {**SSD, "price": None}, {**SSD, "price": None, "name": "twin"}
    assert said(run(ssd, twin, seeks={"ssd": 80, "twin": 40})) == []
    disk = {**DISK, "price": "free"}
    for more in ({"outstanding": 3}, {"is_random": False}, {"target": None}):
        phases = [phase(f"p-{name}", {name: 80}, **more).as_json() for name in ("ssd", "disk")]
        value = {**manifest(), "phases": phases, "testbed": {"name": "t", "devices": [ssd, disk]}}
        assert said(parsed(value)) == []
