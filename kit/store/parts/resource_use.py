"""What a phase used of its machines: CPUs, devices, and the ARC (docs/formats/results.md).

Times in ns of the experiment. A sample's `at_ns` is since the run began; its sums are since the first sample.
"""

from __future__ import annotations

from typing import Annotated, Literal

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


class PoolSpace(Stored):
    """How full the data vdevs of a pool are. `fragmentation_percent`: of free space; None: not known."""

    size_bytes: Count
    allocated_bytes: Count
    fragmentation_percent: Count | None


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


class CacheSample(Stored):
    """arcstats while caches get warm. The first sizes are of the moment, the others since the first sample.

    `l2arc_bytes`: allocated on cache devices; `l2arc_data_bytes`: what is in it, before compression;
    `header_bytes`: of the ARC, for what the L2ARC alone has. Of what left the ARC, `evicted_cached_bytes`
    were in the L2ARC, and `evicted_eligible_bytes` were not and could have been. `rebuilds`: of an L2ARC
    after an import (l2_rebuild_success), with `rebuilt_bytes` so far; `rebuild_failures`: without a header
    that it could use.
    """

    at_ns: Nanoseconds
    arc_bytes: Count
    l2arc_bytes: Count
    l2arc_data_bytes: Count
    header_bytes: Count
    fed_bytes: Count
    evicted_cached_bytes: Count
    evicted_eligible_bytes: Count
    rebuilds: Count
    rebuilt_bytes: Count
    rebuild_failures: Count


class Restarted(Stored):
    """A restart of the server before a phase, in ns of the experiment since the run began.

    `begin_ns`: when its command, or that which cuts the power, was run; `up_ns`: the server answered, with
    its disks and its NFS server; `import_ns`: the import of the pool began. `rebuilt_ns`: from then until
    each cache device had been read, None if not all were when the phase ended; `rebuilt_bytes`: of records
    (before compression) that the L2ARC had again; `failures`: devices without a header that it could use.
    """

    kind: Literal["reboot", "power-cut"]
    begin_ns: Nanoseconds
    up_ns: Nanoseconds
    import_ns: Nanoseconds
    rebuilt_ns: Count | None = None
    rebuilt_bytes: Count = 0
    failures: Count = 0


class CachePoint(Stored):
    """A window of a phase: the reads that ended in it, from `at_s` of the phase on.

    `shares`, `p50_us`: by tier. `l2arc_bytes`, `arc_bytes`: at its end.
    """

    at_s: float
    ios: Count
    shares: dict[str, float]
    p50_us: dict[str, float]
    l2arc_bytes: Count
    arc_bytes: Count


class CacheReached(Stored):
    """When the L2ARC first answered `part` of its final share, in s of the phase, and the 95 % range of that.

    `high_s`: None where it may be later than the end of the phase.
    """

    part: float
    at_s: float
    low_s: float
    high_s: float | None


class CacheImport(Stored):
    """An export and import of the pool: from `begin_s` to `end_s` of the phase no request was answered.

    Or a restart of the server (`kind`), before the phase: `begin_s` is negative, and before it are the reads
    of the phase before. `import_s`: when its import began; None with the others, where that is `begin_s`.

    `share_before`, `share_after`: the L2ARC's of the reads in the `window_s` before and after, and
    `cached_before`, `cached_after` those of ARC and L2ARC; None of too few reads. `reads_before`,
    `reads_after`: all of them there; None in what was stored before they were. `rebuilt_s`: since
    `begin_s` or `import_s`, when a sample showed that each cache device had been read, None if not all were;
    `rebuilt_bytes`: what was rebuilt until the phase ended.
    """

    kind: Literal["export-import", "reboot", "power-cut"] = "export-import"
    import_s: float | None = None
    begin_s: float
    end_s: float
    window_s: float
    share_before: float | None
    share_after: float | None
    cached_before: float | None
    cached_after: float | None
    reads_before: Count | None = None
    reads_after: Count | None = None
    rebuilt_s: float | None
    rebuilt_bytes: Count
    failures: Count


class CacheLife(Stored):
    """How the caches of a phase got warm. Bytes a second are of the experiment's time.

    `final_share`: of the reads in its last fifth, what the L2ARC answered; `settled`: it did not rise any
    more, None of too few windows. `captured`: of the bytes that left the ARC and may be in the L2ARC, the
    part that was in it.
    `fed_bytes_per_s`: on average until the L2ARC held nine tenths of what it held at most.
    `feed_max_bytes_per_s`: at its quickest, by the module's parameters, None where they are not known.
    `capacity_bytes`: of the cache devices as a whole.
    """

    phase: str
    cold: bool
    window_s: float
    points: Many[CachePoint]
    final_share: float
    settled: bool | None
    reached: Many[CacheReached]
    captured: float | None
    fed_bytes_per_s: float | None
    feed_max_bytes_per_s: float | None
    capacity_bytes: Count | None
    imports: Many[CacheImport]


class ArcUse(Stored):
    """arcstats and ZIL counters: sizes at the end of the phase, and what changed in `span_ns`.

    `limit_bytes`: as large as the ARC may become (c_max).

    Records of the ZIL: `log_bytes` to log devices, in blocks of `log_block_bytes` together, and
    `pool_log_bytes` to the pool. None: this OpenZFS does not say.
    """

    span_ns: Count
    size_bytes: Count | None = None
    limit_bytes: Count | None = None
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
