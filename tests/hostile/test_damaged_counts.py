"""latency.parquet of a stranger: refused with the file, whatever polars does with it, beside other runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import reports
from kit.core.errors import ConfigError
from kit.store import latency, tables
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from tests.conftest import Called
from tests.reports import synthetic

# (offset, byte) of latency.parquet of three intervals: what this version of polars panics at.
PANICS = [(2555, 50), (2826, 104)]


# Two kilobytes with a run of 2^61 values that are no null: polars aborts its process.
ENDS_ITS_READER = Path(__file__).with_name("ends-its-reader.parquet")


def a_run(path: Path, day: int, frame: pl.DataFrame | None = None) -> RunDir:
    frame = synthetic.latency(3) if frame is None else frame
    manifest = synthetic.manifest(synthetic.latency(3), 3)
    name = f"202611{day:02d}T053000Z-ab12cd"
    manifest |= {"run": name, "started_utc": f"2026-11-{day:02d}T05:30:00Z"}
    return synthetic.write(path / name, manifest, frame)


def spoil(run: RunDir, offset: int, value: int) -> None:
    path = run.path / "latency.parquet"
    content = bytearray(path.read_bytes())
    content[offset] = value
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("offset", "value"), PANICS)
@pytest.mark.parametrize("words", [["show"], ["show", "--checks"], ["show", "--format", "csv"]], ids=" ".join)
def test_a_panic_of_polars_is_a_damaged_file(
    tmp_path: Path, hsp_here: Called, words: list[str], offset: int, value: int
) -> None:
    run = a_run(tmp_path, 1)
    spoil(run, offset, value)
    command, *options = words
    done = hsp_here(command, str(run.path), *options)
    assert done.returncode == 2 and "latency.parquet" in done.stderr, done.stderr
    assert "a defect" not in done.stderr


def test_a_file_that_ends_its_reader_stops_no_other_run(tmp_path: Path, hsp_here: Called) -> None:
    for day in range(1, 4):
        run = a_run(tmp_path, day)
    (run.path / "latency.parquet").write_bytes(ENDS_ITS_READER.read_bytes())
    done = hsp_here("show", "--checks", *map(str, sorted(tmp_path.iterdir())))
    assert done.returncode == 2 and done.stdout.count("UNKNOWN  ") == 2, done.stdout
    assert "ended by signal 6" in done.stdout + done.stderr and str(run.path) in done.stdout + done.stderr


@pytest.mark.parametrize("whole_rows", [0, 1 << 30])
def test_after_such_a_file_others_are_read(tmp_path: Path, whole_rows: int) -> None:
    damaged, run = a_run(tmp_path, 1), a_run(tmp_path, 2)
    (damaged.path / "latency.parquet").write_bytes(ENDS_ITS_READER.read_bytes())
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"latency\.parquet: not a readable Parquet file .*signal 6"):
            latency.read(damaged, read_manifest(damaged).phases, whole_rows)
    assert latency.read(run, read_manifest(run).phases, whole_rows).bins.height


def test_a_panic_while_rows_are_checked_is_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path, 1)

    def panic(*_: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(tables.StoredTable, "checked", panic)
    with pytest.raises(ConfigError, match=r"latency\.parquet: not a readable Parquet file"):
        tables.read_latency(run)


def test_one_damaged_run_stops_no_other(tmp_path: Path, hsp_here: Called) -> None:
    for day in range(1, 5):
        run = a_run(tmp_path, day)
    spoil(run, *PANICS[0])
    done = hsp_here("show", "--checks", *map(str, sorted(tmp_path.iterdir())))
    assert done.returncode == 2 and done.stdout.count("NOT READABLE") == 1
    assert done.stdout.count("UNKNOWN  ") == 3
    done = hsp_here("trend", str(tmp_path))
    assert done.returncode == 2 and str(run.path) in done.stderr and "3 runs" in done.stdout, done.stdout


def test_a_damaged_series_stops_no_other(tmp_path: Path, hsp_here: Called) -> None:
    run, damaged = a_run(tmp_path, 1), tmp_path / "series-20260101T000000Z-abcdef"
    damaged.mkdir()
    (damaged / "series.json").write_text("{")
    done = hsp_here("show", "--checks", str(damaged), str(run.path))
    assert done.returncode == 2 and "UNKNOWN  " in done.stdout and "series.json" in done.stderr


@pytest.mark.parametrize("whole_rows", [0, 1 << 30])
def test_phases_that_the_manifest_lacks_are_refused_before_they_are_drawn(
    tmp_path: Path, whole_rows: int
) -> None:
    """Each took milliseconds and kilobytes of a page: a file of 22 kB has 50,000."""
    few = synthetic.latency(3)
    more = pl.concat([few.head(1)] * 50_000).with_columns(phase=pl.Series([f"x{n}" for n in range(50_000)]))
    run = a_run(tmp_path, 1, pl.concat([few, more]))
    phases = read_manifest(run).phases
    with pytest.raises(ConfigError, match="50000 phases that"):
        latency.read(run, phases, whole_rows)
    with pytest.raises(ConfigError, match="50000 phases that"):
        reports.analyse(run)
    assert not run.report.exists()
