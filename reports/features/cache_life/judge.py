"""The life of an L2ARC: how it got warm, how fast it was fed, and what it was worth after an import. Pure.

Sources: OpenZFS module/zfs/arc.c (l2arc_write_size, l2arc_write_interval, l2arc_rebuild) and man page zfs(4).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from kit.core.text import listed, whole
from kit.core.units import commas, format_decimal_bytes, format_duration_s, format_percent, format_rate
from kit.store.labels import SERVER
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.resource_use import CacheImport, CacheLife, CachePoint, CacheSample
from kit.store.phase import Phase
from kit.store.summary import Summary
from reports.features.cache_life import curve
from reports.features.feature import Feature, Judged
from reports.statistics.proportion import interval
from reports.statistics.quantiles import ANY, percentile_ns

_WINDOWS = 40
_MINUTE_NS = 60 * 10**9
_FEWEST_READS = 100
# An L2ARC that answers less than so much of its share before is called cold, more than so much warm.
_COLD, _WARM = 0.25, 0.75
_RESTARTS = {"reboot": "reboot", "power-cut": "power cut"}
# Of an L2ARC that answered less before, neither is said.
_LEAST_SHARE = 0.02


def describe(manifest: Manifest, latency: Latency) -> list[CacheLife]:
    """Of each phase in which the caches were watched."""
    return [made for each in manifest.phases if each.caches and (made := _life(manifest, each, latency))]


def _life(manifest: Manifest, phase: Phase, latency: Latency) -> CacheLife | None:
    (begin_ns, end_ns), column_ns = latency.stretch(phase)
    reads = _reads(latency, phase)
    if not reads.height:
        return None
    columns = -(-(end_ns - begin_ns) // column_ns)
    width_ns = column_ns * -(-columns // _WINDOWS)
    points = _points(reads, phase, begin_ns, width_ns)
    devices = manifest.testbed.of_role("cache")
    imports = [*_restart(manifest, phase, latency), *_imports(reads, phase, len(devices))]
    if not (warming := until_import(points, imports, width_ns / 1e9)):
        return None
    shares = np.array([each.shares.get("l2arc", 0.0) for each in warming])
    counts = np.array([float(each.ios) for each in warming])
    times_s = np.array([each.at_s for each in warming]) + width_ns / 2e9
    return CacheLife(
        phase=phase.name,
        cold=phase.cold,
        window_s=width_ns / 1e9,
        points=tuple(points),
        final_share=curve.final(shares, counts),
        settled=curve.settled(shares),
        reached=tuple(curve.reached(times_s, shares, counts)) if phase.cold else (),
        captured=_captured(phase.caches, imports, phase.start_ns),
        fed_bytes_per_s=_fed(phase.caches) if phase.cold else None,
        feed_max_bytes_per_s=_feed_max(manifest),
        capacity_bytes=sum(each.size_bytes or 0 for each in devices) or None,
        imports=tuple(imports),
    )


def _reads(latency: Latency, phase: Phase) -> pl.DataFrame:
    """Those of the phase, as the server has seen them."""
    return latency.cells.filter(
        (pl.col("phase") == phase.name) & (pl.col("layer") == SERVER) & (pl.col("op") == "read")
    )


def until_import(
    points: Sequence[CachePoint], imports: Sequence[CacheImport], window_s: float
) -> list[CachePoint]:
    """The windows before the first import: after it the ARC is empty, and the L2ARC answers more."""
    end_s = min((each.begin_s for each in imports if each.begin_s >= 0), default=math.inf)
    return [each for each in points if each.at_s + window_s <= end_s]


def _points(reads: pl.DataFrame, phase: Phase, begin_ns: int, width_ns: int) -> list[CachePoint]:
    """The last window is left out if it is not whole: a load ends in it."""
    window = ((pl.col("time_ns") - begin_ns) // width_ns).alias("window")
    whole = max(1, (phase.end_ns - begin_ns) // width_ns)
    made = []
    inside = reads.with_columns(window).filter(pl.col("window").is_between(0, whole - 1))
    for part in inside.sort("window").partition_by("window"):
        number, ios = int(part["window"][0]), _count(part)
        sums = dict(part.group_by("tier").agg(pl.col("count").sum()).rows())
        p50_us = {
            str(tier): found / 1e3
            for (tier,), rows in part.sort("tier").group_by("tier", maintain_order=True)
            if (found := percentile_ns(_bins(rows), 0.5, ANY)) is not None
        }
        end_ns = begin_ns + (number + 1) * width_ns
        sample = max(
            (each for each in phase.caches if each.at_ns <= end_ns), key=lambda each: each.at_ns, default=None
        )
        made.append(
            CachePoint(
                at_s=number * width_ns / 1e9,
                ios=ios,
                shares={tier: count / max(1, ios) for tier, count in sorted(sums.items())},
                p50_us=p50_us,
                l2arc_bytes=sample.l2arc_bytes if sample else 0,
                arc_bytes=sample.arc_bytes if sample else 0,
            )
        )
    return made


def _bins(rows: pl.DataFrame) -> list[tuple[int, int, int]]:
    summed = rows.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns")
    return summed.select("lo_ns", "hi_ns", "count").rows()


def _captured(samples: Sequence[CacheSample], imports: Sequence[CacheImport], start_ns: int) -> float | None:
    """Without what an export threw out."""
    spans = [(start_ns + each.begin_s * 1e9, start_ns + each.end_s * 1e9) for each in imports]
    cached = missed = 0
    for before, after in itertools.pairwise(samples):
        if not any(before.at_ns < end and after.at_ns > begin for begin, end in spans):
            cached += after.evicted_cached_bytes - before.evicted_cached_bytes
            missed += after.evicted_eligible_bytes - before.evicted_eligible_bytes
    return cached / (cached + missed) if cached >= 0 <= missed and cached + missed else None


def _fed(samples: Sequence[CacheSample]) -> float | None:
    """On average until the L2ARC held nine tenths of what it held at most."""
    most = max(each.l2arc_bytes for each in samples)
    full = next(each for each in samples if each.l2arc_bytes >= 0.9 * most)
    span_ns = full.at_ns - samples[0].at_ns
    return full.fed_bytes * 1e9 / span_ns if span_ns > 0 and full.fed_bytes else None


def _feed_max(manifest: Manifest) -> float | None:
    """l2arc_write_max and the boost of a cold ARC, each l2arc_feed_min_ms while there is enough to feed.

    In the experiment's time; the parameters are in the host's.
    """
    values = manifest.zfs_parameters
    names = ("write_max", "write_boost", "feed_secs", "feed_min_ms", "feed_again")
    known = [number for name in names if (number := whole(values.get(f"l2arc_{name}", ""))) is not None]
    if len(known) < len(names):
        return None
    most, boost, seconds, least_ms, again = known
    dilation = manifest.clock.dilation if manifest.clock else 1
    period_s = least_ms / 1e3 if again else float(seconds)
    return (most + boost) * dilation / period_s if period_s else None


def _imports(reads: pl.DataFrame, phase: Phase, devices: int) -> Iterator[CacheImport]:
    for each in phase.schedule.actions if phase.schedule else ():
        if each.what != "export-import" or each.begin_ns is None or each.end_ns is None:
            continue
        width_ns = min(_MINUTE_NS, each.begin_ns - phase.start_ns, phase.end_ns - each.end_ns)
        # The interval in which it begins is of both.
        of_before = each.begin_ns - width_ns, each.begin_ns - phase.interval_ns
        of_after = each.end_ns, each.end_ns + width_ns
        before = next((s for s in reversed(phase.caches) if s.at_ns <= each.begin_ns), phase.caches[0])
        later = [s for s in phase.caches if s.at_ns > each.begin_ns]
        back = next((s for s in later if s.rebuilds >= before.rebuilds + max(devices, 1)), None)
        last = later[-1] if later else before
        yield CacheImport(
            begin_s=(each.begin_ns - phase.start_ns) / 1e9,
            end_s=(each.end_ns - phase.start_ns) / 1e9,
            window_s=max(0, width_ns) / 1e9,
            **_answered(before=_between(reads, *of_before), after=_between(reads, *of_after)),
            rebuilt_s=(back.at_ns - each.begin_ns) / 1e9 if back else None,
            rebuilt_bytes=max(0, last.rebuilt_bytes - before.rebuilt_bytes),
            failures=last.rebuild_failures - before.rebuild_failures,
        )


def _restart(manifest: Manifest, phase: Phase, latency: Latency) -> Iterator[CacheImport]:
    """Of the server, before the phase; the reads before it are those of the phase before."""
    made, names = phase.restarted, [each.name for each in manifest.phases]
    if made is None or not (number := names.index(phase.name)):
        return
    before = manifest.phases[number - 1]
    width_ns = min(_MINUTE_NS, before.end_ns - before.start_ns, phase.end_ns - phase.start_ns)
    # A load ends in its last interval.
    of_before = _reads(latency, before), before.end_ns - width_ns, before.end_ns - before.interval_ns
    of_after = _reads(latency, phase), phase.start_ns, phase.start_ns + width_ns
    yield CacheImport(
        kind=made.kind,
        begin_s=(made.begin_ns - phase.start_ns) / 1e9,
        end_s=0,
        import_s=(made.import_ns - phase.start_ns) / 1e9,
        window_s=width_ns / 1e9,
        **_answered(before=_between(*of_before), after=_between(*of_after)),
        rebuilt_s=None if made.rebuilt_ns is None else made.rebuilt_ns / 1e9,
        rebuilt_bytes=made.rebuilt_bytes,
        failures=made.failures,
    )


def _answered(**reads: pl.DataFrame) -> dict[str, Any]:
    """Fields of a CacheImport: of the reads before and after it, their number and who answered them."""
    made: dict[str, Any] = {}
    for when, mine in reads.items():
        shares = {"share": _share(mine, ("l2arc",)), "cached": _share(mine, ("dram", "l2arc"))}
        made |= {f"{name}_{when}": value for name, value in (*shares.items(), ("reads", _count(mine)))}
    return made


def _share(reads: pl.DataFrame, tiers: Sequence[str]) -> float | None:
    """What these tiers answered; None of too few reads."""
    ios = _count(reads)
    return _count(reads.filter(pl.col("tier").is_in(tiers))) / ios if ios >= _FEWEST_READS else None


def _between(reads: pl.DataFrame, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """Those in intervals that begin between the two."""
    return reads.filter(pl.col("time_ns").is_between(begin_ns, end_ns, closed="left"))


def _count(reads: pl.DataFrame) -> int:
    return int(reads["count"].sum())


def answer(summary: Summary) -> Iterator[str]:
    """The first line: what is best known before a page is opened."""
    told = [text for each in summary.caches for text in (_of_cold(each), *map(_of_import, each.imports))]
    yield from filter(None, [" ".join(filter(None, told))])


def sentences(summary: Summary) -> Iterator[str]:
    """The same, with what does not fit there."""
    for each in summary.caches:
        if each.cold:
            yield _of_cold(each)
            yield from _rates(each)
            yield from filter(None, [_forecast(each)])
        for imported in each.imports:
            yield _of_import(imported)
            yield from _of_rebuild(imported)
            yield from _both(imported)
        if each.captured is not None:
            left = f"Of the bytes that left the ARC in phase {each.phase} and may be in the L2ARC"
            yield f"{left}, {format_percent(each.captured)} were in it."


def _of_cold(life: CacheLife) -> str:
    share = format_percent(life.final_share)
    if not life.cold:
        return ""
    if not any(each.shares.get("l2arc") for each in life.points):
        return "From empty caches on, the L2ARC answered no read."
    if life.settled is None:
        return f"At the end the L2ARC answers {share} of the reads; the phase is too short to say more."
    if not life.settled:
        return (
            f"The L2ARC is not warm at the end: it answers {share} of the reads, and the share still rises."
        )
    parts = [f"{format_percent(each.part)} of that after {_time(each.at_s)}" for each in life.reached]
    start = f"From empty caches on the L2ARC gets to answer {share} of the reads"
    return f"{start}: {listed(parts)}." if parts else f"{start}; the phase is too short to say when."


def _rates(life: CacheLife) -> Iterator[str]:
    warming = until_import(life.points, life.imports, life.window_s)
    first, last = (each.ios / life.window_s for each in (warming[0], warming[-1]))
    if first:
        begin, end = commas(round(first)), commas(round(last))
        few = min(warming[0].ios, warming[-1].ios) < _FEWEST_READS
        times = "too few reads to say how many times" if few else f"{last / first:.2g} times"
        yield f"Reads a second: {begin} at first, {end} at the end ({times})."


def _of_import(found: CacheImport) -> str:
    away = _time(found.end_s - found.begin_s)
    took = (
        f"an export and import of the pool ({away})"
        if found.import_s is None
        else f"a {_RESTARTS[found.kind]} of the server ({away} until the first read)"
    )
    if found.share_before is None or found.share_after is None:
        return f"Too few reads beside {took} say what the L2ARC answers after it."
    own = f"{format_percent(found.share_after)} of the reads, {format_percent(found.share_before)} before"
    if found.share_before >= _LEAST_SHARE:
        before, after = _ranges(found, found.share_before, found.share_after)
        is_cold = found.share_after <= _COLD * found.share_before
        is_warm = bool(found.rebuilt_bytes) and found.share_after >= _WARM * found.share_before
        if is_cold and after[1] < before[0]:
            return f"After {took} the L2ARC comes back cold: {own}{_why_cold(found)}."
        if is_warm and after[0] > _COLD * before[1]:
            return f"After {took} the L2ARC comes back warm: {own}."
        if is_cold or is_warm:
            own += ", which may be chance: too few reads to call it cold or warm"
    return f"After {took} the L2ARC answers {own}."


def _ranges(found: CacheImport, before: float, after: float) -> list[tuple[float, float]]:
    """Of both shares, as far as so many reads tell; without a range where no number of reads was stored."""
    pairs = (before, found.reads_before), (after, found.reads_after)
    return [interval(round(share * ios), ios) if ios else (share, share) for share, ios in pairs]


def _why_cold(found: CacheImport) -> str:
    if found.failures:
        return "; its header could not be used"
    if not found.rebuilt_bytes:
        return "; nothing was rebuilt"
    return "" if found.rebuilt_s else f"; {format_decimal_bytes(found.rebuilt_bytes)} of it had been rebuilt"


def _of_rebuild(found: CacheImport) -> Iterator[str]:
    """How long a restart took, and reading the L2ARC in; of an import the table has it."""
    if found.import_s is None:
        return
    began = _time(found.import_s - found.begin_s)
    after = f"The import of the pool began {began} after the begin of the {_RESTARTS[found.kind]}"
    size = format_decimal_bytes(found.rebuilt_bytes)
    if found.rebuilt_s is not None:
        yield f"{after}; {_time(found.rebuilt_s)} after that the L2ARC was read in ({size} of records)."
    elif found.rebuilt_bytes:
        yield f"{after}; {size} of records of the L2ARC had been read in when the phase ended, not all."
    else:
        yield f"{after}; nothing of the L2ARC was read in."


def _both(found: CacheImport) -> Iterator[str]:
    if found.cached_before is not None and found.cached_after is not None:
        shares = f"{format_percent(found.cached_after)}, before it {format_percent(found.cached_before)}"
        yield f"ARC and L2ARC together answer in the {_time(found.window_s)} after it {shares} of the reads."


def _forecast(life: CacheLife) -> str:
    """How long the whole of the cache devices takes; "" where that is not known."""
    if not life.cold or not life.capacity_bytes:
        return ""
    rates = (
        ("at the feed's most", life.feed_max_bytes_per_s, ", by the parameters of the module"),
        ("at the rate of this phase", life.fed_bytes_per_s, ""),
    )
    parts = [
        f"{_time(life.capacity_bytes / rate)} {at} ({format_rate(rate)}{by})"
        for at, rate, by in rates
        if rate
    ]
    size = format_decimal_bytes(life.capacity_bytes)
    return f"To write the cache devices once as a whole ({size}) takes {listed(parts)}." if parts else ""


def _time(seconds: float) -> str:
    return format_duration_s(float(f"{seconds:.2g}")) if seconds < 100 else format_duration_s(round(seconds))


FEATURE = Feature(
    lambda manifest, latency, _: Judged({"caches": describe(manifest, latency)}),
    answer=answer,
    lines=lambda summary: [*sentences(summary)][1:],
)
