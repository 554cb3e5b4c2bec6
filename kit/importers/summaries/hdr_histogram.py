"""HdrHistogram: logs of intervals, and the text of a percentile distribution. Values have no unit there.

A log line is `[Tag=name,]start,length,max,base64` (HistogramLogWriter, format 1.3; older ones differ in their
comments). The last field is a compressed V2 histogram: cookie and length, then zlib of cookie, length of the
counts, normalizing offset, significant digits, lowest and highest value, ratio, and the counts as ZigZag
LEB128, where -n is n zeros (AbstractHistogram.encodeIntoCompressedByteBuffer). Of its bins those that fit
into one of 32 per octave are put together: they nest. With one significant digit there are 16 per octave.

The text (outputPercentileDistribution) has values with the number of I/Os up to each: what lies between two
of them is a bin.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
import zlib
from decimal import Decimal
from itertools import pairwise

import numpy as np

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.importers.source import Source
from kit.importers.summaries.summary_file import MAX_COUNT, SummaryFile, summary_format

_COMPRESSED, _COOKIE = 0x1C849314, 0x1C849313
_HEAD, _INNER = struct.Struct(">iI"), struct.Struct(">iiiiqqd")
# Counts of one interval, where 3 digits up to 2^63 have 56,000 bins, and of a file.
_MOST_BYTES, _MOST_IN_ALL = 1 << 20, 64 << 20
_MOST_DIGITS = 4
_HINT = "is the line whole? Histograms of version 2 are read (HdrHistogram 2.1.5 and later)"
# Of a value, and bytes of a count.
_MOST_BITS, _MOST_LENGTH = 53, 8
_MOST_TIME_S = 1 << 33
_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_LINE = re.compile(rf"(?:Tag=([^,]{{1,200}}),)?{_NUMBER},{_NUMBER},{_NUMBER},(HIST[A-Za-z0-9+/=_-]*)")
_START = re.compile(r"#\[(StartTime|BaseTime): ([0-9]{1,11}(?:\.[0-9]{1,9})?) ")
_HEAD_OF_TEXT = re.compile(r"\s*Value\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)")
_ROW = re.compile(
    r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s+[01]\.[0-9]+\s+([0-9]+)(?:\s+(?:[0-9.]+|inf|Infinity))?"
)
_VALUE = r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_FOOT = re.compile(
    rf"#\[(Mean|Max|Buckets) +={_VALUE}, +(StdDeviation|Total ?[cC]ount|SubBuckets) +={_VALUE}\]"
)


def step_ns(source: Source) -> int:
    """The longest interval at the begin of a log."""
    lines = source.head().decode("utf-8", "replace").splitlines()
    return max(
        (int(Decimal(found[3]) * 10**9) for line in lines if (found := _LINE.fullmatch(line))), default=0
    )


def read_log(file: SummaryFile) -> None:
    """Add one log. Raises ConfigError, with the line, for damage."""
    unit_ns = file.unit_ns("HdrHistogram")
    starts: dict[str, Decimal] = {}
    left = _MOST_IN_ALL
    for number, line in file.lines():
        row = _LINE.fullmatch(line)
        if found := _START.match(line):
            starts[found[1]] = Decimal(found[2])
        elif row:
            payload, digits, lowest = _unpacked(file, number, row[5])
            left -= len(payload)
            if left < 0:
                raise file.fail(number, f"more than {_MOST_IN_ALL >> 20} MiB of counts", "import it in parts")
            try:
                low, high, counts = (each.tolist() for each in _bins(payload, digits, lowest))
            except ValueError as error:
                raise file.fail(number, f"a damaged histogram: {error}", _HINT) from None
            begin_ns, end_ns = _times(file, number, row, starts)
            file.tally.until_ns = max(file.tally.until_ns, end_ns)
            bins = ((a * unit_ns, b * unit_ns, n) for a, b, n in zip(low, high, counts, strict=True))
            tag = row[1] or "HdrHistogram"
            file.add(tag, file.op(tag), bins, line=number, time_ns=begin_ns)
        elif not line.startswith(("#", '"StartTimestamp"')):
            raise file.bad_line(number, line, "an interval: start,length,max,HIST...")


def _times(file: SummaryFile, number: int, row: re.Match[str], starts: dict[str, Decimal]) -> tuple[int, int]:
    """Begin and end of an interval, ns."""
    begin_s, start_s = Decimal(row[2]), starts.get("StartTime", Decimal(0))
    # Times are since StartTime, unless that is less than a year away (HistogramLogReader.java).
    begin_s += starts.get("BaseTime", start_s if begin_s < start_s - 365 * 86_400 else Decimal(0))
    end_s = begin_s + Decimal(row[3])
    if end_s >= _MOST_TIME_S:
        raise file.fail(number, f"the time {row[2]} s is impossible")
    return int(begin_s * 10**9), int(end_s * 10**9)


def _unpacked(file: SummaryFile, number: int, text: str) -> tuple[bytes, int, int]:
    """Of a histogram: its counts as they are stored, the digits, and the lowest value that differs from 0."""
    try:
        data = base64.b64decode(text, validate=True)
        cookie, length = _HEAD.unpack_from(data)
        inflate = zlib.decompressobj()
        content = inflate.decompress(data[_HEAD.size : _HEAD.size + max(length, 0)], _MOST_BYTES)
        inner, held, offset, digits, lowest, _, _ = _INNER.unpack_from(content)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise file.fail(number, f"a damaged histogram ({error}): {text[:40]!r}", _HINT) from None
    payload = content[_INNER.size : _INNER.size + max(held, 0)]
    if (cookie, inner) != (_COMPRESSED, _COOKIE):
        raise file.fail(number, f"not a histogram of version 2: cookies {cookie:#x}, {inner:#x}", _HINT)
    if len(payload) != held or offset or lowest < 1 or not 0 <= digits <= _MOST_DIGITS:
        what = f"a histogram that is cut, shifted, or has more than {_MOST_DIGITS} digits"
        raise file.fail(number, what, _HINT)
    return payload, digits, lowest


def _bins(payload: bytes, digits: int, lowest: int) -> tuple[IntArray, IntArray, IntArray]:
    """Lower and upper edge of each bin, in the unit of the values, and its count. Raises ValueError."""
    index, counts = _counts(payload)
    half = math.ceil(math.log2(2 * 10**digits)) - 1
    shift = np.maximum((index >> half) - 1, 0) + lowest.bit_length() - 1
    if index.size and int(shift.max()) + half + 1 > _MOST_BITS:
        raise ValueError("a value of more than 2^53")
    low = (index & ((1 << half) - 1)) + np.where(index >> half, 1 << half, 0) << shift
    kit_low, kit_high = bin_edges(bin_index(low))
    high = low + (np.int64(1) << shift)
    fits = high - low <= kit_high - kit_low
    low, high = np.where(fits, kit_low, low), np.where(fits, kit_high, high)
    first = np.flatnonzero(np.diff(low, prepend=-1))
    return low[first], high[first], np.add.reduceat(counts, first) if first.size else counts


def _counts(payload: bytes) -> tuple[IntArray, IntArray]:
    """Index and count of each bin that is not empty. Raises ValueError."""
    data = np.frombuffer(payload, dtype=np.uint8)
    ends = np.flatnonzero(data < 128)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    lengths = ends - starts + 1
    if data.size and (not ends.size or ends[-1] != data.size - 1 or int(lengths.max()) > _MOST_LENGTH):
        raise ValueError("a count without an end, or of more than 2^53")
    if not data.size:
        return starts, starts
    place = np.arange(data.size) - np.repeat(starts, lengths)
    zigzag = np.add.reduceat((data & 127).astype(np.int64) << 7 * place, starts)
    values = (zigzag >> 1) ^ -(zigzag & 1)
    steps = np.where(values < 0, -values, 1)
    if int(steps.max()) > 1 << 31 or int(values.max()) >= MAX_COUNT:
        raise ValueError("a count or a gap that cannot be")
    index = np.cumsum(steps) - steps
    return index[values > 0], values[values > 0]


def read_text(file: SummaryFile) -> None:
    """Add one percentile distribution. Raises ConfigError, with the line, for damage."""
    unit_ns, inside = file.unit_ns("HdrHistogram"), False
    # Where a value ends, ns, and the I/Os up to it.
    rows: list[tuple[int, int]] = []
    foot: dict[str, Decimal] = {}
    for number, line in file.lines("]"):
        if _HEAD_OF_TEXT.fullmatch(line) and not inside:
            inside = True
        elif found := _FOOT.fullmatch(line):
            foot |= {found[n].replace(" ", "").lower(): Decimal(found[n + 1]) for n in (1, 3)}
        elif inside and not foot:
            row = _ROW.fullmatch(line)
            if not row:
                raise file.bad_line(number, line, "a row of the distribution")
            digit_ns = unit_ns // 10 ** len(row[1].partition(".")[2])
            edge_ns = int(file.number(row[1], number, "a value", unit_ns)) + max(digit_ns // 2, 1)
            # The first row is the bin of the least value: half a sub-bucket wide, and a value is rounded.
            rows = rows or [(max(edge_ns - max(digit_ns, edge_ns // 64, 1), 0), 0)]
            rows.append((edge_ns, file.count(row[2], number)))
            if any(after < before for before, after in zip(*rows[-2:], strict=True)):
                raise file.bad_line(number, line, "a row with no less than the one before it")
    total = foot.get("totalcount")
    if total is None:
        file.warn("its end, with the number of all I/Os, is missing: the slowest may be missing, too")
    elif not rows or total != rows[-1][1]:
        raise file.fail(None, f"its rows do not have the {total} I/Os that its end says")
    bins = [(low, high, n - before) for (low, before), (high, n) in pairwise(rows)]
    sum_ns = round(foot["mean"] * unit_ns * total) if total and "mean" in foot else None
    file.add("HdrHistogram", file.op(file.source.host), bins, sum_ns=sum_ns)


_LATENCY = "as the program recorded it, in the unit that the importer's user gave"
_BY = "a program with HdrHistogram"
FORMAT = summary_format(
    "hdr-log", rb"#\[Histogram log format version|(?:Tag=[^,]+,)?[0-9.]+,[0-9.]+,[0-9.]+,HIST", read_log,
    files="HdrHistogram log", program=_BY, latency=_LATENCY, timed=True, uses=("op", "unit"), most_before=20,
    step_ns=step_ns,
)  # fmt: skip
TEXT_FORMAT = summary_format(
    "hdr-percentiles", rb"\s*Value\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)", read_text,
    files="HdrHistogram percentiles", program=_BY, latency=_LATENCY, uses=("op", "unit"), most_before=20,
)  # fmt: skip
