"""Candidates of a buyer's sheet as the kit would have stored them: a series of runs with chosen latencies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kit.core.bins import bin_edges, bin_index
from kit.session.sheet import buyers_sheet
from kit.store.run_directory import RunDir
from kit.store.series import Series, write_series
from kit.store.sheet import Candidate, Sheet
from kit.store.tables import AGEING_SCHEMA, write_ageing
from tests.reports import synthetic

ID = "series-20261121T050000Z-bbbbbb"
IOS = 8000
POOL_US, DISK_US = 8300.0, 5000.0
# Medians in us: of writes to the log device, of reads from the L2ARC; and alone.
DRIVES: dict[str, dict[str, Any]] = {
    "today": {"write": 160.0, "read": 240.0, "model": "SLC"},
    "consumer": {"write": 1100.0, "read": 120.0, "model": "TLC", "price": "35 EUR"},
    "datacentre": {"write": 60.0, "read": 110.0, "model": "TLC with capacitors", "price": "90 EUR"},
    "slc": {"write": 160.0, "read": 240.0, "model": "SLC", "price": "125 EUR"},
}
CUTS: dict[str, int] = {"datacentre": 0, "slc": 0}


def run(path: Path, number: int, name: str, drive: Mapping[str, Any], **changes: Any) -> str:
    """A run of a candidate; returns its name. `changes`: of the manifest.

    Of `drive`: `tail`, so many times as long every 49th write; `reads`, in the phase of its writes, too;
    `read` or `write` None: no such device; `sums`: with the exact sums of latencies.
    """
    run_name = f"20261121T05{number:02d}00Z-{number:06x}"
    random = np.random.default_rng(number)
    loads = [
        ("read", "read", {"l2arc": drive["read"], "disk": DISK_US} if drive["read"] else {"disk": DISK_US}),
        ("write-slog", "write", {"slog": drive["write"]} if drive["write"] else {"pool": POOL_US}),
        ("write-pool", "write", {"pool": POOL_US}),
    ]
    frames, phases = [], []
    made = devices(name, drive)
    for index, (phase, op, tiers) in enumerate(loads):
        start, sums = index * 100 * synthetic.SECOND, []
        for tier, us in tiers.items():
            latency = (us * 1e3 * np.exp(0.04 * random.standard_normal(IOS))).astype(np.int64)
            latency[::49] *= drive.get("tail", 1) if tier == "slog" else 1
            time = (start + np.arange(IOS) % 10 * synthetic.SECOND).astype(np.int64)
            common = {"phase": phase, "op": op}
            place = {"layer": "nfs-server", "host": "lab", "op": op, "tier": tier}
            sums.append({**place, "ios": IOS, "sum_ns": int(latency.sum())})
            frames.append(
                synthetic.binned(time, latency, layer="nfs-server", host="lab", tier=tier, **common)
            )
            client = {"layer": "client", "host": "lab/client0", "tier": "all"}
            frames.append(synthetic.binned(time, latency + 20_000, **client, **common))
        total = IOS * len(tiers)
        reads = drive.get("reads", 0) if phase == "write-slog" else 0
        if reads:
            time, latency = np.full(reads, start, np.int64), np.full(reads, 9000, np.int64)
            frames += [
                synthetic.binned(time, latency, phase=phase, op="read", layer=layer, host=host, tier=tier)
                for layer, host, tier in (("nfs-server", "lab", "dram"), ("client", "lab/client0", "all"))
            ]
        phases.append({
            "name": phase, "op": op, "expected_tiers": list(tiers), "tiers": list(tiers), "job": "w.fio",
            "block_bytes": 4096, "outstanding": 1, "start_ns": start, "end_ns": start + 10 * synthetic.SECOND,
            "interval_ns": synthetic.SECOND, "client_ios": total + reads, "server_ios": total + reads,
            "lost_events": 0, "checks": [], "problems": [], "sums": sums if drive.get("sums") else [],
            "devices": [
                each for each in use(name, start, total if op == "write" else 0)
                if each["device"] in {device["name"] for device in made}
            ],
        })  # fmt: skip
    manifest = {**synthetic.manifest(), "run": run_name, "workload": "candidates", "phases": phases}
    manifest |= {"started_utc": f"2026-11-21T05:{min(number, 59):02d}:00Z", "expect": [], "reference": None}
    manifest["testbed"] = {**manifest["testbed"], "name": name, "devices": made}
    written = synthetic.write(path / run_name, manifest | changes, pl.concat(frames))
    write_ageing(written, aged(name, drive))
    return run_name


def devices(name: str, drive: Mapping[str, Any]) -> list[dict[str, Any]]:
    common = {
        "model": drive["model"], "parameters": {"page": 4096, "name": drive["model"]}, "path": "/dev/x",
        "endurance_bytes": drive.get("endurance_bytes", 10**15),
    }  # fmt: skip
    if "price" in drive:
        common["price"] = drive["price"]
    return [
        {**common, "name": f"{role}-{name}", "role": role, "size_bytes": size}
        for role, size, op in (("log", 64 << 20, "write"), ("cache", 128 << 20, "read"))
        if drive[op] or op == "read"
    ]


def use(name: str, start: int, writes: int) -> list[dict[str, Any]]:
    """The kernel's counts of the log device: each write of 4 KiB is one of 8 KiB there."""
    times = ("read_ns", "write_ns", "busy_ns", "queue_ns")
    zero = dict.fromkeys(("reads", "read_bytes", "writes", "written_bytes", "in_flight", *times), 0)
    ended = {**zero, "writes": writes, "written_bytes": writes * 8192, "at_ns": start + 10 * synthetic.SECOND}
    begun = {**zero, "at_ns": start}
    fed = {**ended, "writes": 10, "written_bytes": 10 << 20}
    return [
        {"device": f"log-{name}", "samples": [begun, ended]},
        {"device": f"cache-{name}", "samples": [begun, fed]},
    ]


