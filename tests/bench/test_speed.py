"""How long people wait for the lab: the demo, a shell, the first image, the tests, each command's start.

    tox -e bench -- tests/bench/test_speed.py

HSP_BENCH_LARGE=1 adds what takes longer: the image from nothing, and ./hsp test in a fresh clone (from
nothing, again, and --quick). Nothing else should run on the machine meanwhile. Times are wall times where
CPU is not said.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.core.progress import Progress
from kit.lab.image.image import ImageInputs, build
from tests.bench.conftest import ROOT, Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200, func_only=True)]

TIERS = ("dram", "l2arc", "disk", "slog", "pool")
SEED = 7
HOGS = 4
LARGE = bool(os.environ.get("HSP_BENCH_LARGE"))
large = pytest.mark.skipif(not LARGE, reason="takes long; set HSP_BENCH_LARGE=1")


def hsp(*words: str, **environment: str) -> None:
    """The program in a process of its own."""
    argv, env = [sys.executable, "-m", "kit.cli", *words], {**os.environ, **environment}
    subprocess.run(argv, cwd=ROOT, check=True, env=env)


@dataclass(frozen=True)
class Demo:
    """A demo that has ended. `wall_s` and `cpu_s` (QEMU's included) are this machine's."""

    run: Path
    wall_s: float
    cpu_s: float

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.run / "summary.json").read_text())

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """By tier, of the server."""
        return {row["tier"]: row for row in self.summary["rows"] if row["layer"] == "nfs-server"}

    def counts(self, tier: str) -> pl.DataFrame:
        """lo_ns, hi_ns and count of a tier, in order."""
        table = pl.read_parquet(self.run / "latency.parquet")
        mine = table.filter((pl.col("layer") == "nfs-server") & (pl.col("tier") == tier))
        return mine.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns")

    def median_interval_us(self, tier: str) -> tuple[float, float]:
        """What the median may be by sampling alone: 95 %, from ranks (binomial), at the bins' edges."""
        counts = self.counts(tier)
        total = int(counts["count"].sum())
        reach = 1.96 * math.sqrt(total) / 2
        ends = counts["count"].cum_sum()
        low = int(counts["lo_ns"][int((ends > total / 2 - reach).arg_max() or 0)])
        high = int(counts["hi_ns"][int((ends > total / 2 + reach).arg_max() or 0)])
        return low / 1e3, high / 1e3


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Demo]:
    build(ImageInputs(), Progress())
    hsp("lab", "up", "--build")

    def run(*options: str) -> Demo:
        results = tmp_path_factory.mktemp("demo")
        before, began = os.times(), time.monotonic()
        hsp("demo", "--results", os.fspath(results), *options)
        wall_s, after = time.monotonic() - began, os.times()
        cpu_s = sum(after[2:4]) - sum(before[2:4])
        return Demo(results / "top-speeds" / "latest", wall_s, cpu_s)

    return run


@pytest.fixture(scope="module")
def aged(demo: Callable[..., Demo]) -> tuple[Demo, Demo]:
    """A demo that ages its devices, and one after it."""
    return demo("--age-again", "--seed", str(SEED)), demo("--seed", str(SEED))


@pytest.fixture
def hogs() -> Iterator[None]:
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]
    yield
    for process in load:
        process.kill()
        process.wait()


def test_the_demo(aged: tuple[Demo, Demo], tell: Tell) -> None:
    first, later = aged
    tell("W1", "hsp demo that ages its devices", first.wall_s, "s", at_most=150)
    tell("W1", "its CPU time", first.cpu_s, "s")
    tell("W1", "hsp demo on devices that are aged", later.wall_s, "s", at_most=120)
    tell("W1", "its CPU time", later.cpu_s, "s")
    for name, found in (("that ages", first), ("on aged devices", later)):
        fewest = min(found.rows[tier]["count"] for tier in TIERS)
        stated = sum(found.rows[tier]["p999_us"] is not None for tier in TIERS)
        met = sum(each["inside"] and each["ok"] for each in found.summary["expect"])
        tell("W1", f"demo {name}: I/Os of the tier that has fewest", fewest, "", at_least=3000)
        tell("W1", f"demo {name}: tiers with a p99.9, of 5", stated, "", at_least=5)
        tell("W1", f"demo {name}: tiers inside the published range as expected, of 5", met, "", at_least=5)
        assert found.summary["verdict"] == "valid"


