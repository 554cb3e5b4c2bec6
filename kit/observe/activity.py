"""What an observed server does beside its requests: syncs of txgs, scrubs and the like, as marks in time.

It is in use: they are no doubts. Sources: as kit.instruments.server_activity, for all pools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import read_files
from kit.instruments.server_activity import KSTATS, Txg, scan_spans, txg_span, txgs_of
from kit.store.phase import Event
from kit.zfs import scrub_status
from kit.zfs.openzfs_version import ZfsVersion

# The kernel keeps the last 100 txgs of a pool (zfs_txg_history), of some seconds each.
EVERY_S = 60.0
# In a page that draws fewer; the longest syncs are kept.
_MOST_TXGS = 2000


class Activity:
    """Call `look` at the end, and every EVERY_S before."""

    def __init__(self, server: Host, pools: Collection[str]) -> None:
        self._server, self._pools = server, tuple(pools)
        self._txgs: dict[tuple[str, int], Txg] = {}

    def look(self) -> None:
        """Read the txgs. A pool may be gone, and its txgs may not be kept. Raises HostLost."""
        files = [f"{KSTATS}/{pool}/txgs" for pool in self._pools]
        if not files:
            return
        found = read_files(self._server, files)
        for pool, file in zip(self._pools, files, strict=True):
            if " birth " in found.get(file, ""):
                self._txgs |= {(pool, txg.number): txg for txg in txgs_of(found[file])}
        longest = sorted(self._txgs, key=lambda key: self._txgs[key].begin_ns - self._txgs[key].end_ns)
        self._txgs = {key: self._txgs[key] for key in longest[:_MOST_TXGS]}

    def events(self, zfs: ZfsVersion, clock: Clock, begin_ns: int, end_ns: int) -> Iterator[Event]:
        """Those that touch the time from `begin_ns` to `end_ns` of the server. Raises HostError."""
        files = read_files(self._server, ["/proc/uptime", "/proc/stat"], check=True)
        lines = [line.split() for line in files["/proc/stat"].splitlines()]
        booted = [int(words[1]) for words in lines if words[:1] == ["btime"]]
        if not booted:
            raise HostError(f"/proc/stat of {self._server.name} has no btime", "is /proc mounted?")
        now_ns = int(float(files["/proc/uptime"].split()[0]) * 1e9)
        scans = {pool: scan for pool, scan in scrub_status.read(self._server, zfs).items() if scan}
        spans = [txg_span(txg, f" of {pool}") for (pool, _), txg in self._txgs.items()]
        spans += scan_spans(scans, booted[0], now_ns)
        for first_ns, last_ns, kind, text in sorted(spans):
            if last_ns >= begin_ns and first_ns <= end_ns:
                start, stop = (clock.from_host_ns(each - begin_ns) for each in (first_ns, last_ns))
                yield Event(time_ns=start, end_ns=stop, kind=kind, text=text)
