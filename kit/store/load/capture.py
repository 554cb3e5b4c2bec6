"""capture.parquet: the requests of an observed server, one by one, and what a replay needs to know of them.

Client and file are small numbers in the order in which they come first; there are no names. The metadata of
the Parquet file have KEY: `format`, how many requests were `lost`, and how many `left_out` because it was
full. A capture may be a stranger's: size, types and ranges are checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.core.text import commas, counted
from kit.core.units import format_binary_bytes
from kit.store.tables import with_columns_of
from kit.store.trial.readable import check_readable

NAME = "capture.parquet"
KEY = "hsp.capture"
FORMAT = 1
MOST_ROWS = 1_000_000
MOST_BYTES = 256 << 20
SCHEMA = {
    "time_ns": pl.Int64(),  # begin of the request, since the observation began
    "client": pl.Int64(),
    "file": pl.Int64(),
    "offset_bytes": pl.Int64(),
    "length_bytes": pl.Int64(),  # that were moved; 0 of a COMMIT
    "op": pl.String(),
    "stable": pl.Boolean(),  # of a write: it was on stable storage before the answer
}
PART_BYTES = 1 << 20
"""Parts of this size of the captured files that nothing was asked of are left out of a replay."""

_MOST_LENGTH, _MOST_NUMBER = 16 << 20, 1 << 20
# A damaged time would make a run of years.
_MOST_NS = 31 * 24 * 3600 * 10**9
_HINT = "copy it again, or capture anew: hsp observe --capture"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Capture:
    """`rows`: by time. `digest`: of the file."""

    rows: pl.DataFrame
    lost: int
    left_out: int
    digest: str

    @cached_property
    def moving(self) -> pl.DataFrame:
        """Reads and writes."""
        return self.rows.filter(pl.col("op") != "commit")

    @property
    def span_ns(self) -> int:
        """From the first read or write to the last."""
        times = self.moving["time_ns"]
        return int(times[-1] - times[0])

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.moving["op"].unique())

    @property
    def largest(self) -> dict[str, int]:
        """Bytes of the largest request, by op."""
        return dict(self.moving.group_by("op").agg(pl.col("length_bytes").max()).iter_rows())

    @property
    def unforced(self) -> tuple[int, int]:
        """Unstable writes and COMMITs."""
        writes = self.moving.filter((pl.col("op") == "write") & ~pl.col("stable")).height
        return writes, self.rows.height - self.moving.height

    @cached_property
    def placed(self) -> tuple[Ints, int]:
        """Where each read or write is in one file that has all captured files, and how large that is.

        The files follow each other by number. Parts of them that nothing was for are left out, so that parts
        that were beside each other stay so.
        """
        file, offset, length = (
            self.moving[name].to_numpy() for name in ("file", "offset_bytes", "length_bytes")
        )
        first, last = offset // PART_BYTES, (offset + length - 1) // PART_BYTES
        # Offsets have 63 bits, so parts have 43, and files 20.
        key, more = file << 43 | first, last - first
        keys = [key[more >= n] + n for n in range(int(more.max()) + 1)]
        parts = np.unique(np.concatenate(keys))
        return np.searchsorted(parts, key) * PART_BYTES + offset % PART_BYTES, len(parts) * PART_BYTES

    @property
    def text(self) -> str:
        """For people."""
        kinds = " for ".join(counted(self.rows[name].n_unique(), name) for name in ("client", "file"))
        return f"{commas(self.moving.height)} captured I/Os of {kinds}"


def write_capture(path: Path, rows: pl.DataFrame, lost: int, left_out: int) -> None:
    """Store what an observation has captured."""
    content = io.BytesIO()
    about = json.dumps({"format": FORMAT, "lost": lost, "left_out": left_out})
    rows.select(list(SCHEMA)).cast(SCHEMA).write_parquet(content, metadata={KEY: about})  # type: ignore[arg-type]
    write_atomically(path, content.getvalue())


def capture_of(content: bytes, path: Path) -> Capture:
    """The capture of the file `path`, which has this content. Raises ConfigError."""
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: larger than {format_binary_bytes(MOST_BYTES)}: not a capture", _HINT)
    handle = os.memfd_create("hsp-capture", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        check_readable(path, handle, MOST_ROWS)
    finally:
        os.close(handle)
    try:
        about = _about(pl.read_parquet_metadata(io.BytesIO(content)), path)
        rows = pl.scan_parquet(io.BytesIO(content)).select(pl.len()).collect().item()
        if not 0 < rows <= MOST_ROWS:
            raise ConfigError(f"{path}: {commas(rows)} rows: a capture has 1 to {commas(MOST_ROWS)}", _HINT)
        frame = _checked(pl.read_parquet(io.BytesIO(content)), path)
    # A panic of polars is a BaseException: no other handler knows it.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})", _HINT) from error
    made = Capture(frame.sort("time_ns", maintain_order=True), *about, hashlib.sha256(content).hexdigest())
    if not made.moving.height:
        raise ConfigError(f"{path}: no read and no write is in it", "capture while clients read or write")
    return made


def _about(metadata: Mapping[str, str], path: Path) -> tuple[int, int]:
    """`lost` and `left_out`. Raises ConfigError."""
    try:
        value: Any = json.loads(metadata.get(KEY, "null"))
        version, lost, left_out = (value[name] for name in ("format", "lost", "left_out"))
    except (ValueError, TypeError, KeyError, RecursionError):
        text = f"{path}: a Parquet file, but not a capture of `hsp observe --capture`"
        raise ConfigError(text, f"it has no {KEY} with format, lost and left_out in its metadata") from None
    if version != FORMAT:
        raise ConfigError(f"{path}: format {str(version)[:40]!r}, {FORMAT} is read here", "use a newer hsp")
    if not all(type(each) is int and 0 <= each < 1 << 62 for each in (lost, left_out)):
        raise ConfigError(f"{path}: lost and left_out of {KEY} are not numbers from 0", _HINT)
    return lost, left_out


def _checked(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    frame = with_columns_of(frame, path, SCHEMA, _HINT)
    offset, length = pl.col("offset_bytes"), pl.col("length_bytes")
    moves = pl.col("op").is_in(["read", "write"]) & length.is_between(1, _MOST_LENGTH)
    possible = (
        (moves | ((pl.col("op") == "commit") & (length == 0)))
        & pl.col("time_ns").is_between(0, _MOST_NS)
        & pl.col("client").is_between(0, _MOST_NUMBER - 1)
        & pl.col("file").is_between(0, _MOST_NUMBER - 1)
        & offset.is_between(0, (1 << 63) - 1 - _MOST_LENGTH)
    )
    bad = frame.filter(pl.any_horizontal(pl.all().is_null()) | ~possible)
    if bad.height:
        text = f"{commas(bad.height)} rows are impossible, the first is {bad.row(0)}"
        raise ConfigError(f"{path}: {text[:300]}", _HINT)
    return frame
