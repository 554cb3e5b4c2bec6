"""ioping: a line for each request, or only the statistics (-q), or these as raw numbers (-B).

Times of requests have four digits. The first is the warm-up, which ioping's statistics leave out as well. A
raw row has requests, their time, two rates, least, mean and largest latency and their deviation, all in ns,
then all requests and all time (ioping.c); with -p there is one a period, and the last row has all.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

from kit.core.bins import bin_edges, bin_index
from kit.core.text import commas
from kit.importers.summaries.summary_file import SummaryFile, summary_format

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "hour": 3600 * 10**9}
_TIME = r"([0-9]{1,12}(?:\.[0-9]{1,6})?) (ns|us|ms|s|min|hour)"
_REQUEST = re.compile(
    rf".{{0,40}}?[0-9.]+ \S{{1,5}} (<<<|>>>|from|to) (.{{1,300}}): request=[0-9]{{1,18}} time={_TIME}"
    r"(?: \((\w+)\))?"
)
_STATISTICS = re.compile(
    rf"--- (.{{1,300}}) ioping statistics ---\n([0-9]{{1,15}}) requests completed in {_TIME}, .{{1,20}} "
    rf"(read|written), .*\n(?:generated .*\n)?min/avg/max/mdev = .{{1,30}} / {_TIME} / .*"
)
_RAW = re.compile(r"[0-9]+(?: [0-9]+){7,9}")


def read(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError, with the line, for damage."""
    found: dict[tuple[str, str], Counter[int]] = {}
    raw: list[tuple[int, list[int]]] = []
    text = []
    for number, line in file.lines():
        text.append(line)
        if row := _REQUEST.fullmatch(line):
            latency_ns = int(file.number(row[3], number, "a time", _UNITS[row[4]]))
            op = "read" if row[1] in ("<<<", "from") else "write"
            if row[5] == "warmup":
                file.leave_out("the warm-up request, which ioping leaves out as well", 1)
            else:
                found.setdefault((row[2], op), Counter())[int(bin_index(latency_ns))] += 1
        elif _RAW.fullmatch(line):
            raw.append((number, [int(file.number(each, number, "a number")) for each in line.split()]))
        elif " request=" in line or re.match(r"[0-9]+ .* [0-9]+$", line):
            raise file.bad_line(number, line, "a request or a raw row of ioping")
    for (target, op), counts in found.items():
        low, high = (each.tolist() for each in bin_edges(list(counts)))
        file.add(target, op, zip(low, high, counts.values(), strict=True))
    requests = sum(counts.total() for counts in found.values())
    for target, ios, took, unit, moved, mean, of_mean in _STATISTICS.findall("\n".join(text)):
        file.ran(Decimal(took) * _UNITS[unit])
        if not requests:
            file.add_mean(
                target, moved.replace("written", "write"), int(ios), Decimal(mean) * _UNITS[of_mean]
            )
        elif int(ios) != requests:
            file.warn(f"{commas(requests)} requests are in the file, ioping counted {commas(int(ios))}")
    _add_raw(file, raw)


def _add_raw(file: SummaryFile, raw: list[tuple[int, list[int]]]) -> None:
    """Rows of periods, or the last alone, if it has the others in it."""
    *periods, (_, last) = raw or [(0, [0, 0])]
    if periods and all(last[n] >= sum(row[n] for _, row in periods) for n in (0, 1)):
        file.leave_out("in rows of periods (-p): the last row has all", sum(row[0] for _, row in periods))
        raw = raw[-1:]
    for number, row in raw:
        if not row[4] <= row[5] <= row[6]:
            raise file.fail(number, f"a mean of {row[5]} ns is not between {row[4]} and {row[6]} ns")
        file.ran(Decimal(row[1]))
        title = "ioping" if len(raw) == 1 else f"ioping, line {number}"
        file.add_mean(title, file.op(), row[0], Decimal(row[5]), line=number)


FORMAT = summary_format(
    "ioping", rb".* request=[0-9]+ time=|--- .+ ioping statistics ---$|[0-9]+(?: [0-9]+){7,9}$", read,
    files="ioping output", program="ioping", uses=("op",), most_before=20,
    latency="of each request as ioping prints it; of its statistics alone the mean",
)  # fmt: skip
