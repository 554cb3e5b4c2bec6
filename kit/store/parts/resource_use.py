"""What a phase used of its machines: CPUs, devices, and the ARC (docs/formats/results.md).

Times in ns of the experiment. A sample's `at_ns` is since the run began; its sums are since the first sample.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.store.stored import Count, Many, Nanoseconds, Stored


class CpuSample(Stored):
    """Time of all CPUs together. `idle_ns`: with the time in which they waited for I/O.

    `busiest_ns`: of the busiest CPU from each sample to the next, which may be another one. None:
    not counted.
    """

    at_ns: Nanoseconds
    idle_ns: Count
    user_ns: Count
    system_ns: Count
    softirq_ns: Count
    busiest_ns: Count | None = None


class CpuUse(Stored):
    """One machine; hosts of one kernel are one machine, called as the first of them.

    `memory_bytes`: MemTotal of /proc/meminfo; None where it could not be read.
    """

    host: str
    cpus: Annotated[Count, Field(ge=1, le=1 << 16)]
    memory_bytes: Count | None = None
    samples: Many[CpuSample]


class DeviceSample(Stored):
    """A whole disk, as /sys/block/X/stat has it. `busy_ns`: in which an I/O was on its way, to a jiffy.

    `queue_ns`: the same of all I/Os together. Flushes are None before Linux 5.5.
    """

    at_ns: Nanoseconds
    reads: Count
    read_bytes: Count
    read_ns: Count
    writes: Count
    written_bytes: Count
    write_ns: Count
    in_flight: Count
    busy_ns: Count
    queue_ns: Count
    discards: Count | None = None
    flushes: Count | None = None
    flush_ns: Count | None = None


class ModelUse(Stored):
    """What the model of an emulated device counted from the first sample to the last.

    `pages_programmed`: of flash, with those that garbage collection copied.
    """

    read_bytes: Count
    written_bytes: Count
    flushes: Count
    pages_read: Count
    pages_programmed: Count
    pages_copied: Count
    blocks_erased: Count


class DeviceUse(Stored):
    """A device of the testbed, by its name there."""

    device: str
    samples: Many[DeviceSample]
    model: ModelUse | None = None


class SpecialUse(Stored):
    """The special vdevs of the pool: their space at the end of the phase.

    `device_reads`: that special and dedup devices got meanwhile, by the kernel's counters.
    """

    size_bytes: Count
    allocated_bytes: Count
    device_reads: Count


class SpecialRow(Stored):
    """Of a phase, for its readers: `metadata_reads` as of kit.store.phase.Phase.

    `small_blocks_part`: of the space of special vdevs, what small blocks may have. `in_place`: synchronous
    writes may go into their place on a special vdev at once.
    """

    phase: str
    small_blocks_part: Annotated[float, Field(ge=0, le=1)] = 0.75
    in_place: bool = False
    special: SpecialUse | None
    metadata_reads: dict[str, Count]


class ArcUse(Stored):
    """arcstats and ZIL counters: sizes at the end of the phase, and what changed in `span_ns`.

    Records of the ZIL: `log_bytes` to log devices, in blocks of `log_block_bytes` together, and
    `pool_log_bytes` to the pool. None: this OpenZFS does not say.
    """

    span_ns: Count
    size_bytes: Count | None = None
    data_bytes: Count | None = None
    metadata_bytes: Count | None = None
    header_bytes: Count | None = None
    l2arc_header_bytes: Count | None = None
    l2arc_bytes: Count | None = None
    l2arc_written_bytes: Count | None = None
    l2arc_read_bytes: Count | None = None
    log_bytes: Count | None = None
    log_block_bytes: Count | None = None
    pool_log_bytes: Count | None = None
