"""The tables of a run directory: latency.parquet and ageing.parquet, their columns and their checks.

A row counts I/Os in one bin of latency. What is read back is untrusted: size, types and ranges are checked.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.core.own_file import read_own
from kit.store.json_file import DAMAGED
from kit.store.run_directory import RunDir

SERVER = "nfs-server"
LAYERS = ("client", SERVER, "vdev")
OPS = ("read", "write", "commit")
# `indirect` is a request that had to read an indirect block or a dnode from a device
# first; `shared` waited for an I/O that another thread had issued.
TIERS = ("dram", "l2arc", "disk", "slog", "pool", "shared", "indirect", "direct", "all")

LATENCY_SCHEMA = {
    "time_ns": pl.Int64(),  # start of the interval, since the run began
    "phase": pl.String(),
    "layer": pl.String(),
    "host": pl.String(),
    "op": pl.String(),
    "tier": pl.String(),  # "all" where the layer cannot tell
    "lo_ns": pl.Int64(),  # bin, see kit.core.bins
    "hi_ns": pl.Int64(),
    "count": pl.Int64(),
}

# Only runs that preconditioned devices have it.
AGEING_SCHEMA = {
    "device": pl.String(),
    "role": pl.String(),
    "point": pl.Int64(),  # 0 after the purge, then one after each fill or round
    "stage": pl.String(),
    "written_bytes": pl.Int64(),  # since the purge, by the device's counter
    "capacity_bytes": pl.Int64(),
    "op": pl.String(),
    "block_bytes": pl.Int64(),
    "time_ns": pl.Int64(),  # start of the interval, since this measurement began
    "interval_ns": pl.Int64(),
    "lo_ns": pl.Int64(),
    "hi_ns": pl.Int64(),
    "count": pl.Int64(),
}

_MAX_ROWS = 50_000_000
# A row takes about 120 bytes in memory. A grid of 10 000 intervals x 200 bins with one count in all its cells
# has 18 rows a byte of its file (measured). More than this many are rows repeated to fill the memory.
_FREE_ROWS, _MAX_ROWS_PER_BYTE = 100_000, 20
_MAX_BYTES = 1 << 30


def write_latency(run: RunDir, frame: pl.DataFrame) -> None:
    """Store latency.parquet. `frame` has the columns of LATENCY_SCHEMA."""
    path = run.path / "latency.parquet"
    _write_parquet(path, _checked_latency(frame, path))


def write_ageing(run: RunDir, frame: pl.DataFrame) -> None:
    """Store ageing.parquet. `frame` has the columns of AGEING_SCHEMA."""
    path = run.path / "ageing.parquet"
    _write_parquet(path, _checked_ageing(frame, path))


def _write_parquet(path: Path, frame: pl.DataFrame) -> None:
    # Not straight into the file: what polars raises where that is full is no OSError. Counts are small.
    content = io.BytesIO()
    frame.write_parquet(content)
    write_atomically(path, content.getvalue())


def read_latency(run: RunDir) -> pl.DataFrame:
    """latency.parquet, checked. Raises ConfigError."""
    path = run.path / "latency.parquet"
    return _checked_latency(_read_parquet(path, "the run ended before its analysis"), path)


def read_ageing(run: RunDir) -> pl.DataFrame:
    """ageing.parquet, checked; without rows for a run that has none. Raises ConfigError."""
    path = run.path / "ageing.parquet"
    if not os.path.lexists(path):
        return pl.DataFrame(schema=AGEING_SCHEMA)
    return _checked_ageing(_read_parquet(path, "it was there a moment ago"), path)


def _read_parquet(path: Path, missing_hint: str) -> pl.DataFrame:
    try:
        content = read_own(path, _MAX_BYTES)
        rows = pl.scan_parquet(io.BytesIO(content)).select(pl.len()).collect().item()
        if rows > _MAX_ROWS:
            raise ConfigError(
                f"{path}: {rows} rows, more than {_MAX_ROWS}", "give a coarser --interval to `hsp import`"
            )
        if rows > _FREE_ROWS + _MAX_ROWS_PER_BYTE * len(content):
            raise ConfigError(
                f"{path}: {rows} rows in {len(content)} bytes: the same rows again and again", DAMAGED
            )
        return pl.read_parquet(io.BytesIO(content))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", missing_hint) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})", DAMAGED) from error


def _checked_latency(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    known = pl.col("layer").is_in(LAYERS) & pl.col("op").is_in(OPS) & pl.col("tier").is_in(TIERS)
    return _checked(frame, path, LATENCY_SCHEMA, known)


def _checked_ageing(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    possible = (
        pl.col("op").is_in(OPS)
        & (pl.col("point") >= 0)
        & (pl.col("written_bytes") >= 0)
        & (pl.col("capacity_bytes") > 0)
        & (pl.col("block_bytes") > 0)
        & (pl.col("time_ns") >= 0)
        & (pl.col("interval_ns") > 0)
    )
    return _checked(frame, path, AGEING_SCHEMA, possible)


def _checked(frame: pl.DataFrame, path: Path, schema: dict[str, Any], possible: pl.Expr) -> pl.DataFrame:
    missing = set(schema) - set(frame.columns)
    if missing:
        raise ConfigError(f"{path}: no column {', '.join(sorted(missing))}", DAMAGED)
    try:
        frame = frame.select(list(schema)).cast(schema)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path}: a column is not of its type ({error})", DAMAGED) from error
    bad = frame.filter(
        pl.any_horizontal(pl.all().is_null())
        | (pl.col("count") < 0)
        | (pl.col("lo_ns") < 0)
        | (pl.col("hi_ns") <= pl.col("lo_ns"))
        | ~possible
    )
    if bad.height:
        raise ConfigError(f"{path}: {bad.height} rows are impossible, the first is {bad.row(0)}", DAMAGED)
    # Sums of 64-bit integers would wrap around.
    total = float(frame["count"].cast(pl.Float64).sum())
    if total >= 1 << 63:
        raise ConfigError(f"{path}: {total:.3g} I/Os in all are more than any run can have", DAMAGED)
    return frame
