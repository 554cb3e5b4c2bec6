"""fio's histogram log (write_hist_log): `time_ms, ddir, bs, count, count, ...` per window and direction.

Of imports. Format: fio's HOWTO, "Log File Formats", and flush_hist_samples() in
its iolog.c. Latencies are those of completion (clat); bins are those of kit.load.fio_bins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kit.load.fio_bins import IntArray
from kit.load.fio_latency_log import MAX_TIME_MS, TRIM, BadLine, shown
from kit.load.number_columns import Irregular, not_zero

FIRST_COUNT = 3
MAX_COUNT = 1 << 40
_NATURAL = re.compile(rb"[ \t]*0*[0-9]{1,19}[ \t\r]*")


@dataclass(frozen=True)
class Windows:
    """Lines of a log: `time_ms` and `direction` one per line; and the counts that are not 0.

    `row` (the line, from 0) and `column` (the bin) say where those are.
    """

    time_ms: IntArray
    direction: IntArray
    row: IntArray
    column: IntArray
    counts: IntArray


def parse(data: bytes, columns: int) -> Windows:
    """The windows of whole lines with `columns` bins, at least one line. Raises BadLine."""
    return fast_windows(data, columns) or slow_windows(data, columns)


def fast_windows(data: bytes, columns: int) -> Windows | None:
    """As parse, or None where anything is odd: then slow_windows finds out what."""
    width = columns + FIRST_COUNT
    try:
        lines, fields, values = not_zero(data, width)
    except Irregular:
        return None
    # Fields ascend, so nothing need be divided: where each line's begin, and those that are counts.
    line_ends = np.arange(1, lines + 1) * width
    found = np.diff(np.searchsorted(fields, line_ends), prepend=0)
    row = np.repeat(np.arange(lines), found)
    column = fields - np.repeat(line_ends - (width - FIRST_COUNT), found)
    time_ms, direction = np.zeros((2, lines), dtype=np.int64)
    heads = np.flatnonzero(column < 0)
    for number, part in enumerate((time_ms, direction)):
        mine = heads[column[heads] == number - FIRST_COUNT]
        part[row[mine]] = values[mine]
    counted = np.flatnonzero(column >= 0)
    row, column, counts = row[counted], column[counted], values[counted]
    if time_ms.max() > MAX_TIME_MS or direction.max() > TRIM or counts.max(initial=0) > MAX_COUNT:
        return None
    return Windows(time_ms, direction, row, column, counts)


def slow_windows(data: bytes, columns: int) -> Windows:
    """As parse, line by line."""
    rows = [_row(index, line, columns) for index, line in enumerate(data.split(b"\n")[:-1])]
    times, directions, counts = (np.array(part, dtype=np.int64) for part in zip(*rows, strict=True))
    row, column = np.nonzero(counts)
    return Windows(times, directions, row, column, counts[row, column])


def _row(index: int, line: bytes, columns: int) -> tuple[int, int, IntArray]:
    fields = line.split(b",")
    if len(fields) != columns + FIRST_COUNT:
        found = f"{len(fields) - FIRST_COUNT} bins where the first line has {columns}"
        raise BadLine(index, found, line)
    if not all(map(_NATURAL.fullmatch, fields)):
        bad = next(f for f in fields if not _NATURAL.fullmatch(f))
        raise BadLine(index, f"{shown(bad)} is not a natural number", line)
    time_ms, direction = int(fields[0]), int(fields[1])
    counts = np.array(fields[FIRST_COUNT:], dtype=np.bytes_).astype(np.uint64)
    if time_ms > MAX_TIME_MS or direction > TRIM or int(counts.max()) > MAX_COUNT:
        raise BadLine(index, "time, direction or count is impossible", line)
    return time_ms, direction, counts.astype(np.int64)
