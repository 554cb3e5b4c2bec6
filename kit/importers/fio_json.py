"""fio's json+ output of others: one histogram per job and direction, over the whole job.

kit.load.fio_json finds the documents, kit.importers.fio_reports which of them hold I/Os of their own. Syncs
(fsync, fdatasync) are imported as commits: a write that returned before is safe once they end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kit.core.errors import ConfigError
from kit.core.text import commas
from kit.importers.base import OPS, TRIMS, Format, Options, one_by_one
from kit.importers.fio_reports import HINT, jobs_of, last_reports, runtime_ms
from kit.importers.histogram_accumulator import Account, Accumulator
from kit.importers.source import Source
from kit.load import fio_bins
from kit.load.fio_completion import sum_from_mean
from kit.load.fio_json import Json
from kit.store.parts.import_source import ImportSource

_MAX_COUNT = 1 << 50
MIXED = "reads and writes in one sum (unified_rw_reporting=mixed): run fio without it"
_EDGES = fio_bins.HistogramColumns(0).edges
# Options of fio that sync after so many writes.
_FORCES = ("fsync", "fdatasync")


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether a line begins as a JSON object does: warnings may come before it."""
    return any(line.lstrip().startswith(b"{") for line in lines)


def read(source: Source, options: Options, tally: Accumulator) -> Account:
    """Add one file to `tally`, whose bins are fio's. Raises ConfigError.

    The host is that of the options; else the file's, the client's and the job's name.
    """
    account = Account(str(source.path))

    def add(job: Json, op: str) -> int:
        name = str(job.get("jobname", ""))
        names = (source.host, str(job.get("hostname") or ""), name)
        host = options.host or "/".join(filter(None, names))[:200]
        return _add(source, account, tally, host, name, op, job.get(op))

    add_jobs(source, account, add)
    return account


def add_jobs(source: Source, account: Account, add: Callable[[Json, str], int]) -> None:
    """All jobs of a file. `add` adds one direction of a job, and returns how many I/Os of it are counted."""
    for document in last_reports(source, account.warnings):
        for job in jobs_of(document):
            _add_job(account, add, job, document.get("global options"))
        # One document was appended to the other: their runs were one after the other.
        account.runtime_ns += runtime_ms(document) * 10**6


def _add_job(account: Account, add: Callable[[Json, str], int], job: Json, of_all: Any) -> None:
    """`of_all`: options that stand before the first job."""
    name = str(job.get("jobname", ""))
    if job.get("error"):
        account.warnings.append(f"fio reports an error in job {name!r}")
    ios = {op: add(job, op) for op in (*OPS, "trim", "sync")}
    _leave_out_mixed(account, job)
    given = (job.get("job options"), of_all)
    asked = [key for key in _FORCES if any(str(get(each, key) or 0).strip("0") for each in given)]
    if ios["write"] and ios["sync"]:
        account.warnings.append(
            f"job {name!r}: its {commas(ios['write'])} writes were not safe when they ended; the "
            f"{commas(ios['sync'])} fsync or fdatasync calls that made them safe are counted as commits"
        )
    elif ios["write"] and asked:
        account.warnings.append(
            f"job {name!r}: its {commas(ios['write'])} writes were not safe when they ended: {asked[0]} made "
            "them safe, and how long that took is not in the file"
        )


def get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _add(
    source: Source, account: Account, tally: Accumulator, host: str, job: str, op: str, part: Any
) -> int:
    """Add one direction of one job: how many I/Os of it are in the bins."""
    where = f"job {job!r}, {op}"
    ios, timed = timed_of(source, account, where, op, part, "bins")
    if timed is None:
        return 0
    bins = _bins(source, where, timed)
    counted = sum(bins.values())
    _tell_apart(account, where, op, counted, ios)
    if op == "trim":
        account.leave_out(TRIMS, counted)
        return counted
    indices = np.array([_index(source, where, key) for key in bins], dtype=np.int64)
    counts = np.array(list(bins.values()), dtype=np.int64)
    group = tally.group(host, "commit" if op == "sync" else op)
    tally.add_at(0, group, indices, counts)
    tally.sum(group, counted, sum_from_mean(timed.get("mean"), indices, counts))
    account.rows_counted += counted
    last = int(counts[indices == fio_bins.BINS - 1].sum())
    if last:
        account.warnings.append(f"{where}: {commas(last)} I/Os are in fio's last bin, without an upper edge")
    return counted


