"""A phase on a server that cannot be traced: what its own counters say instead.

Which tier answered a request nobody saw. But OpenZFS can keep a list of the blocks that were read
(/proc/spl/kstat/zfs/POOL/reads: module/zfs/spa_stats.c, each arc_read with its flags), arcstats count what
came from L2ARC, and the ZIL counts where its blocks went: shares of all, and no latency of any.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.hosts.base import Result as _Result
from kit.instruments.arc_zil_counters import ArcZilCounters, Counters
from kit.instruments.base import Instrument, Measured, Report
from kit.instruments.server_activity import ServerActivity
from kit.store.phase import Missing, Shares
from kit.trace.support import Tracing
from kit.zfs.tunables import HISTORY_ENTRIES

# include/sys/arc.h, the same from 2.1 to 2.4.
_PREFETCH, _CACHED = 1 << 2, 1 << 3
# One line for each kind of entry and how many of it there are: objset, object, level, flags, process.
_GROUP = '$1 ~ /^[0-9]+$/ { n[$3 " " $4 " " $5 " " $7 " " $NF]++ } END { for (k in n) print n[k], k }'
# Root's alone may read the list, and sh is what a user who is no root may run as root (docs/hosts.md).
_RUN = 'exec awk "$@"'


@dataclass(frozen=True)
class Reads:
    """Demand reads of a dataset's file blocks by nfsd: those that the ARC had, those that it had not."""

    hits: int
    misses: int
    entries: int

    @property
    def overflowed(self) -> bool:
        """The list was full, so its beginning is lost."""
        return self.entries >= HISTORY_ENTRIES


class ReadHistory(Instrument):
    """Tiers as shares by the server's own counters; `activity` and `counters` are of the same phase."""

    def __init__(
        self, server: Host, pool: str, objset: int, activity: ServerActivity, counters: ArcZilCounters
    ) -> None:
        self._server, self._pool, self._objset = server, pool, objset
        self._activity, self._counters = activity, counters

    def begin(self) -> None:
        begin(self._server, self._pool)

    def end(self) -> None:
        self._reads = history(self._server, self._pool, self._objset)

    def report(self, measured: Measured) -> Report:
        calls = self._activity.calls(measured.op)
        return report(measured.op, calls, self._counters.change, self._reads)


def words(tracing: Tracing) -> str:
    """One sentence for people: that nothing is traced, and why."""
    return (
        f"The server is not traced ({tracing.reason}): which tier answered each I/O cannot be seen. "
        "Latency is the clients' alone, and tiers are shares by the server's counters."
    )


def begin(server: Host, pool: str) -> None:
    """Empty the list of reads. Raises HostError."""
    server.run(["tee", _reads(pool)], stdin=b"0\n")


def history(server: Host, pool: str, objset: int) -> Reads:
    """What was read since `begin`. Raises HostError if the list cannot be read."""
    return parse(server.run(["sh", "-c", _RUN, "sh", _GROUP, _reads(pool)]), objset)


def parse(answer: _Result, objset: int) -> Reads:
    """Raises HostError for lines that are none of the list's."""
    hits = misses = entries = 0
    for line in answer.stdout.splitlines():
        try:
            count, of, file, level, flags, process = line.split()
            number, bits = int(count), int(flags, 16)
            wanted = int(of, 16) == objset and int(file) > 0 and int(level) == 0 and process == "nfsd"
        except ValueError:
            raise HostError(f"{answer.host}: the kstat `reads` is not understood: {line[:100]!r}") from None
        entries += number
        if wanted and not bits & _PREFETCH:
            hits += number if bits & _CACHED else 0
            misses += 0 if bits & _CACHED else number
    return Reads(hits, misses, entries)


def _reads(pool: str) -> str:
    return f"/proc/spl/kstat/zfs/{pool}/reads"


def report(op: str, calls: int, change: Counters, reads: Reads) -> Report:
    """`calls`: nfsd's own count of the phase's operation. Pure."""
    why, source = "the server was not traced", "arcstats, L2ARC" if op == "read" else "ZIL"
    problems = []
    if reads.overflowed and op == "read":
        problems.append(
            f"the list of reads was full after {HISTORY_ENTRIES}: its shares are those of the last ones"
        )
    return Report(
        [
            Missing.of("I/Os by tier", source, why),
            Missing.of("latency at the server", "nfsd.bt", why),
        ],
        problems=problems,
        entry={"server_ios": calls, "shares": shares(op, calls, change, reads)},
    )


def shares(op: str, calls: int, change: Counters, reads: Reads) -> Shares:
    """I/Os by tier, by counters alone. Pure.

    A read that the dbuf cache answers is no read of the ARC; it came from DRAM as well. Where a request
    needs several records, blocks are counted instead of requests.
    """
    if op != "read":
        counts = {
            "slog": change.zil.get("zil_itx_metaslab_slog_count", 0),
            "pool": change.zil.get("zil_itx_metaslab_normal_count", 0),
        }
        return Shares(unit="log blocks", source=change.zil_source, counts=counts)
    from_l2arc = min(change.arc.get("l2_hits", 0), reads.misses)
    by_request = reads.hits + reads.misses <= calls
    counts = {
        "dram": calls - reads.misses if by_request else reads.hits,
        "l2arc": from_l2arc,
        "disk": reads.misses - from_l2arc,
    }
    unit = "requests" if by_request else "blocks"
    return Shares(unit=unit, source="kstat reads, arcstats l2_hits", counts=counts)
