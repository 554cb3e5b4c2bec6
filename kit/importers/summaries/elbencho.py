"""elbencho: JSON (--jsonfile with --lathisto) with a histogram of each phase, or CSV (--csvfile) with means.

A bin is a quarter of an octave of whole microseconds, printed rounded; here its edges are those of the whole
microseconds that fall into it (LatencyHistogram.h). The CSV has no number of I/Os: it is the rate times the
time. Latencies are of I/Os, in phases without I/Os of entries (files, directories). Of the two results of a
phase, "last done" is read: it has all threads.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kit.importers.summaries.summary_file import Bin, SummaryFile, summary_format

_US_NS = 1000
_RANGE = re.compile(r"[0-9.]{1,15}-([0-9.]{1,15})us")
_OPS = {"READ": "read", "MKDIRS": "mkdir", "RMDIRS": "rmdir", "RMFILES": "remove", "RMOBJECTS": "remove"}
_WRITES = "WRITE", "RWMIX", "MIX-T"
_MOST_BUCKETS = 112


def read(file: SummaryFile) -> None:
    """Add one file of results. Raises ConfigError, with the line, for damage."""
    head: list[str] = []
    for number, line in file.lines("}"):
        if line.startswith("{"):
            _add_json(file, number, line)
            continue
        fields = next(csv.reader([line]))
        if fields[0] == "ISO date":
            head = fields
        elif len(fields) != len(head):
            raise file.fail(number, f"{len(fields)} columns, and its head has {len(head)}")
        else:
            _add_csv(file, number, dict(zip(head, fields, strict=True)))


def _op(phase: str) -> str:
    return "write" if phase.startswith(_WRITES) else _OPS.get(phase, "other")


def _add_csv(file: SummaryFile, line: int, row: Mapping[str, str]) -> None:
    phase, took = row.get("operation", ""), row.get("time ms [last]") or "0"
    title = " ".join(filter(None, (row.get("label"), phase)))
    for before, name, op in (("", title, _op(phase)), ("rwmix read ", f"{title}: reads", "read")):
        # The time of an entry has those of its I/Os in it.
        for latency, rate in (("IO lat us [avg]", "IOPS [last]"), ("Ent lat us [avg]", "entries/s [last]")):
            if (mean := row.get(before + latency)) and (per_s := row.get(before + rate)):
                took_s = file.number(took, line, "a time") / 1000
                file.ran(took_s * 10**9)
                ios = round(file.number(per_s, line, "a rate") * took_s)
                mean_ns = file.number(mean, line, "a mean", _US_NS)
                file.add_mean(name, op, ios, mean_ns, off_ns=Decimal(_US_NS), line=line)
                break


def _add_json(file: SummaryFile, line: int, text: str) -> None:
    try:
        record = json.loads(text)
        phase = str(record.get("phase_type") or record.get("operation"))
        done = record["last_done"]
        latency = done.get("latency") or {}
        found = (latency.get("IO") or latency.get("entries") or {}).get("histogram") or {}
        title = " ".join(filter(None, (str(record.get("label") or ""), phase)))
        parts = ((title, _op(phase), found), (f"{title}: reads", "read", found.get("rwmix_read") or {}))
        for name, op, histogram in parts:
            if "histo_max_exceeded" in histogram:
                file.warn(f"{name}: an I/O took 268 s or more, so elbencho wrote no histogram")
            file.add(name, op, list(_bins(file, line, histogram.get("buckets") or ())), line=line)
        file.ran(file.number(str(done.get("elapsed_time_ms", 0)), line, "a time", 10**6))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise file.bad_line(line, text, "a phase of elbencho") from None
    if latency and not found:
        file.warn(f"line {line}: without --lathisto its JSON has means alone: import the CSV for these")


def _bins(file: SummaryFile, line: int, buckets: Sequence[Mapping[str, Any]]) -> Iterator[Bin]:
    """Bucket n has the microseconds from 2^(n/4) to below 2^((n+1)/4), the first also 0."""
    for bucket in buckets:
        found = _RANGE.fullmatch(str(bucket["range"]))
        high = float(found[1]) if found else 0.0
        n = round(4 * math.log2(high)) - 1 if high >= 1 else -1
        if not 0 <= n < _MOST_BUCKETS or abs(2 ** ((n + 1) / 4) - high) > 0.6:
            raise file.fail(line, f"{str(bucket['range'])[:40]!r} is none of elbencho's ranges")
        low_us, high_us = math.ceil(2 ** (n / 4)) if n else 0, math.ceil(2 ** ((n + 1) / 4))
        yield low_us * _US_NS, high_us * _US_NS, file.count(str(bucket["count"]), line)


FORMAT = summary_format(
    "elbencho", rb'ISO date,label,path type,.*\boperation,|\{.*"last_done": ?\{', read, most_before=1,
    files="elbencho results", program="elbencho",
    latency="as elbencho counted it in whole microseconds; in its CSV the mean of each phase alone",
)  # fmt: skip
