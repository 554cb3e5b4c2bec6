"""What the clients of an observed server asked for, request by request, as capture.parquet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kit.core.clock import Clock
from kit.core.text import commas, counted
from kit.core.units import format_time_s
from kit.observe.served import Served
from kit.store.load import capture
from kit.store.run_directory import RunDir
from kit.trace.captured import STABLE, numbered
from kit.trace.output import Trace, class_of, place_of


def store(trace: Trace, known: Served, run_dir: RunDir, clock: Clock) -> list[str]:
    """Write the file; notes about it. Requests to file systems that are not asked for are left out."""
    rows = _rows(trace, known, clock)
    capture.write_capture(run_dir.path / capture.NAME, rows, trace.captured.lost, trace.captured.left_out)
    return [*_notes(trace, rows)]


def _rows(trace: Trace, known: Served, clock: Clock) -> pl.DataFrame:
    table = trace.captured.table
    classes = {int(seen): class_of(trace, int(seen)) for seen in np.unique(table[:, 1])}
    ops = {seen: key[0] for seen, key in classes.items() if place_of(key) in known.file_systems}
    table = table[np.isin(table[:, 1], np.array(sorted(ops), np.uint64))][: capture.MOST_ROWS]
    begin_ns, seen, client, file, offset, length = table.T
    op = [ops[int(each)] for each in seen]
    return pl.DataFrame({
        "time_ns": np.maximum(begin_ns.astype(np.int64) - trace.begin_ns, 0) // clock.to_host_ns(1),
        "client": numbered(client), "file": numbered(file),
        "offset_bytes": offset.astype(np.int64), "length_bytes": length.astype(np.int64), "op": op,
        "stable": (seen & np.uint64(STABLE) != 0) & (np.array(op, dtype=str) == "write"),
    }, schema=capture.SCHEMA)  # fmt: skip


def _notes(trace: Trace, rows: pl.DataFrame) -> Iterator[str]:
    kinds = [counted(rows[name].n_unique(), name) for name in ("client", "file")]
    yield f"{capture.NAME} has {commas(rows.height)} requests, of {kinds[0]} for {kinds[1]}."
    if left := trace.captured.left_out:
        last_s = format_time_s(int(rows["time_ns"].max() or 0) / 1e9)  # type: ignore[arg-type]
        yield (
            f"The capture was full after {last_s}: {commas(left)} later requests are not in it; a larger "
            "--capture-max takes more."
        )
