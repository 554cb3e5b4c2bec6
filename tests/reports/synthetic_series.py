"""A series as the kit would have written it: runs whose I/Os have a chosen latency, and series.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import reports
from kit.store.series import Series, write_series
from tests.reports import synthetic

SIZES = ("512", "4k", "128k")
# Of the builds: the sizes, and the base once more.
_BYTES = (512, 4096, 131072, 512)
ID = "series-20261121T050000Z-aaaaaa"
# I/Os of a phase; a median of so many is known to 1 %.
IOS = 4000
# In ns, of the base.
MEDIAN_NS = 150_000
# What the client sees more than the server.
CLIENT_NS = 20_000
# Files of the runs that were made: each is the same whenever it is made again.
_runs: dict[str, dict[str, bytes]] = {}


def run(
    results: Path,
    number: int,
    phases: Mapping[str, int],
    changes: Mapping[str, Any] | None = None,
    block_bytes: int = 512,
) -> str:
    """A run with O_DSYNC writes in each phase, whose median is given in ns; returns its name."""
    name = f"20261121T05{number:02d}00Z-{number:06x}"
    path, key = results / "sizes" / name, repr((number, phases, changes, block_bytes))
    if key in _runs:
        path.mkdir(parents=True)
        for file, content in _runs[key].items():
            (path / file).write_bytes(content)
        return name
    generator = np.random.default_rng(number)
    frames, entries = [], []
    for index, (phase, median) in enumerate(phases.items()):
        latency = (median * np.exp(0.04 * generator.standard_normal(IOS))).astype(np.int64)
        # A closed loop: slower I/Os take longer.
        lasts_s = round(10 * (median + CLIENT_NS) / (MEDIAN_NS + CLIENT_NS))
        time = (index * 100 + np.arange(IOS) % lasts_s).astype(np.int64) * synthetic.SECOND
        common = {"phase": phase, "op": "write"}
        frames += [
            synthetic.binned(time, latency, layer="nfs-server", host="lab", tier="slog", **common),
            synthetic.binned(
                time, latency + CLIENT_NS, layer="client", host="lab/client0", tier="all", **common
            ),
        ]
        entries.append({
            "name": phase, "title": phase, "op": "write", "expected_tiers": ["slog"], "tiers": ["slog"],
            "job": "w.fio", "block_bytes": block_bytes, "outstanding": 1,
            "start_ns": index * 100 * synthetic.SECOND,
            "end_ns": (index * 100 + lasts_s) * synthetic.SECOND, "interval_ns": synthetic.SECOND,
            "client_ios": IOS, "server_ios": IOS, "lost_events": 0, "checks": [], "problems": [],
        })  # fmt: skip
    manifest = {**synthetic.manifest(), "run": name, "workload": "sizes", "phases": entries, "expect": []}
    manifest |= {"started_utc": f"2026-11-21T05:{min(number, 59):02d}:00Z", "ended": True, **(changes or {})}
    reports.analyse(synthetic.write(path, manifest, pl.concat(frames)))
    _runs[key] = {file.name: file.read_bytes() for file in path.iterdir()}
    return name


def document(builds: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """series.json of O_DSYNC writes by size, before it is analysed."""
    cells = [
        {"name": name, "at": {} if name == "base" else {"io-size": size}, "phase": "write-slog",
         "in_run": "write-slog", "build": name}
        for size, name in zip(SIZES, ("base", "io-size=4k", "io-size=128k"), strict=True)
    ]  # fmt: skip
    again = {**cells[0], "build": "base-again", "again": True}
    return {
        "format": 1, "name": "sizes", "title": "Writes by size", "id": ID,
        "started_utc": "2026-11-21T05:00:00Z",
        "sources": ["/w.toml", "/t.toml"], "testbed": "lab", "emulated": True, "digest": "0" * 64,
        "drift_max": 0.05, "reference": "sun-7410-2009", "builds": list(builds), "cells": [*cells, again],
        "axes": [{"name": "io-size", "keys": ["job.bs"], "kind": "build", "values": list(SIZES)}], **changes,
    }  # fmt: skip


def series(results: Path, factors: Sequence[float] = (1, 1.5, 4, 1), rounds: int = 1, **changes: Any) -> Path:
    """A series directory with its runs. `factors`: of 512, 4k, 128k and of the base once more."""
    names = ("base", *(f"io-size={size}" for size in SIZES[1:]), "base-again")
    builds = [
        {"name": name, "digest": "0" * 64, "runs": [
            {"run": run(results, 10 * turn + place, {"write-slog": int(factor * MEDIAN_NS)}, None, size),
             "round": turn}
            for turn in range(1, rounds + 1)
        ]}
        for place, (name, factor, size) in enumerate(zip(names, factors, _BYTES, strict=True))
    ]  # fmt: skip
    path = results / "sizes" / ID
    path.mkdir()
    write_series(path, Series.from_json(document(builds, repeat=rounds, **changes), path))
    return path
