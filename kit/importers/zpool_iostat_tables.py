"""What `zpool iostat -w` prints, as reports of tables: a report an interval, in it a table a pool or vdev.

A table has a row per octave, labelled with the last nanosecond of the bin, 2^(n+1) - 1; its first two
columns (`total_wait`) are the time of whole I/Os, the others parts of the same I/Os. With `-T` a line with
the time is before each report, with `-y` also before the first, which is not printed. With `-H` there is no
header but the name, in older releases not even that (zpool_main.c: zpool_do_iostat, print_iostat_histos).
"""

from __future__ import annotations

import calendar
import io
import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from kit.core.errors import ConfigError
from kit.importers.source import Source
from kit.load.fio_latency_log import shown

BUCKETS = 37
HINT = "give what `zpool iostat -wp POOL` prints, or `zpool iostat -wpy -T u POOL 1` over time"
_MAX_BYTES = 64 << 20
_UNITS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_LABEL = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)(ns|us|ms|s|)")
_VALUE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,3})?)([KMGTPE]?)")
_LEAST_COLUMNS = 9
_MAX_COUNT = 1 << 60
# A GUID (-g) is a number as well, but a random one of 64 bits.
_UNIX = re.compile(r"[0-9]{9,10}")
# In the year 2242; nanoseconds up to then are whole numbers of 64 bits.
_MAX_TIME_S = 1 << 33
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_ZONE_OR_DAY = re.compile(r"[A-Za-z]{2,5}|[+-][0-9]{2,4}")


@dataclass
class Table:
    """A pool or a vdev in one report: reads and writes of each row, the finest bin first.

    `name` is "" where zpool prints none, `line` where it begins, `rounded` how many rows zpool rounded,
    `columns` how many each row has.
    """

    name: str
    line: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    rounded: int = 0
    columns: int = 0

    @property
    def ios(self) -> int:
        """The sum of all rows."""
        return sum(map(sum, self.rows))


@dataclass
class Report:
    """What zpool printed at once. `time_s`: since 1970 (-T d: in the zone of the file); None without -T."""

    line: int
    time_s: int | None
    tables: list[Table] = field(default_factory=list)


def read(source: Source) -> tuple[list[Report], int | None]:
    """The reports of a file, and the line that was cut at its end, if one was.

    Raises ConfigError, with its line, for what zpool does not print.
    """
    reader = _Reader(source)
    cut = None
    for number, raw in enumerate(io.BytesIO(source.whole(_MAX_BYTES)), 1):
        try:
            reader.take(number, raw)
        except ConfigError:
            if not reader.table or raw.endswith(b"\n"):
                raise
            cut = number
    if not reader.table:
        raise source.fail(None, "no histogram", HINT)
    return reader.reports, cut or reader.end()


