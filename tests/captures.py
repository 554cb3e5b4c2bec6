"""Captures for tests: rows as an observation stores them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from kit.store.load.capture import SCHEMA, write_capture

Row = tuple[int, int, int, int, int, str, bool]
"""time_ns, client, file, offset_bytes, length_bytes, op, stable."""


def capture_file(path: Path, rows: Sequence[Row], lost: int = 0, left_out: int = 0) -> Path:
    write_capture(path, pl.DataFrame(rows, SCHEMA, orient="row"), lost, left_out)  # type: ignore[arg-type]
    return path


def raw_file(frame: pl.DataFrame, about: str | None) -> bytes:
    """What is no capture, perhaps. `about`: its metadata."""
    content = io.BytesIO()
    frame.write_parquet(content, metadata=None if about is None else {"hsp.capture": about})
    return content.getvalue()
