"""What fio writes beside latencies: told apart by name and values, and called by its name in messages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from kit.importers.base import data_line
from kit.importers.fio_log_unit import first_rows
from kit.importers.source import Source

_RUN_AGAIN = "run fio with --output-format=json+, or with write_lat_log or write_hist_log, and import that"
_NORMAL = re.compile(rb".*: \(g=[0-9]+\): rw=[a-z]+, bs=|Run status group [0-9]+ \(all jobs\):")
# Versions 3 to 5 name fio; 2 begins with the job and its numbers.
_TERSE = re.compile(rb"[345];fio-[0-9]|2;[^;]*;[0-9]+;[0-9]+;(?:[0-9.]+;){10}")
# Half of the time since 1970: later stamps are those of a wall clock, not of a clock that began with the job.
_EPOCH_MS = 28 * 365 * 86_400_000
_BESIDE = {
    "bw": "a bandwidth log (write_bw_log): its values are KiB/s, no latencies",
    "iops": "an IOPS log (write_iops_log): its values are I/Os, no latencies",
    "slat": "a log of submissions (slat): how long it took to hand each I/O over, not until it was done",
}
_LATENCIES = ("lat", "clat")
# Outputs of other programs that are not read: how a line of each begins, what it is, what to do.
_OUTPUTS = (
    (
        re.compile(rb"(?:clat_)?nsec, *read_"),
        "a CSV of fio_jsonplus_clat2csv, made of fio's json+",
        "import the json+ output that it was made of",
    ),
    (
        re.compile(rb"[0-9.]{3,8},[0-9.]{3,8},[^,]*,[0-9]+,[0-9]{9,}(?:,[^,]*){30,}$"),
        "the CSV of bonnie++, which has no histogram of latencies",
        _RUN_AGAIN,
    ),
    (
        re.compile(rb".*\btotal_wait\b.*\bdisk_wait\b"),
        "zpool iostat -l, which prints averages",
        "zpool iostat -wp POOL prints histograms",
    ),
)
_LEAST_ROWS, _LEAST_SPAN_MS = 100, 100
_INSIST = "import the _lat or _clat log of the same job; if it does hold latencies, --from fio-log insists"


def check(source: Source, chosen: str | None) -> None:
    """Refuses what has no latencies. `chosen`: the format that the user insists on. Raises ConfigError."""
    lines = [line for line in source.head().splitlines() if line.strip()]
    is_json = any(line.lstrip().startswith(b"{") for line in lines)
    kind = "" if is_json else _kind_of_report(lines)
    if kind:
        raise source.fail(
            None, f"this is fio's {kind}: it has neither I/Os nor a histogram of them", _RUN_AGAIN
        )
    if chosen is not None:
        return
    if reason := _BESIDE.get(source.log_kind or ""):
        raise source.fail(None, f"by its name {reason}", _INSIST)
    # A paced job (rate_iops, thinktime) can have values that fit by chance: a name says more.
    if source.log_kind not in _LATENCIES and (reason := _not_latencies(source)):
        raise source.fail(None, reason, _INSIST)


def known_output(lines: Sequence[bytes]) -> tuple[str, str]:
    """Of a file without a known format: what it is (", ..."), and what to do; empty where it is not known."""
    for pattern, what, hint in _OUTPUTS:
        if any(pattern.match(line) for line in lines[:4]):
            return f": this is {what}", hint
    return "", ""


def _kind_of_report(lines: Sequence[bytes]) -> str:
    if any(_TERSE.match(line) for line in lines):
        return "terse output (--output-format=terse)"
    return "normal output (--output-format=normal)" if any(_NORMAL.match(line) for line in lines) else ""


def _not_latencies(source: Source) -> str:
    """By its values: why the log of I/Os at the begin of the file holds no latencies; "" where it may."""
    rows = first_rows(source)
    if rows is None or rows.latency_ns.size < _LEAST_ROWS:
        return ""
    values = rows.latency_ns
    if int(values.max()) <= 1:
        return f"all {values.size} values at its begin are 1: {_BESIDE['iops']}"
    span_ms = int(rows.time_ms.max() - rows.time_ms.min())
    if span_ms < _LEAST_SPAN_MS or int(values.min()) < 1:
        return ""
    lines = source.head().split(b"\n")[: values.size]
    blocks = [int(line.split(b",")[3]) for line in lines]
    as_latency = float(values.sum()) / (span_ms * 1e6)
    as_bandwidth = sum(size * 1e9 / 1024 / value for size, value in zip(blocks, values.tolist(), strict=True))
    # One I/O at a time: their latencies add up to the time that passed.
    if as_latency < 0.5 and 0.85 < as_bandwidth / (span_ms * 1e6) < 1.02:
        return (
            f"by its values it may be {_BESIDE['bw']}: as ns they add up to {as_latency:.0%} of the time "
            "that passed, as KiB/s to all of it"
        )
    return ""


def notes(source: Source) -> Iterator[str]:
    """What is special in a log of I/Os or histograms, for the warnings."""
    if source.log_kind in _BESIDE:
        yield f"by its name {_BESIDE[source.log_kind]}"
    if source.is_of_all_jobs:
        yield "a log of all jobs (per_job_logs=0): they cannot be told apart"
    stamp = data_line(source.head().splitlines()).split(b",")[0].strip()
    if stamp.isdigit() and len(stamp) < 15 and int(stamp) > _EPOCH_MS:
        utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(stamp) // 1000))
        yield (
            f"an epoch log (log_unix_epoch), from {utc}: its times are those of the wall clock, whose steps "
            "move I/Os"
        )
