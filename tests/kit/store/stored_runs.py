"""Counts that go with a stored manifest, for manifests without their latency.parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from kit.core.bins import bin_edges, bin_index
from kit.store.tables import LATENCY_SCHEMA

FOLDER = Path(__file__).parent / "manifests"
Json = dict[str, Any]


def stored(name: str) -> Json:
    value: Json = json.loads((FOLDER / f"{name}.json").read_text())
    return value


def counts_of(manifest: Json) -> pl.DataFrame:
    """Rows as a run of `manifest` could have them: its I/Os, extremes and sums."""
    rows = [row for phase in manifest["phases"] for row in _rows(phase)]
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")


def _rows(phase: Json) -> list[tuple[Any, ...]]:
    keys = [tuple(each[k] for k in ("layer", "host", "op", "tier")) for each in phase["extremes"]]
    sums = {tuple(each[k] for k in ("layer", "host", "op", "tier")): each for each in phase.get("sums", ())}
    intervals = (phase["end_ns"] - phase["start_ns"]) // phase["interval_ns"]
    made = []
    for key, each in zip(keys, phase["extremes"], strict=True):
        ios = sums[key]["ios"] if key in sums else phase["client_ios"]
        total = sums[key]["sum_ns"] if key in sums else ios * each["min_ns"]
        middle = (total - each["min_ns"] - each["max_ns"]) // max(ios - 2, 1)
        held = [(each["min_ns"], 1), (each["max_ns"], 1), (max(middle, each["min_ns"]), ios - 2)]
        for number, (latency_ns, count) in enumerate(held[:1] if ios == 1 else held):
            for at, part in _spread(count, intervals, number):
                index = bin_index([latency_ns])
                low, high = (int(edge[0]) for edge in bin_edges(index))
                time_ns = phase["start_ns"] + at * phase["interval_ns"]
                made.append((time_ns, phase["name"], *key, low, high, part))
    return made


def _spread(count: int, intervals: int, number: int) -> list[tuple[int, int]]:
    """(interval, I/Os): one I/O in the first or the last, more in all."""
    if count == 1:
        return [(0 if number == 0 else intervals - 1, 1)]
    each, rest = divmod(count, intervals)
    return [(at, n) for at in range(intervals) if (n := each + (at < rest))]
