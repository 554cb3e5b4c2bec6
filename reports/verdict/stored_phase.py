"""Values of a stored phase that cannot all be true: each is held against what else determines it. Pure.

Texts of contradictions. A phase that the kit has measured has none; one that was damaged or changed does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import polars as pl

from kit.store.labels import NFS_METADATA, SYNCS
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.metadata import Metadata
from kit.store.phase import ClientRow, Phase
from kit.store.tables import CLIENT, DEVICE, ISSUERS, SERVER

# Of the counts of an array, where a load goes to one.
_ARRAY = "array"
# So many I/Os an interval on average, and so many gaps: counts that are all on the grid of a longer
# interval were made with it. A server that stands still leaves gaps of any length; few gaps say nothing.
_DENSE, _MANY_GAPS = 4, 8
# NTP makes the clock of the I/Os faster by up to 500 ppm, and not that of kstats (ktime_get_raw_ts64).
_SLEWED = 1 - 500e-6
_UNITED = {"read": {"read"}, "write": {"write"}, "mixed": {"read", "write"}}


@dataclass(frozen=True)
class Counted:
    """The I/Os of a phase in latency.parquet: by (layer, host, op, tier), and by the begin of intervals."""

    ios: Counter[tuple[str, str, str, str]]
    times_ns: Sequence[int]

    def of(
        self, layer: str, *, op: str | None = None, tiers: Sequence[str] = (), host: str | None = None
    ) -> int:
        """The sum of those that match."""
        return sum(
            count
            for (at, by, what, tier), count in self.ios.items()
            if at == layer and op in (None, what) and host in (None, by) and (not tiers or tier in tiers)
        )

    def layers(self) -> set[str]:
        return {layer for (layer, *_), count in self.ios.items() if count}

    def ops(self, *layers: str) -> set[str]:
        return {op for (layer, _, op, _), count in self.ios.items() if count and layer in layers}


def counted(latency: Latency, names: Sequence[str]) -> dict[str, Counted]:
    """Of each phase; times of rows without I/Os count, too."""
    ios: dict[str, Counter[tuple[str, str, str, str]]] = {name: Counter() for name in names}
    sums = latency.bins.group_by("phase", "layer", "host", "op", "tier").agg(pl.col("count").sum())
    for phase, layer, host, op, tier, count in sums.iter_rows():
        if phase in ios:
            ios[phase][layer, host, op, tier] += count
    times = latency.intervals.select("phase", "time_ns").unique().sort("time_ns")
    times_ns = dict(times.group_by("phase").agg("time_ns").iter_rows())
    return {name: Counted(ios[name], times_ns.get(name, [])) for name in names}


def contradictions(manifest: Manifest, phase: Phase, ios: Counted) -> Iterator[str]:
    """Sentences without their phase."""
    yield from _ops(phase, ios)
    yield from _hosts(manifest, phase, ios)
    yield from _exact(phase, ios)
    yield from _clients(phase)
    yield from _parts(phase)
    yield from _times(phase, ios, may_idle=not manifest.kind.value.drives_load)
    yield from _sizes(phase)
    yield from _loads(manifest, phase, ios)
    yield from _split(phase, ios)


def _ops_of_tree(phase: Phase, load: Metadata, seen: Set[str], ios: Counted) -> Iterator[str]:
    if seen - {load.action}:
        yield f"its tree had {load.action}, its I/Os are {' and '.join(sorted(seen))}"
    served = ios.ops(SERVER)
    if strange := served - {*NFS_METADATA, "read", "write", *SYNCS}:
        yield f"the server has {min(strange)}, which is no operation of NFS"
    for op, count in load.expected.items() if ios.of(SERVER) and not phase.problems else ():
        if (held := ios.of(SERVER, op=op)) != count:
            yield f"its tree needs {count} of {op}, latency.parquet has {held}"


def _ops(phase: Phase, ios: Counted) -> Iterator[str]:
    seen = ios.ops(*ISSUERS)
    if phase.metadata:
        yield from _ops_of_tree(phase, phase.metadata, seen, ios)
        return
    # Of a mix, the op with few I/Os may have none.
    is_mix = phase.op == "mixed" and len(phase.block_bytes_by_op) > 1
    if phase.op and seen and seen != _UNITED[phase.op] and not is_mix:
        yield f"op is {phase.op}, its I/Os are {' and '.join(sorted(seen))}"
    if phase.block_bytes_by_op and phase.op and set(phase.block_bytes_by_op) != _UNITED[phase.op]:
        yield f"op is {phase.op}, block_bytes_by_op is of {' and '.join(sorted(phase.block_bytes_by_op))}"
    served = ios.ops(SERVER) - {*SYNCS}
    if phase.op and served - _UNITED[phase.op]:
        yield f"op is {phase.op}, the server's I/Os are {' and '.join(sorted(served))}"


def _hosts(manifest: Manifest, phase: Phase, ios: Counted) -> Iterator[str]:
    names, server = {row.host for row in phase.clients}, str(manifest.testbed.server)
    known: dict[str, set[str]] = {CLIENT: names, DEVICE: names, SERVER: manifest.served}
    for layer, hosts in known.items():
        if strange := {host for at, host, *_ in ios.ios if at == layer} - hosts:
            yield f"latency.parquet has I/Os of {layer} {min(strange)}, which the manifest does not have"
    yield from _issuers(manifest, phase, names, server)
    stored = DEVICE if phase.on_devices else CLIENT
    if ios.of(stored):
        for row in phase.clients:
            if (held := ios.of(stored, host=row.host)) != row.ios:
                yield f"clients says {row.ios} I/Os of {row.host}, latency.parquet has {held}"


def _issuers(manifest: Manifest, phase: Phase, names: set[str], server: str) -> Iterator[str]:
    """Whether the testbed has the hosts and devices that issued I/Os, `names`."""
    devices = {str(each.name) for each in manifest.testbed.devices} | {_ARRAY}
    clients = manifest.testbed.clients
    if phase.on_devices and (strange := names - devices):
        yield f"the testbed has no device {min(strange)}"
    if phase.target is None and clients and (strange := names - {*clients, server}):
        yield f"the testbed has no client {min(strange)}"
    if phase.target == "dataset" and names - {server}:
        yield f"the load in the dataset is of {min(names)}, the server is {server}"
    if phase.target and phase.server_ios is not None:
        yield f"server_ios is {phase.server_ios}, and no server answered the load"


def _exact(phase: Phase, ios: Counted) -> Iterator[str]:
    """Extremes and sums of what has no I/O; reports.analysis.summary holds the others against the bins."""
    for name, entries in (("extremes", phase.extremes), ("sums", phase.sums)):
        keys = [(each.layer, each.host, each.op, each.tier) for each in entries]
        if len(set(keys)) < len(keys):
            yield f"{name} has a row twice"
        if lone := [key for key in keys if not ios.ios[key]]:
            yield f"{name} has {' '.join(lone[0])}, which has no I/O"
    yield from _slowest(phase)
    if phase.in_order_ns and len(phase.in_order_ns) != phase.client_ios:
        yield f"in_order_ns has {len(phase.in_order_ns)} latencies of {phase.client_ios} I/Os"


def _slowest(phase: Phase) -> Iterator[str]:
    """What the clients say of their slowest I/Os."""
    log = phase.client_log
    # A reading that waited for an I/O is as long as that: its counts stand at its middle.
    spare_ns = 2 * phase.interval_ns + (log.time_error_ns if log else 0)
    if log and log.ios_guessed > phase.client_ios:
        yield "client_log has more I/Os than the phase"
    for slow in log.slowest if log else ():
        if not phase.start_ns - spare_ns <= slow.from_ns <= slow.to_ns <= phase.end_ns + spare_ns:
            yield f"the slowest {slow.op} of {slow.host} ended outside of the phase"
    issued = {(each.host, each.op): each.max_ns for each in phase.extremes if each.layer in ISSUERS}
    names = {row.host for row in phase.clients}
    for slow in log.slowest if log else ():
        if names and slow.host not in names:
            yield f"the slowest {slow.op} is of {slow.host}, which clients does not have"
        if issued and (slow.host, slow.op) not in issued:
            yield f"the slowest {slow.op} of {slow.host} is of no I/O that extremes have"
        elif issued.get((slow.host, slow.op), slow.latency_ns) != slow.latency_ns:
            yield f"the slowest {slow.op} of {slow.host} took {slow.latency_ns} ns, not as by extremes"


def _clients(phase: Phase) -> Iterator[str]:
    rows = phase.clients
    if len({row.host for row in rows}) < len(rows):
        yield "clients has a host twice"
    if rows and (total := sum(row.ios for row in rows)) != phase.client_ios:
        yield f"clients has {total} I/Os, client_ios is {phase.client_ios}"
    for row in rows:
        times = (row.first_ns, row.last_ns, row.skew_ns)
        if times.count(None) != (0 if row.ios else len(times)):
            yield f"{row.host} has {row.ios} I/Os, and its times are {times}"
        elif row.ios:
            yield from _client(phase, row)


def _client(phase: Phase, row: ClientRow) -> Iterator[str]:
    """Of a client that has I/Os, and so its times."""
    assert row.first_ns is not None and row.last_ns is not None and row.skew_ns is not None
    # Of counts by interval it is known to within the readings of fio alone when the last I/O ended.
    spare_ns = phase.interval_ns + (phase.client_log.time_error_ns if phase.client_log else 0)
    low, high = phase.start_ns - spare_ns, phase.end_ns + spare_ns
    if not low <= row.first_ns <= row.last_ns <= high:
        yield f"{row.host} began at {row.first_ns} and ended at {row.last_ns} ns, outside of the phase"
    # A phase in parts has the largest skew of them.
    late_ns = row.first_ns - phase.load_span_ns[0]
    if not phase.parts and abs(late_ns - row.skew_ns) > (late_ns > 0):
        yield f"skew_ns of {row.host} is {row.skew_ns}, by first_ns it is {late_ns}"
    span_ns = phase.end_ns - phase.start_ns
    if not 0 <= row.skew_ns <= max(phase.interval_ns, span_ns // 10) + phase.interval_ns:
        yield f"{row.host} began {row.skew_ns} ns after the first client, and nothing was said"
    if row.clock_error_ns > max(span_ns, phase.interval_ns):
        yield f"clock_error_ns of {row.host} is {row.clock_error_ns}, more than the phase"


def _parts(phase: Phase) -> Iterator[str]:
    parts = phase.parts
    if not parts:
        return
    if [part.number for part in parts] != list(range(1, len(parts) + 1)):
        yield "parts are not numbered from 1"
    if (total := sum(part.client_ios for part in parts)) != phase.client_ios:
        yield f"parts have {total} I/Os, client_ios is {phase.client_ios}"
    served = [part.server_ios for part in parts]
    if None not in served and sum(each or 0 for each in served) != phase.server_ios:
        yield f"parts have other I/Os of the server than server_ios, {phase.server_ios}"
    if any(part.apart_ios and part.end != "lost" for part in parts):
        yield "apart_ios is of a part that was not lost"
    edges = [edge for part in parts for edge in (part.start_ns, part.end_ns)]
    # The end of a part's load is seen a little after its last interval.
    if any(one > other for one, other in pairwise(edges)) or edges[0] < phase.start_ns:
        yield "parts overlap, or are outside of the phase"


def _times(phase: Phase, ios: Counted, *, may_idle: bool) -> Iterator[str]:
    """`may_idle`: a server that the kit did not load may have no I/O when the phase begins or ends."""
    start, end = phase.start_ns, phase.end_ns
    if start < 0 or end < start:
        yield f"it is from {start} to {end} ns"
        return
    for event in phase.events:
        ended = event.time_ns if event.end_ns is None else event.end_ns
        if event.time_ns > end or ended < start:
            yield f"the event {event.kind} at {event.time_ns} ns is outside of it"
        elif ended < event.time_ns:
            yield f"the event {event.kind} ends before it begins"
    if ios.times_ns and may_idle:
        interval, times = phase.interval_ns, (start, *ios.times_ns)
        if any((other - one) % interval for one, other in pairwise(times)):
            yield f"interval_ns is {interval}, its counts are of other intervals"
        elif not start <= ios.times_ns[0] <= ios.times_ns[-1] <= end:
            yield f"it is from {start} to {end} ns, its counts are outside of it"
    elif ios.times_ns and not phase.parts:
        yield from contradicting_intervals(phase, ios.times_ns)


def contradicting_intervals(phase: Phase, times: Sequence[int]) -> Iterator[str]:
    """The begin of each interval that has counts, against what the phase says of its own."""
    start, end, interval = phase.start_ns, phase.end_ns, phase.interval_ns
    first, last = times[0], times[-1]
    begun = min((row.first_ns for row in phase.clients if row.first_ns is not None), default=first)
    gaps = [other - one for one, other in pairwise(times)]
    # The first I/O may end after the interval in which it began; times of clients are known to an interval.
    is_late = first > start and abs(begun - start) <= 2 * interval
    if (first - start) % interval or any(gap % interval for gap in gaps):
        yield f"interval_ns is {interval}, its counts are of other intervals"
    elif first != start and not is_late:
        yield f"start_ns is {start}, its counts begin at {first}"
    elif end != last + interval:
        yield f"end_ns is {end}, its counts end at {last + interval}"
    elif (
        len(gaps) >= _MANY_GAPS
        and (grid := gcd(*gaps)) > interval
        and phase.client_ios * interval >= _DENSE * (end - start)
    ):
        yield f"interval_ns is {interval}, its counts are multiples of {grid} ns apart"


def _sizes(phase: Phase) -> Iterator[str]:
    sizes = set(phase.block_bytes_by_op.values())
    if sizes and phase.block_bytes != (next(iter(sizes)) if len(sizes) == 1 else None):
        yield f"block_bytes is {phase.block_bytes}, block_bytes_by_op has {sorted(sizes)}"
    if 0 in (phase.block_bytes, *sizes):
        yield "block_bytes is 0"
    if phase.outstanding == 0:
        yield "outstanding is 0"
    if (
        phase.arc
        and not phase.parts
        and phase.arc.span_ns < (phase.end_ns - phase.start_ns) * _SLEWED - 2 * phase.interval_ns
    ):
        yield f"arc is of {phase.arc.span_ns} ns, less than the phase"


def _loads(manifest: Manifest, phase: Phase, ios: Counted) -> Iterator[str]:
    devices = {str(each.name) for each in manifest.testbed.devices}
    if phase.array and not set(phase.array.members) <= devices:
        yield "array has members that the testbed does not have"
    if (phase.array is not None) != (phase.target == _ARRAY):
        yield f"target is {phase.target}, and array is {'there' if phase.array else 'missing'}"
    if phase.on_devices and (strange := set(phase.spans) - devices - {_ARRAY}):
        yield f"spans has {min(strange)}, which the testbed does not have"
    if any(first >= last for first, last in phase.spans.values()):
        yield "a span of spans is empty"
    untraced = manifest.tracing is not None and manifest.tracing.kind == "none"
    if phase.shares and phase.target is None and not untraced:
        yield "shares are of a server that is not traced, and tracing says that it was"
    if untraced and ios.of(SERVER):
        yield "tracing says that the server was not traced, and latency.parquet has its I/Os"
    schedule = phase.schedule
    for action in schedule.actions if schedule else ():
        ends = (action.begin_ns, action.end_ns)
        if None not in ends and action.end_ns < action.begin_ns:  # type: ignore[operator]
            yield f"{action.kind} {action.what} ends before it begins"


def _split(phase: Phase, ios: Counted) -> Iterator[str]:
    for row in phase.split.rows if phase.split else ():
        held = ios.of(SERVER, op=row.op, tiers=(row.tier,))
        if row.ios != held or row.unjoined > row.ios:
            yield f"split has {row.ios} I/Os of {row.op}/{row.tier}, latency.parquet has {held}"
        if sum(row.parts.values()) != row.sum_ns:
            yield f"split of {row.op}/{row.tier}: its parts are not sum_ns, {row.sum_ns}"
