"""Histograms as bpftrace and the tools of bcc print them, with a power of two or a step for a bin.

bpftrace: each map, with its key, has rows `[4, 8)  12 |@@@|`; K, M, G are powers of 1024 (output.cpp). A map
that is printed again with no bin less has been counted on: its last print counts; else it was cleared, and
all count. The tools of bcc clear theirs after each report (bcc/table.py, _print_log2_hist and
_print_linear_hist).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

from kit.importers.summaries.summary_file import SummaryFile, summary_format

_MAP = re.compile(r"(@[A-Za-z0-9_]*(?:\[.{0,200}\])?): ?")
_INT = r"(-?[0-9]{1,18}[KMGTPE]?)"
_ROW = re.compile(rf"(?:\[{_INT}\]|\[{_INT}, (?:{_INT}|\.\.\.)\)|\(\.\.\., {_INT}\)) +([0-9]+) \|[@ ]*\|")
_HEAD = re.compile(r" +(\S.{0,60}?) +: count +distribution")
_BCC_ROW = re.compile(r" +([0-9]{1,18})(?: +-> ([0-9]{1,18}))? +: ([0-9]+) +\|[*+ ]*\|")
_SECTION = re.compile(r"[A-Za-z_ ]{1,40} = .{1,100}")
_NEGATIVE = "negative: a latency cannot be less than 0"
# By lower edge (None: below 0) and upper edge (None: there is none), in the unit of the source.
_Counts = Counter[tuple[int | None, int | None]]


def _add(file: SummaryFile, name: str, unit: str, prints: list[tuple[int, _Counts]]) -> None:
    """Add a map: the line and the counts of each of its prints; `unit`: its heading. Raises ConfigError."""
    line, counts = prints[-1]
    if len(prints) > 1 and not unit and all(a <= b for (_, a), (_, b) in pairwise(prints)):
        file.warn(f"{name}: printed {len(prints)} times, never with less: the last print counts")
    elif len(prints) > 1:
        file.warn(f"{name}: the counts of its {len(prints)} prints are added up")
        counts = sum((each for _, each in prints), Counter())
    below = sum(n for (low, _), n in counts.items() if low is None)
    file.leave_out(_NEGATIVE, below)
    if counts.total() > below:
        unit_ns = file.unit_ns(unit or name, line=line)
        bins = [
            (low * unit_ns, None if high is None else high * unit_ns, n)
            for (low, high), n in counts.items()
            if low is not None
        ]
        file.add(name, file.op(name), bins, line=line)


def _edge(text: str) -> int:
    return int(text.rstrip("KMGTPE")) << 10 * " KMGTPE".index(text[-1] if text[-1].isalpha() else " ")


def _bounds(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Of a row from `low` (None: from anywhere) to before `high`; what is below 0 has no lower edge."""
    if low is None and high is not None and high > 0:
        return 0, high
    return (None if low is not None and low < 0 else low), high


def read(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError, with the line, for what is no row inside a table."""
    # By name and heading.
    maps: defaultdict[tuple[str, str], list[tuple[int, _Counts]]] = defaultdict(list)
    counts, section, table = _Counts(), "", None
    for number, line in file.lines("|"):
        if table is _ROW and (row := _ROW.fullmatch(line)):
            one, low, high, below = (_edge(text) if text else None for text in row.groups()[:4])
            bounds = _bounds(one, one + 1) if one is not None else _bounds(low, high if row[2] else below)
            counts[bounds] += file.count(row[5], number)
        elif table is _BCC_ROW and (row := _BCC_ROW.fullmatch(line)):
            counts[int(row[1]), int(row[2] or row[1]) + 1] += file.count(row[3], number)
        elif head := _MAP.fullmatch(line):
            counts, table = _Counts(), _ROW
            maps[head[1], ""].append((number, counts))
        elif head := _HEAD.fullmatch(line):
            counts, table = _Counts(), _BCC_ROW
            maps[section or head[1], head[1]].append((number, counts))
            section = ""
        elif line.endswith("|"):
            raise file.bad_line(number, line, "a row of the histogram above it")
        else:
            section, table = line if _SECTION.fullmatch(line) else section, None
    if not maps:
        raise file.fail(None, "no histogram", "print maps of hist() or lhist(), or what a tool of bcc prints")
    for (name, unit), prints in maps.items():
        _add(file, name, unit, prints)


FORMAT = summary_format(
    "bpf-hist",
    rb"@\w*(?:\[.*\])?: ?$|[\[(][-0-9.]+[KMGTPE]?(?:, [-0-9.]+[KMGTPE]?)?[)\]] +[0-9]+ \||"
    rb" +\S.{0,60}? +: count +distribution",
    read, files="bpftrace or bcc histograms", program="bpftrace or a tool of bcc", uses=("op", "unit"),
    latency="as the script counted it, in bins as wide as a power of two or the script's step",
)  # fmt: skip
