"""The unit of fio's latency logs: nanoseconds since fio 3.0, microseconds before (iolog.c, flush_samples()).

Six columns and more, or a priority as the last of five, are of fio 3.18 and later. Four columns, and five
with an offset, may be of both: then the I/Os at the begin of the log tell, or the user does.
"""

from __future__ import annotations

import numpy as np

from kit.core.units import NS_PER_UNIT
from kit.importers.base import Options, data_line
from kit.importers.source import Source
from kit.load.fio_latency_log import BadLine, Rows, column_count, parse

_US_NS = 1000
_MS_NS = 1_000_000
_MOST_PRIORITY = 0xFFFF
# No I/O of fio takes less than 10 ns: reading the clock alone takes longer.
_LEAST_MEDIAN_NS = 10
# As one, the latencies of I/Os that are done one at a time are this much of the time that passed.
_ONE_AT_A_TIME = (0.9, 1.02)
# As microseconds, no job has so many I/Os under way.
_MOST_OUTSTANDING = 500
_LEAST_ROWS = 20


def unit_ns(source: Source, options: Options) -> int:
    """Nanoseconds of a unit of the latencies. Raises ConfigError where the log does not tell."""
    if options.unit is not None:
        return NS_PER_UNIT[options.unit]
    rows = first_rows(source)
    if rows is None or not rows.time_ms.size or not _may_be_fio_2(source):
        return 1
    if found := _by_values(rows):
        return found
    raise source.fail(
        None,
        "its latencies are microseconds if fio 2 wrote it, and nanoseconds if fio 3.0 to 3.17 did; its "
        "columns are the same, and its values fit both",
        "give --unit us or --unit ns; `fio --version` where it was written tells which",
    )


def first_rows(source: Source) -> Rows | None:
    """The I/Os at the begin of a log; None where they cannot be read: the reader says what is wrong."""
    data = source.head()
    data = data[: data.rfind(b"\n") + 1]
    first = data_line(data.splitlines())
    try:
        return parse(data, column_count(first)) if first.count(b",") else None
    except BadLine:
        return None


def _may_be_fio_2(source: Source) -> bool:
    data = source.head()
    fields = [line.split(b",") for line in data[: data.rfind(b"\n")].split(b"\n")]
    if len(fields[0]) == 5:
        last = [each[4].strip() for each in fields]
        return not any(text.startswith(b"0x") for text in last) and max(map(int, last)) > _MOST_PRIORITY
    return len(fields[0]) == 4


def _by_values(rows: Rows) -> int:
    """1 or 1000, where the values allow one of them alone; else 0."""
    values, ends_ms = rows.latency_ns, rows.time_ms
    if not values.size:
        return 1
    # The clock begins with the job: no I/O can take longer than until its end.
    too_long = np.count_nonzero(values > 1.1 * _US_NS * (ends_ms + 1) + 100)
    if too_long >= min(2, values.size):
        return 1
    if values.size < _LEAST_ROWS:
        return 0
    if float(np.median(values)) < _LEAST_MEDIAN_NS:
        return _US_NS
    begin_ns = min(int(ends_ms[0]) * _MS_NS - int(values[0]) * _US_NS, 0)
    span_ns = max(int(ends_ms.max()) * _MS_NS - begin_ns, _MS_NS)
    outstanding = float(values.sum()) * _US_NS / span_ns
    if outstanding > _MOST_OUTSTANDING:
        return 1
    # Rounded to milliseconds: the time between two ends is the latency of the later I/O.
    apart_ms = np.diff(ends_ms) - values[1:] / 1000
    if _ONE_AT_A_TIME[0] < outstanding < _ONE_AT_A_TIME[1] and float(np.mean(np.abs(apart_ms) < 1.5)) > 0.9:
        return _US_NS
    return 0
