"""The result of `hsp size` (docs/size.md): what it prints as JSON, and what `hsp sheet` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from kit.store.format import FORMAT, Format
from kit.store.stored import Count, Many, Positive, Printed, Share, Stored, contradiction

# Of a sentence, and of headlines, which have several.
_Text = Annotated[str, Field(max_length=10_000)]
# Bytes as well, of special vdevs of which nearly all stays for metadata.
_Value = Annotated[float, Field(ge=-(1 << 80), le=1 << 80)]
# A drive of "400 GB" has some bytes more or less: the same size.
_SAME_SIZE = 0.01


class EstimatedPart(Stored):
    """A value with its range of 95 %."""

    value: _Value
    low: _Value
    high: _Value

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise contradiction(
                f"value {self.value:g} is not between low {self.low:g} and high {self.high:g}"
            )
        return self


class CacheSize(Stored):
    """What an ARC and an L2ARC of that many bytes answer: parts of all reads.

    `of_disk_reads_now`: part of the reads that disks answer now; None for the sizes of now and where that is
    not known. `header_bytes`: DRAM for headers of blocks that the L2ARC alone has. `unknown`: why there is no
    figure, "" where there is one; then `dram`, `l2arc` and `answered` (by both) are None.
    """

    arc_bytes: Count
    l2arc_bytes: Count
    dram: EstimatedPart | None = None
    l2arc: EstimatedPart | None = None
    answered: EstimatedPart | None = None
    of_disk_reads_now: EstimatedPart | None = None
    header_bytes: Count = 0
    unknown: _Text = ""

    @model_validator(mode="after")
    def _check_unknown(self) -> Self:
        if any((each is None) != bool(self.unknown) for each in (self.dram, self.l2arc, self.answered)):
            raise contradiction("unknown is not the reason of missing shares")
        return self


class SmallBlocks(Stored):
    """Blocks of at most `limit_bytes` as allocated: the room of those that were asked for, and their part.

    `vdev_bytes`: of a special vdev that has so much room for small blocks, and some for metadata.
    """

    limit_bytes: Count
    room_bytes: EstimatedPart
    vdev_bytes: EstimatedPart
    of_disk_reads_now: EstimatedPart


class SpecialSize(Stored):
    """A special vdev of `special_bytes`. `small`: the most that it has room for; None: `unknown` says why."""

    special_bytes: Count
    small: SmallBlocks | None = None
    unknown: _Text = ""


class SizeSample(Stored):
    """`seconds`: that the sample is of; None: it has no times. `blocks_bytes`: of all that were asked for."""

    one_in: Annotated[float, Field(ge=1, le=1 << 53)]
    blocks: Count
    blocks_bytes: Count
    reads_counted: Count
    seconds: Positive | None = None


class DiskReads(Stored):
    """The part of the sampled reads that disks answer now. `measured`: on the server; None: not known."""

    simulated: Share
    measured: Share | None = None


class ReadLatency(Stored):
    """At the NFS server, of the reads there whose tier is known. `disks`: the part that disks answered."""

    mean_us: Positive
    disk_mean_us: Positive
    disks: Share


class SizeResult(Printed):
    """The whole file. `utc`: begin of the run; None: of a list of keys. `read_latency`: None: not known.

    `arc`: with the L2ARC of now, `l2arc`: with the ARC of now, by size. `known`: whether the headline says
    anything.
    """

    format: Format = FORMAT
    name: _Text
    utc: _Text | None = None
    emulated: bool = False
    headline: _Text
    known: bool
    sample: SizeSample
    now: CacheSize
    disk_reads_now: DiskReads
    read_latency: ReadLatency | None = None
    arc: Many[CacheSize] = ()
    l2arc: Many[CacheSize] = ()
    arc_knee_bytes: Count | None = None
    l2arc_knee_bytes: Count | None = None
    small_blocks: Many[SmallBlocks] = ()
    special: Many[SpecialSize] = ()
    notes: Many[_Text] = ()

    @property
    def shows_special(self) -> bool:
        """Whether special vdevs were asked for, or there are blocks of several sizes."""
        return bool(self.special) or len(self.small_blocks) > 1

    def with_l2arc(self, size_bytes: int) -> CacheSize:
        """An L2ARC of so many bytes, with the ARC of now: one of the sizes, or what the next two leave open.

        A larger L2ARC answers as many reads as a smaller one or more (python -m tests.truth sizing).
        """
        every = sorted([self.now, *self.l2arc], key=lambda each: each.l2arc_bytes)
        if near := [each for each in every if abs(each.l2arc_bytes - size_bytes) <= _SAME_SIZE * size_bytes]:
            return min(near, key=lambda each: abs(each.l2arc_bytes - size_bytes))
        smaller = [each for each in self.l2arc if each.l2arc_bytes < size_bytes and not each.unknown]
        larger = [each for each in every if each.l2arc_bytes > size_bytes]
        if smaller and larger and not larger[0].unknown:
            return _between(size_bytes, max(smaller, key=lambda each: each.l2arc_bytes), larger[0])
        beyond = next((each.unknown for each in larger if each.unknown), "")
        why = beyond or "`hsp size` was not asked for it, or sizes around it: add --l2arc"
        return CacheSize(arc_bytes=self.now.arc_bytes, l2arc_bytes=size_bytes, unknown=why)


def _between(size_bytes: int, smaller: CacheSize, larger: CacheSize) -> CacheSize:
    def both(name: str) -> EstimatedPart | None:
        ends: Sequence[EstimatedPart | None] = [getattr(each, name) for each in (smaller, larger)]
        known = [each for each in ends if each]
        if len(known) < 2:
            return None
        low, high = min(each.low for each in known), max(each.high for each in known)
        return EstimatedPart(value=(low + high) / 2, low=low, high=high)

    return CacheSize(
        arc_bytes=larger.arc_bytes, l2arc_bytes=size_bytes, dram=both("dram"), l2arc=both("l2arc"),
        answered=both("answered"), of_disk_reads_now=both("of_disk_reads_now"),
        header_bytes=max(smaller.header_bytes, larger.header_bytes),
    )  # fmt: skip
