"""Shares of tiers by counters, for a server that is not traced.

OpenZFS can keep a list of all block reads (/proc/spl/kstat/zfs/POOL/reads: module/zfs/spa_stats.c, each
arc_read with its flags). arcstats count reads from L2ARC, and the ZIL counts its blocks by destination. So
shares of tiers are known, but no tier of a single request and no latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from kit.core.errors import HostError
from kit.hosts.base import CommandResult, Host
from kit.instruments.arc_zil_counters import ArcZilCounters, Counters
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.server_activity import ServerActivity
from kit.store.phase import Missing, Shares
from kit.trace.support import TracingSupport
from kit.zfs.tunables import HISTORY_ENTRIES

# include/sys/arc.h, the same from 2.1 to 2.4.
_PREFETCH, _CACHED = 1 << 2, 1 << 3
# Counts the entries of each kind: objset, object, level, flags, process.
_GROUP = '$1 ~ /^[0-9]+$/ { n[$3 " " $4 " " $5 " " $7 " " $NF]++ } END { for (k in n) print n[k], k }'
# Only root may read the list, and other users may run sh as root (docs/hosts.md).
_RUN = 'exec awk "$@"'


@dataclass(frozen=True)
class DemandReads:
    """Demand reads of a dataset's file blocks by one process: ARC hits and misses.

    `entries`: of the whole list.
    """

    hits: int
    misses: int
    entries: int


@dataclass(eq=False)
class ReadHistory(Instrument):
    """Shares of tiers by counters of the server; `activity` and `counters` are of the same phase.

    `local`: fio runs on the server itself.
    """

    code = "read-history"

    server: Host
    pool: str
    objset: int
    activity: ServerActivity
    counters: ArcZilCounters
    _: KW_ONLY
    local: bool = False

    def begin(self) -> None:
        begin(self.server, self.pool)

    def end(self) -> None:
        process = "fio" if self.local else "nfsd"
        self._reads = history(self.server, self.pool, self.objset, process)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        if self.local:
            calls, why = measured.ios_by_op, "the load ran on the server, not over NFS"
        else:
            calls = {op: self.activity.calls(op) for op in measured.block_bytes}
            why = "the server was not traced"
        made = report(calls, self.counters.change, self._reads, why)
        if self.local:
            # No request came over NFS.
            del made.entry["server_ios"]
        return made


def words(tracing: TracingSupport) -> str:
    """A text for the report: the server is not traced, and the reason."""
    return (
        f"The server is not traced ({tracing.reason}): which tier answered each I/O cannot be seen. "
        "Latency is known only at the clients, and tiers only as shares by the server's counters."
    )


def begin(server: Host, pool: str) -> None:
    """Empty the list of reads. Raises HostError."""
    server.run(["tee", _reads(pool)], stdin=b"0\n")


def history(server: Host, pool: str, objset: int, process: str = "nfsd") -> DemandReads:
    """The reads of `process` since `begin`. Raises HostError if the list cannot be read."""
    return parse(server.run(["sh", "-c", _RUN, "sh", _GROUP, _reads(pool)]), objset, process)


def parse(answer: CommandResult, objset: int, reader: str = "nfsd") -> DemandReads:
    """From the counts of awk. Raises HostError for other lines."""
    hits = misses = entries = 0
    for line in answer.stdout.splitlines():
        try:
            count, dataset, file, level, flags, process = line.split()
            number, bits = int(count), int(flags, 16)
            counts = int(dataset, 16) == objset and int(file) > 0 and int(level) == 0 and process == reader
        except ValueError:
            raise HostError(f"{answer.host}: the kstat `reads` is not understood: {line[:100]!r}") from None
        entries += number
        if counts and not bits & _PREFETCH:
            hits += number if bits & _CACHED else 0
            misses += 0 if bits & _CACHED else number
    return DemandReads(hits, misses, entries)


def _reads(pool: str) -> str:
    return f"/proc/spl/kstat/zfs/{pool}/reads"


def report(calls: Mapping[str, int], change: Counters, reads: DemandReads, why: str) -> InstrumentReport:
    """`calls`: counts of the phase's operations. Shares are of its reads, if it has any. Pure.

    `why`: no tier of a single I/O is known.
    """
    op = "read" if "read" in calls else "write"
    source = "arcstats, L2ARC" if op == "read" else "ZIL"
    # The first entries of a full list are lost.
    full = reads.entries >= HISTORY_ENTRIES and op == "read"
    problem = f"the list of reads was full: the shares are those of the last {HISTORY_ENTRIES} reads"
    return InstrumentReport(
        [
            Missing(id="TIERS-TRACED", name="I/Os by tier", source=source, why=why),
            Missing(id="SERVER-LATENCY", name="latency at the server", source="nfsd.bt", why=why),
        ],
        problems=[problem] if full else [],
        entry={"server_ios": sum(calls.values()), "shares": shares(op, calls[op], change, reads)},
    )


def shares(op: str, calls: int, change: Counters, reads: DemandReads) -> Shares:
    """I/Os by tier, by counters alone. Pure.

    The dbuf cache answers reads from DRAM without the ARC. If requests need several records each, the unit is
    blocks instead of requests.
    """
    if op != "read":
        counts = {
            "slog": change.zil.get("zil_itx_metaslab_slog_count", 0),
            "pool": change.zil.get("zil_itx_metaslab_normal_count", 0),
        }
        return Shares(unit="log blocks", source=change.zil_source, counts=counts)
    # A read from L2ARC that failed is a hit, too, and a disk answered it.
    failed = max(change.arc.get("l2_io_error", 0), change.arc.get("l2_cksum_bad", 0))
    from_l2arc = max(0, min(change.arc.get("l2_hits", 0) - failed, reads.misses))
    by_request = reads.hits + reads.misses <= calls
    counts = {
        "dram": calls - reads.misses if by_request else reads.hits,
        "l2arc": from_l2arc,
        "disk": reads.misses - from_l2arc,
    }
    unit = "requests" if by_request else "blocks"
    return Shares(unit=unit, source="kstat reads, arcstats l2_hits", counts=counts)
