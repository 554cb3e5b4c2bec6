"""What is stored comes back; what is damaged or impossible is refused with exit code 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError, HostError
from kit.store import run_directory
from kit.store.run_directory import LATENCY_SCHEMA, RunDir

ROW: dict[str, Any] = {
    "time_ns": 0,
    "phase": "read",
    "layer": "nfs-server",
    "host": "lab",
    "op": "read",
    "tier": "l2arc",
    "lo_ns": 139264,
    "hi_ns": 143360,
    "count": 5,
}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_directory.create_run(tmp_path, "top-speeds")


def frame(**changes: Any) -> pl.DataFrame:
    return pl.DataFrame([ROW, {**ROW, **changes}], infer_schema_length=None)


# --- Directories ---


def test_a_run_gets_a_directory_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    first, second = (run_directory.create_run(tmp_path, "w") for _ in range(2))
    assert first.path != second.path
    assert first.raw.is_dir() and second.raw.is_dir()
    latest = tmp_path / "w" / "latest"
    assert latest.resolve() == second.path.resolve()
    assert not Path(os.readlink(latest)).is_absolute()
    assert {path.name for path in (tmp_path / "w").iterdir()} == {first.path.name, second.path.name, "latest"}


def test_too_little_space_stops_before_the_load(tmp_path: Path) -> None:
    run_directory.check_space(tmp_path, 1, 1)
    with pytest.raises(HostError, match="MiB free, a run needs"):
        run_directory.check_space(tmp_path, 1 << 60, 1)
    with pytest.raises(HostError, match=r"room for [0-9]+ files more, a run needs"):
        run_directory.check_space(tmp_path, 1, 1 << 60)


# --- Atomic writes ---


def test_a_file_is_written_whole_and_readable_for_others(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    run_directory.write_atomically(file, b"old")
    run_directory.write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("failing", ["fsync", "replace", "chmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(HostError, match=r"x\.json: cannot be written: No space left"):
        run_directory.write_atomically(file, b"new")
    monkeypatch.undo()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}, object()])
def test_what_is_no_json_is_not_written(tmp_path: Path, value: Any) -> None:
    file = tmp_path / "x.json"
    file.write_text("old")
    with pytest.raises((ValueError, TypeError)):
        run_directory.write_json(file, value)
    assert file.read_text() == "old"


def test_a_failed_parquet_leaves_the_old_one(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    run_directory.write_latency(run, frame())
    before = (run.path / "latency.parquet").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(HostError, match=r"latency\.parquet: cannot be written: disk full"):
        run_directory.write_latency(run, frame(count=7))
    monkeypatch.undo()
    assert (run.path / "latency.parquet").read_bytes() == before
    assert {path.name for path in run.path.iterdir()} == {"raw", "latency.parquet"}


# --- JSON ---

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(json_values)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "round-trip.json"
    run_directory.write_json(file, value)
    assert run_directory.read_json(file) == value


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"format": 1, "x', "not a readable JSON file"),
        (b"", "not a readable JSON file"),
        (b'{"format": 1, "x": NaN}', "NaN is not a number"),
        (b'{"format": 1, "x": -Infinity}', "-Infinity is not a number"),
        (b'{"format": 1, "x": "\xff"}', "not a readable JSON file"),
        (b'{"format": 2}', "format 2, this version reads 1"),
        (b'{"format": "1"}', "format '1'"),
        (b'{"format": true}', "format True"),
        (b"{}", "format None"),
        (b"[1]", "format 'list'"),
        pytest.param(
            b'{"format": 1, "x": 1e999}',
            "",
            ),
        pytest.param(
            b"[" * 200_000,
            "",
            ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["summary", "manifest"])
def test_damaged_json_is_refused(run: RunDir, name: str, content: bytes, problem: str) -> None:
    file = run.path / f"{name}.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        {"summary": run_directory.read_summary, "manifest": run_directory.read_manifest}[name](run)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"{file}: ")
    assert problem in caught.value.message


@given(st.integers(0, 200))
def test_every_truncation_of_a_summary_is_refused(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    content = json.dumps({"format": 1, "verdict": "ok", "ranges": [[1, 2.5], [3, 4]]}).encode()
    run = RunDir(tmp_path_factory.getbasetemp())
    (run.path / "summary.json").write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(ConfigError):
        run_directory.read_summary(run)


def test_a_good_summary_and_manifest_are_read(run: RunDir) -> None:
    for name, read in (("summary", run_directory.read_summary), ("manifest", run_directory.read_manifest)):
        run_directory.write_json(run.path / f"{name}.json", {"format": 1, "name": name})
        assert read(run) == {"format": 1, "name": name}


def test_half_a_character_becomes_a_question_mark(run: RunDir) -> None:
    text = r'{"format": 1, "\udcff": ["a\uD800b", "\ud83d\ude00", "\\ud800"]}'
    (run.path / "summary.json").write_text(text)
    read = run_directory.read_summary(run)
    assert read == {"format": 1, "?": ["a?b", "\U0001f600", "\\ud800"]}


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        run_directory.read_summary(RunDir(tmp_path))
    assert "results/<workload>/<run>" in caught.value.hint


def test_a_huge_file_is_not_read(run: RunDir) -> None:
    with (run.path / "summary.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(ConfigError, match="larger than 64 MiB"):
        run_directory.read_summary(run)


@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "latency.parquet", "ageing.parquet"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_not_waited_for(
    run: RunDir, name: str, make: Callable[[Path], None]
) -> None:
    make(run.path / name)
    read = {
        "summary.json": run_directory.read_summary,
        "manifest.json": run_directory.read_manifest,
        "latency.parquet": run_directory.read_latency,
        "ageing.parquet": run_directory.read_ageing,
    }[name]
    with pytest.raises(ConfigError, match=f"{name}: not a file") as caught:
        read(run)
    assert "copy it again" in caught.value.hint


# --- Parquet ---

rows = st.fixed_dictionaries(
    {
        "time_ns": st.integers(0, 2**62),
        "phase": st.text(max_size=10),
        "layer": st.sampled_from(run_directory.LAYERS),
        "host": st.text(max_size=10),
        "op": st.sampled_from(run_directory.OPS),
        "tier": st.sampled_from(run_directory.TIERS),
        "lo_ns": st.integers(0, 2**40),
        "hi_ns": st.integers(2**40 + 1, 2**62),
        "count": st.integers(0, 2**62),
    }
)


@given(st.lists(rows, max_size=5))
def test_latency_round_trip(tmp_path_factory: pytest.TempPathFactory, given_rows: list[Any]) -> None:
    run = RunDir(tmp_path_factory.getbasetemp())
    given_frame = pl.DataFrame(given_rows, schema=LATENCY_SCHEMA)
    run_directory.write_latency(run, given_frame)
    read = run_directory.read_latency(run)
    assert read.to_dicts() == given_rows
    assert dict(read.schema) == LATENCY_SCHEMA


IMPOSSIBLE: list[dict[str, Any]] = [
    {"count": -1},
    {"lo_ns": -1},
    {"hi_ns": ROW["lo_ns"]},
    {"hi_ns": 5},
    {"tier": "tape"},
    {"tier": None},
    {"layer": "kernel"},
    {"op": "erase"},
    {"count": None},
    {"time_ns": None},
    {"host": None},
]


@pytest.mark.parametrize("change", IMPOSSIBLE)
def test_impossible_rows_are_neither_written_nor_read(run: RunDir, change: dict[str, Any]) -> None:
    file = run.path / "latency.parquet"
    with pytest.raises(ConfigError, match="1 rows are impossible"):
        run_directory.write_latency(run, frame(**change))
    assert not file.exists()
    frame(**change).write_parquet(file)
    with pytest.raises(ConfigError, match="1 rows are impossible") as caught:
        run_directory.read_latency(run)
    assert caught.value.exit_code == 2 and str(file) in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "many"])
def test_a_count_that_is_no_number_is_refused(run: RunDir, value: Any) -> None:
    bad = pl.DataFrame([ROW]).with_columns(pl.lit(value).alias("count"))
    bad.write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match=r"latency\.parquet"):
        run_directory.read_latency(run)


@pytest.mark.parametrize("column", LATENCY_SCHEMA)
def test_a_missing_column_is_named(run: RunDir, column: str) -> None:
    frame().drop(column).write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match=f"no column {column}"):
        run_directory.read_latency(run)


@pytest.mark.parametrize("keep", [0, 3, 0.3, 0.7, -1])
def test_a_truncated_parquet_is_refused(run: RunDir, keep: float) -> None:
    run_directory.write_latency(run, frame())
    file = run.path / "latency.parquet"
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else int(keep)])
    with pytest.raises(ConfigError, match=r"latency\.parquet"):
        run_directory.read_latency(run)


def test_text_is_not_parquet(run: RunDir) -> None:
    (run.path / "latency.parquet").write_text("time_ns,phase\n")
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        run_directory.read_latency(run)


def test_a_missing_parquet_says_so(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        run_directory.read_latency(run)
