"""What the kit can measure: jobs, phases and properties that it cannot are refused, with file and line.

Such a run would touch the hosts, take its time, and could only end *unknown*.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from kit.config.fio_job import DIRECTORY, FioJob, FioSection, parse_fio_bytes
from kit.config.toml import Place, dotted, placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload
from kit.config.workload_source import WorkloadSource
from kit.core.errors import HostError
from kit.core.units import format_duration_ns, format_size_bytes
from kit.load.fio import LONGEST_EVERY_IO_NS, MOST_WINDOWS
from kit.zfs.pool import record_bytes
from kit.zfs.properties import why_refused

# Each job is a process or thread of the client, and has a log that is fetched by a command of its own.
MOST_JOBS = 1024
# Requests that the Linux client has on the way at most (sunrpc.tcp_max_slot_table_entries).
MOST_OUTSTANDING = 65536
# fio has a buffer for each I/O on the way.
MOST_BUFFER_BYTES = 1 << 30
# What the Linux client asks for if rsize and wsize do not say (NFS_MAX_FILE_IO_SIZE), and libnfs.
_MOST_CALL_BYTES = 1 << 20
_CALL_SIZES = (("read", "rsize"), ("write", "wsize"))
_TIME_NS = {"us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "": 10**9, "s": 10**9}
_TIME_NS |= {"m": 60 * 10**9, "h": 3600 * 10**9}


def check(
    workload: Workload,
    source: WorkloadSource,
    jobs: dict[str, FioJob],
    *,
    is_appliance: bool,
    dilation: int = 1,
) -> None:
    """`jobs` by Phase.load. Raises ConfigError with file and line."""
    keys = [*_workload_problems(workload, is_appliance), *_histogram_problems(workload, jobs, dilation)]
    if keys:
        raise placed_refusal([(source.place_of(key), f"{dotted(key)}: {text}") for key, text in keys])
    measured = {phase.load for phase in workload.phase}
    every_io = {phase.load for phase in workload.phase if phase.log == "every-io"}
    for name, job in sorted(jobs.items()):
        may_be_long = name in measured and name not in every_io
        problems = list(_load_problems(job, workload, may_be_long))
        if name in measured:
            problems += _unlike_sections(job)
            problems += _block_problems(job, workload, is_appliance)
        if problems:
            raise placed_refusal(problems)


def check_mount(workload: Workload, jobs: Mapping[str, FioJob], client: str, options: str) -> None:
    """What only the mount shows: rsize and wsize in effect (`options`, of /proc/mounts). Raises HostError."""
    sizes = dict(option.split("=", 1) for option in options.split(",") if "=" in option)
    for phase in workload.phase:
        job = jobs[phase.load]
        for op, name in _CALL_SIZES:
            most = sizes.get(name, "")
            if op in job.operations and most.isdecimal() and (job.block_bytes or 0) > int(most):
                raise HostError(
                    f"{client}: {name}={most} is in effect, but the I/Os of {phase.job} have "
                    f"{job.block_bytes} bytes: one would become several calls, which cannot be compared",
                    f"make bs smaller: the server or the client does not take a larger {name}",
                )


def _workload_problems(workload: Workload, is_appliance: bool) -> Iterator[tuple[KeyPath, str]]:
    for kind, properties in (("dataset", workload.dataset.properties), ("pool", workload.pool.properties)):
        for name, value in properties.items():
            if reason := why_refused(kind, name, value):
                yield (kind, "properties", name), reason
    if not is_appliance:
        try:
            record_bytes(workload.dataset.properties)
        except ValueError as error:
            yield (
                ("dataset", "properties", "recordsize"),
                f'{error}; write 512 or "128KiB", for example',
            )
    loads: list[tuple[KeyPath, int]] = [
        (("phase", number), phase.duration)
        for number, phase in enumerate(workload.phase)
        if phase.log == "every-io"
    ]
    if workload.warmup:
        loads.append((("warmup",), workload.warmup.duration))
    for table, duration_ns in loads:
        if text := _too_long(duration_ns):
            more = ', or write log = "histograms" in this one' if table[0] == "phase" else ""
            yield (*table, "duration"), text + more


def _too_long(duration_ns: int) -> str:
    """Why a load with a log of every I/O cannot be so long; "" if it can."""
    if duration_ns <= LONGEST_EVERY_IO_NS:
        return ""
    return (
        f"{format_duration_ns(duration_ns)} is longer than {format_duration_ns(LONGEST_EVERY_IO_NS)}, "
        "the longest load with a log of every I/O (fio keeps it in memory): measure several shorter phases"
    )


def _histogram_problems(
    workload: Workload, jobs: Mapping[str, FioJob], dilation: int
) -> Iterator[tuple[KeyPath, str]]:
    for number, phase in enumerate(workload.phase):
        if phase.log == "every-io":
            continue
        if dilation & (dilation - 1):
            yield (
                ("phase", number, "log"),
                f'log = "histograms" with lab.dilation = {dilation}: fio counts in octaves of its own clock, '
                "which are whole bins of the kit only with a dilation of 1, 2, 4, 8, 16, 32 or 64",
            )
        copies = sum(section.copies for section in jobs[phase.load].sections)
        windows = copies * phase.duration // phase.interval
        if windows > MOST_WINDOWS:
            least_ns = -(-copies * phase.duration // MOST_WINDOWS)
            yield (
                ("phase", number, "interval"),
                f"{copies} jobs of {format_duration_ns(phase.duration)} have {windows} intervals of "
                f"{format_duration_ns(phase.interval)}; fio keeps a histogram of each in the client's memory "
                f"(15 kB), {MOST_WINDOWS} at most: make interval {math.ceil(least_ns / 1e9)}s or longer",
            )


def _load_problems(job: FioJob, workload: Workload, may_be_long: bool) -> Iterator[tuple[Place, str]]:
    """What no load may do, also one that is not measured. `may_be_long`: it has no log of every I/O."""
    size_bytes = workload.working_set.size
    for section in job.sections:
        if "directory" not in section.options:
            yield (
                section.place,
                f"[{section.name}]: directory is missing, so fio would make the file on the client's own "
                f"disk, where it happens to start: add directory={DIRECTORY}",
            )
        for name in ("size", "filesize"):
            value = section.options.get(name, "")
            if (value.endswith("%") and int(value[:-1]) > 100) or _bytes(value) > size_bytes:
                yield (
                    section.place_of(name),
                    f"[{section.name}] {name}={value}: fio would make the working set larger than its "
                    f"{format_size_bytes(size_bytes)}: write {name}=${{HSP_SIZE}}",
                )
        yield from _time_problems(section, may_be_long)
    copies = sum(section.copies for section in job.sections)
    if copies > MOST_JOBS:
        most = max(job.sections, key=lambda section: section.copies)
        yield (
            most.place_of("numjobs"),
            f"[{most.name}] numjobs={most.copies}: {copies} jobs, the kit can run {MOST_JOBS} on a client "
            "(each has a log of its own): use fewer, or more clients",
        )
    elif job.outstanding > MOST_OUTSTANDING or _buffer_bytes(job) > MOST_BUFFER_BYTES:
        most = max(job.sections, key=lambda section: section.outstanding * section.block_bytes)
        yield (
            most.place_of("iodepth"),
            f"[{most.name}]: {job.outstanding} I/Os on the way with buffers of "
            f"{format_size_bytes(_buffer_bytes(job))}; a client can have {MOST_OUTSTANDING}, of "
            f"{format_size_bytes(MOST_BUFFER_BYTES)}: make iodepth, numjobs or bs smaller",
        )


def _buffer_bytes(job: FioJob) -> int:
    return sum(section.outstanding * section.block_bytes for section in job.sections)


def _bytes(value: str) -> int:
    """A size of a checked job; 0 for a variable, a percentage or none."""
    return parse_fio_bytes(value) if value and not value.startswith("$") and not value.endswith("%") else 0


def _time_problems(section: FioSection, may_be_long: bool) -> Iterator[tuple[Place, str]]:
    value = section.options.get("runtime", "")
    if not may_be_long and (match := re.fullmatch("([0-9]+)([a-z]*)", value)):
        if text := _too_long(int(match[1]) * _TIME_NS[match[2]]):
            yield section.place_of("runtime"), f"[{section.name}] runtime: {text}"
    ramp = section.options.get("ramp_time", "0")
    if not re.fullmatch("0+[a-z]*", ramp):
        yield (
            section.place_of("ramp_time"),
            f"[{section.name}] ramp_time={ramp}: the server answers its I/Os, but fio does not log them, so "
            "the counts could not agree: remove it, and warm up with the table [warmup] of the workload",
        )


def _unlike_sections(job: FioJob) -> Iterator[tuple[Place, str]]:
    """All I/Os of a phase are one operation, of one size: counts and tiers are compared by it."""
    advice = "write one job for each, and give each its own phase"
    first = job.sections[0]
    for section in job.sections:
        if len(section.operations) > 1:
            yield (
                section.place_of("rw"),
                f"[{section.name}] rw={section.options['rw']}: reads and writes in one job cannot be "
                f"measured: {advice}",
            )
        elif section.operations != first.operations and len(first.operations) == 1:
            yield (
                section.place_of("rw"),
                f"[{section.name}] {'/'.join(section.operations)}s while [{first.name}] "
                f"{'/'.join(first.operations)}s: reads and writes in one phase cannot be measured: {advice}",
            )
        if section.block_bytes != first.block_bytes:
            yield (
                section.place_of("bs"),
                f"[{section.name}] bs: {section.block_bytes} bytes, [{first.name}] has {first.block_bytes}: "
                f"I/Os of unlike size in one phase cannot be measured: {advice}",
            )


def _block_problems(job: FioJob, workload: Workload, is_appliance: bool) -> Iterator[tuple[Place, str]]:
    """One I/O of fio must be one NFS call, and one record: only then do the counts agree."""
    limits = {}
    if not is_appliance:
        limits["dataset.properties.recordsize"] = record_bytes(workload.dataset.properties)
    if workload.nfs.engine == "kernel":
        given = dict(option.split("=") for option in workload.nfs.options if "=" in option)
        for op, name in _CALL_SIZES:
            if op in job.operations:
                value = given.get(name, "0")
                limits[f"{name} of nfs.options"] = (
                    int(value) if value.strip("0").isdecimal() else _MOST_CALL_BYTES
                )
    else:
        limits["a read of libnfs"] = _MOST_CALL_BYTES
    for section in job.sections:
        for name, most in limits.items():
            if section.block_bytes > most:
                yield (
                    section.place_of("bs"),
                    f"[{section.name}] bs: {section.block_bytes} bytes, but {name} is {most}: one I/O would "
                    "become several, which cannot be compared: make bs smaller, or that larger",
                )
