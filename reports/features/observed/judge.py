"""Of an observed server: by client or program, file system, op and tier the I/Os and their waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from kit.core.units import commas, format_latency, format_percent, format_time_s
from kit.store.labels import SYNCS, TIERS, op_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.observed import Observed, ObservedRow
from kit.store.summary import Row, Summary
from reports.features.feature import Feature, Judged

# Rows for the terminal.
_MOST_LINES = 6
# Of a larger part of the time without I/Os it is said.
_IDLE = 0.1
_SUMS = ("ios", "share", "waited_ns", "waited_share")


def describe(observed: Observed) -> list[ObservedRow]:
    """Those that waited longest come first."""
    calls = observed.callers
    all_ios, all_ns = sum(each.ios for each in calls), sum(each.waited_ns for each in calls)
    rows = [
        ObservedRow(
            **{"program" if observed.local else "client": each.caller},
            file_system=each.file_system, op=each.op, tier=each.tier, ios=each.ios, share=each.ios / all_ios,
            waited_ns=each.waited_ns, waited_share=each.waited_ns / all_ns if all_ns else 0.0,
        )
        for each in calls if each.ios
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.waited_ns)


def together(rows: Sequence[ObservedRow], *names: str) -> list[ObservedRow]:
    """Rows that are alike but for these fields are one; those that waited longest come first."""
    found: dict[tuple[str, ...], ObservedRow] = {}
    for row in rows:
        one = row.model_copy(update=dict.fromkeys(names, ""))
        key = (one.client, one.program, one.file_system, one.op, one.tier)
        if key in found:
            sums = {name: getattr(found[key], name) + getattr(row, name) for name in _SUMS}
            one = one.model_copy(update=sums)
        found[key] = one
    return sorted(found.values(), key=lambda row: -row.waited_ns)


# Who answers, by tier.
_WHO = {
    "dram": "DRAM (ARC) answers",
    "l2arc": "the SSD cache (L2ARC) answers",
    "disk": "disks answer",
    "special": "the special vdev answers",
    "slog": "the log device (SLOG) answers",
    "pool": "the log on the data disks answers",
    "shared": "I/Os that other requests had begun answer",
    "indirect": "disks answer after a block of metadata",
    "direct": "disks answer past the ARC",
}


# What a program waits for.
_WAITS = {
    "dram": "are answered by DRAM (ARC)",
    "l2arc": "wait for the SSD cache (L2ARC)",
    "disk": "wait for disks",
    "special": "wait for the special vdev",
    "slog": "wait for the log device (SLOG)",
    "pool": "wait for the log on the data disks",
    "shared": "wait for I/Os that other calls had begun",
    "indirect": "wait for disks, after a block of metadata",
    "direct": "wait for disks, past the ARC",
}


def _programs_answer(row: ObservedRow) -> str:
    """Such as "fsyncs of postgres on tank/db wait for the log device (SLOG): 93.1 % of all waiting, ..."."""
    ops = op_name(row.op)
    return (
        f"{ops[:1].upper()}{ops[1:]} of {row.program} on the dataset '{row.file_system}' "
        f"{_WAITS.get(row.tier, row.tier)}: {_percent(row.waited_share)} of all waiting, a mean of "
        f"{format_latency(row.waited_ns / row.ios / 1e3)} each."
    )


def answer(summary: Summary) -> Iterator[str]:
    """What made clients wait longest, over all file systems; of programs, which waited longest for what."""
    if summary.observed and summary.observed[0].program:
        yield _programs_answer(summary.observed[0])
        return
    for row in together(summary.observed, "client", "file_system")[:1]:
        yield (
            f"{_percent(row.share)} of all I/Os are {op_name(row.op)} that {_WHO.get(row.tier, row.tier)}. "
            f"Clients spend {_percent(row.waited_share)} of their waiting on them, a mean of "
            f"{format_latency(row.waited_ns / row.ios / 1e3)} each."
        )


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


# What would shorten the waiting: by kind of I/O the tiers that wait for it, and those that may. Which device
# the I/O of another request waits for is not known; a block of metadata may come from the SSD cache; writes
# are slowed down where disks do not keep up.
_SAVERS = {
    "a faster log device": (
        {("write", "slog"), ("sync", "slog")}, {("write", "shared"), ("sync", "shared")},
    ),
    "a faster special vdev": (
        {("read", "special"), ("write", "special"), ("sync", "special")},
        {("read", "shared"), ("write", "shared"), ("sync", "shared")},
    ),
    "a faster cache device": ({("read", "l2arc")}, {("read", "shared"), ("read", "indirect")}),
    "faster disks": (
        {("read", "disk"), ("read", "indirect"), ("read", "direct"), ("write", "pool"), ("sync", "pool")},
        {("read", "shared"), *(("write", tier) for tier in TIERS), ("sync", "shared")},
    ),
    "a larger cache": (
        {("read", "disk"), ("read", "special"), ("read", "l2arc"), ("read", "indirect")},
        {("read", "shared")},
    ),
}  # fmt: skip


def savings(rows: Sequence[ObservedRow]) -> list[tuple[str, float]]:
    """What could shorten the waiting, and the share of all waiting (0 to 1) that it saves at most.

    A bound, not an estimate: all that such requests wait would have to be the device's.
    """
    waited: Counter[tuple[str, str]] = Counter()
    for row in rows:
        waited["sync" if row.op in SYNCS else row.op, row.tier] += row.waited_ns
    all_ns = waited.total() or 1
    found = [
        (name, sum(waited[key] for key in own | besides) / all_ns)
        for name, (own, besides) in _SAVERS.items()
        if any(waited[key] for key in own)
    ]
    return sorted(found, key=lambda each: -each[1])


def saved(rows: Sequence[ObservedRow]) -> Iterator[str]:
    """The sentence of `savings`, if there are any."""
    if found := savings(rows):
        told = ", ".join(f"{name} {_percent(share)}" for name, share in found)
        yield f"Saved at most, of all waiting: {told}."


def lines(summary: Summary) -> Iterator[str]:
    """What could be saved at most, and the programs or file systems that waited longest."""
    yield from saved(summary.observed)
    waited: Counter[str] = Counter()
    for row in summary.observed:
        waited[row.program or row.file_system] += row.waited_ns
    all_ns = waited.total() or 1
    for name, waited_ns in waited.most_common(_MOST_LINES) if len(waited) > 1 else ():
        yield f"{name}: {format_percent(waited_ns / all_ns, 1)} of the waiting"


def judge(manifest: Manifest, latency: Latency, _: Sequence[Row]) -> Judged:
    """Its rows, and what is not among them."""
    if manifest.observed is None:
        return Judged({})
    notes = [*_idle(manifest, latency), *_left_out(manifest.observed), *manifest.observed.cost]
    return Judged({"observed": describe(manifest.observed)}, notes=notes)


def _idle(manifest: Manifest, latency: Latency) -> Iterator[str]:
    """How much of the time no I/O ended in, by intervals: that part of the map is empty."""
    for phase in manifest.phases:
        used = latency.intervals.filter(pl.col("phase") == phase.name, pl.col("count") > 0)
        number = -(-(phase.end_ns - phase.start_ns) // phase.interval_ns)
        idle = number - used["time_ns"].n_unique()
        if idle > number * _IDLE:
            width = format_time_s(phase.interval_ns / 1e9)
            yield f"No I/O ended in {commas(idle)} of {commas(number)} intervals of {width}."


def _left_out(observed: Observed) -> Iterator[str]:
    """Requests of clients, or calls of programs."""
    for name, what in (_CALLS if observed.local else _REQUESTS).items():
        if count := getattr(observed, name):
            yield f"Not among them: {what} ({commas(count)})."


# What is left out, by the field that has its number.
_REQUESTS = {
    "elsewhere": "requests to file systems that are not of ZFS",
    "failed": "requests that failed before the server knew their file",
    "others": "requests to other datasets than those asked for",
    "unfinished": "requests that had not ended at the end",
}
_CALLS = {
    "elsewhere": "calls to file systems that are not mounted for this login, as of containers",
    "others": "calls to other datasets than those asked for",
    "failed": "calls that failed",
    "empty": "reads and writes that moved no byte, as at the end of a file",
    "mapped": "reads and writes of pages of mapped files",
    "unfinished": "calls that had not ended at the end",
}
FEATURE = Feature(judge, answer, lines)
