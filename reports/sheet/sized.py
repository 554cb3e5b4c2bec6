"""What an L2ARC as large as the candidate's would answer of a server's own load, by `hsp size`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.units import (
    commas,
    format_binary_bytes,
    format_decimal_bytes,
    format_duration_s,
    format_latency,
    format_latency_range,
    format_percent,
)
from kit.store.printed.sizing import CacheSize, SizeResult
from kit.store.sheet import SheetValue
from kit.store.summary import Range
from reports.sheet.evidence import ENOUGH_RUNS, ServedLatency
from reports.sheet.facts import APART, DriveFacts, line, unknown
from reports.sheet.latencies import Line
from reports.size.words import words

SIZED = "With a server's own load, by hsp size"
_MOST_NOTES = 12
_JUDGED = "sized_disk_reads"
_LINES = (
    (_JUDGED, "Reads of disks now that an L2ARC as large would answer"),
    ("sized_answered", "All reads that ARC and L2ARC would answer"),
    ("sized_read_mean", "Mean latency of all reads"),
)


def sized_lines(facts: DriveFacts) -> Iterator[Line]:
    """None where there is neither a result of `hsp size` nor a need that asks for it."""
    result, least = facts.source.sizing, facts.need.disk_reads_answered_min
    if result is None and least is None:
        return
    need = f"at least {format_percent(least)}" if least and facts.source.devices("cache") else ""
    size = _size(facts)
    values = [size] * len(_LINES)
    if result and isinstance(size, CacheSize):
        values = [_disk_reads(result, size, least), _answered(result, size), _read_mean(facts, result, size)]
    for (key, label), value in zip(_LINES, values, strict=True):
        assert isinstance(value, SheetValue), "a size is only known with a result"
        yield line(SIZED, key, label, need if key == _JUDGED else ""), value


def sized_sentence(facts: DriveFacts) -> Iterator[str]:
    """The same as a sentence, where a share is known."""
    values = {line.key: value for line, value in sized_lines(facts)}
    share, result = values.get("sized_disk_reads"), facts.source.sizing
    if result and share and share.range:
        latency, size = values["sized_read_mean"], format_decimal_bytes(facts.capacity("cache") or 0)
        then = f"; if reads that move are like the others, a read would take {latency.text} on average"
        what = f"an L2ARC of {size} would answer {share.text} of the reads that disks answer now"
        yield f"With the load of {result.name}, {what}{then if latency.range else ''}."


def sized_notes(result: SizeResult) -> Iterator[str]:
    """What all these values are of."""
    yield f"hsp size: {conditions(result)}. What another load would get is not known."
    yield from (f"hsp size: {each}" for each in result.notes[:_MOST_NOTES])


def conditions(result: SizeResult) -> str:
    """Whose load, when, and how much of it was seen."""
    sample, now = result.sample, result.now
    when = f", {result.utc[:10]}" if result.utc else ""
    long = f" of {format_duration_s(sample.seconds)}" if sample.seconds else ""
    one_in = f"one in {commas(int(sample.one_in))} blocks" if sample.one_in > 1 else "all blocks"
    l2arc = f"an L2ARC of {format_binary_bytes(now.l2arc_bytes)}" if now.l2arc_bytes else "no L2ARC"
    return (
        f"load of {result.name}{when}: {commas(sample.reads_counted)} reads of {one_in} in the second half "
        f"of a sample{long}; now an ARC of {format_binary_bytes(now.arc_bytes)} and {l2arc}"
    )


def _size(facts: DriveFacts) -> CacheSize | SheetValue:
    """What is known of an L2ARC as large as the candidate's; a value that says why nothing is."""
    result, size = facts.source.sizing, facts.capacity("cache")
    if result is None:
        return unknown("no result of hsp size was named")
    if not facts.source.devices("cache"):
        return SheetValue(text="-", note="no such device")
    if not result.known:
        return unknown(f"hsp size: {result.headline}")
    if size is None:
        return unknown("its size is not stored")
    found = result.with_l2arc(size)
    return unknown(f"{found.unknown} ({conditions(result)})") if found.unknown else found


def _disk_reads(result: SizeResult, size: CacheSize, least: float | None) -> SheetValue:
    part = size.of_disk_reads_now
    if part is None:
        return unknown(f"it is as large as the L2ARC of now, or that is not known ({conditions(result)})")
    met = None
    if least is not None:
        met = True if part.low >= least else False if part.high < least else None
    note = f"range of 95 %; {conditions(result)}"
    return SheetValue(text=words(part), value=part.value, range=(part.low, part.high), met=met, note=note)


def _answered(result: SizeResult, size: CacheSize) -> SheetValue:
    part, now = size.answered, result.now.answered
    if part is None:
        return unknown("hsp size has no figure")
    was = f"; {format_percent(now.value, 1)} now" if now else ""
    return SheetValue(
        text=f"{100 * part.low:.1f} to {100 * part.high:.1f} %", value=part.value,
        range=(part.low, part.high), note=f"range of 95 %{was}",
    )  # fmt: skip


def _read_mean(facts: DriveFacts, result: SizeResult, size: CacheSize) -> SheetValue:
    was, drive = result.read_latency, facts.served["cache"]
    if was is None or size.of_disk_reads_now is None:
        return unknown("hsp size does not know the latencies of that server, or the reads that move")
    if drive is None or drive.mean_us is None:
        return unknown("no run has reads from this L2ARC at the NFS server")
    if drive.doubt:
        return unknown(drive.doubt)
    if result.emulated != facts.source.emulated:
        return unknown("latencies of emulated drives say nothing of other servers")
    if result.now.l2arc_bytes:
        return unknown("that server has an L2ARC now: which of its reads the other one would answer")
    low, high = mean_of_reads(result, size, _range_us(drive))
    note = (
        f"{format_latency(was.mean_us)} now, {format_latency(was.disk_mean_us)} from disks; if reads that "
        "move from disks are like the others, and those from this L2ARC take "
        f"{format_latency(drive.mean_us)} as in {drive.phase}"
    )
    if drive.fresh:
        note += "; a drive was not aged: aged ones are slower"
    text = f"{format_latency_range(low, high)} instead of {format_latency(was.mean_us)}"
    return SheetValue(text=text, value=(low + high) / 2, range=(low, high), note=note)


def _range_us(drive: ServedLatency) -> Range:
    """Of the mean read from the L2ARC: by its runs; of few of them another may differ by APART."""
    known = drive.range_us("mean") if drive.runs >= ENOUGH_RUNS else None
    mean_us = drive.mean_us or 0.0
    return known or (mean_us / (1 + APART), mean_us * (1 + APART))


def mean_of_reads(result: SizeResult, size: CacheSize, l2arc_us: Range) -> Range:
    """Limits of the mean latency of all reads in us, without an L2ARC now. `l2arc_us`: of a read from one.

    Reads that disks answer no longer take the L2ARC's time instead; so do those for which headers leave no
    room in the ARC.
    """
    was, gain, share = result.read_latency, size.of_disk_reads_now, size.l2arc
    assert was and gain and share, "asked for where all are known"
    from_disks_us = was.disks * was.disk_mean_us
    low = was.mean_us - gain.high * from_disks_us + share.low * l2arc_us[0]
    high = was.mean_us - gain.low * from_disks_us + share.high * l2arc_us[1]
    return max(low, 0.0), max(high, 0.0)
