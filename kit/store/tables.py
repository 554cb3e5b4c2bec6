"""The tables of a run directory: latency, ageing and keys (.parquet), their columns and their checks.

A row of the first two counts I/Os in one bin of latency; one of keys.parquet is a block that was asked for.
What is read back is untrusted: size, types and ranges are checked.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.core.own_file import open_own, too_large
from kit.store.json_file import DAMAGED
from kit.store.labels import CLIENT, DEVICE, ISSUERS, LAYERS, OPS, SERVER, TIERS
from kit.store.run_directory import RunDir
from kit.store.trial.readable import check_readable

__all__ = [
    "AGEING", "AGEING_SCHEMA", "CLIENT", "DEVICE", "ISSUERS", "KEYS", "KEYS_SCHEMA", "LATENCY",
    "LATENCY_SCHEMA", "LAYERS", "OPS", "SERVER", "TIERS", "check_labels", "deciding_layer", "latency_parts",
    "read_ageing", "read_keys", "read_latency", "with_columns_of", "write_ageing", "write_keys",
    "write_latency",
]  # fmt: skip

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

# Only runs that sampled them have it: the blocks that requests were for, in their order.
KEYS_SCHEMA = {
    "phase": pl.String(),  # of a run; "" of an observation
    "dataset": pl.String(),
    "time_ns": pl.Int64(),  # since the phase began
    "key": pl.UInt64(),  # a hash of file and number of the block in it: equal keys are the same block
    "op": pl.String(),
    "tier": pl.String(),  # that answered the request, "all" where that is not known
    "block_bytes": pl.Int64(),  # of the block, before compression
    "one_in": pl.Int64(),  # one of so many blocks is sampled, with all requests for it
}

_MAX_ROWS = 50_000_000
# What is read part by part takes time, not memory. A day of seconds has 104 million, if three tiers use 200
# bins each in every second, and the clients as many.
_MAX_STREAMED_ROWS = 400_000_000
# A row takes about 120 bytes in memory. A grid of 10 000 intervals x 200 bins with one count in all its cells
# has 18 rows a byte of its file (measured). More than this many are rows repeated to fill the memory.
_FREE_ROWS, _MAX_ROWS_PER_BYTE = 100_000, 20
_MAX_BYTES = 1 << 30
_ENDED_EARLY = (
    "name a run directory, results/<workload>/<run>; leave out a run that ended before it stored any I/O"
)


def _at_least(least: int, *columns: str) -> pl.Expr:
    return pl.all_horizontal(pl.col(columns) >= least)


_KNOWN = pl.col("layer").is_in(LAYERS) & pl.col("op").is_in(OPS) & pl.col("tier").is_in(TIERS)
_COUNTED = _at_least(0, "count", "lo_ns") & (pl.col("hi_ns") > pl.col("lo_ns"))


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table of a run directory. `possible`: of which rows; `missing`: what to do where there is no file.

    Without `missing` a run need not have it.
    """

    file: str
    schema: dict[str, Any]
    possible: pl.Expr
    missing: str = ""

    def write(self, run: RunDir, frame: pl.DataFrame) -> None:
        """Store a frame with the columns of the schema."""
        path, content = run.path / self.file, io.BytesIO()
        # Not straight into the file: what polars raises where that is full is no OSError. Counts are small.
        self.checked(frame, path).write_parquet(content)
        write_atomically(path, content.getvalue())

    def read(self, run: RunDir) -> pl.DataFrame:
        """The table, checked; without rows for a run that need not have it. Raises ConfigError."""
        path = run.path / self.file
        if not self.missing and not os.path.lexists(path):
            return pl.DataFrame(schema=self.schema)
        with _readable(path, self.missing or "it was there a moment ago"):
            return self.checked(_read_parquet(path), path)

    def checked(self, frame: pl.DataFrame, path: Path) -> pl.DataFrame:
        """The columns of the schema. Raises ConfigError if one is missing, or a row is not possible."""
        frame = with_columns_of(frame, path, self.schema, DAMAGED)
        _check_rows(frame, path, ~self.possible)
        if "count" in self.schema:
            _check_total(path, float(frame["count"].cast(pl.Float64).sum()))
        return frame


LATENCY = StoredTable("latency.parquet", LATENCY_SCHEMA, _KNOWN & _COUNTED, _ENDED_EARLY)
# What stands in `layer`, `op` and `tier` is not looked at.
_LATENCY_PART = replace(LATENCY, possible=_COUNTED)
AGEING = StoredTable(
    "ageing.parquet", AGEING_SCHEMA,
    pl.col("op").is_in(OPS)
    & _at_least(0, "point", "written_bytes", "time_ns")
    & _at_least(1, "capacity_bytes", "block_bytes", "interval_ns")
    & _COUNTED,
)  # fmt: skip
KEYS = StoredTable(
    "keys.parquet", KEYS_SCHEMA,
    pl.col("op").is_in(OPS)
    & pl.col("tier").is_in(TIERS)
    & _at_least(0, "time_ns")
    & _at_least(1, "block_bytes", "one_in"),
)  # fmt: skip
read_latency, write_latency = LATENCY.read, LATENCY.write
read_ageing, write_ageing = AGEING.read, AGEING.write
read_keys, write_keys = KEYS.read, KEYS.write


