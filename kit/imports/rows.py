"""Files of one I/O a line: fio's per-I/O latency logs and `time latency` traces.

Chunks are parsed by polars; only what it does not take goes line by line, to find out
whether and where it is damaged. fio: HOWTO, "Log File Formats".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import polars as pl

from kit.errors import ConfigError
from kit.imports.cells import MAX_LATENCY_NS, MAX_TIME_NS, Cells, Group, IntArray, bin_of, tally
from kit.imports.source import Chunk, Source
from kit.imports.tally import HEADER, TRIM, TRUNCATED, Tally

_MS = 1_000_000
_OPS = ("read", "write")
_TRIM = 2
_THREADS = 2
_INTEGER = re.compile(rb"\d{1,19}")
_PRIORITY = re.compile(rb"0x[0-9a-f]{1,8}|\d{1,10}")
_DECIMAL = re.compile(rb"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Rows:
    """Parsed lines; times and latencies in ns; direction 0 read, 1 write, 2 trim."""

    time_ns: IntArray
    latency_ns: IntArray
    direction: IntArray


# A chunk -> its rows, and how many of its lines are headers or comments.
Parser = Callable[[Chunk, Source], tuple[Rows, int]]


def fio_log(head: bytes, source: Source) -> Parser:
    """A parser for a fio log that begins like `head`. Raises ConfigError."""
    first = head.split(b"\n", 1)[0]
    width = first.count(b",") + 1
    if not 4 <= width <= 7:
        raise source.error(1, f"has {width} columns: a fio latency log has 4 to 7", "HOWTO, Log File Formats")
    fields = [part.strip() for part in first.split(b",")]
    # Only the priority is ever hexadecimal.
    texts = [n for n, part in enumerate(fields) if n >= 4 and part.startswith(b"0x")]
    names = [str(n) for n in range(width)]
    kinds = {n: pl.String() if int(n) in texts else pl.Int64() for n in names}

    def parse(chunk: Chunk, source: Source) -> tuple[Rows, int]:
        frame = _read(chunk.data, kinds, ",")
        rows = None if frame is None else _fio_rows(frame, texts)
        return (rows if rows else _fio_exact(chunk, source, width)), 0

    return parse


def _read(data: bytes, schema: dict[str, Any], separator: str) -> pl.DataFrame | None:
    """The rows of `data`; None where a line is not of this form."""
    try:
        frame = pl.read_csv(
            data, has_header=False, schema=schema, separator=separator, quote_char=None, rechunk=True
        )
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if frame.height != data.count(b"\n") or any(c.null_count() for c in frame.iter_columns()):
        return None
    return frame


def _fio_rows(frame: pl.DataFrame, texts: list[int]) -> Rows | None:
    """None if a value is out of range."""
    for n in texts:
        if not all(_PRIORITY.fullmatch(v.strip().encode()) for v in frame[str(n)].unique()):
            return None
    time_ms, latency, direction, size = (frame[str(n)].to_numpy() for n in range(4))
    if (
        time_ms.min() < 0
        or time_ms.max() > MAX_TIME_NS // _MS
        or latency.min() < 0
        or latency.max() > MAX_LATENCY_NS
        or direction.min() < 0
        or direction.max() > _TRIM
        or size.min() < 1
    ):
        return None
    if any(n not in texts and int(frame[str(n)].min()) < 0 for n in range(4, frame.width)):  # type: ignore[arg-type]
        return None
    return Rows(time_ms * _MS, latency, direction)


def _fio_exact(chunk: Chunk, source: Source, width: int) -> Rows:
    """Line by line. Raises ConfigError with the number of the first line that is damaged."""
    rows = []
    for number, line in enumerate(chunk.data.split(b"\n")[:-1], start=chunk.line):
        fields = [part.strip() for part in line.split(b",")]
        if len(fields) != width:
            raise source.error(
                number,
                f"has {len(fields)} columns, the first line has {width}: {_shown(line)}",
                "one file is one kind of log",
            )
        if not all(_INTEGER.fullmatch(f) or (n > 3 and _PRIORITY.fullmatch(f)) for n, f in enumerate(fields)):
            raise source.error(number, f"is not one of a fio latency log: {_shown(line)}")
        time_ms, latency, direction, size = map(int, fields[:4])
        if time_ms > MAX_TIME_NS // _MS or latency > MAX_LATENCY_NS or direction > _TRIM:
            raise source.error(number, f"is impossible: {_shown(line)}", "time is in ms, latency in ns")
        if size < 1:
            raise source.error(
                number,
                f"has no block size, as in a log of averages: {_shown(line)}",
                "an average is no I/O: run fio without log_avg_msec, or with write_hist_log",
            )
        rows.append((time_ms * _MS, latency, direction))
    return _table(rows)


def trace(head: bytes, source: Source, time_unit_ns: int, latency_unit_ns: int) -> Parser:
    """A parser for a trace of two columns that begins like `head`."""
    lines = [line for line in head.split(b"\n") if line.strip() and not line.lstrip().startswith(b"#")]
    comma = any(b"," in line for line in lines[:2])

    def parse(chunk: Chunk, source: Source) -> tuple[Rows, int]:
        data = chunk.data
        if not comma:
            data = data.replace(b"\t", b" ").replace(b"\r", b"")
            while b"  " in data:
                data = data.replace(b"  ", b" ")
            data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").lstrip(b" ")
        frame = _read(data, {"0": pl.Float64(), "1": pl.Float64()}, "," if comma else " ")
        if frame is not None:
            time_ns = frame["0"].to_numpy() * time_unit_ns
            latency_ns = frame["1"].to_numpy() * latency_unit_ns
            # A NaN is not within limits either.
            if (
                ((time_ns >= 0) & (time_ns <= MAX_TIME_NS)).all()
                and ((latency_ns >= 0) & (latency_ns <= MAX_LATENCY_NS)).all()
            ):  # fmt: skip
                end, took = (np.rint(a).astype(np.int64) for a in (time_ns, latency_ns))
                return Rows(end, took, np.zeros(len(end), dtype=np.int64)), 0
        return _trace_exact(chunk, source, comma, (time_unit_ns, latency_unit_ns))

    return parse


def _trace_exact(chunk: Chunk, source: Source, comma: bool, units_ns: tuple[int, int]) -> tuple[Rows, int]:
    rows, skipped = [], 0
    for number, line in enumerate(chunk.data.split(b"\n")[:-1], start=chunk.line):
        fields = [part.strip() for part in line.split(b",")] if comma else line.split()
        if line.lstrip().startswith(b"#") or (number == 1 and _names(fields)):
            skipped += 1
            continue
        if len(fields) != 2:
            raise source.error(number, f"has {len(fields)} columns, not a time and a latency: {_shown(line)}")
        rows.append((*_quantities(fields, units_ns, number, line, source), 0))
    return _table(rows), skipped


def _names(fields: list[bytes]) -> bool:
    """Whether these are names of columns: not a number among them, and not NaN either."""
    words = [field.strip(b"\"'") for field in fields]
    odd = (b"nan", b"inf", b"infinity", b"null", b"none")
    return bool(words) and all(
        w[:1].isalpha() and w.isascii() and w.lower() not in odd for w in words
    )  # fmt: skip


def _quantities(
    fields: list[bytes], units_ns: tuple[int, int], number: int, line: bytes, source: Source
) -> tuple[int, int]:
    values = []
    for text, unit_ns, most in zip(fields, units_ns, (MAX_TIME_NS, MAX_LATENCY_NS), strict=True):
        try:
            if not _DECIMAL.fullmatch(text):
                raise InvalidOperation
            value = Decimal(text.decode("ascii")) * unit_ns
        except (InvalidOperation, ArithmeticError):
            raise source.error(number, f"holds something that is no number: {_shown(line)}") from None
        if not 0 <= value <= most:
            what = "a negative number" if value < 0 else "a number that is too large"
            raise source.error(number, f"holds {what}: {_shown(line)}", "is --unit right?")
        values.append(int(value.to_integral_value()))
    return values[0], values[1]


def _table(rows: list[tuple[int, int, int]]) -> Rows:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Rows(table[:, 0], table[:, 1], table[:, 2])


def _shown(line: bytes) -> str:
    text = line[:80].decode("utf-8", "backslashreplace")
    return repr(text) + ("..." if len(line) > 80 else "")


@dataclass(frozen=True)
class _Digest:
    cells: list[tuple[str, IntArray, IntArray, IntArray]]
    rows: int
    trims: int
    skipped: int


def read(
    source: Source,
    parse: Parser,
    cells: Cells,
    group: Callable[[str], Group],
    tally_: Tally,
    told: Callable[[int], object],
) -> None:
    """Count the I/Os of one file into `cells`; `group` says where those of an op go. Raises ConfigError."""
    interval_ns = cells.interval_ns >> cells.doublings
    trims = skipped = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for digest in _in_order(pool, _whole_lines(source, tally_, told), parse, source, interval_ns):
            for op, *counted in digest.cells:
                cells.add(group(op), *counted)
            tally_.read += digest.rows
            trims += digest.trims
            skipped += digest.skipped
    tally_.leave_out(TRIM, trims, str(source.path))
    tally_.skip_text(HEADER, skipped, str(source.path))


def _whole_lines(source: Source, tally_: Tally, told: Callable[[int], object]) -> Iterator[Chunk]:
    for chunk in source.chunks(told):
        if chunk.cut:
            tally_.read += 1
            tally_.leave_out(TRUNCATED, 1, f"{source.path}:{chunk.line}")
        else:
            yield chunk


def _in_order(
    pool: ThreadPoolExecutor, chunks: Iterator[Chunk], parse: Parser, source: Source, interval_ns: int
) -> Iterator[_Digest]:
    """The digests of the chunks in their order; a few chunks at a time are in memory."""
    waiting: list[Future[_Digest]] = []
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_digest, chunk, parse, source, interval_ns))
            if len(waiting) > _THREADS:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()
    finally:
        for future in waiting:
            future.cancel()


def _digest(chunk: Chunk, parse: Parser, source: Source, interval_ns: int) -> _Digest:
    rows, skipped = parse(chunk, source)
    cells = []
    trims = int((rows.direction == _TRIM).sum())
    bins, interval = bin_of(rows.latency_ns), rows.time_ns // interval_ns
    for code, op in enumerate(_OPS):
        mine = rows.direction == code
        whole = bool(mine.all())
        if mine.any():
            cells.append((op, *tally(interval if whole else interval[mine], bins if whole else bins[mine])))
    return _Digest(cells, len(bins), trims, skipped)


def parse_units(unit: str | None, source: Source) -> int:
    """ns per unit. Raises ConfigError: a trace does not say its unit."""
    if unit is None:
        raise ConfigError(
            f"{source.path}: a trace of two columns does not say its unit", "give --unit ns, us, ms or s"
        )
    return {"ns": 1, "us": 1000, "ms": _MS, "s": 1000 * _MS}[unit]