def aged(name: str, drive: Mapping[str, Any]) -> pl.DataFrame:
    """Two points: fresh, and after a fill at the latencies of the drive less what NFS takes."""
    rows = []
    for role, op in (("log", "write"), ("cache", "read")):
        for point, factor in ((0, 0.1), (1, 0.8)):
            index = int(bin_index(int((drive[op] or 100.0) * factor * 1000)))
            low, high = bin_edges([index])
            stage = f"fill {point}" if point else "purge"
            place = (f"{role}-{name}", role, point, stage, point * 2 << 26, 64 << 20)
            rows.append((*place, op, 4096, 0, synthetic.SECOND, int(low[0]), int(high[0]), IOS))
    return pl.DataFrame(rows, schema=AGEING_SCHEMA, orient="row")


def power_loss(lost: int, moments: int = 10, what: str = "lost", **more: Any) -> dict[str, Any]:
    """`what`: the class of the records; `more`: other keys than usual. The control loses all."""
    proof = [{"device": "log0", "counter": "power_losses", "before": 0, "after": 1}]
    one = {"acknowledged": 100, "looked_at": 100, "proof": proof}
    return {
        "moments": [{"at_ns": n, **one, what: lost} for n in range(moments)], "acknowledged": 100 * moments,
        "lost": lost * moments, "asked": moments, "scope": "lab", "control": "no-sync",
        "control_moments": [{**one, "lost": 100}], **more,
    }  # fmt: skip


def series(
    results: Path,
    drives: Mapping[str, Mapping[str, Any]] = DRIVES,
    cuts: Mapping[str, int | dict[str, Any]] = CUTS,
    title: str = "Which SSD",
) -> list[str]:
    """Paths of a series of `drives`, and of runs that cut the power of `cuts`.

    Of these: writes lost each time, or `power_loss` of the manifest.
    """
    folder = results / "candidates"
    names = list(drives)
    labels = ["base", *(f"candidate={name}" for name in names[1:])]
    runs = [run(folder, n, name, drives[name]) for n, name in enumerate(names)]
    cells = [
        {"name": label, "at": {} if label == "base" else {"candidate": name}, "phase": phase, "in_run": phase,
         "build": label}
        for name, label in zip(names, labels, strict=True)
        for phase in ("read", "write-slog", "write-pool")
    ]  # fmt: skip
    value = {
        "format": 1, "name": "candidates", "title": title, "id": ID, "started_utc": "2026-11-21T05:00:00Z",
        "sources": ["/w.toml", "/t.toml"], "testbed": "lab", "emulated": True, "digest": "0" * 64,
        "drift_max": 0.05, "cells": cells, "ended": True, "verdict": "valid",
        "axes": [{"name": "candidate", "keys": ["use.log", "use.cache"], "kind": "build", "values": names}],
        "builds": [
            {"name": label, "digest": "0" * 64, "runs": [{"run": name, "round": 1}]}
            for label, name in zip(labels, runs, strict=True)
        ],
    }  # fmt: skip
    path = folder / ID
    path.mkdir()
    write_series(path, Series.from_json(value, path))
    cut = [
        folder
        / run(
            folder,
            30 + n,
            name,
            drives[name],
            power_loss=lost if isinstance(lost, dict) else power_loss(lost),
        )
        for n, (name, lost) in enumerate(cuts.items())
    ]
    return [str(path), *map(str, cut)]


def directory(path: str) -> RunDir:
    return RunDir(Path(path))


NEED = """
title = "Home directories"
today = "today"
sync_write_p99 = "300us"
read_p99 = "400us"
written_per_day = "200GB"
years = 5
survives_power_loss = true
budget = "600 EUR"
power_losses_min = 10
"""
FRESH = {"method": "none", "fresh": True, "devices": []}


def need(folder: Path, text: str = NEED) -> Path:
    """The need file."""
    path = folder / "need.toml"
    path.write_text(text)
    return path


def column(sheet: Sheet, name: str) -> Candidate:
    return next(each for each in sheet.candidates if each.name == name)


def several(folder: Path, text: str, changes: Mapping[str, Any], **drives: Mapping[str, Any]) -> Sheet:
    """A sheet of runs alone, each a candidate: `drives` differ from the datacentre's."""
    names = [
        run(folder, 60 + number, name, {**DRIVES["datacentre"], "model": "TLC", **drive}, **changes)
        for number, (name, drive) in enumerate(drives.items())
    ]
    return buyers_sheet([str(folder / name) for name in names], need(folder, text))
