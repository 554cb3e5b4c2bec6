"""fio's json+ output of others: one histogram per job and direction, over the whole job.

kit.load.fio_json finds the documents. Of several (--status-interval) the last one counts: it has all I/Os.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.importers.base import OPS, TRIMS, Format, Options, one_by_one
from kit.importers.histogram_accumulator import Account, Tally
from kit.importers.source import Source
from kit.load import fio_bins
from kit.load.fio_completion import sum_from_mean
from kit.load.fio_json import Json, documents, jobs
from kit.store.parts.import_source import BY_FORMAT

_MAX_BYTES = 64 << 20
# An hour of --status-interval=1 is more than a document may be: it is read in parts, each of whole documents.
_PART_BYTES = 8 << 20
_END = b"\n}\n"
_MAX_COUNT = 1 << 50
MIXED = "reads and writes in one sum (unified_rw_reporting=mixed): run fio without it"
_EDGES = fio_bins.Layout(0).edges
_HINT = "run fio with --output-format=json+ and clat_percentiles on"


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether a line begins as a JSON object does: warnings may come before it."""
    return any(line.lstrip().startswith(b"{") for line in lines)


def read(source: Source, options: Options, tally: Tally) -> Account:
    """Add one file to `tally`, whose bins are fio's. Raises ConfigError.

    The host is that of the options; else the file's, the client's and the job's name.
    """
    account = Account(str(source.path))
    document, notes = _document(source)
    account.warnings += notes
    for job in [*(jobs(document, "jobs") or []), *(jobs(document, "client_stats") or [])]:
        name = str(job.get("jobname", ""))
        if job.get("error"):
            account.warnings.append(f"fio reports an error in job {name!r}")
        names = (source.host, str(job.get("hostname") or ""), name)
        host = options.host or "/".join(filter(None, names))[:200]
        for op in (*OPS, "trim"):
            _add(source, account, tally, host, name, op, job.get(op))
        _leave_out_mixed(account, job)
        synced = _get(_get(job, "sync"), "total_ios")
        if type(synced) is int and 0 < synced <= _MAX_COUNT:
            account.read(synced)
            account.leave_out("syncs: fio's fsync is no op of latency.parquet", synced)
        if type(runtime := job.get("job_runtime")) is int and 0 < runtime < 10**11:
            account.runtime_ns = max(account.runtime_ns, runtime * 10**6)
    return account


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _add(source: Source, account: Account, tally: Tally, host: str, job: str, op: str, part: Any) -> None:
    """Add one direction of one job."""
    ios = _get(part, "total_ios")
    where = f"job {job!r}, {op}"
    if ios is not None and not (type(ios) is int and 0 <= ios <= _MAX_COUNT):
        raise source.fail(None, f"{where}: total_ios is {str(ios)[:40]!r}", "is the file as fio wrote it?")
    timed = next((t for k in ("clat_ns", "lat_ns") if _get(t := _get(part, k), "bins")), None)
    if timed is None:
        if ios:
            raise source.fail(
                None,
                f"{where}: {ios} I/Os but no bins: fio's plain JSON (--output-format=json) has none",
                _HINT,
            )
        return
    bins, total = timed["bins"], timed.get("N")
    if not isinstance(bins, dict) or not all(type(n) is int and 0 <= n <= _MAX_COUNT for n in bins.values()):
        raise source.fail(None, f"{where}: bins are not latency: count", "is the file as fio wrote it?")
    counted = sum(bins.values())
    if counted != total:
        raise source.fail(None, f"{where}: the bins hold {counted} I/Os, fio says {total!r}", "is it whole?")
    account.read(counted)
    if ios is not None and ios > counted:
        account.read(ios - counted)
        account.leave_out(f"without a latency in fio's bins: {op}", ios - counted)
    elif ios is not None and ios < counted:
        account.warnings.append(f"{where}: the bins hold {counted} I/Os, total_ios is {ios}")
    if op == "trim":
        account.leave_out(TRIMS, counted)
        return
    indices = np.array([_index(source, where, key) for key in bins], dtype=np.int64)
    counts = np.array(list(bins.values()), dtype=np.int64)
    used = np.flatnonzero(counts)
    time_ns = np.zeros(used.size, dtype=np.int64)
    group = tally.group(host, op)
    tally.add(tally.part(group, time_ns, indices[used], counts[used]))
    tally.sum(group, counted, sum_from_mean(timed.get("mean"), indices, counts))
    account.rows_counted += counted
    last = int(counts[indices == fio_bins.BINS - 1].sum())
    if last:
        account.warnings.append(f"{where}: {last} I/Os are in fio's last bin, which has no upper edge")


def _leave_out_mixed(account: Account, job: Json) -> None:
    """Tell of I/Os that fio has reported as one sum (unified_rw_reporting=mixed), and not by direction."""
    ios = _get(job.get("mixed"), "total_ios")
    # With unified_rw_reporting=both the sum stands beside its parts.
    if type(ios) is int and 0 < ios <= _MAX_COUNT and not any(op in job for op in OPS):
        account.read(ios)
        account.leave_out(MIXED, ios)


def _index(source: Source, where: str, key: str) -> int:
    """The bin that fio means by `key`, its middle in ns."""
    index = fio_bins.index_of_midpoint(key)
    if index is None:
        raise source.fail(
            None, f"{where}: {key[:40]!r} is none of fio's bins", "only fio 3 and later is read"
        )
    return index


def _document(source: Source) -> tuple[Json, list[str]]:
    """The last document of the file, and what to tell of the rest; a part at a time is in memory."""
    last: Json | None = None
    failure: tuple[int, str] | None = None
    number = before = lines = 0
    for data in source.segments(_END, _PART_BYTES, _MAX_BYTES):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = lines + data.count(b"\n", 0, error.start) + 1
            raise source.fail(line, "not UTF-8", "is this fio's output?") from None
        found = documents(text)
        if found.last is not None:
            if last is None and (lines or text[: found.begin].strip()):
                before = lines + text.count("\n", 0, found.begin)
            last = found.last
            failure = None
        if found.failure:
            failure = lines + found.failure[0], found.failure[1]
        number += found.number
        lines += text.count("\n")
    if last is None:
        line, what = failure or (1, "no JSON object with jobs in it")
        raise source.fail(line, f"not fio's JSON: {what}", _HINT)
    notes = []
    if failure:
        notes.append(f"line {failure[0]}: a later document is damaged and left out ({failure[1]})")
    if before:
        notes.append(f"{before} lines of text before the JSON are left out")
    if number > 1:
        notes.append(f"{number - 1} earlier reports of the same jobs are left out; the last one counts")
    return last, notes


FORMAT = Format("fio-json", "client", BY_FORMAT["fio-json"], recognises, one_by_one(read, _EDGES))
