"""P1 and P6: reading a fio log, side by side with fio-plot and DuckDB.

Asserts only that the results agree. Each measurement is a process of its own, in ABBA order.
HSP_BENCH_LARGE=1: P1 with 10 million rows (fio-plot then needs 7 GB), P6 with 10 and 100 million.
HSP_BENCH_ROWS: another number of rows for P1.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.conftest import Tell, in_pairs, python

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600, func_only=True)]

LARGE = os.environ.get("HSP_BENCH_LARGE") == "1"
P1_ROWS = int(os.environ.get("HSP_BENCH_ROWS", "10000000" if LARGE else "1000000"))
P6_ROWS = (10_000_000, 100_000_000) if LARGE else (2_000_000, 10_000_000)
SECONDS = 100
MEMORY_LIMIT_MIB = 1024
# "The same at both sizes": a part of it may be what the allocators keep.
SAME = 1.15
WORKER = Path(__file__).with_name("importing.py")


def write_log(path: Path, rows: int) -> Path:
    """A log of 100 s as fio writes it: two directions, three modes of latency.

    All are of the same length in time, so that the result has the same size however many rows there are.
    """
    per_ms = rows / (SECONDS * 1000)
    generator = np.random.default_rng(1)
    with path.open("w") as file:
        for start in range(0, rows, 500_000):
            size = min(500_000, rows - start)
            time_ms = (np.arange(start, start + size) / per_ms).astype(np.int64)
            mode = generator.choice([6_800, 155_000, 5_000_000], size, p=[0.5, 0.3, 0.2])
            latency = (mode * generator.lognormal(0, 0.2, size)).astype(np.int64)
            direction = generator.integers(0, 2, size)
            columns = zip(time_ms.tolist(), latency.tolist(), direction.tolist(), strict=True)
            file.write("".join(f"{t}, {v}, {d}, 4096, 0\n" for t, v, d in columns))
    return path


def measured(side: str, path: Path, *more: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(python(WORKER, side, path, *more).splitlines()[-1])
    return figures


def pairs(path: Path, peer: str, *more: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ours and theirs."""
    both = in_pairs(lambda: measured("kit", path, *more), lambda: measured(peer, path))
    return [own for own, _ in both], [theirs for _, theirs in both]


def speed(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], key: str = "seconds") -> float:
    return statistics.median(b[key] / a[key] for a, b in zip(ours, theirs, strict=True))


def memory(side: list[dict[str, Any]]) -> float:
    return statistics.median(m["peak_bytes"] for m in side)


def test_p1_beside_fio_plot(tmp_path: Path, tell: Tell) -> None:
    pytest.importorskip("fio_plot", reason="tox -e bench installs it")
    path = write_log(tmp_path / "x_lat.1.log", P1_ROWS)
    ours, theirs = pairs(path, "fio-plot", str(tmp_path / "run"))
    assert {m["ios"] for m in ours} == {P1_ROWS} == {m["ios"] for m in theirs}
    what = f"{P1_ROWS} rows to latency.parquet, fio-plot's time / ours"
    tell("P1", what, speed(ours, theirs), "x", at_least=20)
    tell("P1", "the same, seconds of all processors", speed(ours, theirs, "cpu_seconds"), "x")
    tell("P1", "our time", statistics.median(m["seconds"] for m in ours), "s")
    tell("P1", f"{P1_ROWS} rows, fio-plot's memory / ours", memory(theirs) / memory(ours), "x", at_least=20)


def test_p6_beside_duckdb(tmp_path: Path, tell: Tell) -> None:
    pytest.importorskip("duckdb", reason="tox -e bench installs it")
    peaks = []
    for rows in P6_ROWS:
        path = write_log(tmp_path / "x_lat.1.log", rows)
        ours, theirs = pairs(path, "duckdb")
        path.unlink()
        digests = {(m["ios"], m["digest"]) for m in [*ours, *theirs]}
        assert len(digests) == 1, "unlike counts"
        assert digests.pop()[0] == rows
        tell("P6", f"{rows} rows, DuckDB's time / ours", speed(ours, theirs), "x", at_least=1)
        tell("P6", "the same, seconds of all processors", speed(ours, theirs, "cpu_seconds"), "x")
        peaks.append(memory(ours))
        tell("P6", f"{rows} rows, our memory", peaks[-1] / 2**20, "MiB", at_most=MEMORY_LIMIT_MIB)
    what = f"our memory at {P6_ROWS[1]} rows / that at {P6_ROWS[0]}"
    tell("P6", what, peaks[1] / peaks[0], "x", at_most=SAME)
