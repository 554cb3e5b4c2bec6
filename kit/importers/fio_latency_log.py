"""fio's per-I/O latency logs (write_lat_log): `time_ms, latency_ns, ddir, bs[, offset], prio[, issue_ns]`.

Format: fio's HOWTO, "Log File Formats", and flush_samples() in its iolog.c: log_offset and log_issue_time add
their columns, log_prio makes the priority hexadecimal, fio 2 has no priority. A log of averages
(log_avg_msec) has no I/Os in it; fio writes a block size of 0 there, and with log_window_value=both another
column for the maximum.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kit.core.bins import bin_index
from kit.importers.histogram_accumulator import Account, Part, Tally
from kit.importers.number_columns import Irregular, Table
from kit.importers.parallel import in_order
from kit.importers.source import Block, Source

IntArray = npt.NDArray[np.int64]
OPS = ("read", "write")
TRIM = 2
TRIMS = "trims: latency.parquet has no such op"
CUT = "truncated last line"
MIN_COLUMNS, MAX_COLUMNS = 4, 7
# 104 days. Above it bins could not be told exactly; fio writes such numbers for a clock that went back.
MAX_LATENCY_NS = 2**53
_ASIDE_BITS = 60
MAX_TIME_MS = 2**62 // 10**6
_NUMBER = re.compile(rb"[ \t]*([0-9]{1,19})[ \t\r]*")
_EXTRA = re.compile(rb"[ \t]*(?:[0-9]{1,20}|0x[0-9a-fA-F]{1,16})[ \t\r]*")
# What slow_rows takes in any column; longer fields are for it to judge.
_MAX_WIDTH = 18


class _Average(ValueError):
    """A line that no repair makes an I/O."""


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

    for digest in in_order(work, source.blocks()):
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
    extremes = tuple((int(groups[n]), low, high) for n, low, high in _extremes(latency_ns, direction))
    part = tally.part_of(groups, direction, time_ms * 1_000_000, bin_index(latency_ns))
    return _Digest(kept.size, ios, kept.size - ios, 0, part, extremes)


def _extremes(latency_ns: IntArray, direction: IntArray) -> list[tuple[int, int, int]]:
    """Direction (0 or 1), lowest and highest latency of each that occurs."""
    if not latency_ns.size:
        return []
    # Writes are moved out of the way, up and then down: picking rows takes five times as long.
    aside = direction << _ASIDE_BITS
    above, below = latency_ns + aside, latency_ns - aside
    found = []
    if (low := int(above.min())) < 1 << _ASIDE_BITS:
        found.append((0, low, int(below.max())))
    if (low := int(below.min())) < 0:
        found.append((1, low + (1 << _ASIDE_BITS), int(above.max()) - (1 << _ASIDE_BITS)))
    return found


def column_count(source: Source) -> int:
    """Columns of the first line. Raises ConfigError if it cannot be a log's."""
    first = source.head().split(b"\n", 1)[0]
    if not first:
        return MIN_COLUMNS
    columns = first.count(b",") + 1
    if not MIN_COLUMNS <= columns <= MAX_COLUMNS:
        raise source.fail(
            1,
            f"{columns} columns, a fio latency log has {MIN_COLUMNS} to {MAX_COLUMNS}: {shown(first)}",
            "8 columns are averages and maxima (log_window_value=both): run fio without log_avg_msec"
            if columns == 8
            else "is it what fio's write_lat_log wrote? --from says what a file is",
        )
    return columns


def fast_rows(block: Block, columns: int) -> Rows | None:
    """The rows of whole lines, or None where anything is not as it should be: then slow_rows finds out."""
    try:
        table = Table(block.data, columns, range(MIN_COLUMNS, columns))
        time_ms, latency_ns = table.numbers(0), table.numbers(1)
    except Irregular:
        return None
    direction = table.firsts(2) - np.uint8(ord("0"))
    good = (
        int(time_ms.max()) <= MAX_TIME_MS
        and int(latency_ns.max()) < MAX_LATENCY_NS
        and table.longest(2) <= 2
        and int(direction.max()) <= TRIM
        # A block size that begins with another digit than 0 is not 0.
        and int(table.firsts(3).min()) > ord("0")
        and all(table.longest(column) <= _MAX_WIDTH for column in range(3, columns))
    )
    return Rows(time_ms, latency_ns, direction.astype(np.int64)) if good else None


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
                "run fio without log_avg_msec: averages are no I/Os"
                if isinstance(error, _Average)
                else "repair or remove the line; nothing was imported",
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
        both = direction >= latency_ns and block_bytes <= TRIM
        more = ", or log_window_value=both wrote averages and maxima" if both else ""
        raise (_Average if both else ValueError)(
            f"the direction is none of 0 (read), 1 (write), 2 (trim){more}"
        )
    if block_bytes == 0:
        raise _Average("an average (log_avg_msec), not an I/O: the block size is 0")
    return time_ms, latency_ns, direction


def shown(line: bytes) -> str:
    """The start of a line, fit for a message."""
    return ascii(line[:80].decode("latin-1"))
