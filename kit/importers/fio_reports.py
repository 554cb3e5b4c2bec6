"""The documents in a file of fio's json+: which hold I/Os of their own, and how long their jobs were.

With --status-interval fio prints several, each with all I/Os so far: the last counts. Documents that were
appended to a file (`fio ... >> FILE`) are other runs: all count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.importers.source import Source
from kit.load.fio_json import Json, each_document, jobs

_MAX_BYTES = 64 << 20
# An hour of --status-interval=1 is more than a document may be: it is read in parts, each of whole documents.
_PART_BYTES = 8 << 20
_END = b"\n}\n"
_MOST_SHOWN = 3
_MOST_MS = 10**11
_DIRECTIONS = ("read", "write", "trim", "mixed", "sync")
HINT = "run fio 3 with --output-format=json+ and clat_percentiles on"


def last_reports(source: Source, notes: list[str]) -> Iterator[Json]:
    """The last document of each run in the file; `notes` gets what to tell of the rest.

    A part at a time is in memory. Raises ConfigError where there is none.
    """
    last: Json | None = None
    damaged: list[tuple[int, str]] = []
    before = lines = superseded = runs = 0
    for data in source.segments(_END, _PART_BYTES, _MAX_BYTES):
        text = _text(source, data, lines)
        for found in each_document(text):
            if found.value is None:
                line, what = found.failure or (0, "")
                damaged.append((lines + line, what))
                continue
            if last is None:
                damaged.clear()
                if lines or text[: found.begin].strip():
                    before = lines + text.count("\n", 0, found.begin)
            elif is_later_report(last, found.value):
                superseded += 1
            else:
                runs += 1
                yield last
            last = found.value
        lines += text.count("\n")
    if last is None:
        line, what = damaged[-1] if damaged else (1, "no JSON object with jobs in it")
        raise source.fail(line, f"not fio's JSON: {what}", HINT)
    yield last
    notes += _told(damaged, before, superseded, runs)


def _text(source: Source, data: bytes, lines: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines + data.count(b"\n", 0, error.start) + 1
        raise source.fail(line, "not UTF-8", "is this fio's output?") from None


def _told(damaged: list[tuple[int, str]], before: int, superseded: int, runs: int) -> Iterator[str]:
    """What to tell of a file: damaged documents, lines before the first, reports left out, runs appended."""
    for line, what in damaged[:_MOST_SHOWN]:
        yield f"line {line}: a later document is damaged and left out ({what})"
    if len(damaged) > _MOST_SHOWN:
        yield f"{len(damaged) - _MOST_SHOWN} more documents are damaged and left out"
    if before:
        yield f"{before} lines of text before the JSON are left out"
    if superseded:
        yield f"{superseded} earlier reports of the same jobs are left out; the last one counts"
    if runs:
        yield f"{runs + 1} runs were appended to one another: the I/Os of all are counted"


def jobs_of(document: Json) -> list[Json]:
    """The jobs of a document, also those of the clients of fio servers."""
    return [*(jobs(document, "jobs") or []), *(jobs(document, "client_stats") or [])]


def is_later_report(earlier: Json, later: Json) -> bool:
    """Whether both are of one run: the same jobs, no count fell, and the run did not begin in between."""
    before, after = jobs_of(earlier), jobs_of(later)
    if [_identity(job) for job in before] != [_identity(job) for job in after]:
        return False
    if _began_ms(later) >= (_natural(earlier.get("timestamp_ms")) or float("inf")):
        return False
    return not any(
        _fell(_counts(one.get(name)), _counts(other.get(name)))
        for one, other in zip(before, after, strict=True)
        for name in _DIRECTIONS
    )


def _identity(job: Json) -> tuple[str, ...]:
    return tuple(str(job.get(key)) for key in ("jobname", "groupid", "hostname"))


def _began_ms(document: Json) -> float:
    """When fio was started, up to a second early; -inf where that is not known. `elapsed` is rounded up."""
    elapsed_s = max((_natural(job.get("elapsed")) for job in jobs_of(document)), default=0)
    at_ms = _natural(document.get("timestamp_ms"))
    return at_ms - elapsed_s * 1000 if at_ms and elapsed_s else float("-inf")


def _counts(part: Any) -> dict[str, int]:
    """Counts of a direction of a job that only grow while it runs."""
    if not isinstance(part, dict):
        return {}
    counts = {key: _natural(part.get(key)) for key in ("total_ios", "io_bytes", "runtime")}
    for key in ("clat_ns", "lat_ns"):
        bins = part[key].get("bins") if isinstance(part.get(key), dict) else None
        if isinstance(bins, dict):
            counts |= {f"{key} {name}": _natural(count) for name, count in bins.items()}
    return counts


def _fell(before: dict[str, int], after: dict[str, int]) -> bool:
    return any(after.get(key, 0) < count for key, count in before.items())


def runtime_ms(document: Json) -> int:
    """How long the jobs were: those of a group side by side, a group with `stonewall` after those before it.

    fio adds up `job_runtime` over the jobs of a group that it reports as one (group_reporting); `runtime` of
    a direction is that of its longest job.
    """
    of_all = document.get("global options")
    groups: dict[int, tuple[int, bool]] = {}
    for job in jobs_of(document):
        own = job.get("job options")
        waits = any(isinstance(options, dict) and "stonewall" in options for options in (own, of_all))
        number = _natural(job.get("groupid"))
        longest, waited = groups.get(number, (0, False))
        groups[number] = max(longest, _job_ms(job)), waited or waits
    passed = current = 0
    for _, (longest, waits) in sorted(groups.items()):
        if waits:
            passed, current = passed + current, 0
        current = max(current, longest)
    return passed + current


def _job_ms(job: Json) -> int:
    parts = [part for name in _DIRECTIONS if isinstance(part := job.get(name), dict)]
    longest = max((_natural(part.get("runtime")) for part in parts), default=0)
    ms = longest or _natural(job.get("job_runtime"))
    return ms if ms < _MOST_MS else 0


def _natural(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
