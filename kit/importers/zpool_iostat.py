"""`zpool iostat -w`: one histogram per direction, a bin per octave; exact counts with -p.

The first report has the counts since the pool was loaded, those after it the I/Os per second of an interval,
without fractions. The two are of the same I/Os, so a file with intervals is read without its first report,
unless that was left out already (`-y`), which only the times of `-T` tell. Of several pools and vdevs in a
report, the first is read: the others may be parts of it.

A report has a table for each pool or vdev. A table has a row per octave, labelled with the last nanosecond of
the bin, 2^(n+1) - 1; its first two columns (`total_wait`) are the time of whole I/Os, the others parts of the
same I/Os. With `-T` a line with the time is before each report, with `-y` also before the first, which is not
printed. With `-H` there is no header but the name, in older releases not even that (zpool_main.c:
zpool_do_iostat, print_iostat_histos).
"""

from __future__ import annotations

import calendar
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import numpy as np

from kit.core.errors import ConfigError
from kit.core.text import commas, counted, some
from kit.importers.base import OPS, Format, Options, Reading, only_kind
from kit.importers.histogram_accumulator import Account, Accumulator, IntArray
from kit.importers.source import Source
from kit.load.fio_latency_log import shown
from kit.store.parts.import_source import ImportSource

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
_FIRST_BUCKETS = ([b"1", b"3", b"7"], [b"1ns", b"3ns", b"7ns"])
_SHOWN = 5
_SECOND_NS = 10**9


@dataclass
class VdevTable:
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
class PrintedReport:
    """What zpool printed at once. `time_s`: since 1970 (-T d: in the zone of the file); None without -T."""

    line: int
    time_s: int | None
    tables: list[VdevTable] = field(default_factory=list)


