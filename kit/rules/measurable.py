"""What the kit can measure: jobs, phases and properties that it cannot are refused, with file and line.

Such a run would touch the hosts, take its time, and could only end *unknown*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from kit.config.fio_job import FioJob
from kit.config.tables.age_table import filled_to
from kit.config.tables.capacity_table import ReplayJob
from kit.config.tables.nfs_options import MOST_CALL_BYTES, call_bytes, value_of
from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.toml import Place, placed_refusal
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.units import format_duration_ns, format_size_bytes
from kit.load.fio import LONGEST_EVERY_IO_NS, MOST_INTERVALS
from kit.rules import fio_options, operations
from kit.sizes.workload_sizes import pool_bytes
from kit.zfs import parameters, properties, tunables
from kit.zfs.datasets import record_bytes

# Each job is a process or thread of the client, and has a log that is fetched by a command of its own.
MOST_JOBS = 1024
# Requests that the Linux client has on the way at most (sunrpc.tcp_max_slot_table_entries).
MOST_OUTSTANDING = 65536
# fio has a buffer for each I/O on the way.
MOST_BUFFER_BYTES = 1 << 30
_CALL_SIZES: tuple[tuple[str, Literal["rsize", "wsize"]], ...] = (("read", "rsize"), ("write", "wsize"))


def check(workload: Workload, source: WorkloadSource, testbed: Testbed, jobs: Mapping[str, FioJob]) -> None:
    """`jobs` by Phase.load. Raises ConfigError with file and line."""
    keys = [*_workload_problems(workload, testbed, jobs), *log_problems(workload, testbed.clock)]
    if keys:
        raise placed_refusal(source.placed(keys))
    measured = {phase.load for phase in workload.phase}
    over_nfs = {phase.load for phase in workload.phase if phase.over_nfs}
    problems: list[tuple[Place, str]] = []
    for name, job in sorted(jobs.items()):
        problems += fio_options.file_problems(job)
        problems += fio_options.problems(job, workload.file_set.size, "working_set.size")
        problems += size_problems(job)
        if name in measured:
            if workload.nfs.engine == "kernel" and name in over_nfs:
                problems += fio_options.cache_problems(job)
            if name not in over_nfs:
                problems += fio_options.dataset_problems(job)
            problems += operations.problems(job, workload, testbed.is_appliance, over_nfs=name in over_nfs)
            problems += _block_problems(job, workload, testbed.is_appliance, over_nfs=name in over_nfs)
    if problems:
        # A file, or an option of the workload, may be that of several loads.
        raise placed_refusal(list(dict.fromkeys(problems)))


def check_mount(workload: Workload, jobs: Mapping[str, FioJob], client: str, options: str) -> None:
    """What only the mount shows: rsize and wsize in effect (`options`, of /proc/mounts). Raises HostError."""
    for phase in (each for each in workload.phase if each.over_nfs):
        job = jobs[phase.load]
        for op, name in _CALL_SIZES:
            most = value_of(name, options) or ""
            of_ops = job.capture.largest if isinstance(job, ReplayJob) else job.block_bytes_by_op
            size_bytes = of_ops.get(op, 0)
            if most.isdecimal() and size_bytes > int(most):
                raise HostError(
                    f"{client}: {name}={most} is in effect, but the {op}s of {phase.load_text} have "
                    f"{size_bytes} bytes: one would become several calls, which cannot be compared",
                    f"make bs smaller: the server or the client does not take a larger {name}",
                )


def _replay_problems(number: int, job: FioJob, workload: Workload) -> KeyProblems:
    """Captured I/Os that would become several calls, and buffers that no client can have."""
    assert isinstance(job, ReplayJob)
    for name, (op, limit) in _call_limits(workload):
        if (largest := job.capture.largest.get(op, 0)) > limit:
            text = f"it has {op}s of {largest} bytes, but {name} is {limit}: one would become several calls"
            yield ("phase", number, "replay", "capture"), f"{text}: make that larger"
    buffers = job.replay.threads * max(job.capture.largest.values())
    if buffers > MOST_BUFFER_BYTES:
        text = f"{job.replay.threads} buffers of {format_size_bytes(buffers)} together"
        most = format_size_bytes(MOST_BUFFER_BYTES)
        yield ("phase", number, "replay", "threads"), f"{text}, a client can have {most}: use fewer threads"


def _workload_problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> KeyProblems:
    for number, phase in enumerate(workload.phase):
        if phase.replay:
            yield from _replay_problems(number, jobs[phase.load], workload)
        if (phase.keys or phase.metadata) and (testbed.is_appliance or testbed.server.trace == "none"):
            why = "has no login for the tracer" if testbed.is_appliance else 'has trace = "none"'
            key, what = ("keys", "samples blocks") if phase.keys else ("metadata", "counts all operations")
            yield ("phase", number, key), f"the tracer {what}, and the testbed {why}: remove {key}"
    yield from properties.problems("dataset", workload.dataset.properties)
    yield from properties.problems("pool", workload.pool.properties)
    yield from _age_problems(workload, testbed)
    memory = parameters.guest_memory(testbed.lab.memory) if testbed.is_lab else None
    yield from tunables.problems(workload.tunables, testbed.clock, memory)
    working_set = workload.file_set
    if working_set.fill_block > working_set.size:
        yield (
            ("working_set", "fill_block" if "fill_block" in working_set.model_fields_set else "size"),
            f"a block of the fill, {format_size_bytes(working_set.fill_block)} (fill_block), is more than "
            f"the working set, {format_size_bytes(working_set.size)}: make it smaller, or the set larger",
        )


def _age_problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    age = workload.pool.age
    if age is None or testbed.is_appliance or workload.on_devices:
        return
    size = pool_bytes(workload, testbed)
    if age.capacity > (most := filled_to(size)):
        text = f"of a pool of {format_size_bytes(size)} ZFS lets {most} % be used: make it smaller"
        yield ("pool", "age", "capacity"), text
    elif age.block_bytes(size) is None:
        text = f"with {age.capacity} % used, free space of this pool gets to {age.most_fragmented(size)} %"
        yield ("pool", "age", "fragmentation"), f"{text}: make it, or the capacity, smaller"


def log_problems(workload: Workload, clock: Clock) -> KeyProblems:
    """What clients cannot record of a phase."""
    for number, phase in enumerate(workload.phase):
        if phase.in_order and phase.longest > LONGEST_EVERY_IO_NS:
            yield (
                ("phase", number, _length_key(phase)),
                f"{format_duration_ns(phase.longest)} is longer than "
                f"{format_duration_ns(LONGEST_EVERY_IO_NS)}, above which latencies are counted and have no "
                "order: write a shorter one, or remove in_order",
            )
        elif phase.log == "histograms":
            yield from _histogram_problems(number, phase, clock)
        elif phase.longest > LONGEST_EVERY_IO_NS:
            yield (
                ("phase", number, _length_key(phase)),
                f"{format_duration_ns(phase.longest)} is longer than "
                f"{format_duration_ns(LONGEST_EVERY_IO_NS)}, the longest phase with a log of every I/O (fio "
                'keeps it in memory): remove log = "every-io" from this phase, or measure several '
                "shorter ones",
            )


def _length_key(phase: Phase) -> str:
    """The key that says how long it may be."""
    return "duration" if phase.duration >= phase.longest else "duration_max"


def _histogram_problems(number: int, phase: Phase, clock: Clock) -> KeyProblems:
    dilation = clock.dilation
    if dilation & (dilation - 1):
        near = 1 << dilation.bit_length() - 1
        yield (
            ("phase", number, "log"),
            f'"histograms" where the lab\'s dilation is {dilation}: fio counts in octaves of its own clock, '
            "which are bins of the kit only with a dilation that is a power of two: write log = "
            f'"every-io" (15 minutes at most), or lab.dilation = {near} in the testbed',
        )
    if phase.duration > MOST_INTERVALS * phase.interval:
        least_s = math.ceil(-(-phase.duration // MOST_INTERVALS) / 1e9)
        yield (
            ("phase", number, "interval"),
            f"{format_duration_ns(phase.duration)} are {phase.duration // phase.interval} intervals of "
            f"{format_duration_ns(phase.interval)}, more than {MOST_INTERVALS}: write "
            f'interval = "{least_s}s"',
        )


def size_problems(job: FioJob) -> Iterator[tuple[Place, str]]:
    """More jobs, I/Os on the way or buffers than a client can have."""
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


def _block_problems(
    job: FioJob, workload: Workload, is_appliance: bool, *, over_nfs: bool
) -> Iterator[tuple[Place, str]]:
    """One I/O of fio must be one NFS call, and one record: only then do the counts agree."""
    limits = {"working_set.size": workload.file_set.size}
    if not is_appliance:
        limits["dataset.properties.recordsize"] = record_bytes(workload.dataset.properties)
    of_calls = dict(_call_limits(workload)) if over_nfs else {}
    for section in job.sections:
        calls = {name: most for name, (op, most) in of_calls.items() if op in section.operations}
        for name, most in {**limits, **calls}.items():
            if section.block_bytes > most:
                yield (
                    section.place_of("bs"),
                    f"[{section.name}] bs: {section.block_bytes} bytes, but {name} is {most}: one I/O would "
                    "become several, which cannot be compared: make bs smaller, or that larger",
                )


def _call_limits(workload: Workload) -> Iterator[tuple[str, tuple[str, int]]]:
    """The most bytes of an NFS call: what sets it, the operation, the bytes."""
    for op, name in _CALL_SIZES:
        if workload.nfs.engine == "libnfs":
            yield f"a {op} of libnfs", (op, MOST_CALL_BYTES)
        else:
            yield f"{name} of nfs.options", (op, call_bytes(name, workload.nfs.options))
