"""A run as the kit would have written it, without running anything."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.store.json_file import write_json
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.run_directory import RunDir
from kit.store.summary import Summary
from kit.store.tables import LATENCY_SCHEMA, write_latency
from reports.analysis import summary
from reports.analysis.analysed import described
from reports.output.junit import junit
from reports.page import report_page
from reports.published import references
from tests.reports.complete import completed

SECOND = 1_000_000_000
Row = tuple[int, str, str, str, str, str, int, int, int]

# phase, op, tier, [(lo_ns, hi_ns, count per interval)]
LOAD: Sequence[tuple[str, str, str, Sequence[tuple[int, int, int]]]] = (
    ("read", "read", "dram", ((4096, 4224, 40), (6144, 6272, 60), (8192, 8448, 5))),
    ("read", "read", "l2arc", ((139264, 143360, 50), (143360, 147456, 5))),
    ("read", "read", "disk", ((4980736, 5111808, 30), (5111808, 5242880, 3))),
    ("write-slog", "write", "slog", ((139264, 143360, 80), (143360, 147456, 20))),
    ("write-pool", "write", "pool", ((4980736, 5111808, 60), (5111808, 5242880, 4))),
)
PHASES = (("read", "read"), ("write-slog", "write"), ("write-pool", "write"))


def table(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as latency.parquet has them."""
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")  # type: ignore[arg-type]


def latency(intervals: int = 12) -> pl.DataFrame:
    """Every phase takes `intervals` seconds; a phase begins each 100 s."""
    rows: list[Row] = []
    starts = {name: index * 100 * SECOND for index, (name, _) in enumerate(PHASES)}
    for phase, op, tier, bins in LOAD:
        for second in range(intervals):
            time = starts[phase] + second * SECOND
            for lo, hi, count in bins:
                rows.append((time, phase, "nfs-server", "lab", op, tier, lo, hi, count))
                rows.append((time, phase, "client", "lab/client0", op, "all", lo + 20480, hi + 20480, count))
    return table(rows)


def manifest(frame: pl.DataFrame | None = None, intervals: int = 12) -> dict[str, Any]:
    """The manifest that goes with `frame` (latency() if there is none)."""
    frame = latency(intervals) if frame is None else frame
    phases = []
    for index, (name, op) in enumerate(PHASES):
        mine = frame.filter((pl.col("phase") == name) & (pl.col("layer") == "nfs-server"))
        total = int(mine["count"].sum())
        tiers = [t for p, _, t, _ in LOAD if p == name]
        phases.append(
            {
                "name": name, "title": f"512 B {name}", "op": op, "tiers": tiers, "expected_tiers": tiers,
                "job": f"{name}.fio", "block_bytes": 512, "outstanding": 1,
                "start_ns": index * 100 * SECOND, "end_ns": (index * 100 + intervals) * SECOND,
                "interval_ns": SECOND, "client_ios": total, "server_ios": total, "lost_events": 0,
                "checks": [], "problems": [],
            }
        )  # fmt: skip
    device = {"name": "data0", "role": "data", "model": "null_blk", "path": "/dev/data0"}
    made = {
        "format": 1, "run": "20261121T053000Z-ab12cd", "workload": "top-speeds", "title": "Synthetic run",
        "started_utc": "2026-11-21T05:30:00Z", "wall_s": 170.2, "command": ["hsp", "demo"],
        "clock": {"kind": "virtual", "dilation": 4}, "reference": "sun-7410-2009",
        "testbed": {"name": "lab", "file": "lab.toml", "server": "lab", "clients": ["lab/client0"],
                    "emulated": True, "devices": [{**device, "size_bytes": 1 << 29, "latency_ns": 5000000}]},
        "versions": {"hsp": "0.1.0", "zfs": "2.3.9"},
        "tunables": [{"name": "zfs_arc_max", "before": "0", "set": "67108864"}],
        "pool": {"name": "tank", "properties": {"ashift": "9"}},
        "dataset": {"name": "tank/bench", "properties": {"recordsize": "512"}},
        "mount": {"options": "rw,vers=3"}, "working_set": {"bytes": 100663296},
        "load": "closed loop, 1 outstanding", "phases": phases, "problems": [], "ended": True,
        "expect": [{"phase": p, "op": o, "tier": t, "min_count": 100, "inside": True} for p, o, t, _ in LOAD],
    }  # fmt: skip
    return completed(made, frame)


def problems(*texts: str) -> list[dict[str, str]]:
    """As a manifest has them."""
    return [{"code": "error", "text": text} for text in texts]


def parsed(manifest_: dict[str, Any]) -> Manifest:
    """As it is when it is read. Raises ConfigError."""
    return Manifest.from_json(manifest_, "manifest.json")


