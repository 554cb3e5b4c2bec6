"""`hsp show` on run directories that are crafted or damaged: never a valid verdict, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import reports
from kit.core.errors import ConfigError
from kit.store import tables
from kit.store.json_file import read_json, write_json
from kit.store.run_directory import RunDir
from tests.reports import drawn, synthetic

pytestmark = pytest.mark.slow

Change = Callable[[dict[str, Any]], object]


def stored(path: Path, change: Change = lambda manifest: None) -> RunDir:
    manifest = synthetic.manifest()
    change(manifest)
    return synthetic.write(path, manifest, synthetic.latency())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update(clock=None), "lacks the clock"),
        (lambda m: m["testbed"].update(server=None), "lacks the server"),
        (lambda m: m["phases"][0].update(end_ns=10**18), "the phase is from"),
        (lambda m: m["phases"][0].update(start_ns=10 * synthetic.SECOND), "the phase is from"),
        (lambda m: m["phases"][1].update(end_ns=m["phases"][1]["start_ns"]), "the phase is from"),
        (lambda m: m.update(precondition={"devices": [{"device": "log0"}]}), r"ageing\.parquet"),
    ],
)
def test_a_run_that_lacks_a_part_is_unknown(tmp_path: Path, change: Change, reason: str) -> None:
    assert reports.analyse(stored(tmp_path / "whole")).summary.verdict == "valid"
    summary = reports.analyse(stored(tmp_path / "run", change)).summary
    assert summary.verdict == "unknown"
    assert pl.Series(summary.reasons).str.contains(reason).any()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(testbed=None),
        lambda m: m["phases"][0].update(end_ns=1e18),
        lambda m: m.update(precondition={"devices": 7}),
        lambda m: m.update(phases=[{}]),
    ],
)
def test_a_damaged_run_is_refused_and_its_last_report_stays(tmp_path: Path, change: Change) -> None:
    run = stored(tmp_path / "run")
    reports.analyse(run)
    before = {path.name: path.read_bytes() for path in (run.path / "summary.json", run.report)}
    manifest = read_json(run.path / "manifest.json")
    change(manifest)
    write_json(run.path / "manifest.json", manifest)
    with pytest.raises(ConfigError):
        reports.analyse(run)
    assert {path.name: path.read_bytes() for path in (run.path / "summary.json", run.report)} == before


def renamed(path: Path, tier: str) -> RunDir:
    """A run whose disks are called `tier`."""
    run = stored(path)
    is_disk = pl.col("tier") == "disk"
    name = pl.when(is_disk).then(pl.lit(tier)).otherwise(pl.col("tier")).alias("tier")
    tables.read_latency(run).with_columns(name).write_parquet(run.path / "latency.parquet")
    return run


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "a" * 5000, "\u202e\u0000x", "scale", "<b>", ""]
)
def test_a_tier_that_no_run_has_is_refused(tmp_path: Path, name: str) -> None:
    run = renamed(tmp_path / "run", name)
    with pytest.raises(ConfigError, match=r"latency\.parquet"):
        reports.analyse(run)
    assert not run.report.exists()


@pytest.mark.parametrize("name", sorted(tables.TIERS))
def test_every_tier_that_a_run_can_have_is_drawn_with_all_its_ios(tmp_path: Path, name: str) -> None:
    run = renamed(tmp_path / "run", name)
    frame = tables.read_latency(run).filter((pl.col("tier") == name) & (pl.col("layer") == "nfs-server"))
    reports.analyse(run)
    html = run.report.read_text("utf-8")
    cells = drawn.cells(html)
    maps = [spec for spec in drawn.specs(html) if spec["about"].get("tier") == name]
    assert maps
    for spec in maps:
        (trace,) = drawn.heat_maps(spec)
        of_phase = frame.filter(pl.col("phase") == spec["link"])["count"].sum()
        assert drawn.typed(trace["customdata"]).sum(dtype=float) == pytest.approx(of_phase, rel=1e-6)
        assert sum(drawn.counts(cells[spec["cells"]], name).values()) == of_phase


def test_a_million_ios_a_second_for_a_day_are_a_small_page(tmp_path: Path) -> None:
    day, start = 86_400, 100 * synthetic.SECOND
    manifest = synthetic.manifest()
    phase = manifest["phases"][1]
    total = day * 1_000_000
    phase |= {
        "start_ns": start,
        "end_ns": start + day * synthetic.SECOND,
        "client_ios": total,
        "server_ios": total,
    }
    manifest["phases"] = [phase]
    one = pl.DataFrame({"time_ns": pl.int_range(0, day, eager=True) * synthetic.SECOND + start})
    rows = synthetic.latency()[:0].columns
    frame = one.with_columns(
        pl.lit("write-slog").alias("phase"), pl.lit("nfs-server").alias("layer"), pl.lit("lab").alias("host"),
        pl.lit("write").alias("op"), pl.lit("slog").alias("tier"), pl.lit(139264).alias("lo_ns"),
        pl.lit(143360).alias("hi_ns"), pl.lit(1_000_000).alias("count"),
    )  # fmt: skip
    frame = frame.select(pl.col(name).cast(dtype) for name, dtype in tables.LATENCY_SCHEMA.items())
    assert frame.columns == rows
    run = synthetic.write(tmp_path / "run", manifest, frame)
    reports.analyse(run)
    html = run.report.read_text("utf-8")
    assert len(html.encode()) < 1_100_000
    (block,) = drawn.cells(html).values()
    assert sum(drawn.counts(block, "slog").values()) == total
    for trace in (t for spec in drawn.specs(html) for t in drawn.heat_maps(spec)):
        assert drawn.typed(trace["customdata"]).sum(dtype=float) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("counts", [[1 << 62] * 3, [(1 << 63) - 1, 5]])
def test_counts_that_no_sum_can_hold_are_refused(tmp_path: Path, counts: list[int]) -> None:
    run = stored(tmp_path / "run")
    frame = tables.read_latency(run)
    more = frame.head(len(counts)).with_columns(pl.Series("count", counts, dtype=pl.Int64))
    pl.concat([frame, more]).write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match="more than any run can have"):
        reports.analyse(run)


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    for name, shift in (("r1", 1), ("r[1]", 2)):
        run = stored(tmp_path / name)
        frame = tables.read_latency(run).with_columns(pl.col("time_ns") + shift)
        frame.write_parquet(run.path / "latency.parquet")
    for name, shift in (("r1", 1), ("r[1]", 2)):
        frame = tables.read_latency(RunDir(tmp_path / name))
        assert frame.height == synthetic.latency().height
        assert frame["time_ns"].min() == synthetic.latency()["time_ns"].min() + shift


def test_a_small_file_that_would_fill_the_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    some = pl.concat([synthetic.latency()[:1]] * 5_000)
    pl.concat([some] * 1_000, rechunk=True).write_parquet(tmp_path / "latency.parquet")
    size = (tmp_path / "latency.parquet").stat().st_size
    assert size < 200_000
    # In a process of its own: the peak of a process only rises.
    script = f"""
import resource
from pathlib import Path
from kit.core.errors import ConfigError
from kit.store import tables
from kit.store.run_directory import RunDir
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    tables.read_latency(RunDir(Path({str(tmp_path)!r})))
except ConfigError as error:
    print(error.message)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib)
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    message, more_kib = output.splitlines()
    assert message.endswith(f"5000000 rows in {size} bytes: the same rows again and again")
    assert int(more_kib) < 64 << 10