def test_the_demo_beside_a_busy_machine(
    aged: tuple[Demo, Demo], demo: Callable[..., Demo], hogs: None, tell: Tell
) -> None:
    quiet, busy = aged[1], demo("--seed", str(SEED))
    same = [tier for tier in TIERS if quiet.rows[tier]["p50_us"] == busy.rows[tier]["p50_us"]]
    tell("W2", f"medians in the same bin beside {HOGS} CPU hogs, of the 4 without disk",
         len(set(same) - {"disk"}), "", at_least=4)  # fmt: skip
    low, high = quiet.median_interval_us("disk")
    p50 = busy.rows["disk"]["p50_us"]
    tell("W2", f"the disk's median, us (sampling alone: {low:.0f} to {high:.0f})", p50, "us",
         at_least=low, at_most=high)  # fmt: skip
    tell("W2", "hsp demo beside them", busy.wall_s, "s")


def test_one_seed_twice(aged: tuple[Demo, Demo], demo: Callable[..., Demo], tell: Tell) -> None:
    one, other = aged[1], demo("--seed", str(SEED))
    jobs = [sorted(path.name for path in found.run.glob("raw/*")) for found in (one, other)]
    assert jobs[0] == jobs[1]
    tell("W9", "tiers with the same median, of 5", sum(
        one.rows[tier]["p50_us"] == other.rows[tier]["p50_us"] for tier in TIERS), "")  # fmt: skip
    for log in sorted(one.run.glob("raw/*_lat.log")):
        mine, theirs = (_latencies(found.run / "raw" / log.name) for found in (one, other))
        shared = min(len(mine), len(theirs))
        same = sum(a == b for a, b in zip(mine, theirs, strict=False))
        tell("W9", f"{log.name.partition('-lab')[0]}: I/Os with the same latency to the ns, in order",
             100 * same / shared, "%")  # fmt: skip
    for tier in TIERS:
        counts = [found.counts(tier) for found in (one, other)]
        both = counts[0].join(counts[1], on=["lo_ns", "hi_ns"], how="full", coalesce=True).fill_null(0)
        moved = int((both["count"] - both["count_right"]).abs().sum())
        total = int(both["count"].sum() + both["count_right"].sum())
        tell("W9", f"{tier}: I/Os in the same bins", 100 - 100 * moved / total, "%")


def _latencies(path: Path) -> list[str]:
    return [line.split(",")[1] for line in path.read_text().splitlines()]


def test_a_shell_in_the_lab(demo: Callable[..., Demo], tell: Tell) -> None:
    began = time.monotonic()
    try:
        hsp("lab", "up")
        hsp("lab", "shell", "--", "true")
        tell("W3", "hsp lab up, to the first command in it", time.monotonic() - began, "s", at_most=10)
    finally:
        hsp("lab", "down")


def test_commands_start(aged: tuple[Demo, Demo], tell: Tell) -> None:
    def median_s(*argv: str) -> float:
        found = []
        for _ in range(7):
            began = time.monotonic()
            subprocess.run([sys.executable, *argv], cwd=ROOT, check=True, capture_output=True)
            found.append(time.monotonic() - began)
        return statistics.median(found)

    typer_s = median_s("-c", "import typer")
    version_s = median_s("-m", "kit.cli", "--version")
    tell("W7", "hsp --version, beside python -c 'import typer'", version_s / typer_s, "x", at_most=2)
    tell("W7", "hsp plan top-speeds", median_s("-m", "kit.cli", "plan", "top-speeds"), "s", at_most=0.6)
    run = os.fspath(aged[1].run)
    tell("W7", "hsp show RUN", median_s("-m", "kit.cli", "show", run), "s", at_most=1.2)


@large
def test_the_image_from_nothing(tmp_path: Path, tell: Tell) -> None:
    began = time.monotonic()
    hsp("lab", "up", "--build", XDG_CACHE_HOME=os.fspath(tmp_path / "cache"))
    tell("W8", "image and saved guest from nothing", time.monotonic() - began, "s", at_most=360)
    shutil.rmtree(tmp_path / "cache")


@large
def test_the_tests(tmp_path: Path, tell: Tell) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", os.fspath(ROOT), os.fspath(clone)], check=True)
    nothing = {**os.environ, "XDG_CACHE_HOME": os.fspath(tmp_path / "cache")}
    for row, what, words, environment, most in (
        ("W5", "./hsp test --all in a fresh clone, no image, no caches", ["--all"], nothing, 45),
        ("W4", "./hsp test --all again", ["--all"], nothing, 35),
        ("W10", "./hsp test", [], nothing, 18),
        ("W6", "./hsp test --quick", ["--quick"], nothing, 6),
    ):
        began = time.monotonic()
        done = subprocess.run(["./hsp", "test", *words], cwd=clone, env=environment, check=False)
        tell(row, f"{what} (exit {done.returncode})", (time.monotonic() - began) / 60, "min", at_most=most)
        assert done.returncode == 0
