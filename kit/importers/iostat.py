"""`zpool iostat -w`: one histogram per direction, a bin per octave; exact counts with -p.

The label of a bin is its last nanosecond, 2^(n+1) - 1. `total_wait` is the time of the whole I/O; the other
columns are parts of the same I/Os. Only the first report is read: it holds the counts since the pool was
loaded, while later ones hold rates per second.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from kit.importers.fiolog import shown
from kit.importers.source import Source
from kit.importers.tally import Account, IntArray, Tally

BUCKETS = 37
_MAX_BYTES = 64 << 20
_UNITS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_LABEL = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)(ns|us|ms|s|)")
_VALUE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,3})?)([KMGTPE]?)")
_LEAST_COLUMNS = 9
_OPS = ("read", "write")
_HINT = "give what `zpool iostat -wp POOL` prints"
_MAX_COUNT = 1 << 60


class _Bucket(NamedTuple):
    number: int
    values: tuple[int, int]
    rounded: bool


def edges(bucket: IntArray) -> tuple[IntArray, IntArray]:
    """Lower (inclusive) and upper (exclusive) edge of each bucket in ns."""
    return np.where(bucket == 0, 0, np.left_shift(1, bucket)), np.left_shift(1, bucket + 1)


def read(source: Source, tally: Tally, host: str | None, file_host: str) -> Account:
    """Add the first report of one file to `tally`. Raises ConfigError for damage, with its line.

    The host is `host`, or the name in the report's header, or `file_host`.
    """
    account = Account(str(source.path))
    report, name, truncated = 0, "", 0
    buckets: list[_Bucket] = []
    for found in _rows(source):
        if isinstance(found, str):
            name = name or found
            continue
        report += found.number == 0
        ios = sum(found.values)
        account.read(ios)
        truncated = (found.number + 1) % BUCKETS
        if report == 1:
            buckets.append(found)
            account.rows_counted += ios
        else:
            account.leave_out("in later reports or of other vdevs", ios)
    if not buckets:
        raise source.fail(None, "no histogram", _HINT)
    if truncated:
        account.warnings.append(f"the last table ends after {truncated} of {BUCKETS} rows: it is truncated")
    if rounded := sum(b.rounded for b in buckets):
        account.warnings.append(f"{rounded} rows have counts rounded by zpool; use zpool iostat -wp")
    if last := sum(sum(b.values) for b in buckets if b.number == BUCKETS - 1):
        account.warnings.append(f"{last} I/Os are in the last bin, which has no upper edge")
    _add(tally, host or name or file_host, buckets)
    return account


def _rows(source: Source) -> Iterator[_Bucket | str]:
    """The rows of all histograms of the file, and the name in each header, in order."""
    wanted = 0
    for number, raw in enumerate(io.BytesIO(source.whole(_MAX_BYTES)), 1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise source.fail(number, f"not UTF-8: {shown(raw)}", _HINT) from None
        fields = line.split()
        if not fields or set(line.strip()) <= {"-", " "} or fields[0] == "latency":
            continue
        if "total_wait" in fields:
            if fields.index("total_wait") != 1:
                raise source.fail(number, f"total_wait is not the first histogram: {shown(raw)}", _HINT)
            yield fields[0]
            continue
        yield _bucket(source, number, raw, fields, wanted)
        wanted = (wanted + 1) % BUCKETS


def _add(tally: Tally, host: str, buckets: list[_Bucket]) -> None:
    for column, op in enumerate(_OPS):
        used = [(b.number, b.values[column]) for b in buckets if b.values[column]]
        bins = np.array([n for n, _ in used], dtype=np.int64)
        counts = np.array([c for _, c in used], dtype=np.int64)
        tally.add(tally.group(host, op), np.zeros(bins.size, dtype=np.int64), bins, counts)


def _bucket(source: Source, number: int, raw: bytes, fields: list[str], wanted: int) -> _Bucket:
    """The row of bucket `wanted`, which the label must be of."""
    label = _LABEL.fullmatch(fields[0])
    if not label or len(fields) < _LEAST_COLUMNS:
        raise source.fail(number, f"not a row of a latency histogram: {shown(raw)}", _HINT)
    unit = _UNITS[label[2]]
    # The label is rounded to what fits into five characters.
    if abs(Decimal(label[1]) * unit - ((1 << (wanted + 1)) - 1)) > (unit if unit > 1 else 0):
        raise source.fail(number, f"the row of {(1 << (wanted + 1)) - 1} ns is missing: {shown(raw)}", _HINT)
    values = []
    for field in fields[1:]:
        found = _VALUE.fullmatch(field)
        value = _count(found) if found else _MAX_COUNT
        if value >= _MAX_COUNT:
            raise source.fail(number, f"{field[:30]!r} is not a count", _HINT)
        values.append(value)
    rounded = any(not field.isdigit() for field in fields[1:3])
    return _Bucket(wanted, (values[0], values[1]), rounded)


def _count(found: re.Match[str]) -> int:
    """1.50K is 1536: zpool's letters are powers of 1024."""
    power = " KMGTPE".index(found[2] or " ")
    return int((Decimal(found[1]) * 1024**power).to_integral_value())