def timed_of(
    source: Source, account: Account, where: str, op: str, part: Any, key: str
) -> tuple[int | None, Any]:
    """How many I/Os fio says a direction of a job had, and what it says of their latencies, with this `key`.

    None without it: syncs are left out then. Raises ConfigError for other I/Os.
    """
    ios = _ios_of(source, where, part)
    timed = next((t for k in ("clat_ns", "lat_ns") if get(t := get(part, k), key)), None)
    if timed is None and op == "sync" and ios:
        account.set_aside("fsync or fdatasync calls whose times are not in the file", ios)
    elif timed is None and (ios or (ios is None and get(part, "io_bytes"))):
        raise _without_bins(source, where, ios, part)
    return ios, timed


def _ios_of(source: Source, where: str, part: Any) -> int | None:
    ios = get(part, "total_ios")
    if ios is not None and not is_count(ios):
        raise source.fail(None, f"{where}: total_ios is {str(ios)[:40]!r}", "is the file as fio wrote it?")
    return int(ios) if ios is not None else None


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_COUNT


def _bins(source: Source, where: str, timed: dict[str, Any]) -> dict[str, int]:
    """I/Os by latency. Raises ConfigError if these are not all that fio counted."""
    bins, total = timed["bins"], timed.get("N")
    if not isinstance(bins, dict) or not all(map(is_count, bins.values())):
        raise source.fail(None, f"{where}: bins are not latency: count", "is the file as fio wrote it?")
    counted = sum(bins.values())
    # fio before 3.18 has no N.
    if total is not None and counted != total:
        raise source.fail(
            None, f"{where}: bins hold {commas(counted)} I/Os, fio says {total!r}", "is it whole?"
        )
    return bins


def _tell_apart(account: Account, where: str, op: str, counted: int, ios: int | None) -> None:
    """Count the I/Os as read, and tell of those that are in the bins or in total_ios alone."""
    account.read(counted)
    if ios is not None and ios > counted:
        account.set_aside(f"without a latency in fio's bins: {op}", ios - counted)
    elif ios is not None and ios < counted:
        account.warnings.append(f"{where}: the bins hold {commas(counted)} I/Os, total_ios is {commas(ios)}")


def _without_bins(source: Source, where: str, ios: int | None, part: Any) -> ConfigError:
    """The error for I/Os of which the file has no histogram that is read."""
    many = f"{commas(ios)} I/Os" if ios else "I/Os"
    if get(get(part, "clat"), "bins") or get(get(part, "lat"), "bins"):
        return source.fail(
            None,
            f"{where}: {many} in microseconds: this is json+ of fio 2, and only that of fio 3 is read",
            "import the logs of the same job (write_lat_log or write_hist_log), or run it with fio 3",
        )
    return source.fail(
        None,
        f"{where}: {many} but no bins: fio's plain JSON (--output-format=json) has none, nor has json+ with "
        "clat_percentiles=0; plain JSON is read where each job has percentiles",
        HINT,
    )


def _leave_out_mixed(account: Account, job: Json) -> None:
    """Tell of I/Os that fio has reported as one sum (unified_rw_reporting=mixed), and not by direction."""
    ios = get(job.get("mixed"), "total_ios")
    # With unified_rw_reporting=both the sum stands beside its parts.
    if type(ios) is int and 0 < ios <= _MAX_COUNT and not any(op in job for op in OPS):
        account.set_aside(MIXED, ios)


def _index(source: Source, where: str, key: str) -> int:
    """The bin that fio means by `key`, its middle in ns."""
    index = fio_bins.index_of_midpoint(key)
    if index is None:
        raise source.fail(
            None, f"{where}: {key[:40]!r} is none of fio's bins", "is the file as fio wrote it?"
        )
    return index


_SOURCE = ImportSource(
    files="fio json+", program="fio", timed=False,
    latency="as fio counted it over the whole job; when an I/O was done is not in it",
)  # fmt: skip
FORMAT = Format("fio-json", "client", _SOURCE, recognises, one_by_one(read, _EDGES))