@dataclass
class Histograms:
    """What is read of a file: a table per report, and when its interval began (ns since 1970; 0: unknown).

    `kind`: since-load (counts since the pool was loaded), timed (of intervals whose times are known) or
    intervals. `step_ns`: the length of an interval; 0 if that is not known. `left_out`: reason -> tables.
    """

    name: str
    kind: str = "since-load"
    tables: list[VdevTable] = field(default_factory=list)
    starts_ns: list[int] = field(default_factory=lambda: [0])
    step_ns: int = 0
    left_out: dict[str, list[VdevTable]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, table: VdevTable) -> None:
        """Do not read this table."""
        self.left_out.setdefault(reason, []).append(table)


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the lines begin with a header of -w or, as with -H, with the rows 1, 3, 7 of many columns.

    Before these rows may be two times and a name.
    """
    # With -l it is one more column of averages.
    if any(line.split()[1:2] == [b"total_wait"] for line in lines[:4]):
        return True
    firsts = [line.split()[0] for line in lines[:6]]
    begin = next((at for at in range(4) if firsts[at : at + 3] in _FIRST_BUCKETS), None)
    return begin is not None and len(lines[begin].split()) > 8


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """Open outputs, all with counts of one kind. Raises ConfigError for damage, with its line."""
    opened = {source: histograms(source) for source in sources}
    kind = only_kind(
        {source: each.kind for source, each in opened.items()},
        "counts since a pool was loaded, of intervals, and of intervals with times do not add up",
        "import them as runs of their own",
    )
    # A column is not shorter than what zpool counted at once.
    tally = Accumulator(max(options.interval_ns, *(each.step_ns for each in opened.values())), edges)
    accounts = (read(source, opened[source], options, tally) for source in sources)
    return Reading(tally, accounts, SOURCES[kind], kind)


def edges(bucket: IntArray) -> tuple[IntArray, IntArray]:
    """Lower (inclusive) and upper (exclusive) edge of each bucket in ns."""
    return np.where(bucket == 0, 0, np.left_shift(1, bucket)), np.left_shift(1, bucket + 1)


def histograms(source: Source) -> Histograms:
    """What to read of one file. Raises ConfigError for damage, with its line."""
    reports, cut = _reports(source)
    # With -y the time of the report that is not printed is there all the same.
    omitted = len(reports) > 1 and not reports[0].tables
    began_s = reports[0].time_s if omitted else None
    while len(reports) > 1 and not reports[-1].tables:
        reports.pop()
    if omitted:
        reports = reports[1:]
    result = Histograms(next(r.tables[0].name for r in reports if r.tables))
    if cut:
        result.warnings.append(f"line {cut} is cut, and is not read")
    known = [(report, table) for report in reports if (table := _table(report, result))]
    later = known if omitted else known[1:]
    if later and len(later[-1][1].rows) < BUCKETS:
        result.leave_out("in the last report, which is truncated", later.pop()[1])
    if not later:
        if omitted:
            raise source.fail(None, "no report is whole", HINT)
        result.tables = [known[0][1]]
        return result
    if not omitted:
        result.leave_out("in the first report, which counts since the pool was loaded", known[0][1])
        began_s = known[0][0].time_s
    result.tables = [table for _, table in later]
    result.starts_ns, result.step_ns = _times(source, began_s, [report for report, _ in later])
    result.kind = "timed" if result.step_ns else "intervals"
    return result


def _table(report: PrintedReport, result: Histograms) -> VdevTable | None:
    """The table of a report that is read, if it has one; the others are left out."""
    name = result.name
    mine = next((table for table in report.tables if table.name == name), None)
    if mine is None:
        result.warnings.append(f"the report at line {report.line} has no table of {name or 'the pool'}")
    for table in report.tables:
        if table is not mine:
            reason = "of other pools or vdevs" if table.name else "in later reports or of other vdevs"
            result.leave_out(reason, table)
    return mine


def _times(source: Source, began_s: int | None, reports: list[PrintedReport]) -> tuple[list[int], int]:
    """When the interval of each report began, and how long one is, in ns; zeros without -T.

    zpool prints whole seconds and sleeps a little longer than it was asked to: where the times are as evenly
    spaced as that allows, the mean is the length. Raises ConfigError where time goes back.
    """
    times = [began_s, *(report.time_s for report in reports)]
    known = [time_s for time_s in times if time_s is not None]
    if len(known) < len(times):
        return [0] * len(reports), 0
    for report, before, after in zip(reports, known, known[1:], strict=False):
        if after < before:
            raise source.fail(report.line, f"time goes back from {before} to {after} s", "use -T u")
    step_ns = (known[-1] - known[0]) * _SECOND_NS // len(reports)
    even = [known[0] * _SECOND_NS + n * step_ns for n in range(len(reports))]
    printed = [time_s * _SECOND_NS for time_s in known[:-1]]
    if max(abs(a - b) for a, b in zip(even, printed, strict=True)) <= _SECOND_NS * 3 // 2:
        return even, step_ns
    # A pause in between: each where zpool says, and an interval is what most are.
    return printed, int(np.median(np.diff(known)) * _SECOND_NS) or step_ns


def read(source: Source, file: Histograms, options: Options, tally: Accumulator) -> Account:
    """Add the histograms of one file to `tally`. Its host: of the options, else the pool, else the name."""
    account = Account(str(source.path), warnings=file.warnings)
    for reason, tables in file.left_out.items():
        lines = some([str(table.line) for table in tables], _SHOWN)
        account.warnings.append(f"{counted(len(tables), 'table')} not read, {reason}: line {lines}")
        for table in tables:
            account.set_aside(reason, table.ios)
    groups = [tally.group(options.host or file.name or source.host, op) for op in OPS]
    for table, start_ns in zip(file.tables, file.starts_ns, strict=True):
        for column, group in enumerate(groups):
            counts = [_ios(row[column], file.step_ns) for row in table.rows]
            account.read(sum(counts))
            account.rows_counted += sum(counts)
            tally.add_at(start_ns, group, range(len(counts)), counts)
    account.warnings += _inexact(file)
    return account


def _ios(value: int, step_ns: int) -> int:
    """I/Os of an interval out of I/Os per second; as it is where the length is not known, or none."""
    return (value * step_ns + _SECOND_NS // 2) // _SECOND_NS if step_ns else value


def _inexact(file: Histograms) -> Iterator[str]:
    """What is not exact in the tables that were read, in words."""
    if short := len(file.tables[-1].rows) % BUCKETS:
        yield f"the last table ends after {short} of {BUCKETS} rows: it is truncated"
    if rounded := sum(table.rounded for table in file.tables):
        yield f"{rounded} rows have counts rounded by zpool; use zpool iostat -wp"
    if last := sum(sum(row) for table in file.tables for row in table.rows[BUCKETS - 1 :]):
        yield f"{commas(last)} I/Os are in the last bin, which has no upper edge"
    if file.kind != "since-load":
        yield (
            f"the {len(file.tables)} reports of intervals hold I/Os per second without fractions: each row "
            "is up to one a second too low, and rare latencies may be missing"
        )
    if file.kind == "intervals":
        yield (
            "nothing says when the reports were made, nor how long an interval was: it is taken to be a "
            "second; and if zpool was given -y, the first interval is missing (use -T u)"
        )


def _reports(source: Source) -> tuple[list[PrintedReport], int | None]:
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
        self.reports: list[PrintedReport] = []
        self.table: VdevTable | None = None
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

    def _begin_table(self, number: int, columns: int) -> VdevTable:
        """A table whose first row is this line: of the last time's report, else by its name."""
        line, name = self._name or (number, "")
        self._name = None
        # Without names nothing separates other vdevs from later reports: then it is all one.
        if not self.reports or (
            self.reports[-1].time_s is None and name and name == self.reports[0].tables[0].name
        ):
            self.reports.append(PrintedReport(line, None))
        table = VdevTable(name, line, columns=columns)
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
                self.reports = [PrintedReport(self.reports[0].line, None, tables)]
            self.reports.append(PrintedReport(number, time_s))
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


SOURCES = {
    kind: ImportSource(
        files="zpool iostat -w", program="zpool", timed=kind == "timed",
        latency=f"of whole I/Os in ZFS, queues included (total_wait){words}",
    )
    for kind, words in (
        ("since-load", ": a sum since the pool was loaded; when an I/O was done is not in it"),
        ("intervals", ": a sum over intervals; when these were is not in it"),
        ("timed", ", interval by interval"),
    )
}  # fmt: skip
FORMAT = Format("zpool-iostat", "vdev", SOURCES["since-load"], recognises, open_files)
