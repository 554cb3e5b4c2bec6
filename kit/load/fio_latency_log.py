"""fio's per-I/O latency log (write_lat_log): `time_ms, latency_ns, ddir, bs[, offset], prio[, issue_ns]`.

Used for own runs and imports. Format: fio's HOWTO, "Log File Formats", and flush_samples() in
its iolog.c: log_offset and log_issue_time add columns, log_prio makes the priority hexadecimal, fio 2 has no
priority. A log of averages (log_avg_msec) has no single I/Os: the block size is 0, and log_window_value=both
adds a column for the maximum.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.errors import MeasurementUnknown

IntArray = npt.NDArray[np.int64]
TRIM = 2
MIN_COLUMNS, MAX_COLUMNS = 4, 7
# 104 days; bins above are not exact. fio writes such numbers if the clock goes back.
MAX_LATENCY_NS = 2**53
MAX_TIME_MS = 2**62 // 10**6
_NAMES = ("time", "latency", "direction", "block size")
_NUMBER = re.compile(rb"[ \t]*0*([0-9]{1,19})[ \t\r]*")
_EXTRA = re.compile(rb"[ \t]*(?:[0-9]{1,20}|0x[0-9a-fA-F]{1,16})[ \t\r]*")
# The same for polars. Other bytes are refused first: polars also accepts signs, quotes and fractions.
_BYTES = b"0123456789, \nxabcdefABCDEF"
_HEXADECIMAL = r"^ *(?:[0-9]{1,20}|0x[0-9a-fA-F]{1,16})$"
_AVERAGE_HINT = "run fio without log_avg_msec: averages are no I/Os"


class BadLine(ValueError):
    """The first line that is not an I/O. `index` counts from 0; `hint` may be empty."""

    def __init__(self, index: int, message: str, line: bytes, hint: str = "") -> None:
        super().__init__(f"{message}: {shown(line)}")
        self.index = index
        self.hint = hint


@dataclass(frozen=True)
class Rows:
    """One entry per line. `direction`: 0 read, 1 write, 2 trim."""

    time_ms: IntArray
    latency_ns: IntArray
    direction: IntArray


@dataclass(frozen=True)
class ClientLatencies:
    """One entry per I/O: host clock at its end (ns), latency (ns), direction (0 read, 1 write)."""

    end_ns: IntArray
    latency_ns: IntArray
    direction: IntArray

    @property
    def ios(self) -> int:
        return self.end_ns.size

    @property
    def first_ns(self) -> int:
        """The start of the first I/O."""
        return int((self.end_ns - self.latency_ns).min())

    @property
    def last_ns(self) -> int:
        """The end of the last I/O."""
        return int(self.end_ns.max())

    def earlier(self, ns: int) -> Self:
        """The same I/Os on a clock that is `ns` behind."""
        return replace(self, end_ns=self.end_ns - ns)


def total_ns(latency_ns: IntArray) -> int:
    """The exact sum. NumPy alone would wrap around: 1025 latencies of 104 days are enough."""
    return (int((latency_ns >> 26).sum()) << 26) + int((latency_ns & ((1 << 26) - 1)).sum())


def parse_latency_log(log: bytes) -> ClientLatencies:
    """The log of an own run: each line is a read or a write.

    Raises MeasurementUnknown with the number of the first other line.
    """
    if log and not log.endswith(b"\n"):
        log += b"\n"
    try:
        rows = parse(log, column_count(log[: log.find(b"\n")])) if log else Rows(*np.empty((3, 0), np.int64))
        trims = np.flatnonzero(rows.direction == TRIM)
        if trims.size:
            index = int(trims[0])
            raise BadLine(index, "neither a read nor a write", log.split(b"\n", index + 1)[index])
    except BadLine as error:
        raise MeasurementUnknown(f"fio's latency log, line {error.index + 1}: {error}") from None
    return ClientLatencies(rows.time_ms * 1_000_000, rows.latency_ns, rows.direction)


def column_count(first: bytes) -> int:
    """Number of columns of the first line. Raises BadLine if it is not valid for a log."""
    if not first:
        return MIN_COLUMNS
    columns = first.count(b",") + 1
    if not MIN_COLUMNS <= columns <= MAX_COLUMNS:
        hint = "8 columns are averages and maxima (log_window_value=both): run fio without log_avg_msec"
        message = f"{columns} columns, a fio latency log has {MIN_COLUMNS} to {MAX_COLUMNS}"
        raise BadLine(0, message, first, hint if columns == 8 else "")
    return columns


def parse(data: bytes, columns: int) -> Rows:
    """The rows of whole lines of `columns` fields. Raises BadLine."""
    return fast_rows(data, columns) or exact_rows(data, columns)


def fast_rows(data: bytes, columns: int) -> Rows | None:
    """The rows of whole lines, or None if anything is unusual; exact_rows then decides."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if data.translate(None, _BYTES):
        return None
    extra: pl.DataType = pl.String() if b"x" in data else pl.UInt64()
    schema = {str(n): pl.Int64() if n < MIN_COLUMNS else extra for n in range(columns)}
    try:
        table = pl.read_csv(data, has_header=False, schema=schema, quote_char=None, infer_schema=False)
    except pl.exceptions.PolarsError:
        return None
    # polars leaves empty lines out. bytes.count takes four times as long.
    lines = np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    if table.height != lines or any(column.null_count() for column in table.iter_columns()):
        return None
    time_ms, latency_ns, direction, block_bytes = (table[str(n)].to_numpy() for n in range(MIN_COLUMNS))
    good = (
        int(time_ms.max()) <= MAX_TIME_MS
        and int(latency_ns.max()) < MAX_LATENCY_NS
        and int(direction.max()) <= TRIM
        and int(block_bytes.min()) > 0
        and all(
            table[str(n)].str.contains(_HEXADECIMAL).all()
            for n in range(MIN_COLUMNS, columns)
            if extra == pl.String()
        )
    )
    return Rows(time_ms, latency_ns, direction) if good else None


def exact_rows(data: bytes, columns: int) -> Rows:
    """As fast_rows, line by line, for everything that fio may write. Raises BadLine."""
    lines = data.split(b"\n")[:-1]
    table = np.empty((3, len(lines)), dtype=np.int64)
    for index, line in enumerate(lines):
        try:
            table[:, index] = _row(line, columns)
        except ValueError as error:
            message, *hint = error.args
            raise BadLine(index, message, line, *hint) from None
    return Rows(*table)


def _row(line: bytes, columns: int) -> tuple[int, int, int]:
    """Raises ValueError with what is wrong, and a hint where the line is of averages."""
    fields = line.split(b",")
    if len(fields) != columns:
        raise ValueError(f"{len(fields)} columns where the first line has {columns}")
    values = []
    for name, text in zip(_NAMES, fields[:4], strict=True):
        if not (match := _NUMBER.fullmatch(text)):
            raise ValueError(f"the {name} is not a natural number")
        values.append(int(match[1]))
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
        what = f"the direction is not 0 (read), 1 (write) or 2 (trim){more}"
        raise ValueError(what, _AVERAGE_HINT if both else "")
    if block_bytes == 0:
        raise ValueError("an average (log_avg_msec), not an I/O: the block size is 0", _AVERAGE_HINT)
    return time_ms, latency_ns, direction


def shown(line: bytes) -> str:
    """The start of a line as ASCII, for a message."""
    return ascii(line[:80].decode("latin-1"))