class _Reader:
    """Goes through the lines: which report and table each row is of. `table`: the last one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.reports: list[Report] = []
        self.table: Table | None = None
        self._name: tuple[int, str] | None = None
        self._headers = False

    def take(self, number: int, raw: bytes) -> None:
        """One line. Raises ConfigError for one that zpool does not print, or not there."""
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.source.fail(number, f"not UTF-8: {shown(raw)}", HINT) from None
        fields = line.split()
        if not fields or set(line.strip()) <= {"-", " "} or fields[0] == "latency":
            return
        table = self.table
        bucket = len(table.rows) % BUCKETS if table else 0
        if bucket == 0 and self._headline(number, raw, fields):
            return
        row = _row(self.source, number, raw, fields, bucket)
        if table is None or bucket == 0:
            table = self.table = self._begin_table(number, len(fields))
        elif len(fields) != table.columns:
            observed = f"{len(fields)} columns where the row before it has {table.columns}"
            raise self.source.fail(number, f"{observed}: {shown(raw)}", HINT)
        table.rows.append(row)
        table.rounded += any(not text.isdigit() for text in fields[1:3])

    def _begin_table(self, number: int, columns: int) -> Table:
        """A table whose first row is this line: of the last time's report, else by its name."""
        line, name = self._name or (number, "")
        self._name = None
        # Without names nothing separates other vdevs from later reports: then it is all one.
        if not self.reports or (
            self.reports[-1].time_s is None and name and name == self.reports[0].tables[0].name
        ):
            self.reports.append(Report(line, None))
        table = Table(name, line, columns=columns)
        self.reports[-1].tables.append(table)
        return table

    def _headline(self, number: int, raw: bytes, fields: list[str]) -> bool:
        """Take what is between tables; False if it is none of that."""
        if "total_wait" in fields:
            if fields.index("total_wait") != 1:
                raise self.source.fail(number, f"total_wait is not the first histogram: {shown(raw)}", HINT)
            self._headers = True
            self.named((number, fields[0]))
        elif (time_s := _time_s(fields)) is not None:
            self.named(None)
            if self.reports and self.reports[-1].time_s is None:
                # All before the first time is one report.
                tables = [table for report in self.reports for table in report.tables]
                self.reports = [Report(self.reports[0].line, None, tables)]
            self.reports.append(Report(number, time_s))
        elif len(fields) == 1 and not self._headers:
            self.named((number, fields[0]))
        else:
            return False
        return True

    def named(self, name: tuple[int, str] | None) -> None:
        """The table that comes has this name. Raises ConfigError if the name before it has no table."""
        if self._name:
            raise self.source.fail(self._name[0], f"no table of {self._name[1][:60]!r} is below it", HINT)
        self._name = name

    def end(self) -> int | None:
        """The line of a header at the end of the file that has no table any more."""
        if self._name and not self._headers:
            self.named(None)
        return self._name[0] if self._name else None


def _time_s(fields: list[str]) -> int | None:
    """Seconds since 1970 of a line of -T u, or of -T d in English; None if it is neither."""
    found = _date_s(fields)
    if len(fields) == 1 and _UNIX.fullmatch(fields[0]):
        found = int(fields[0])
    return found if found is not None and 0 <= found < _MAX_TIME_S else None


def _date_s(fields: list[str]) -> int | None:
    """As date(1) prints it: `Sat Nov 21 20:09:29 UTC 2026` and in other orders, with 12 or 24 hours."""
    found: dict[str, int] = {}
    half_h = None
    for word in fields:
        if clock := _CLOCK.fullmatch(word):
            found |= zip(("hour", "minute", "second"), map(int, clock.groups()), strict=True)
        elif word in _MONTHS:
            found["month"] = _MONTHS.index(word) + 1
        elif word.isascii() and word.isdigit() and len(word) in (1, 2, 4):
            found["year" if len(word) == 4 else "day"] = int(word)
        elif word in ("AM", "PM"):
            half_h = 12 * (word == "PM")
        elif not _ZONE_OR_DAY.fullmatch(word):
            return None
    if len(found) < 6:
        return None
    if half_h is not None:
        found["hour"] = found["hour"] % 12 + half_h
    try:
        return calendar.timegm(datetime(**found).timetuple())  # type: ignore[arg-type]
    except ValueError:
        return None


def _row(source: Source, number: int, raw: bytes, fields: list[str], bucket: int) -> tuple[int, int]:
    """Reads and writes of a row, whose label must be that of `bucket`."""
    label = _LABEL.fullmatch(fields[0])
    if not label or len(fields) < _LEAST_COLUMNS:
        raise source.fail(number, f"not a row of a latency histogram: {shown(raw)}", HINT)
    unit = _UNITS[label[2]]
    last_ns = (1 << (bucket + 1)) - 1
    # The label is rounded to what fits into five characters.
    if abs(Decimal(label[1]) * unit - last_ns) > (unit if unit > 1 else 0):
        raise source.fail(number, f"the row of {last_ns} ns is missing: {shown(raw)}", HINT)
    values = []
    for text in fields[1:]:
        found = _VALUE.fullmatch(text)
        value = _count(found) if found else _MAX_COUNT
        if value >= _MAX_COUNT:
            raise source.fail(number, f"{text[:30]!r} is not a count", HINT)
        values.append(value)
    return values[0], values[1]


def _count(found: re.Match[str]) -> int:
    """1.50K is 1536: zpool's letters are powers of 1024."""
    power = " KMGTPE".index(found[2] or " ")
    return int((Decimal(found[1]) * 1024**power).to_integral_value())
