"""fio's per-I/O latency logs (write_lat_log): `time_ms, latency_ns, ddir, bs[, offset][, prio][, issue]`.

Format: fio's HOWTO, "Log File Formats". Priorities may be hexadecimal (log_prio=1). A log that was averaged
(log_avg_msec) has no I/Os in it; fio writes a block size of 0 there.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.bins import bin_index
from kit.importers.source import Block, Source
from kit.importers.tally import Account, Tally

IntArray = npt.NDArray[np.int64]
OPS = ("read", "write")
TRIM = 2
TRIMS = "trims: latency.parquet has no such op"
CUT = "truncated last line"
MIN_COLUMNS, MAX_COLUMNS = 4, 7
# 104 days. Above it bins could not be told exactly; fio writes such numbers for a clock that went back.
MAX_LATENCY_NS = 2**53
MAX_TIME_MS = 2**62 // 10**6
_NUMBER = re.compile(rb"[ \t]*([0-9]{1,19})[ \t\r]*")
_EXTRA = re.compile(rb"[ \t]*(?:[0-9]{1,20}|0x[0-9a-fA-F]{1,16})[ \t\r]*")
_THREADS = 2


@dataclass(frozen=True)
class Rows:
    """One entry per row of a block."""

    time_ms: IntArray
    latency_ns: IntArray
    direction: IntArray


def read(source: Source, tally: Tally, host: str) -> Account:
    """Add the I/Os of one log to `tally`. Raises ConfigError for damage, with its line."""
    account = Account(str(source.path))
    groups = [tally.group(host, op) for op in OPS]
    columns = column_count(source)
    for block, rows in _parsed(source, columns):
        if block.cut:
            account.rows_read += 1
            account.leave_out(CUT)
            continue
        assert rows is not None
        account.rows_read += rows.direction.size
        bins = bin_index(rows.latency_ns)
        time_ns = rows.time_ms * 1_000_000
        for direction, group in enumerate(groups):
            chosen = rows.direction == direction
            number = int(np.count_nonzero(chosen))
            if not number:
                continue
            whole = number == chosen.size
            mine = rows.latency_ns if whole else rows.latency_ns[chosen]
            tally.add(group, time_ns if whole else time_ns[chosen], bins if whole else bins[chosen])
            tally.extremes(group, int(mine.min()), int(mine.max()))
            account.rows_counted += number
        account.leave_out(TRIMS, int(np.count_nonzero(rows.direction == TRIM)))
    return account


def column_count(source: Source) -> int:
    """Columns of the first line. Raises ConfigError if it cannot be a log's."""
    first = source.head().split(b"\n", 1)[0]
    if not first:
        return MIN_COLUMNS
    columns = first.count(b",") + 1
    if not MIN_COLUMNS <= columns <= MAX_COLUMNS:
        raise source.fail(
            1, f"{columns} columns, a fio latency log has {MIN_COLUMNS} to {MAX_COLUMNS}: {shown(first)}"
        )
    return columns


def _parsed(source: Source, columns: int) -> Iterator[tuple[Block, Rows | None]]:
    """Blocks with their rows, in order; the next ones are parsed meanwhile."""

    def work(block: Block) -> Rows | None:
        if block.cut:
            return None
        rows = fast_rows(block.data, columns)
        return slow_rows(source, block, columns) if rows is None else rows

    waiting: deque[tuple[Block, object]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for block in source.blocks():
            waiting.append((block, pool.submit(work, block)))
            if len(waiting) > _THREADS:
                done, future = waiting.popleft()
                yield done, future.result()  # type: ignore[attr-defined]
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()  # type: ignore[attr-defined]


def fast_rows(data: bytes, columns: int) -> Rows | None:
    """The rows of whole lines, or None where anything is not as it should be: then slow_rows finds out."""
    names = [f"c{n}" for n in range(columns)]
    try:
        table = pl.read_csv(
            io.BytesIO(data), has_header=False, separator=",", quote_char=None,
            schema=dict.fromkeys(names, pl.Int64()), infer_schema=False, raise_if_empty=False,
        )  # fmt: skip
    except pl.exceptions.PolarsError:
        return None
    if table.height != data.count(b"\n") or any(c.null_count() for c in table.iter_columns()):
        return None
    rows = Rows(*(table[name].to_numpy() for name in names[:3]))
    good = (
        _within(rows.time_ms, MAX_TIME_MS)
        and _within(rows.latency_ns, MAX_LATENCY_NS - 1)
        and _within(rows.direction, TRIM)
        and int(table["c3"].min() or 0) > 0  # type: ignore[arg-type]
        and all(int(table[name].min() or 0) >= 0 for name in names[4:])  # type: ignore[arg-type]
    )
    return rows if good else None


def _within(values: IntArray, most: int) -> bool:
    return int(values.min()) >= 0 and int(values.max()) <= most


def slow_rows(source: Source, block: Block, columns: int) -> Rows:
    """As fast_rows, line by line: also takes hexadecimal priorities. Raises ConfigError with the line."""
    lines = block.data.split(b"\n")[:-1]
    table = np.empty((3, len(lines)), dtype=np.int64)
    for n, line in enumerate(lines):
        try:
            table[:, n] = _row(line, columns)
        except ValueError as error:
            raise source.fail(
                block.first_line + n,
                f"{error}: {shown(line)}",
                "repair or remove the line; nothing was imported",
            ) from None
    return Rows(*table)


def _row(line: bytes, columns: int) -> tuple[int, int, int]:
    fields = line.split(b",")
    if len(fields) != columns:
        raise ValueError(f"{len(fields)} columns where the first line has {columns}")
    values = []
    for name, text in zip(("time", "latency", "direction", "block size"), fields[:4], strict=True):
        if not (found := _NUMBER.fullmatch(text)):
            raise ValueError(f"the {name} is not a natural number")
        values.append(int(found[1]))
    if not all(_EXTRA.fullmatch(text) for text in fields[4:]):
        raise ValueError("offset, priority or issue time is not a natural number")
    time_ms, latency_ns, direction, block_bytes = values
    if time_ms > MAX_TIME_MS:
        raise ValueError("the time is impossible")
    if latency_ns >= MAX_LATENCY_NS:
        raise ValueError("the latency is impossible (104 days or more)")
    if direction > TRIM:
        raise ValueError("the direction is none of 0 (read), 1 (write), 2 (trim)")
    if block_bytes == 0:
        raise ValueError("an average (log_avg_msec), not an I/O: the block size is 0")
    return time_ms, latency_ns, direction


def shown(line: bytes) -> str:
    """The start of a line, fit for a message."""
    return ascii(line[:80].decode("latin-1"))
