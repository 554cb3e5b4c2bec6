"""S1: a million I/Os a second of fio's null engine, four jobs, counted by histograms on this machine.

Asserts that the counts are exact. HSP_BENCH_LARGE=1: 60 s and 600 s, else 5 s and 20 s.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

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


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_million_ios_a_second(seconds: int, tmp_path: Path, tell: Tell) -> None:
    figures = json.loads(python(WORKER, tmp_path, str(seconds), str(RATE), str(JOBS)).splitlines()[-1])
    assert figures["stored_ios"] == figures["fio_ios"] > 0
    tell("S1", f"{seconds} s, I/Os a second", figures["fio_ios"] / seconds, "1/s")
    tell("", "memory above the start", figures["above_start_bytes"] / 2**20, "MiB", at_most=150)
    tell("", "from fio's end to latency.parquet", figures["seconds"], "s", at_most=3)
    tell("", "outside of its interval an I/O ended at most", figures["time_error_ns"] / 1e6, "ms")
