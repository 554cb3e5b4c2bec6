"""S1: a million I/Os a second of fio's null engine, four jobs, counted by histograms on this machine.
S4: sixteen clients with eight jobs each, in network namespaces of this machine.

Asserts that the counts are exact. HSP_BENCH_LARGE=1: 60 s and 600 s, else 5 s and 20 s.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.conftest import Tell, python

pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(1200, func_only=True),
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio"),
]
SECONDS = (60, 600) if os.environ.get("HSP_BENCH_LARGE") == "1" else (5, 20)
RATE, JOBS = 1_000_000, 4
WORKER = Path(__file__).with_name("counting.py")


CLIENTS, CLIENT_JOBS, CLIENT_RATE = 16, 8, 10_000


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_million_ios_a_second(seconds: int, tmp_path: Path, tell: Tell) -> None:
    figures = measured(tmp_path, seconds, RATE, JOBS)
    tell("S1", f"{seconds} s, I/Os a second", sum(figures["fio_ios"].values()) / seconds, "1/s")
    tell("", "memory above the start", figures["above_start_bytes"] / 2**20, "MiB", at_most=150)
    tell("", "from fio's end to latency.parquet", figures["seconds"], "s", at_most=3)
    tell("", "outside of its interval an I/O ended at most", figures["time_error_ns"] / 1e6, "ms")


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    """Network namespaces of this test's own, one a client."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root and ip(8)")
    names = [f"hspbench{os.getpid()}n{number}" for number in range(CLIENTS)]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def test_sixteen_clients(namespaces: list[str], tmp_path: Path, tell: Tell) -> None:
    figures = measured(tmp_path, SECONDS[0], CLIENT_RATE, CLIENT_JOBS, *namespaces)
    assert len(figures["fio_ios"]) == CLIENTS
    total = sum(figures["fio_ios"].values())
    tell("S4", f"{CLIENTS} clients, {CLIENT_JOBS} jobs each, I/Os a second", total / SECONDS[0], "1/s")
    tell("", "memory above the start", figures["above_start_bytes"] / 2**20, "MiB", at_most=300)
    tell("", "from fio's end to latency.parquet", figures["seconds"], "s")
    tell("", "the last client's first I/O after the first's", figures["start_skew_ns"] / 1e6, "ms")


def measured(folder: Path, *arguments: object) -> dict[str, Any]:
    """Figures of the worker; what is stored of each client is what its fio counted."""
    figures = json.loads(python(WORKER, folder, *map(str, arguments)).splitlines()[-1])
    assert figures["stored_ios"] == figures["fio_ios"]
    assert all(figures["fio_ios"].values())
    return dict(figures)
