"""A phase on a server that cannot be traced: what its own counters say instead.

Which tier answered a request nobody saw. But OpenZFS can keep a list of the blocks that were read
(/proc/spl/kstat/zfs/POOL/reads: module/zfs/spa_stats.c, each arc_read with its flags), arcstats count what
came from L2ARC, and the ZIL counts where its blocks went: shares of all, and no latency of any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.hosts.base import Result as _Result
from kit.instruments.arc_zil_counters import Counters, Missing
from kit.trace.support import Tracing
from kit.zfs.tunables import Tunable

# Entries that are kept, of 150 bytes of the kernel's memory each.
HISTORY_ENTRIES = 1 << 18
TUNABLES = {"zfs_read_history": str(HISTORY_ENTRIES), "zfs_read_history_hits": "1"}
"""What must be set for the list to have every read, in the order of setting; put back after the run."""

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


def tunables(own: Iterable[Tunable]) -> tuple[Tunable, ...]:
    """TUNABLES, but for those that the workload sets itself."""
    taken = {one.name for one in own}
    return tuple(Tunable(name, value, int(value)) for name, value in TUNABLES.items() if name not in taken)


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


def fill(entry: dict[str, Any], calls: int, change: Counters, reads: Reads) -> None:
    """Complete a phase's entry of the manifest. `calls`: nfsd's own count of the phase's operation."""
    entry["server_ios"] = calls
    entry["shares"] = shares(entry["op"], calls, change, reads)
    why = "the server was not traced"
    entry["unavailable"] += [missing.as_json() for missing in _missing(entry["op"], why)]
    if reads.overflowed and entry["op"] == "read":
        entry["problems"].append(
            f"the list of reads was full after {HISTORY_ENTRIES}: its shares are those of the last ones"
        )


def _missing(op: str, why: str) -> Iterable[Missing]:
    yield Missing("I/Os by tier", "arcstats, L2ARC" if op == "read" else "ZIL", why)
    yield Missing("latency at the server", "nfsd.bt", why)


def shares(op: str, calls: int, change: Counters, reads: Reads) -> dict[str, Any]:
    """I/Os by tier, by counters alone. Pure.

    A read that the dbuf cache answers is no read of the ARC; it came from DRAM as well. Where a request
    needs several records, blocks are counted instead of requests.
    """
    if op != "read":
        counts = {
            "slog": change.zil.get("zil_itx_metaslab_slog_count", 0),
            "pool": change.zil.get("zil_itx_metaslab_normal_count", 0),
        }
        return {"unit": "log blocks", "source": change.zil_source, "counts": counts}
    from_l2arc = min(change.arc.get("l2_hits", 0), reads.misses)
    by_request = reads.hits + reads.misses <= calls
    counts = {
        "dram": calls - reads.misses if by_request else reads.hits,
        "l2arc": from_l2arc,
        "disk": reads.misses - from_l2arc,
    }
    unit = "requests" if by_request else "blocks"
    return {"unit": unit, "source": "kstat reads, arcstats l2_hits", "counts": counts}
