"""Results of `hsp slog`, made up, and the runs that they are of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from kit.core.bins import bin_index
from kit.store.parts.forces import READ_CACHED, Forces
from kit.store.printed.slog import SIZES, SlogTest
from tests.reports import synthetic
from tests.reports.synthetic import SECOND

Cost = Callable[[int], float]


def latencies(us: float, ios: int) -> dict[str, Any]:
    """All the same."""
    ns = round(us * 1000)
    return {"sum_ns": ns * ios, "min_ns": ns, "max_ns": ns, "bins": [[int(bin_index(ns)), ios]]}


def forced(
    method: str, size: int, write_us: float, force_us: float | None, threads: int = 1
) -> dict[str, Any]:
    ios = max(1, min(4000, (64 << 20) // size))
    total_us = write_us + (force_us or 0)
    test = {
        "method": method, "record_bytes": size, "per_force": 1, "direct": True, "append": False, "files": 1,
        "threads": threads, "elapsed_ns": round(total_us * 1000 * ios / threads), "forces": ios,
        "records": ios, "group": latencies(total_us, ios), "write": latencies(write_us, ios),
    }  # fmt: skip
    return test if force_us is None else {**test, "force": latencies(force_us, ios)}


def slog_test(
    write_cache: str | None,
    write_us: Cost,
    flush_us: Cost,
    idle_us: float | None = 2.0,
    read_us: float | None = 12.0,
    **device: Any,
) -> SlogTest:
    """`idle_us`, `read_us`: of commands that bring nothing to the medium; None: not measured."""
    tests = [] if idle_us is None else [forced("flush_idle", 512, 0.02, idle_us)]
    tests += [] if read_us is None else [forced("read_cached", 512, read_us, None)]
    for size in SIZES:
        tests.append(forced("fdatasync", size, write_us(size), flush_us(size)))
        tests.append(forced("open_datasync", size, write_us(size) + flush_us(size), None))
    tests.append(forced("fdatasync", 4096, write_us(4096), flush_us(4096), threads=4))
    tests.append(forced("open_sync", 4096, write_us(4096) + flush_us(4096), None))
    return SlogTest.from_json(
        {
            "format": 1, "run": "r1", "kit": "0.1.0", "utc": "2026-11-24T10:00:00Z", "kernel": "6.12",
            "host": "secret-host", "dilation": 1, "seed": 7,
            "device": {
                "name": "log0", "model": "ACME 1", "firmware": "F7", "serial": "S3CR3T",
                "size_bytes": 1 << 30, "sector_bytes": 512, "transport": "nvme", "rotational": False,
                "write_cache": write_cache, "fua": True, "driver": "nvme", "scheduler": "none", **device,
            },
            "state": {"kind": "as-found"},
            "forces": tests,
        },
        "made up",
    )  # fmt: skip


def op_of(forces: Forces) -> str:
    return "read" if forces.method == READ_CACHED else "write"


def manifest_of(test: SlogTest) -> dict[str, Any]:
    """The manifest of its run: a phase for each of its forced writes."""
    device, phases = test.device.as_json(), []
    for number, forces in enumerate(test.forces):
        start, ios = number * SECOND, forces.group.ios
        phases.append(
            {
                "name": f"p{number}", "title": f"{forces.record_bytes} {forces.method}", "op": op_of(forces),
                "target": "device:log", "spans": {test.device.name: [0, test.device.size_bytes]},
                "block_bytes": forces.record_bytes, "outstanding": forces.threads, "start_ns": start,
                "end_ns": start + SECOND, "interval_ns": SECOND, "client_ios": ios, "server_ios": None,
                "lost_events": None, "forces": forces.as_json(), "checks": [], "problems": [],
            }
        )  # fmt: skip
    keys = ("firmware", "sector_bytes", "rotational", "write_cache", "fua", "driver", "scheduler")
    found = {
        "name": test.device.name, "role": "log", "size_bytes": test.device.size_bytes,
        "settings": {key: device[key] for key in keys},
        "capacitor_health": test.device.capacitor_health,
    }  # fmt: skip
    if test.device.emulated:
        found |= {"model": test.device.emulated, "parameters": {"title": test.device.emulated}}
    else:
        found["identity"] = {key: device[key] for key in ("model", "serial", "size_bytes", "transport")}
    made = {**synthetic.manifest(), "workload": "slog", "run": test.run, "phases": phases, "expect": []}
    for key in ("reference", "pool", "dataset", "mount", "working_set"):
        made.pop(key, None)
    made["testbed"] |= {"server": test.host, "clients": [], "devices": [found]}
    made["versions"] = {"hsp": test.kit, "kernel": test.kernel}
    return made | {"started_utc": test.utc, "seed": test.seed, "clock": {"kind": "real", "dilation": 1}}


def latency_of(test: SlogTest) -> pl.DataFrame:
    """The rows of latency.parquet that go with it."""
    name = test.device.name
    return synthetic.table([
        (number * SECOND, f"p{number}", "device", name, op_of(forces), "all", low, high, count)
        for number, forces in enumerate(test.forces)
        for low, high, count in forces.group.edges
    ])  # fmt: skip


def write_run(path: Path, test: SlogTest) -> str:
    """The run that has this result."""
    synthetic.write(path, manifest_of(test), latency_of(test))
    return str(path)
