"""The output of FreeBSD's `diskinfo -wS`: synchronous random writes by size, the mean of each.

How many writes a row has is not printed: 250 at a time until a second had passed (slogbench() of
usr.sbin/diskinfo/diskinfo.c), so it is the least that fits. A write is counted with its flush. Several disks
may be in one output.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kit.importers.summaries.summary_file import SummaryFile, summary_format
from kit.load.fio_latency_log import shown

_LIMIT_BYTES = 1 << 20
_SECTION = "Synchronous random writes:"
_ROW = re.compile(r"\t *([0-9.]{1,6}) kbytes: +([0-9]{1,9}\.[0-9]) usec/IO = +[0-9]{1,9}\.[0-9] Mbytes/s")
_NAME = re.compile(r"\S{1,100}")
_AT_ONCE = 250
_AGAIN = "give what `diskinfo -wS DISK` printed, whole and unchanged; nothing was imported"


def read(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError for a row that cannot be, or cannot be read."""
    text = file.source.whole(_LIMIT_BYTES).decode("utf-8", "replace")
    lines = text.replace("\r\n", "\n").split("\n")
    disk, in_section = "", False
    several = sum(line.strip() == _SECTION for line in lines) > 1
    for number, line in enumerate(lines, 1):
        if line.strip() == _SECTION:
            in_section = True
        elif row := _ROW.fullmatch(line.rstrip()):
            title = f"{disk + ': ' if several and disk else ''}{row[1]} kB synchronous write"
            mean_ns = Decimal(row[2]) * 1000
            if not in_section or not mean_ns or title in file.titles:
                raise file.fail(number, f"a row that cannot be here: {shown(line.encode())}", _AGAIN)
            ios = max(-(-(10**9) // (int(mean_ns) * _AT_ONCE)), 1) * _AT_ONCE
            file.ran(ios * mean_ns)
            file.add_mean(title, "write", ios, mean_ns, line=number)
            file.warn("how many writes there were follows from how diskinfo counts")
        elif in_section and "usec/IO" in line and number < len(lines):
            raise file.fail(number, f"not a row of its test: {shown(line.encode())}", _AGAIN)
        elif in_section and line.strip() and number == len(lines):
            file.warn(f"line {number}: cut, left out: {shown(line.encode())}")
        elif line and _NAME.fullmatch(line):
            disk, in_section = line, False


FORMAT = summary_format(
    "diskinfo", rb"\s*Synchronous random writes:\s*$", read, files="diskinfo -wS output", layer="device",
    program="FreeBSD's diskinfo", most_before=60,
    latency="as the mean of each row: a write and its flush; of single writes nothing is known",
)  # fmt: skip
