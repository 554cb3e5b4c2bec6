"""nfsd's own counts, and those of ARC and ZIL, around the tracer of an observed server. Pure but for `read`.

The server goes on serving. So nfsd's counters are read twice at each end, before and after the mark of the
tracer: what the tracer has seen must lie between the smaller and the larger difference. A request is counted
by nfsd before the tracer sees it start, each thread has one at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.text import commas
from kit.hosts.base import Host
from kit.instruments.arc_zil_counters import ARCSTATS, ZIL, Counters, parse_kstat, use
from kit.instruments.base import minus, read_files
from kit.instruments.server_activity import NFSD, nfsd_counts, nfsd_totals
from kit.nfs.server_threads import THREADS
from kit.store.labels import LOGGED, SYNCS
from kit.store.parts.resource_use import ArcUse
from kit.store.phase import Check
from kit.trace.output import Trace
from kit.zfs.tunables import parameter_path

_OF_CACHES = (
    "zfs_arc_max", "zfs_arc_min", "zfs_prefetch_disable", "l2arc_write_max", "l2arc_write_boost",
    "l2arc_headroom", "l2arc_feed_secs", "l2arc_feed_min_ms", "l2arc_feed_again", "l2arc_mfuonly",
    "l2arc_noprefetch", "zfs_multilist_num_sublists",
)  # fmt: skip


@dataclass(frozen=True)
class KernelCounters:
    """Cumulative values of ARC and ZIL."""

    arc: dict[str, int]
    zil: dict[str, int]


@dataclass(frozen=True)
class ServerCounters(KernelCounters):
    """And of nfsd: `calls` by op; `totals`: see nfsd_totals; `threads`."""

    calls: dict[str, int]
    threads: int
    totals: dict[str, int] = field(default_factory=dict)


C = TypeVar("C", bound=KernelCounters)


@dataclass(frozen=True)
class Around(Generic[C]):
    """`outer` was read before the begin of the tracer and after its end, `inner` after it and before that."""

    outer: tuple[C, C]
    inner: tuple[C, C]


def calls_of(around: Around[ServerCounters], op: str) -> tuple[int, int]:
    """The fewest and the most requests of the op, or of a key of `totals`, that the tracer can have seen."""

    def change(ends: tuple[ServerCounters, ServerCounters]) -> int:
        before, after = ({**each.calls, **each.totals} for each in ends)
        return after.get(op, 0) - before.get(op, 0)

    low, high = change(around.inner), change(around.outer)
    threads = max(each.threads for each in (*around.outer, *around.inner))
    # With nothing under way both ends are the same number.
    return max(0, low - threads if low < high else low), high + (threads if low < high else 0)


def read(server: Host) -> ServerCounters:
    """Read the counters. Raises HostError if one is missing."""
    files = read_files(server, [NFSD, ARCSTATS, ZIL])
    # Only root may read it, and `cat` is among the sudo lines.
    threads = server.run(["cat", THREADS], check=False).stdout.strip()
    try:
        _, calls = nfsd_counts(files[NFSD])
        kstats = parse_kstat(files[ARCSTATS]), parse_kstat(files[ZIL])
        return ServerCounters(*kstats, calls, int(threads), nfsd_totals(files[NFSD]))
    except (KeyError, ValueError, IndexError) as error:
        raise HostError(
            f"the counters of the NFS server and of OpenZFS of {server.name} cannot be read ({error!r})",
            f"is nfsd running, and are {NFSD} and {ARCSTATS} readable?",
        ) from error


def arc_use(around: Around[C], span_ns: int, clock: Clock) -> ArcUse:
    """What the ARC held at the end, and what went to the L2ARC meanwhile."""
    before, after = around.inner
    change = Counters(minus(after.arc, before.arc), minus(after.zil, before.zil), at_ns=span_ns)
    return use(after.arc, change, clock)


def parameters(server: Host) -> dict[str, str]:
    """Those of OpenZFS that decide what ARC and L2ARC may hold and how they are fed; those that it has."""
    paths = [parameter_path(name) for name in _OF_CACHES]
    found = read_files(server, paths)
    return {path.rpartition("/")[2]: text.strip() for path, text in sorted(found.items())}


def checks(
    around: Around[ServerCounters], trace: Trace, tiers: Mapping[tuple[str, str], int]
) -> Iterator[Check]:
    """The tracer's counts against the counters. `tiers`: of requests to ZFS, by (op, tier)."""
    for op in ("read", "write", "commit"):
        seen, name, source = trace.started.get(op, 0), f"NFS {op.upper()} calls", f"{NFSD} proc3, proc4ops"
        yield Check.of_counts("NFS-CALLS", name, source, seen, _between(around, op, seen), op=op)
    for key, version, what in (("proc3", "NFSv3", "calls"), ("proc4ops", "NFSv4", "operations")):
        seen = sum(n for name, (n, _) in trace.operations.items() if name.startswith(version))
        found = _between(around, key, seen)
        yield Check.of_counts("NFS-OPERATIONS", f"all {version} {what}", f"{NFSD} {key}", seen, found)
    yield from kernel_checks(around, tiers)


def unfinished(around: Around[ServerCounters], trace: Trace) -> tuple[int, list[str]]:
    """Requests that had not ended at the end of the tracer, one a thread at most; more are a problem."""
    threads = max(each.threads for each in (*around.outer, *around.inner))
    open_ = {op: count - trace.done.get(op, 0) for op, count in trace.started.items()}
    wrong = {op: commas(trace.started[op]) for op, count in open_.items() if not 0 <= count <= threads}
    problems = [
        f"the tracer saw {started} {op} requests start and {commas(trace.done.get(op, 0))} end"
        for op, started in wrong.items()
    ]
    return sum(max(count, 0) for count in open_.values()), problems


def _between(around: Around[ServerCounters], key: str, seen: int) -> int:
    """What the tracer has `seen` if it can be, else the nearest count that can be."""
    low, high = calls_of(around, key)
    return min(max(seen, low), high)


def kernel_checks(around: Around[C], tiers: Mapping[tuple[str, str], int]) -> Iterator[Check]:
    """Of ARC, L2ARC and ZIL the counters have as much as the tracer, or more: others use the server, too."""
    arc = minus(around.outer[1].arc, around.outer[0].arc)
    zil = minus(around.outer[1].zil, around.outer[0].zil)
    missed = _of(tiers, "read", "l2arc", "special", "disk", "indirect")
    for id_, name, seen, counter, found in (
        ("ARC-MISSES", "reads that missed the ARC, at least", missed,
         "arcstats demand_data_misses, demand_metadata_misses",
         arc.get("demand_data_misses", 0) + arc.get("demand_metadata_misses", 0)),
        ("L2ARC-HITS", "reads from L2ARC, at least", _of(tiers, "read", "l2arc"), "arcstats l2_hits",
         arc.get("l2_hits", 0)),
        ("ZIL-COMMITS", "synchronous writes, at least",
         sum(_of(tiers, op, *LOGGED) for op in ("write", *SYNCS)),
         "zil zil_commit_count", zil.get("zil_commit_count", 0)),
    ):  # fmt: skip
        yield Check.of_counts(id_, name, counter, seen, min(seen, found))


def _of(tiers: Mapping[tuple[str, str], int], op: str, *names: str) -> int:
    return sum(tiers.get((op, name), 0) for name in names)
