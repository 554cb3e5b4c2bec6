"""The files of a run directory. Of kit/, reports/ imports kit.store and kit.core alone.

    results/<workload>/<UTC time>-<id>/
        plan.json         what was asked for (kit.plan.plan), written before anything is touched
        journal.jsonl     what was done, a line before and a line after each step
        raw/              what tools said, as they said it
        manifest.json     testbed, versions, tunables, clock, phases with their times
        latency.parquet   counts per interval, phase, layer, host, op, tier and bin
        ageing.parquet    counts per device, point of its preconditioning, op, interval and bin
        summary.json      verdict, accounting and ranges
        report.html       drawn from the three files above alone

Format history (`format` in manifest.json and summary.json):
    1  first

Everything read back is untrusted: sizes, types and ranges are checked.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from kit.core.errors import ConfigError, HostError
from kit.core.files import write_atomically as write_atomically

FORMAT = 1

LAYERS = ("client", "nfs-server", "vdev")
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

_MAX_JSON_BYTES = 64 << 20
_MAX_ROWS = 50_000_000
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_DAMAGED = "the run directory is damaged: copy it again, or leave the run out"


@dataclass(frozen=True)
class RunDir:
    """Paths of one run."""

    path: Path

    @property
    def raw(self) -> Path:
        return self.path / "raw"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"


def create_run(results: Path, workload: str) -> RunDir:
    """Make results/<workload>/<UTC time>-<id>/ and point `latest` at it."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{stamp}-{secrets.token_hex(3)}"
    path = results / workload / name
    (path / "raw").mkdir(parents=True)
    link = path.parent / f".latest-{name}"
    link.symlink_to(name)
    link.replace(path.parent / "latest")
    return RunDir(path)


def check_space(results: Path, needed_bytes: int, needed_files: int) -> None:
    """Stop before the load, not with a half-written run. Raises HostError."""
    free = shutil.disk_usage(results).free
    if free < needed_bytes:
        raise HostError(
            f"{results} has {free >> 20} MiB free, a run needs {needed_bytes >> 20} MiB",
            "free some space, or choose another place with --results",
        )
    files = os.statvfs(results)
    # Some filesystems have no limit, and say 0 of 0.
    if files.f_files and files.f_favail < needed_files:
        raise HostError(
            f"{results} has room for {files.f_favail} files more, a run needs {needed_files}",
            "remove files that nobody needs, or choose another place with --results",
        )


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """A JSON file of a run. Raises ConfigError if it is missing, huge, damaged or not finite."""
    try:
        _check_regular(path)
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_JSON_BYTES >> 20} MiB", _DAMAGED)
        text = path.read_text("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
        return _without_halves(value) if _HALF.search(text) else value
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", "is this a run directory? give results/<workload>/<run>"
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise ConfigError(f"{path}: not a readable JSON file ({error})", _DAMAGED) from error


def _without_halves(value: Any) -> Any:
    """`value` with "?" for each half of a surrogate pair: JSON can escape one, text cannot hold it."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _check_regular(path: Path) -> None:
    """A FIFO in a run directory would be waited for without end. Raises ConfigError, FileNotFoundError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ConfigError(f"{path}: not a file", _DAMAGED)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value


def read_summary(run: RunDir) -> dict[str, Any]:
    return _versioned(run.path / "summary.json")


def read_manifest(run: RunDir) -> dict[str, Any]:
    return _versioned(run.path / "manifest.json")


def _versioned(path: Path) -> dict[str, Any]:
    value = read_json(path)
    # JSON's true is 1 to Python.
    if not isinstance(value, dict) or value.get("format") is True or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise ConfigError(
            f"{path}: format {found!r}, this version reads {FORMAT}",
            "use the version of the kit that wrote the run",
        )
    return value


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
    if not path.exists():
        return pl.DataFrame(schema=AGEING_SCHEMA)
    return _checked_ageing(_read_parquet(path, "it was there a moment ago"), path)


def _read_parquet(path: Path, missing_hint: str) -> pl.DataFrame:
    try:
        _check_regular(path)
        rows = pl.scan_parquet(path).select(pl.len()).collect().item()
        if rows > _MAX_ROWS:
            raise ConfigError(
                f"{path}: {rows} rows, more than {_MAX_ROWS}", "give a coarser --interval to `hsp import`"
            )
        return pl.read_parquet(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", missing_hint) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})", _DAMAGED) from error


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
        raise ConfigError(f"{path}: no column {', '.join(sorted(missing))}", _DAMAGED)
    try:
        frame = frame.select(list(schema)).cast(schema)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path}: a column is not of its type ({error})", _DAMAGED) from error
    bad = frame.filter(
        pl.any_horizontal(pl.all().is_null())
        | (pl.col("count") < 0)
        | (pl.col("lo_ns") < 0)
        | (pl.col("hi_ns") <= pl.col("lo_ns"))
        | ~possible
    )
    if bad.height:
        raise ConfigError(f"{path}: {bad.height} rows are impossible, the first is {bad.row(0)}", _DAMAGED)
    return frame
