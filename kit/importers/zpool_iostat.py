"""`zpool iostat -w`: one histogram per direction, a bin per octave; exact counts with -p.

The first report has the counts since the pool was loaded, those after it the I/Os per second of an interval,
without fractions. The two are of the same I/Os, so a file with intervals is read without its first report,
unless that was left out already (`-y`), which only the times of `-T` tell. Of several pools and vdevs in a
report, the first is read: the others may be parts of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kit.importers import zpool_iostat_tables
from kit.importers.base import OPS, Format, Options, Reading, only_kind
from kit.importers.histogram_accumulator import Account, IntArray, Tally
from kit.importers.source import Source
from kit.importers.zpool_iostat_tables import BUCKETS, HINT, Report, Table
from kit.store.import_source import BY_FORMAT, of_format

_FIRST_BUCKETS = ([b"1", b"3", b"7"], [b"1ns", b"3ns", b"7ns"])
_SHOWN = 5
_SECOND_NS = 10**9


@dataclass
class Histograms:
    """What is read of a file: a table per report, and when its interval began (ns since 1970; 0: unknown).

    `kind`: since-load (counts since the pool was loaded), timed (of intervals whose times are known) or
    intervals. `step_ns`: the length of an interval; 0 if that is not known. `left_out`: reason -> tables.
    """

    name: str
    kind: str = "since-load"
    tables: list[Table] = field(default_factory=list)
    starts_ns: list[int] = field(default_factory=lambda: [0])
    step_ns: int = 0
    left_out: dict[str, list[Table]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, table: Table) -> None:
        """Do not read this table."""
        self.left_out.setdefault(reason, []).append(table)


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the lines begin with a header of -w or, as with -H, with the rows 1, 3, 7 of many columns.

    Before these rows may be two times and a name.
    """
    if any(b"total_wait" in line for line in lines[:4]):
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
    tally = Tally(max(options.interval_ns, *(each.step_ns for each in opened.values())), edges)
    accounts = (read(source, opened[source], options, tally) for source in sources)
    return Reading(tally, accounts, of_format("zpool-iostat", kind), kind)


def edges(bucket: IntArray) -> tuple[IntArray, IntArray]:
    """Lower (inclusive) and upper (exclusive) edge of each bucket in ns."""
    return np.where(bucket == 0, 0, np.left_shift(1, bucket)), np.left_shift(1, bucket + 1)


def histograms(source: Source) -> Histograms:
    """What to read of one file. Raises ConfigError for damage, with its line."""
    reports, cut = zpool_iostat_tables.read(source)
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


def _table(report: Report, result: Histograms) -> Table | None:
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


def _times(source: Source, began_s: int | None, reports: list[Report]) -> tuple[list[int], int]:
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


def read(source: Source, file: Histograms, options: Options, tally: Tally) -> Account:
    """Add the histograms of one file to `tally`. Its host: of the options, else the pool, else the name."""
    account = Account(str(source.path), warnings=file.warnings)
    for reason, tables in file.left_out.items():
        lines = ", ".join(str(table.line) for table in tables[:_SHOWN])
        more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
        account.warnings.append(
            f"{len(tables)} table{'s' * (len(tables) != 1)} not read, {reason}: line {lines}{more}"
        )
        for table in tables:
            account.read(table.ios)
            account.leave_out(reason, table.ios)
    groups = [tally.group(options.host or file.name or source.host, op) for op in OPS]
    for table, start_ns in zip(file.tables, file.starts_ns, strict=True):
        for column, group in enumerate(groups):
            counts = [_ios(row[column], file.step_ns) for row in table.rows]
            account.read(sum(counts))
            account.rows_counted += sum(counts)
            ios = np.array(counts, dtype=np.int64)
            used = np.flatnonzero(ios)
            tally.add(tally.part(group, np.full(used.size, start_ns, dtype=np.int64), used, ios[used]))
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
        yield f"{last} I/Os are in the last bin, which has no upper edge"
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


FORMAT = Format("zpool-iostat", "vdev", BY_FORMAT["zpool-iostat"], recognises, open_files)
