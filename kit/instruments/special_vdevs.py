"""What special and dedup vdevs hold, and what their devices were asked for. Pure but for reads of the server.

Sources: `zpool list -v`; reads completed, reads merged and sectors read in /sys/class/block/NAME/stat (Linux,
Documentation/block/stat.rst).
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.tier_tracer import TierTracer
from kit.store.parts.resource_use import SpecialUse
from kit.store.phase import Check
from kit.zfs.vdev_listing import space_of, vdevs

# Of these counters, whatever the sectors of the device are.
_SECTOR_BYTES = 512
_TOLERANCE_SHARE, _TOLERANCE_IOS = 0.02, 10


class SpecialVdevs(Instrument):
    """Those of `pool`, whose devices have these paths. `tracer`: of the phase; None where it has none."""

    code = "resource-use"

    def __init__(self, server: Host, pool: str, paths: Sequence[str], tracer: TierTracer | None) -> None:
        self._server, self._pool, self._paths, self._tracer = server, pool, paths, tracer

    def begin(self) -> None:
        self._before = _counters(self._server, self._paths)

    def end(self) -> None:
        after = _counters(self._server, self._paths)
        self._reads, self._bytes = (max(0, now - then) for now, then in zip(after, self._before, strict=True))
        self._listing = self._server.run(["zpool", "list", "-v", "-H", "-P", "-p", self._pool]).stdout

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        made = InstrumentReport()
        # A pool may have dedup vdevs alone.
        if any(section == "special" for section, _, _ in vdevs(self._listing)):
            size, allocated = space_of(self._listing, "special")
            use = SpecialUse(size_bytes=size, allocated_bytes=allocated, device_reads=self._reads)
            made.entry["special"] = use
        if self._tracer and self._tracer.ios is not None and (block := measured.block_bytes.get("read")):
            # A device may get neighbours in one request: it has their bytes then.
            found = max(self._reads, self._bytes // block)
            made.checks.append(check(sum(self._tracer.reads_from("special")), found))
        return made


def check(traced: int, device_reads: int) -> Check:
    """Each block that a request got from a special vdev is a read of a device. Others read there, too."""
    return Check.of_counts(
        "SPECIAL-READS", "blocks read from special vdevs, at least", "/sys/class/block/*/stat", traced,
        min(traced, device_reads), _TOLERANCE_IOS + int(traced * _TOLERANCE_SHARE),
    )  # fmt: skip


def _counters(server: Host, paths: Sequence[str]) -> tuple[int, int]:
    """Reads, with those that were merged, and bytes read, of all devices."""
    nodes = server.run(["readlink", "--canonicalize-existing", "--", *paths]).stdout.split()
    files = [f"/sys/class/block/{node.rpartition('/')[2]}/stat" for node in nodes]
    reads = sectors = 0
    for line in server.run(["cat", *files]).stdout.splitlines():
        fields = line.split()[:3]
        if len(fields) < 3 or not "".join(fields).isdecimal():
            raise HostError(f"{server.name}: the counters of a device are {line[:80]!r}")
        reads, sectors = reads + int(fields[0]) + int(fields[1]), sectors + int(fields[2])
    return reads, sectors * _SECTOR_BYTES
