"""What `hsp size` says: a headline, a row for each size, and what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.units import commas, format_binary_bytes, format_iec, format_percent
from kit.store.printed.sizing import (
    CacheSize,
    DiskReads,
    EstimatedPart,
    SizeResult,
    SizeSample,
    SmallBlocks,
    SpecialSize,
)
from reports.size.curve import Sizing

Rows = Sequence[tuple[str, ...]]
HEAD = ("Size", "DRAM", "L2ARC", "Both (range)", "Of disk reads now", "DRAM for headers")
SPECIAL_HEAD = ("special_small_blocks", "Of disk reads now", "Room, at least", "Special vdev, at least")
_UNKNOWN = "not known"
_OF_DISK_READS = " of the reads that disks answer now"
_MOST_SAID = 3
# Per cent: a range that begins below that may be a loss.
_NEARLY_NOTHING = 2
# More than that and the simulation does not know this server.
MOST_OFF = 0.1


def headline(sizing: Sizing) -> str:
    """What the caches worth a look would answer of the reads that disks answer now."""
    if sizing.off is not None and sizing.off > MOST_OFF:
        return (
            f"Not known: with the caches of now, disks answer {format_percent(sizing.simulated_below)} of "
            "the sampled reads in the simulation, and "
            f"{format_percent(sizing.measured_below or 0)} on the server."
        )
    clauses = [
        _clause(name_of(sizing, each), each.of_disk_reads_now)
        for each in _said_of(sizing)
        if each.of_disk_reads_now
    ]
    said = [special_sentence(each) for each in sizing.specials if each.small]
    if clauses:
        first = "; ".join([clauses[0], *(each.removesuffix(_OF_DISK_READS) for each in clauses[1:])])
        said.insert(0, f"{first[0].upper()}{first[1:]}.")
    if said:
        return " ".join(said)
    if reasons := _reasons(sizing):
        return f"Not known: {reasons[0]}."
    if not sizing.simulated_below:
        return "Disks answer no reads of this sample now: the caches that are there have all."
    return "The caches that were asked for are those of now."


def is_known(sizing: Sizing) -> bool:
    """Whether the headline has a figure, or the caches of now are known to be enough."""
    is_off = sizing.off is not None and sizing.off > MOST_OFF
    is_said = bool(_said_of(sizing)) or any(each.small for each in sizing.specials)
    return not is_off and (is_said or not _reasons(sizing))


def _said_of(sizing: Sizing) -> list[CacheSize]:
    if sizing.asked:
        return [each for each in (*sizing.l2arcs, *sizing.arcs) if each.of_disk_reads_now][:_MOST_SAID]
    return [each for each in (_of_l2arc(sizing), _of_arc(sizing)) if each]


def _reasons(sizing: Sizing) -> list[str]:
    of_caches = [each.unknown for each in (sizing.now, *sizing.sizes)]
    return list(filter(None, [*of_caches, *(each.unknown for each in sizing.specials)]))


def _clause(name: str, gain: EstimatedPart) -> str:
    if gain.high <= 0:
        more = words(gain).removesuffix(" more from disks")
        if more == "0 %":
            return f"with {name} disks would answer as many reads as now"
        return f"with {name} disks would answer {more} more reads than now"
    return f"{name} would answer {words(gain)}{_OF_DISK_READS}"


def name_of(sizing: Sizing, size: CacheSize) -> str:
    """Such as "an L2ARC of 400 GB"."""
    if size.arc_bytes == sizing.server.arc and size.l2arc_bytes != sizing.server.l2arc:
        return f"an L2ARC of {format_binary_bytes(size.l2arc_bytes)}" if size.l2arc_bytes else "no L2ARC"
    return f"an ARC of {format_binary_bytes(size.arc_bytes)}"


def words(found: EstimatedPart | None) -> str:
    """Such as "31 to 36 %"."""
    if found is None:
        return _UNKNOWN
    low, high = (round(100 * each) for each in (found.low, found.high))
    if found.high <= 0:
        return f"{-high} to {-low} % more from disks" if low < high else f"{-low} % more from disks"
    if low < -_NEARLY_NOTHING:
        return f"{low} to {high} % (not known whether any)"
    if low <= 0:
        return f"at most {high} %"
    return f"{low} to {high} %" if low < high else f"{high} %"


def row(result: SizeResult, size: CacheSize, own: int) -> tuple[str, ...]:
    """The cells below HEAD. `own`: bytes of the cache that the row is about."""
    at = (size.arc_bytes, size.l2arc_bytes)
    now = ", now" if at == (result.now.arc_bytes, result.now.l2arc_bytes) else ""
    name = f"{format_binary_bytes(own) if own else 'none'}{now}"
    if size.answered is None:
        return (name, "", "", f"{_UNKNOWN}: {size.unknown}", "", "")
    gain = "" if now else words(size.of_disk_reads_now)
    headers = format_binary_bytes(round(size.header_bytes, -3)) if size.header_bytes >= 1000 else "-"
    return name, _share(size.dram), _share(size.l2arc), _range(size.answered), gain, headers


def tables(result: SizeResult) -> Iterator[tuple[Sequence[str], Sequence[tuple[str, Rows]]]]:
    """Heads of tables; below each, titles and their rows."""
    l2arc = result.now.l2arc_bytes
    beside = f"with the L2ARC of now, {format_binary_bytes(l2arc)}" if l2arc else "without an L2ARC, as now"
    of_now = f"L2ARC, with the ARC of now, {format_binary_bytes(result.now.arc_bytes)}"
    found = (
        (f"ARC, {beside}", [row(result, each, each.arc_bytes) for each in result.arc]),
        (of_now, [row(result, each, each.l2arc_bytes) for each in result.l2arc]),
    )
    if caches := [each for each in found if each[1]]:
        yield HEAD, caches
    if rows := [_small_row(each) for each in result.small_blocks if result.shows_special]:
        yield SPECIAL_HEAD, [("Special vdev, with the caches of now", rows)]


def _small_row(small: SmallBlocks) -> tuple[str, ...]:
    limit = format_binary_bytes(small.limit_bytes)
    part = words(small.of_disk_reads_now) if small.of_disk_reads_now.high else format_percent(0)
    return limit, part, _bytes(small.room_bytes), _bytes(small.vdev_bytes)


def _bytes(found: EstimatedPart) -> str:
    low, high = map(format_iec, (found.low, found.high))
    return f"{low} to {high}" if low != high else high


def special_sentence(size: SpecialSize) -> str:
    """What a special vdev of that size would answer, and on what condition."""
    name = f"special vdev of {format_binary_bytes(size.special_bytes)}"
    if size.small is None:
        return f"What a {name} would answer is not known: {size.unknown}."
    return (
        f"A {name} would answer {words(size.small.of_disk_reads_now)}{_OF_DISK_READS} with "
        f"special_small_blocks = {format_binary_bytes(size.small.limit_bytes)}, if all blocks up to that "
        f"size fit: those that were asked for need one of {_bytes(size.small.vdev_bytes)}."
    )


def notes(sizing: Sizing, shows_special: bool) -> Iterator[str]:
    """What the figures are of, as sentences."""
    trace = sizing.trace
    one_in = f"one in {trace.one_in:.0f} blocks" if trace.one_in > 1 else "all blocks"
    yield (
        f"Counted are {commas(int(trace.counts.sum()))} reads, block by block, of {one_in} (blocks of "
        f"{format_binary_bytes(trace.seen_bytes)} in all), in the second half of the sample. The first half "
        "filled the caches of the simulation."
    )
    ends = (("ARC", sizing.arc_knee, "arc_bytes"), ("L2ARC", sizing.l2arc_knee, "l2arc_bytes"))
    for name, at, key in ends:
        if at:
            begin = format_binary_bytes(getattr(at, key))
            yield f"From {begin} on each further GiB of {name} gains less: the curve bends."
    if sizing.off is not None:
        yield (
            f"With the caches of now disks answer {format_percent(sizing.simulated_below, 1)} of the "
            "sampled reads in the simulation, and "
            f"{format_percent(sizing.measured_below or 0, 1)} on the server: all ranges are wider by the "
            "difference."
        )
    yield from (special_sentence(each) for each in sizing.specials if each.small is None)
    if shows_special:
        yield (
            "Special vdevs: room is that of blocks that were asked for, and a vdev of which "
            "zfs_special_class_metadata_reserve_pct stay for metadata. Other small blocks of the pool, and "
            "all its metadata, need room as well; what a special vdev has of reads of metadata is not in the "
            "sample. Only what is written after special_small_blocks is set goes there."
        )
    if sizing.in_turn:
        yield (
            "Blocks are asked for in turn, as by a scan: what an ARC keeps of them depends on what it had "
            "before. So ranges reach to what the blocks that are read most would answer."
        )
    yield (
        "Ranges of 95 % have what other blocks and other times would change; not another load. Prefetch is "
        "not simulated."
    )


def result_of(sizing: Sizing, more: Sequence[str], **about: Any) -> SizeResult:
    """All that is said and stored. `more`: further notes; `about`: further keys of the result."""
    trace = sizing.trace
    made = SizeResult(
        headline=headline(sizing), known=is_known(sizing), now=sizing.now, arc=sizing.arcs,
        sample=SizeSample(
            one_in=trace.one_in, blocks=int(trace.bytes_of.size), blocks_bytes=trace.seen_bytes,
            reads_counted=int(trace.counts.sum()), seconds=trace.span_ns / 1e9 if trace.span_ns else None,
        ),
        disk_reads_now=DiskReads(simulated=sizing.simulated_below, measured=sizing.measured_below),
        l2arc=sizing.l2arcs, arc_knee_bytes=sizing.arc_knee.arc_bytes if sizing.arc_knee else None,
        l2arc_knee_bytes=sizing.l2arc_knee.l2arc_bytes if sizing.l2arc_knee else None,
        small_blocks=sizing.small, special=sizing.specials, **about,
    )  # fmt: skip
    return made.model_copy(update={"notes": (*notes(sizing, made.shows_special), *more)})


def _of_l2arc(sizing: Sizing) -> CacheSize | None:
    """The L2ARC of the headline: where its curve bends, else the largest that is known."""
    larger = [each for each in sizing.l2arcs if each.l2arc_bytes > sizing.server.l2arc]
    return _chosen(larger, sizing.l2arc_knee)


def _of_arc(sizing: Sizing) -> CacheSize | None:
    """The ARC of the headline: where its curve bends, else the next larger one."""
    larger = [each for each in sizing.arcs if each.arc_bytes > sizing.server.arc]
    return _chosen(larger[:1] or list(sizing.arcs), sizing.arc_knee if sizing.arc_knee in larger else None)


def _chosen(sizes: Sequence[CacheSize], bend: CacheSize | None) -> CacheSize | None:
    if bend is not None and bend.of_disk_reads_now is not None and bend in sizes:
        return bend
    return next((each for each in reversed(sizes) if each.of_disk_reads_now), None)


def _share(found: EstimatedPart | None) -> str:
    return format_percent(found.value, 1) if found else _UNKNOWN


def _range(found: EstimatedPart) -> str:
    low, high = (f"{100 * each:.1f}" for each in (found.low, found.high))
    return f"{format_percent(found.value, 1)} ({low} to {high})"
