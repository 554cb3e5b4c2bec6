"""A series over addresses as the kit would have stored it: a rate at each, by phase and filled part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kit.store.series import Series
from reports.series.ratios import ratios_of

ADDRESSES = tuple(str(10 * tenth) for tenth in range(10))
BLOCK = 128 << 10
# Of each address MB/s, of a disk and of an SSD that is filled to its half.
DISK = [116 - 6 * tenth for tenth in range(10)]
HALF = [160.0, 161, 160, 161, 160, 211, 211, 211, 211, 211]


def _run(rate: float, turn: int, op: str, unwritten: float, rotating: bool) -> dict[str, Any]:
    ios = rate * 1e6 / BLOCK
    row = {"layer": "device", "op": op, "tier": "all", "count": 1000, "share": 1.0, "p50_us": 1e6 / ios,
           "p50_range_us": [0.99e6 / ios, 1.01e6 / ios], "p99_us": 1.2e6 / ios}  # fmt: skip
    return {
        "run": f"20261121T0500{turn:02d}Z-{turn:06x}", "round": turn, "verdict": "valid", "ios_per_s": ios,
        "ios_per_s_range": [0.99 * ios, 1.01 * ios], "bytes_per_s": rate * 1e6, "cpu_busy": 0.3,
        "never_written": unwritten, "rotating": rotating, "rows": [row],
    }  # fmt: skip


def series(
    rates: Mapping[tuple[str, str], Sequence[float]],
    *,
    rounds: int = 1,
    half: Sequence[str] = (),
    identity: str = "aaaaaa",
    rotating: bool = False,
    addresses: Sequence[str] = ADDRESSES,
) -> Series:
    """`rates`: MB/s at each address, by phase and filled part; of `half` those that nothing had written.

    Each round after the first is 1 % faster than the one before.
    """
    cells = []
    for (phase, filled), values in rates.items():
        for address, rate in zip(addresses, values, strict=True):
            at = {**({"address": address} if address != addresses[0] else {}),
                  **({"filled": filled} if filled != "100" else {})}  # fmt: skip
            unwritten = float(filled == "50" and phase == "read" and address in half)
            op = "write" if phase == "write" else "read"
            passes = ((turn, rate * 1.01 ** (turn - 1)) for turn in range(1, rounds + 1))
            runs = [_run(each, turn, op, unwritten, rotating) for turn, each in passes]
            name = ",".join(f"{key}={value}" for key, value in at.items()) or "base"
            cells.append({"name": name, "at": at, "phase": phase, "in_run": f"{phase}-{address}",
                          "build": "base", "verdict": "valid", "runs": runs})  # fmt: skip
    axes = [
        {"name": "address", "keys": ["job.offset"], "kind": "phase", "values": list(addresses), "unit": "%"},
        {"name": "filled", "keys": ["precondition.filled"], "kind": "build", "values": ["100", "50"],
         "unit": "%"},
    ]  # fmt: skip
    value = {
        "format": 1, "name": "addresses", "title": "Addresses", "id": f"series-20261121T050000Z-{identity}",
        "started_utc": "2026-11-21T05:00:00Z", "sources": ["/w.toml", "/t.toml"], "testbed": "lab",
        "digest": "0" * 64, "drift_max": 0.05, "repeat": rounds, "axes": axes, "cells": cells,
        "builds": [{"name": "base", "digest": "0" * 64}], "ended": True, "verdict": "valid",
    }  # fmt: skip
    made = Series.from_json(value, "series.json")
    return made.model_copy(update={"ratios": ratios_of(made, made.cells)[0]})


def half_filled(**named: Any) -> Series:
    """Of an SSD: whole, and half filled."""
    rates = {("read", "100"): [160.0] * 10, ("read", "50"): HALF, ("write", "100"): [70.0] * 10}
    return series(rates, half=ADDRESSES[5:], **named)
