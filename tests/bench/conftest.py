"""One table of all benches at the end, and the same as bench.json (in HSP_BENCH_OUT, if that is set).

What benches share: two works side by side, and a histogram log of fio.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from kit.load.fio_bins import BINS, lower_edge

ROOT = Path(__file__).parents[2]
ROWS = pytest.StashKey[list[dict[str, Any]]]()
Tell = Callable[..., None]
Result = TypeVar("Result")


def in_pairs(
    ours: Callable[[], Result], theirs: Callable[[], Result], count: int = 5
) -> list[tuple[Result, Result]]:
    """Results of both, `count` times, in ABBA order: drift of the machine affects both alike."""
    results = []
    for pair in range(count):
        if pair % 2:
            own = ours()
            results.append((own, theirs()))
        else:
            peer = theirs()
            results.append((ours(), peer))
    return results


def time_ratio(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    count: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Their seconds / ours: the median of `count` pairs."""

    def seconds(work: Callable[[], object]) -> float:
        started = clock()
        work()
        return clock() - started

    pairs = in_pairs(lambda: seconds(ours), lambda: seconds(theirs), count)
    return statistics.median(peer / own for own, peer in pairs)


def python(*words: str | Path) -> str:
    """What Python prints in a process of its own. Hashes are the same in each."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        check=True, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip


def histogram_lines(generator: np.random.Generator, seconds: int) -> str:
    """A fio histogram log, a line per second: three modes of latency, 2000 I/Os a second.

    No percentile that is compared falls between two modes: there any value is right.
    """
    edges = lower_edge(np.arange(BINS + 1))
    lines = []
    for second in range(1, seconds + 1):
        mode = generator.choice([6_800, 155_000, 5_000_000], 2000, p=[0.4, 0.35, 0.25])
        counts = np.histogram(mode * generator.lognormal(0, 0.2, mode.size), edges)[0]
        lines.append(f"{second * 1000}, 0, 4096, {', '.join(map(str, counts.tolist()))}\n")
    return "".join(lines)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """tell(row, what, value, unit, at_least=... or at_most=...): a line of the table."""
    rows = request.config.stash.setdefault(ROWS, [])

    def add(
        row: str,
        what: str,
        value: float,
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        reached = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        rows.append({"row": row, "what": what, "value": value, "unit": unit, "at_least": at_least,
                     "at_most": at_most, "reached": reached})  # fmt: skip
        print("\n" + line(rows[-1]), flush=True)

    return add


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    wanted = [f"{word} {row[key]:g}" for word, key in (("at least", "at_least"), ("at most", "at_most"))
              if row[key] is not None]  # fmt: skip
    reached = "" if not wanted else "reached" if row["reached"] else "NOT REACHED"
    told = f"{row['row']:3} {row['what']:68} {row['value']:9.2f} {row['unit']:4} "
    return f"{told} {', '.join(wanted):13} {reached}".rstrip()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = sorted(config.stash.get(ROWS, []), key=lambda row: str(row["row"]))
    if not rows:
        return
    terminalreporter.section("bench")
    for row in rows:
        terminalreporter.write_line(line(row))
    if folder := os.environ.get("HSP_BENCH_OUT"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / "bench.json"
        path.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
        terminalreporter.write_line(f"written: {path}")
