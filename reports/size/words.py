"""What `hsp size` says: a headline, a row for each size, and what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.units import commas, format_binary_bytes, format_percent
from reports.size.curve import EstimatedPart, Size, Sizing

HEAD = ("Size", "DRAM", "L2ARC", "Both (range)", "Of disk reads now", "DRAM for headers")
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
    chosen = _said_of(sizing)
    if chosen:
        first, *others = [_clause(name_of(sizing, each), each.gain) for each in chosen if each.gain]
        said = "; ".join([first, *(each.removesuffix(_OF_DISK_READS) for each in others)]) + "."
        return said[0].upper() + said[1:]
    if reasons := _reasons(sizing):
        return f"Not known: {reasons[0]}."
    if not sizing.simulated_below:
        return "Disks answer no reads of this sample now: the caches that are there have all."
    return "The caches that were asked for are those of now."


def is_known(sizing: Sizing) -> bool:
    """Whether the headline has a figure, or the caches of now are known to be enough."""
    is_off = sizing.off is not None and sizing.off > MOST_OFF
    return not is_off and (bool(_said_of(sizing)) or not _reasons(sizing))


def _said_of(sizing: Sizing) -> list[Size]:
    if sizing.asked:
        return [each for each in (*sizing.l2arcs, *sizing.arcs) if each.gain][:_MOST_SAID]
    return [each for each in (_of_l2arc(sizing), _of_arc(sizing)) if each]


def _reasons(sizing: Sizing) -> list[str]:
    return [each.unknown for each in (sizing.now, *sizing.sizes) if each.unknown]


def _clause(name: str, gain: EstimatedPart) -> str:
    if gain.high <= 0:
        more = words(gain).removesuffix(" more from disks")
        if more == "0 %":
            return f"with {name} disks would answer as many reads as now"
        return f"with {name} disks would answer {more} more reads than now"
    return f"{name} would answer {words(gain)}{_OF_DISK_READS}"


def name_of(sizing: Sizing, size: Size) -> str:
    """Such as "an L2ARC of 400 GB"."""
    if size.arc == sizing.server.arc and size.l2arc != sizing.server.l2arc:
        return f"an L2ARC of {format_binary_bytes(size.l2arc)}" if size.l2arc else "no L2ARC"
    return f"an ARC of {format_binary_bytes(size.arc)}"


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


def row(sizing: Sizing, size: Size, own: int) -> tuple[str, ...]:
    """The cells below HEAD. `own`: bytes of the cache that the row is about."""
    now = ", now" if (size.arc, size.l2arc) == (sizing.server.arc, sizing.server.l2arc) else ""
    name = f"{format_binary_bytes(own) if own else 'none'}{now}"
    if size.answered is None:
        return (name, "", "", f"{_UNKNOWN}: {size.unknown}", "", "")
    gain = "" if now else words(size.gain)
    headers = format_binary_bytes(round(size.headers, -3)) if size.headers >= 1000 else "-"
    return name, _share(size.dram), _share(size.l2), _range(size.answered), gain, headers


def groups(sizing: Sizing) -> Iterator[tuple[str, Sequence[tuple[str, ...]]]]:
    """Titles of tables, and their rows."""
    l2arc = sizing.server.l2arc
    beside = f"with the L2ARC of now, {format_binary_bytes(l2arc)}" if l2arc else "without an L2ARC, as now"
    if sizing.arcs:
        yield f"ARC, {beside}", [row(sizing, each, each.arc) for each in sizing.arcs]
    if sizing.l2arcs:
        title = f"L2ARC, with the ARC of now, {format_binary_bytes(sizing.server.arc)}"
        yield title, [row(sizing, each, each.l2arc) for each in sizing.l2arcs]


def notes(sizing: Sizing) -> Iterator[str]:
    """What the figures are of, as sentences."""
    trace = sizing.trace
    one_in = f"one in {trace.one_in:.0f} blocks" if trace.one_in > 1 else "all blocks"
    yield (
        f"Counted are {commas(int(trace.counts.sum()))} reads, block by block, of {one_in} (blocks of "
        f"{format_binary_bytes(trace.seen_bytes)} in all), in the second half of the sample. The first half "
        "filled the caches of the simulation."
    )
    for name, at in (("ARC", sizing.arc_knee), ("L2ARC", sizing.l2arc_knee)):
        if at:
            size = at.arc if name == "ARC" else at.l2arc
            begin = format_binary_bytes(size)
            yield f"From {begin} on each further GiB of {name} gains less: the curve bends."
    if sizing.off is not None:
        yield (
            f"With the caches of now disks answer {format_percent(sizing.simulated_below, 1)} of the "
            "sampled reads in the simulation, and "
            f"{format_percent(sizing.measured_below or 0, 1)} on the server: all ranges are wider by the "
            "difference."
        )
    for each in sizing.small[-_MOST_SAID:]:
        yield (
            f"Special vdevs: blocks up to {format_binary_bytes(each.limit)} are "
            f"{words(each.of_disk_reads)} of the reads that disks answer now; those that were asked for need "
            f"{format_binary_bytes(each.seen)}. Only what is written after special_small_blocks is "
            "set goes there."
        )
    yield (
        "Ranges of 95 % have what other blocks and other times would change; not another load. Prefetch is "
        "not simulated."
    )


def as_json(sizing: Sizing, name: str, more: Sequence[str]) -> dict[str, Any]:
    """What --json prints; shares are parts of 1."""
    trace = sizing.trace
    return {
        "format": 1,
        "name": name,
        "headline": headline(sizing),
        "known": is_known(sizing),
        "sample": {
            "one_in": trace.one_in, "blocks": int(trace.bytes_of.size), "blocks_bytes": trace.seen_bytes,
            "reads_counted": int(trace.counts.sum()),
        },
        "now": _size_json(sizing.now),
        "disk_reads_now": {"simulated": sizing.simulated_below, "measured": sizing.measured_below},
        "arc": [_size_json(each) for each in sizing.arcs],
        "l2arc": [_size_json(each) for each in sizing.l2arcs],
        "arc_knee_bytes": sizing.arc_knee.arc if sizing.arc_knee else None,
        "l2arc_knee_bytes": sizing.l2arc_knee.l2arc if sizing.l2arc_knee else None,
        "small_blocks": [
            {
                "limit_bytes": each.limit, "seen_bytes": each.seen,
                "of_disk_reads_now": _part_json(each.of_disk_reads),
            }
            for each in sizing.small
        ],
        "notes": [*notes(sizing), *more],
    }  # fmt: skip


def _size_json(size: Size) -> dict[str, Any]:
    return {
        "arc_bytes": size.arc, "l2arc_bytes": size.l2arc, "dram": _part_json(size.dram),
        "l2arc": _part_json(size.l2), "answered": _part_json(size.answered),
        "of_disk_reads_now": _part_json(size.gain), "header_bytes": round(size.headers),
        "unknown": size.unknown,
    }  # fmt: skip


def _part_json(found: EstimatedPart | None) -> dict[str, float] | None:
    return {"value": found.value, "low": found.low, "high": found.high} if found else None


def _of_l2arc(sizing: Sizing) -> Size | None:
    """The L2ARC of the headline: where its curve bends, else the largest that is known."""
    return _chosen([each for each in sizing.l2arcs if each.l2arc > sizing.server.l2arc], sizing.l2arc_knee)


def _of_arc(sizing: Sizing) -> Size | None:
    """The ARC of the headline: where its curve bends, else the next larger one."""
    larger = [each for each in sizing.arcs if each.arc > sizing.server.arc]
    return _chosen(larger[:1] or list(sizing.arcs), sizing.arc_knee if sizing.arc_knee in larger else None)


def _chosen(sizes: Sequence[Size], bend: Size | None) -> Size | None:
    if bend is not None and bend.gain is not None and bend in sizes:
        return bend
    return next((each for each in reversed(sizes) if each.gain), None)


def _share(found: EstimatedPart | None) -> str:
    return format_percent(found.value, 1) if found else _UNKNOWN


def _range(found: EstimatedPart) -> str:
    low, high = (f"{100 * each:.1f}" for each in (found.low, found.high))
    return f"{format_percent(found.value, 1)} ({low} to {high})"
