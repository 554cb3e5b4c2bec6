"""What a phase used of its machines: CPUs, devices, and the ARC (docs/formats.md).

Times in ns of the experiment. A sample's `at_ns` is since the run began; its sums are since the first sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from kit.store.stored import Count, Many, Nanoseconds, Stored, contradiction

# So begins the name of what is `unavailable` in a phase because it could not be sampled.
NOT_SAMPLED = "resource use of "


# Counters of the kernel are read a little later than the clock, and some in jiffies of up to 10 ms, which a
# machine may count late.
_LATE, _JIFFIES_NS = 1.2, 200_000_000
# The rest is interrupts, and what a hypervisor takes.
_EARLY = 0.6
_CPU_TIMES = ("idle_ns", "user_ns", "system_ns", "softirq_ns")
# No device moves more: 100 GB/s.
_BYTES_PER_NS, _SECTOR_BYTES = 100, 512


def refuse_falling(samples: Sequence[Stored], names: Iterable[str]) -> None:
    """Raises a contradiction if a counter, or the time, goes back from one sample to the next."""
    for name in names:
        values = [value for each in samples if (value := getattr(each, name)) is not None]
        if any(one > other for one, other in pairwise(values)):
            raise contradiction(f"{name} of the samples goes back")


class CpuSample(Stored):
    """Time of all CPUs together. `idle_ns`: with the time in which they waited for I/O."""

    at_ns: Nanoseconds
    idle_ns: Count
    user_ns: Count
    system_ns: Count
    softirq_ns: Count


class CpuUse(Stored):
    """One machine; hosts of one kernel are one machine, called as the first of them.

    `memory_bytes`: MemTotal of /proc/meminfo; None where it could not be read, and in older runs.
    """

    host: str
    cpus: Annotated[Count, Field(ge=1, le=1 << 16)]
    memory_bytes: Count | None = None
    samples: Many[CpuSample]

    @model_validator(mode="after")
    def _counters_grow(self) -> Self:
        refuse_falling(self.samples, ("at_ns", *_CPU_TIMES))
        for one, other in zip(self.samples[:1], self.samples[-1:], strict=True):
            span_ns = (other.at_ns - one.at_ns) * self.cpus
            used = sum(getattr(other, name) - getattr(one, name) for name in _CPU_TIMES)
            spare = _JIFFIES_NS * self.cpus
            if not span_ns * _EARLY - spare <= used <= span_ns * _LATE + spare:
                raise contradiction(f"the times of {self.cpus} CPUs are {used} ns together, of {span_ns}")
        return self


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

    @model_validator(mode="after")
    def _counters_grow(self) -> Self:
        names = [name for name in DeviceSample.model_fields if name != "in_flight"]
        refuse_falling(self.samples, names)
        for one, other in zip(self.samples[:1], self.samples[-1:], strict=True):
            most = (other.at_ns - one.at_ns) * _LATE + _JIFFIES_NS
            if (busy := other.busy_ns - one.busy_ns) > most:
                raise contradiction(f"busy_ns grows by {busy}, in {most:.0f} ns at most")
            for ios, name in (("reads", "read_bytes"), ("writes", "written_bytes")):
                count, moved = getattr(other, ios), getattr(other, name)
                if moved % _SECTOR_BYTES or moved > most * _BYTES_PER_NS or moved < count * _SECTOR_BYTES:
                    raise contradiction(f"{name} is {moved} of {count} {ios}")
        return self


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
