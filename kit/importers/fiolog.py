"""fio's per-I/O latency logs (write_lat_log): `time_ms, latency_ns, ddir, bs[, offset][, prio][, issue]`.

Format: fio's HOWTO, "Log File Formats". Priorities may be hexadecimal (log_prio=1). A log that was averaged
(log_avg_msec) has no I/Os in it; fio writes a block size of 0 there.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.bins import bin_index
from kit.importers.source import Block, Source
from kit.importers.tally import Account, Part, Tally

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
# Blocks that wait: enough that no thread does, few enough that memory stays small.
_AHEAD = 4


@dataclass(frozen=True)
class Rows:
    """One entry per row of a block."""

    time_ms: IntArray
    latency_ns: IntArray
    direction: IntArray


def read(source: Source, tally: Tally, host: str) -> Account:
    """Add the I/Os of one log to `tally`. Raises ConfigError for damage, with its line."""
    account = Account(str(source.path))
    groups = np.array([tally.group(host, op) for op in OPS])
    columns = column_count(source)

    def work(block: Block) -> _Digest:
        return _digest(source, tally, groups, columns, block)

    for digest in _in_order(work, source.blocks()):
        account.read(digest.rows)
        account.rows_counted += digest.ios
        account.leave_out(TRIMS, digest.trims)
        account.leave_out(CUT, digest.cut)
        if digest.part:
            tally.take(digest.part)
        for group, low_ns, high_ns in digest.extremes:
            tally.extremes(group, low_ns, high_ns)
    return account


@dataclass(frozen=True)
class _Digest:
    """What one block held. `extremes`: group, lowest and highest latency in ns."""

    rows: int
    ios: int = 0
    trims: int = 0
    cut: int = 0
    part: Part | None = None
    extremes: tuple[tuple[int, int, int], ...] = ()


def _digest(source: Source, tally: Tally, groups: IntArray, columns: int, block: Block) -> _Digest:
    if block.cut:
        return _Digest(rows=1, cut=1)
    rows = fast_rows(block, columns) or slow_rows(source, block, columns)
    time_ms, latency_ns, direction = rows.time_ms, rows.latency_ns, rows.direction
    kept = direction != TRIM
    ios = int(np.count_nonzero(kept))
    if ios < direction.size:
        time_ms, latency_ns, direction = time_ms[kept], latency_ns[kept], direction[kept]
    extremes = []
    for number, group in enumerate(groups.tolist()):
        mine = latency_ns[direction == number]
        if mine.size:
            extremes.append((group, int(mine.min()), int(mine.max())))
    part = tally.part(groups[direction], time_ms * 1_000_000, bin_index(latency_ns))
    return _Digest(kept.size, ios, kept.size - ios, 0, part, tuple(extremes))


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


def _in_order(work: Callable[[Block], _Digest], blocks: Iterator[Block]) -> Iterator[_Digest]:
    """`work` of each block, in order, a few at a time; parsing releases the interpreter's lock."""
    waiting: deque[Future[_Digest]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for block in blocks:
            waiting.append(pool.submit(work, block))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def fast_rows(block: Block, columns: int) -> Rows | None:
    """The rows of whole lines, or None where anything is not as it should be: then slow_rows finds out."""
    names = [f"c{n}" for n in range(columns)]
    try:
        table = pl.read_csv(
            block.data, has_header=False, separator=",", quote_char=None,
            schema=dict.fromkeys(names, pl.Int64()), infer_schema=False, raise_if_empty=False,
        )  # fmt: skip
    except pl.exceptions.PolarsError:
        return None
    if table.height != block.lines or any(c.null_count() for c in table.iter_columns()):
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
