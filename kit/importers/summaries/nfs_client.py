"""What a Linux client knows of its NFS mounts: /proc/self/mountstats, and nfsiostat, which prints from it.

mountstats: of each operation, since the mount, calls and the sums (ms) of queue, round trip and execution
(net/sunrpc/stats.c, _print_rpc_iostats). Execution, from the call to its end, is the latency; queue and round
trip (RTT) are in it. Of a mount that is in a file twice, what was added counts. nfsiostat prints rates and
means of READ and WRITE, first since the mount, then of each interval.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kit.core.units import format_latency
from kit.importers.summaries.summary_file import SummaryFile, summary_format
from kit.store.labels import NFS_METADATA

_MS_NS = 10**6
_MOUNT = re.compile(r"\s*device .{1,300} mounted on (.{1,300}) with fstype (\S+)(?: statvers=\S+)?")
_OP = re.compile(r"\s*([A-Z][A-Z0-9_]{1,30}):((?: +[0-9]+){8,12})")
_AGE = re.compile(r"\s*age:\s+([0-9]{1,10})")
_PRINTED_MOUNT = re.compile(r"\S.{0,300} mounted on (.{1,300}):")
_PRINTED_OP = re.compile(r"([a-z]+): +ops/s +kB/s +kB/op +retrans +avg RTT \(ms\) +avg exe \(ms\).*")
_DATA = {"READ": "read", "READ_PLUS": "read", "WRITE": "write", "COMMIT": "commit"}
# Calls, sums of queue, round trip and execution: positions in a line of mountstats.
_COLUMNS = (0, 5, 6, 7)
_Calls = dict[str, tuple[int, ...]]


def read_mountstats(file: SummaryFile) -> None:
    """Add one copy of the file, or several. Raises ConfigError, with the line, for damage."""
    mounts: dict[str, list[tuple[int, _Calls]]] = {}
    calls: _Calls | None = None
    inside = False
    for number, line in file.lines():
        if found := _MOUNT.fullmatch(line):
            calls, inside = {} if found[2].startswith("nfs") else None, False
            if calls is not None:
                mounts.setdefault(found[1], []).append((number, calls))
        elif calls is None:
            continue
        elif inside and (row := _OP.fullmatch(line)):
            calls[row[1]] = tuple(file.count(row[2].split()[n], number) for n in _COLUMNS)
        elif inside:
            raise file.bad_line(number, line, "an operation and its counts")
        elif age := _AGE.fullmatch(line):
            file.ran(Decimal(age[1]) * 10**9)
        else:
            inside = "per-op statistics" in line
    if not mounts:
        raise file.fail(None, "no NFS mount", "give /proc/self/mountstats of a client with its mounts")
    for mount, copies in mounts.items():
        _add_mount(file, mount, copies)


def _add_mount(file: SummaryFile, mount: str, copies: list[tuple[int, _Calls]]) -> None:
    line, last = copies[-1]
    first = copies[0][1] if len(copies) > 1 else {}
    if first:
        file.warn(f"{mount}: what was added from the first to the last of {len(copies)} copies counts")
    for name, values in last.items():
        ios, queue, rtt, took = (b - a for a, b in zip(first.get(name, (0,) * 4), values, strict=True))
        if min(ios, queue, rtt, took) < 0:
            raise file.fail(
                line, f"{mount}: {name} has less than in the copy before", "was it mounted again?"
            )
        if not ios:
            continue
        op = _DATA.get(name, name.lower() if name.lower() in NFS_METADATA else "other")
        one_ns = Decimal(_MS_NS) / ios
        file.add_mean(f"{mount}: {name}", op, ios, took * one_ns, off_ns=one_ns, line=line)
        if name in _DATA:
            parts = [format_latency(float(each * one_ns) / 1000) for each in (queue, rtt)]
            file.warn(f"{mount}: {name}: of the mean {parts[0]} in the client's queue, {parts[1]} RTT")


def read_nfsiostat(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError, with the line, for damage."""
    found: dict[tuple[str, str], list[tuple[Decimal, Decimal]]] = {}
    mount, op = "", ""
    for number, line in file.lines():
        if op:
            values = re.findall(r"\S+(?: +\([0-9.]+%\))?", line)
            if len(values) < 6:
                raise file.bad_line(number, line, "the figures of an operation")
            rate, mean = (file.number(values[n], number, what) for n, what in ((0, "a rate"), (5, "a mean")))
            found.setdefault((mount, op), []).append((rate, mean * _MS_NS))
            op = ""
        elif head := _PRINTED_OP.fullmatch(line):
            op = head[1].upper()
        elif named := _PRINTED_MOUNT.fullmatch(line):
            mount = named[1]
    for (mount, op), rows in found.items():
        used = rows[1:] or rows
        per_s = sum((rate for rate, _ in used), Decimal(0))
        if len(rows) > 1:
            file.leave_out("in the first report, which is since the mount", round(rows[0][0]))
        if ios := round(per_s):
            mean_ns = sum((rate * mean for rate, mean in used), Decimal(0)) / per_s
            half = Decimal(_MS_NS) / 2000
            least_ns = max(mean_ns - half, Decimal(0))
            file.add_mean(f"{mount}: {op}", _DATA.get(op, "other"), ios, least_ns, off_ns=2 * half)
    file.warn(
        "nfsiostat prints rates and not how long an interval was: each is taken to be a second; "
        "/proc/self/mountstats has all calls"
    )


_LATENCY = "as the mean of each operation, from the call to its end; of single calls nothing is known"
FORMAT = summary_format(
    "mountstats", rb"\s*device \S.* mounted on .* with fstype \S+", read_mountstats, files="mountstats",
    program="the NFS client of Linux", latency=_LATENCY, most_before=40,
)  # fmt: skip
NFSIOSTAT_FORMAT = summary_format(
    "nfsiostat", rb"[a-z]+: +ops/s +kB/s +kB/op +retrans +avg RTT ", read_nfsiostat,
    files="nfsiostat output", program="nfsiostat", latency=_LATENCY, most_before=40,
)  # fmt: skip