def junit_suite(result: dict[str, Any]) -> ET.Element:
    """The suite of the JUnit file of a summary."""
    suite = ET.fromstring(junit(Summary.from_json(result, "summary.json"))).find("testsuite")
    assert suite is not None
    return suite


def summary_of(rows: Iterable[dict[str, Any]] = (), **fields: Any) -> Summary:
    """A summary of a few rows; what they leave out is that of no I/O at all."""
    no_io = {
        "phase": "read", "layer": "nfs-server", "op": "read", "tier": "all", "count": 0, "share": 0.0,
        "min_us": 0.0, "p50_us": None, "p95_us": None, "p99_us": None, "p999_us": None, "max_us": 0.0,
        "range_us": [0.0, 0.0], "published": None,
    }  # fmt: skip
    counts = {"client_ios": 0, "server_ios": 0, "lost_events": 0}
    accounting = {**counts, "phases": [{**counts, **phase} for phase in fields.pop("accounted", ())]}
    value = {"verdict": "valid", "accounting": accounting, "rows": [{**no_io, **row} for row in rows]}
    return Summary.from_json({**value, **fields}, "summary.json")


def summarise(frame: pl.DataFrame, manifest_: dict[str, Any], *more: Any, **named: Any) -> dict[str, Any]:
    of = parsed(completed(manifest_, frame))
    return summary.summarise(Latency.of(frame), of, *more, **named).as_json()


def render(frame: pl.DataFrame, manifest_: dict[str, Any], summary_: dict[str, Any], *more: Any) -> str:
    read, of = Summary.from_json(summary_, "summary.json"), parsed(manifest_)
    published = references.setup_of(read.reference.name) if read.reference else None
    result = described(Latency.of(frame), of, read, published)
    return report_page.render(Latency.of(frame), of, result, *more)


def write(path: Path, manifest_: dict[str, Any], frame: pl.DataFrame) -> RunDir:
    """Put the files of a run into `path`."""
    path.mkdir(parents=True, exist_ok=True)
    run = RunDir(path)
    write_json(path / "manifest.json", completed(manifest_, frame))
    write_latency(run, frame)
    return run


# Median in ns and sigma of the logarithm: inside the published ranges, and as wide as devices are.
SHAPE = {
    "dram": (6_800, 0.12),
    "l2arc": (155_000, 0.07),
    "disk": (5_000_000, 0.30),
    "slog": (152_000, 0.04),
    "pool": (4_800_000, 0.28),
}
NETWORK_NS = 22_000


def samples(tier: str, number: int, generator: np.random.Generator) -> IntArray:
    """Latencies in ns as `tier` could have them."""
    median, sigma = SHAPE[tier]
    return (median * np.exp(sigma * generator.standard_normal(number))).astype(np.int64)


def binned(time_ns: IntArray, latency_ns: IntArray, **constant: str) -> pl.DataFrame:
    """Samples as rows of latency.parquet; `constant` has phase, layer, host, op and tier."""
    lo, hi = bin_edges(bin_index(latency_ns))
    raw = pl.DataFrame({"time_ns": time_ns, "lo_ns": lo, "hi_ns": hi})
    counted = raw.group_by("time_ns", "lo_ns", "hi_ns").agg(pl.len().alias("count").cast(pl.Int64))
    named = counted.with_columns(pl.lit(value).alias(name) for name, value in constant.items())
    return named.select(list(LATENCY_SCHEMA))


def realistic(intervals: int = 60, per_interval: int = 120, seed: int = 7) -> pl.DataFrame:
    """As latency(), but each tier is as wide as devices are, and a disk stalls once.

    In the 40th second the disks and the pool answer only a few I/Os, slowly.
    """
    generator = np.random.default_rng(seed)
    frames = []
    for index, (phase, op) in enumerate(PHASES):
        tiers = [t for p, _, t, _ in LOAD if p == phase]
        for tier in tiers:
            second = np.repeat(np.arange(intervals), per_interval // len(tiers))
            times = (index * 100 + second) * SECOND
            latencies = samples(tier, times.size, generator)
            if tier in ("disk", "pool"):
                stall = second == 40
                keep = ~stall | (generator.random(times.size) < 0.05)
                latencies = np.where(stall, latencies * 6, latencies)[keep]
                times = times[keep]
            key = {"phase": phase, "op": op}
            frames.append(binned(times, latencies, layer="nfs-server", host="lab", tier=tier, **key))
            seen = latencies + NETWORK_NS
            frames.append(binned(times, seen, layer="client", host="lab/client0", tier="all", **key))
    return pl.concat(frames)
