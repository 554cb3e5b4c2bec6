"""What is stored as a table comes back; what is damaged or impossible is refused with exit code 2."""

from __future__ import annotations

import os
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError, HostError
from kit.store import tables
from kit.store.run_directory import RunDir
from kit.store.tables import LATENCY_SCHEMA

pytestmark = pytest.mark.any_python

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


def frame(**changes: Any) -> pl.DataFrame:
    return pl.DataFrame([ROW, {**ROW, **changes}], infer_schema_length=None)


def test_a_failed_parquet_leaves_the_old_one(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.write_latency(run, frame())
    before = (run.path / "latency.parquet").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(HostError, match=r"latency\.parquet: cannot be written: disk full"):
        tables.write_latency(run, frame(count=7))
    monkeypatch.undo()
    assert (run.path / "latency.parquet").read_bytes() == before
    assert {path.name for path in run.path.iterdir()} == {"raw", "latency.parquet"}


rows = st.fixed_dictionaries(
    {
        "time_ns": st.integers(0, 2**62),
        "phase": st.text(max_size=10),
        "layer": st.sampled_from(tables.LAYERS),
        "host": st.text(max_size=10),
        "op": st.sampled_from(tables.OPS),
        "tier": st.sampled_from(tables.TIERS),
        "lo_ns": st.integers(0, 2**40),
        "hi_ns": st.integers(2**40 + 1, 2**62),
        "count": st.integers(0, 2**60),
    }
)


@given(st.lists(rows, max_size=5))
def test_latency_round_trip(tmp_path_factory: pytest.TempPathFactory, given_rows: list[Any]) -> None:
    run = RunDir(tmp_path_factory.getbasetemp())
    given_frame = pl.DataFrame(given_rows, schema=LATENCY_SCHEMA)
    tables.write_latency(run, given_frame)
    read = tables.read_latency(run)
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
        tables.write_latency(run, frame(**change))
    assert not file.exists()
    frame(**change).write_parquet(file)
    with pytest.raises(ConfigError, match="1 rows are impossible") as caught:
        tables.read_latency(run)
    assert caught.value.exit_code == 2 and str(file) in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "many"])
def test_a_count_that_is_no_number_is_refused(run: RunDir, value: Any) -> None:
    bad = pl.DataFrame([ROW]).with_columns(pl.lit(value).alias("count"))
    bad.write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match=r"latency\.parquet"):
        tables.read_latency(run)


@pytest.mark.parametrize("column", LATENCY_SCHEMA)
def test_a_missing_column_is_named(run: RunDir, column: str) -> None:
    frame().drop(column).write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match=f"no column {column}"):
        tables.read_latency(run)


@pytest.mark.parametrize("keep", [0, 3, 0.3, 0.7, -1])
def test_a_truncated_parquet_is_refused(run: RunDir, keep: float) -> None:
    tables.write_latency(run, frame())
    file = run.path / "latency.parquet"
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else int(keep)])
    with pytest.raises(ConfigError, match=r"latency\.parquet"):
        tables.read_latency(run)


def test_text_is_not_parquet(run: RunDir) -> None:
    (run.path / "latency.parquet").write_text("time_ns,phase\n")
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        tables.read_latency(run)


def test_a_missing_parquet_says_so(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        tables.read_latency(run)
