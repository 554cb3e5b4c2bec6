"""The output of FreeBSD's `diskinfo -wS`: synchronous random writes by size, the mean of each.

Like kit.importers.pg_test_fsync: a row is a phase, with all its writes at their mean. How many there were is
not printed: 250 at a time until a second had passed (slogbench() of usr.sbin/diskinfo/diskinfo.c), so the
number is the least that fits. A write is counted with its flush. Several disks may be in one output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from kit.core.bins import bin_index
from kit.importers.base import Format, Options, Reading
from kit.importers.histogram_accumulator import Account, Accumulator, plain
from kit.importers.source import Source
from kit.load.fio_latency_log import shown
from kit.store.parts.import_source import ImportSource

_LIMIT_BYTES = 1 << 20
_SECTION = "Synchronous random writes:"
_ROW = re.compile(r"\t *([0-9.]{1,6}) kbytes: +([0-9]{1,9}\.[0-9]) usec/IO = +[0-9]{1,9}\.[0-9] Mbytes/s")
_NAME = re.compile(r"\S{1,100}")
_BEGIN_LINES = 60
_AT_ONCE = 250
_AGAIN = "give what `diskinfo -wS DISK` printed, whole and unchanged; nothing was imported"
_WARNING = (
    "each row has its mean alone: percentiles are those of the means, not of single writes; how many writes "
    "there were follows from how diskinfo counts"
)


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the heading of its test is at the begin."""
    return any(line.strip() == _SECTION.encode() for line in lines[:_BEGIN_LINES])


def read(source: Source, tally: Accumulator, before: str = "") -> Account:
    """Add one output to `tally`. Raises ConfigError for a row that cannot be, or cannot be read."""
    account = Account(str(source.path), warnings=[_WARNING])
    text = source.whole(_LIMIT_BYTES).decode("utf-8", "replace")
    lines = text.replace("\r\n", "\n").split("\n")
    disk, in_section, seen = "", False, set[str]()
    several = sum(line.strip() == _SECTION for line in lines) > 1
    for number, line in enumerate(lines, 1):
        if line.strip() == _SECTION:
            in_section = True
            continue
        if row := _ROW.fullmatch(line.rstrip()):
            title = f"{before}{disk + ': ' if several and disk else ''}{row[1]} kB synchronous write"
            mean_ns = round(float(row[2]) * 1000)
            if not in_section or not mean_ns or title in seen:
                raise source.fail(number, f"a row that cannot be here: {shown(line.encode())}", _AGAIN)
            seen.add(title)
            _add(account, tally, title, mean_ns)
        elif in_section and "usec/IO" in line and number < len(lines):
            raise source.fail(number, f"not a row of its test: {shown(line.encode())}", _AGAIN)
        elif in_section and line.strip() and number == len(lines):
            account.warnings.append(f"line {number}: cut, left out: {shown(line.encode())}")
        elif line and _NAME.fullmatch(line):
            disk, in_section = line, False
    return account


def _add(account: Account, tally: Accumulator, title: str, mean_ns: int) -> None:
    ios = max(-(-(10**9) // (mean_ns * _AT_ONCE)), 1) * _AT_ONCE
    account.read(ios)
    group = tally.group(title, "write")
    tally.add(tally.part(group, np.zeros(1, np.int64), bin_index([mean_ns]), np.array([ios])))
    tally.sum(group, ios, ios * mean_ns)
    account.rows_counted += ios
    account.runtime_ns = max(account.runtime_ns, ios * mean_ns)


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """See kit.importers.base.Format. Of several files each has rows of its own."""
    tally = Accumulator(options.interval_ns)
    names = [f"{plain(source.host)[:100]}: " for source in sources]
    before = names if len(sources) > 1 else [""]
    pairs = zip(sources, before, strict=True)
    return Reading(tally, (read(source, tally, name) for source, name in pairs), rows_are_phases=True)


FORMAT = Format(
    "diskinfo",
    "device",
    ImportSource(
        files="diskinfo -wS output",
        program="FreeBSD's diskinfo",
        latency="as the mean of each row: a write and its flush; of single writes nothing is known",
        timed=False,
    ),
    recognises,
    open_files,
    uses=frozenset(),
)
