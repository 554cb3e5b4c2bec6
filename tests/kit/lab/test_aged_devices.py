"""kit.lab.aged_devices: what is kept of an aged device, and what is not taken for it. Nothing is started."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.config.testbed_devices import NO_BUSES, Bus, Device, resolve_devices
from kit.core.progress import Progress
from kit.emulation import compilation
from kit.lab import aged_devices

STATE = b"state of a device" * 100
POINT = {
    "stage": "fill 1", "op": "write", "block_bytes": 4096, "written_bytes": 1, "interval_ns": 1, "ios": 2,
    "p99_ns": None, "iops": 5.0, "cells": [[0, 3, 2]],
}  # fmt: skip


def proof(**values: Any) -> dict[str, Any]:
    return {
        "format": aged_devices.FORMAT, "run": "20260101T000000Z-abcdef", "utc": "2026-01-01T00:00:00Z",
        "sources": compilation.models_digest(), "device": "log0", "entry": {"device": "log0"},
        "capacity_bytes": 1 << 26, "points": [POINT],
        "state": {"bytes": len(STATE), "sha256": hashlib.sha256(STATE).hexdigest()}, **values,
    }  # fmt: skip


def stored(**values: Any) -> aged_devices.Proof:
    return aged_devices.Proof.model_validate_json(json.dumps(proof(**values)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "aged" / "0123456789abcdef"
    place.parent.mkdir()
    aged_devices._store(place, STATE, stored())
    return place


def test_what_was_stored_is_read(place: Path) -> None:
    observed = aged_devices._read(place)
    assert observed is not None and observed[1] == STATE and observed[0] == stored()
    assert observed[0].points[0].cells == ((0, 3, 2),)
    assert aged_devices.current(place)


def test_it_is_stored_whole_and_leaves_nothing_beside(place: Path) -> None:
    dead = place.with_name(f".build-{place.name}-1")
    dead.mkdir()
    aged_devices._store(place, STATE[::-1], stored(run="another"))
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert (place / "state").read_bytes() == STATE[::-1]


@pytest.mark.parametrize("content", [b"", STATE[:-1], STATE + b"x", STATE[:-1] + b"?"])
def test_a_state_that_is_not_what_was_stored_is_not_taken(place: Path, content: bytes) -> None:
    (place / "state").write_bytes(content)
    assert aged_devices._read(place) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 99}, {"run": 7}, {"utc": None}, {"entry": []}, {"points": 3}, {"points": [3]},
        {"points": [{"stage": 1}]}, {"points": [{**POINT, "cells": 4}]}, {"capacity_bytes": "x"},
        {"state": 3}, {"state": {}}, {"sources": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_proof_is_none(place: Path, damage: dict[str, Any]) -> None:
    (place / "proof.json").write_text(json.dumps(proof(**damage)))
    assert aged_devices._read(place) is None
    assert not aged_devices.current(place)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "null", '{"format": 1}'])
def test_a_proof_that_is_no_object(place: Path, text: str) -> None:
    (place / "proof.json").write_text(text)
    assert aged_devices._read(place) is None


def test_models_of_other_sources_are_not_current(place: Path) -> None:
    (place / "proof.json").write_text(json.dumps(proof(sources="0123456789abcdef")))
    assert not aged_devices.current(place)


def test_a_device_on_a_bus_ages_apart_from_one_without(tmp_path: Path) -> None:
    """The same device, its name and that of its bus do not matter, the rate of the bus does."""

    def place(name: str, bus: str | None, per_s: str = "300MB") -> Path:
        device = Device.model_validate(
            {"name": name, "role": "log", "size": "64MiB", "preset": "nvme-consumer", "bus": bus}
        )
        buses = {bus: Bus.model_validate({"per_s": per_s})} if bus else NO_BUSES
        devices = resolve_devices((device,), tmp_path)
        states = aged_devices.AgedStates(
            cast(Any, None), cast(Any, None), devices, 4, Progress(quiet=True), False, buses
        )
        return states._path(name, Precondition(method="fills", fills=1))

    assert place("log0", None) == place("log1", None)
    assert place("log0", "hba0") == place("log1", "hba1") != place("log0", None)
    assert place("log0", "hba0", "200MB") != place("log0", "hba0")
