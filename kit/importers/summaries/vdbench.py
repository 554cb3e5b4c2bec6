"""The tables of vdbench's histogram.html: rows of ms from, ms to ("max": without an edge) and count.

Histogram.java, printHistogram. The table of reads and writes together is left out where those of reads and
of writes follow it (SdStats.java, printHistograms). flatfile.html, which has averages of the same runs, is
not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kit.importers.summaries.summary_file import Bin, SummaryFile, summary_format

_MS_NS = 10**6
_RUN = re.compile(r"(?:.*\s)?(?:Starting|Simulating) RD=([^;\s]{1,100}).*")
_TITLE = re.compile(r"\s*([A-Z][A-Za-z ]{1,80}):\s*")
_HEAD = re.compile(r"\s*min\(ms\) < +max\(ms\) +count .*")
_MS = r"([0-9]{1,12}(?:\.[0-9]{1,3})?)"
_ROW = re.compile(rf"\s*{_MS} < +(?:{_MS}|max) +([0-9][0-9,.']*) +[0-9.]+ +[0-9.]+[ +-]*")
_BOTH, _READS = "Reads and writes", "Reads"
_LEFT_OUT = "reads and writes together: they are in the tables of reads and of writes"


@dataclass
class _Table:
    line: int
    run: str
    title: str
    bins: list[Bin] = field(default_factory=list)


def read(file: SummaryFile) -> None:
    """Add one file. Raises ConfigError, with the line, for damage."""
    run, title = "", ""
    tables: list[_Table] = []
    for number, line in file.lines():
        if found := _RUN.fullmatch(line):
            run = found[1]
        elif found := _TITLE.fullmatch(line):
            title = found[1]
        elif _HEAD.fullmatch(line):
            tables.append(_Table(number, run, title))
        elif tables and " < " in line:
            tables[-1].bins.append(_row(file, number, line, tables[-1].bins))
    if not tables:
        raise file.fail(None, "no table of response times", "give histogram.html of vdbench's output folder")
    for at, table in enumerate(tables):
        if table.title == _BOTH and [each.title for each in tables[at + 1 : at + 2]] == [_READS]:
            file.leave_out(_LEFT_OUT, sum(each[2] for each in table.bins))
        else:
            name = ": ".join(filter(None, (table.run, table.title)))
            file.add(name, file.op(table.title), table.bins, line=table.line)


def _row(file: SummaryFile, number: int, line: str, before: Sequence[Bin]) -> Bin:
    row = _ROW.fullmatch(line)
    if not row or (before and before[-1][1] != int(file.number(row[1], number, "a time", _MS_NS))):
        raise file.bad_line(number, line, "the next row of the table")
    low, high = (int(file.number(each or "0", number, "a time", _MS_NS)) for each in row.groups()[:2])
    return low, high if row[2] else None, file.count(re.sub(r"[,.']", "", row[3]), number)


FORMAT = summary_format(
    "vdbench", rb"\s*min\(ms\) < +max\(ms\) +count ", read, files="vdbench histograms", program="vdbench",
    uses=("op",), latency="as vdbench's response time, in the buckets that it was given",
)  # fmt: skip