def with_columns_of(frame: pl.DataFrame, path: Path, schema: dict[str, Any], hint: str) -> pl.DataFrame:
    """The columns of `schema`. Raises ConfigError with `hint` if one is missing, or not of its type."""
    if missing := sorted(set(schema) - set(frame.columns)):
        raise ConfigError(f"{path}: no column {', '.join(missing)}", hint)
    try:
        return frame.select(list(schema)).cast(schema)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path}: a column is not of its type ({error})", hint) from error


def deciding_layer(layers: Collection[str]) -> str:
    """The layer of the results of a run that has `layers`: the server's, else that of who issued the I/Os."""
    return next((layer for layer in (SERVER, *ISSUERS) if layer in layers), CLIENT)


@contextmanager
def latency_parts(run: RunDir, rows_each: int) -> Iterator[tuple[int, Iterator[pl.DataFrame]]]:
    """How many rows latency.parquet has, and they, `rows_each` at a time, checked. Raises ConfigError.

    What stands in `layer`, `op` and `tier` is not checked: check_labels() does it for the few that differ.
    """
    path = run.path / "latency.parquet"
    with _readable(path, _ENDED_EARLY), open(open_own(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_readable(path, file.fileno(), min(_MAX_STREAMED_ROWS, _most_rows(size)))
        # By its descriptor: whatever has the name now, this is the file that was checked.
        scan = pl.scan_parquet(f"/dev/fd/{file.fileno()}", glob=False)
        rows = _checked_rows(path, scan, size, _MAX_STREAMED_ROWS)
        # Closed here: a generator that the garbage collector ends joins its thread there, in any thread and
        # under any lock.
        with closing(_parts(path, scan, rows, rows_each)) as parts:
            yield rows, parts


def check_labels(frame: pl.DataFrame, path: Path) -> None:
    """Raises ConfigError if a layer, op or tier of `frame` is not one of the kit's."""
    _check_rows(frame, path, ~_KNOWN)


def _parts(path: Path, scan: pl.LazyFrame, rows: int, rows_each: int) -> Generator[pl.DataFrame, None, None]:
    def part(first: int) -> pl.DataFrame:
        frame = scan.slice(first, rows_each).collect(engine="in-memory")
        return _LATENCY_PART.checked(frame, path)

    total = 0.0
    # The next part is read while the last is summed up.
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(part, 0)
        for first in range(rows_each, max(rows, 1) + rows_each, rows_each):
            read = coming.result()
            if first < rows:
                coming = reader.submit(part, first)
            total += float(read["count"].cast(pl.Float64).sum())
            _check_total(path, total)
            yield read


def _read_parquet(path: Path) -> pl.DataFrame:
    with open(open_own(path), "rb") as file:
        content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise too_large(path, _MAX_BYTES)
        check_readable(path, file.fileno(), min(_MAX_ROWS, _most_rows(len(content))))
    _checked_rows(path, pl.scan_parquet(io.BytesIO(content)), len(content), _MAX_ROWS)
    return pl.read_parquet(io.BytesIO(content))


@contextmanager
def _readable(path: Path, missing_hint: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", missing_hint) from None
    # A panic of polars is a BaseException: no other handler knows it.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})", DAMAGED) from error


def _checked_rows(path: Path, scan: pl.LazyFrame, size: int, most: int) -> int:
    """How many rows a file of `size` bytes has. Raises ConfigError if it is not worth reading."""
    if size > _MAX_BYTES:
        raise too_large(path, _MAX_BYTES)
    rows: int = scan.select(pl.len()).collect().item()
    if rows > most:
        hint = "give a coarser --interval to `hsp import`"
        if rows <= _MAX_STREAMED_ROWS:
            hint = f"only `hsp show` reads so many; {hint}"
        raise ConfigError(f"{path}: {rows} rows, more than {most}", hint)
    if rows > _most_rows(size):
        raise ConfigError(f"{path}: {rows} rows in {size} bytes: the same rows again and again", DAMAGED)
    return rows


def _most_rows(size: int) -> int:
    return _FREE_ROWS + _MAX_ROWS_PER_BYTE * size


def _check_rows(frame: pl.DataFrame, path: Path, wrong: pl.Expr) -> None:
    # Whether there is a null costs nothing to know, and a look at every cell to find.
    if any(column.null_count() for column in frame.iter_columns()):
        wrong = pl.any_horizontal(pl.all().is_null()) | wrong
    if frame.select(wrong.any()).item():
        bad = frame.filter(wrong)
        raise ConfigError(f"{path}: {bad.height} rows are impossible, the first is {bad.row(0)}", DAMAGED)


def _check_total(path: Path, total: float) -> None:
    # Sums of 64-bit integers would wrap around.
    if total >= 1 << 63:
        raise ConfigError(f"{path}: {total:.3g} I/Os in all are more than any run can have", DAMAGED)
